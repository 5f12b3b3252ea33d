"""The running calls of one answer, each in its own thread."""

import threading
import time
from collections.abc import Callable, Collection, Iterable

from backstory.runtime.tools.tool import Action, Tool, ToolError

LAST_WORDS = 2.5  # seconds for a stopped call to return its output so far
MAX_UNREAD = 1_000_000  # characters of a call's output; of more, only the last ones are kept


class Workers:
    """Calls, each in its own thread, and their results. No result is removed, so that a reader who
    is interrupted can read it again."""

    def __init__(self) -> None:
        self.begun: dict[int, Tool] = {}
        self.allowed_by: dict[int, str] = {}
        self.done: dict[int, tuple[str, bool]] = {}  # the output, and whether it is an error
        self._deadlines: dict[int, float] = {}
        self._unread: dict[int, str] = {}  # output of calls that were running when it came
        self._lock = threading.Lock()  # of `done` and `_unread`
        self._news = threading.Event()
        self._is_awake = False

    def start(self, seq: int, tool: Tool, action: Action) -> None:
        """Run the action of a call."""
        self.begun[seq] = tool
        self._deadlines[seq] = time.monotonic() + tool.seconds
        threading.Thread(target=self._call, args=(seq, tool, action), daemon=True).start()

    def _call(self, seq: int, tool: Tool, action: Action) -> None:
        def emit(text: str) -> None:
            self._add_output(seq, text)

        try:
            self._finish(seq, str(action.run(emit)), error=False)
        except ToolError as error:
            self._finish(seq, str(error), error=True)
        except BaseException as error:  # whatever a tool does, the conversation continues
            self._finish(seq, f"{tool.name} failed: {type(error).__name__}: {error}", error=True)

    def _add_output(self, seq: int, text: str) -> None:
        """Keep a piece of output until it is read. What a call left running may still print after
        its end: nobody waits for that."""
        with self._lock:
            if seq in self.done:
                return
            self._unread[seq] = (self._unread.get(seq, "") + text)[-MAX_UNREAD:]
        self._news.set()

    def _finish(self, seq: int, output: str, *, error: bool) -> None:
        with self._lock:
            # A call that was given up keeps its first result.
            self.done.setdefault(seq, (output, error))
        self._news.set()

    def wake(self) -> None:
        """Let `wait` return, now and from now on. Any thread may call this."""
        self._is_awake = True
        self._news.set()

    def wait(self, seqs: Collection[int]) -> list[int]:
        """Wait until one of these calls has output or a result, or until `wake`. A call that takes
        too long is given up. Return those that have a result."""
        first = min(seqs, key=lambda seq: self._deadlines[seq])

        def has_news() -> bool:
            is_done = any(seq in self.done for seq in seqs)
            return self._is_awake or is_done or bool(self._unread)

        self._wait_for(has_news, self._deadlines[first])
        # A call may have news all the time, so the clock decides.
        is_late = time.monotonic() >= self._deadlines[first]
        if is_late and first not in self.done and not self._is_awake:
            self._give_up(first)
        with self._lock:
            return [seq for seq in self.done if seq in seqs]

    def _give_up(self, seq: int) -> None:
        tool = self.begun[seq]
        why = f"{tool.name} did not finish within {tool.seconds:g} seconds"
        self._finish(seq, why, error=True)
        self._cancel([seq])

    def take_output(self) -> dict[int, str]:
        """Return the output that was not read yet, of each call that has any."""
        with self._lock:
            unread, self._unread = self._unread, {}
        return unread

    def stop(self) -> None:
        """Stop what is still running, if it can be stopped, and collect its output."""
        stopped = [seq for seq, tool in self.begun.items() if seq not in self.done and tool.cancel]
        self._cancel(stopped)
        end = time.monotonic() + LAST_WORDS
        self._wait_for(lambda: all(seq in self.done for seq in stopped), end)

    def _cancel(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            cancel = self.begun[seq].cancel
            if cancel:
                cancel()

    def _wait_for(self, condition: Callable[[], bool], until: float) -> None:
        """Wait for a condition, at most until a time."""
        while not condition():
            self._news.clear()
            if not condition() and not self._news.wait(max(0.0, until - time.monotonic())):
                return
