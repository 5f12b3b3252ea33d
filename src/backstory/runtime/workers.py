"""The running calls of one answer, each in its own thread."""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from backstory.runtime.tools.tool import Action, Tool, ToolError

LAST_WORDS = 2.5  # seconds for a stopped call to return its output so far


class Workers:
    """Calls, each in its own thread, and their results. Nothing is removed, so that a reader who is
    interrupted can read again."""

    def __init__(self) -> None:
        self.begun: dict[int, Tool] = {}
        self.allowed_by: dict[int, str] = {}
        self.done: dict[int, tuple[str, bool]] = {}  # the output, and whether it is an error
        self._deadlines: dict[int, float] = {}
        self._news = threading.Event()
        self._is_awake = False
        self._output: SimpleQueue[tuple[int, str]] = SimpleQueue()

    def start(self, seq: int, tool: Tool, action: Action) -> None:
        """Run the action of a call."""
        self.begun[seq] = tool
        self._deadlines[seq] = time.monotonic() + tool.seconds
        threading.Thread(target=self._call, args=(seq, tool, action), daemon=True).start()

    def _call(self, seq: int, tool: Tool, action: Action) -> None:
        def emit(text: str) -> None:
            self._output.put((seq, text))
            self._news.set()

        try:
            self._finish(seq, str(action.run(emit)), error=False)
        except ToolError as error:
            self._finish(seq, str(error), error=True)
        except BaseException as error:  # whatever a tool does, the conversation goes on
            self._finish(seq, f"{tool.name} failed: {type(error).__name__}: {error}", error=True)

    def _finish(self, seq: int, output: str, *, error: bool) -> None:
        self.done.setdefault(
            seq, (output, error)
        )  # a call that was given up keeps its first result
        self._news.set()

    def wake(self) -> None:
        """Let `next` return, now and from now on. Any thread may call this."""
        self._is_awake = True
        self._news.set()

    def next(self, waiting: Iterable[int]) -> int | tuple[int, str] | None:
        """Return a call that is done, or took too long; or a call and a piece of its output; or
        None after `wake`."""
        first = min(waiting, key=lambda seq: self._deadlines[seq])

        def has_news() -> bool:
            is_done = any(seq in self.done for seq in waiting)
            return self._is_awake or is_done or not self._output.empty()

        in_time = self._wait(has_news, self._deadlines[first])
        if self._is_awake:
            return None
        try:
            return self._output.get_nowait()
        except Empty:
            pass
        if not in_time:
            tool = self.begun[first]
            self._finish(
                first, f"{tool.name} did not finish within {tool.seconds:g} seconds", error=True
            )
            self._cancel([first])
        return next(seq for seq in waiting if seq in self.done)

    def stop(self) -> None:
        """Stop what is still running, if it can be stopped, and collect its output."""
        stopped = [seq for seq, tool in self.begun.items() if seq not in self.done and tool.cancel]
        self._cancel(stopped)
        self._wait(lambda: all(seq in self.done for seq in stopped), time.monotonic() + LAST_WORDS)

    def _cancel(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            cancel = self.begun[seq].cancel
            if cancel:
                cancel()

    def _wait(self, is_so: Callable[[], bool], until: float) -> bool:
        """Whether a condition becomes true in time."""
        while not is_so():
            self._news.clear()
            if not is_so() and not self._news.wait(max(0.0, until - time.monotonic())):
                return False
        return True
