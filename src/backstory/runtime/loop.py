"""The turn loop: a conversation goes to the model, its answer into the log, its calls to the tools.

    for update in Loop(agent, model, tools).ask("Which files are here?"): ...

Each event is written when it happens, by the agent's own methods, and whoever iterates is told. The loop
draws nothing and decides nothing that a person should: it asks `allow`. When it is stopped (Ctrl-C, or
the iterator is closed), what the model had said is kept, marked as interrupted, and calls without a
result get one that says so. Calls that an earlier process left open are not run again.
"""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.core.events import Event
from backstory.core.messages import tool_call
from backstory.errors import Error
from backstory.runtime.models import Model, ModelError, Response, Retrying, TextDelta, stream_of
from backstory.runtime.models.arguments import storable
from backstory.runtime.requests import asked, note_failure, placed, write_settings
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools.tool import Tool, ToolError, checked

__all__ = ["Allow", "EventWritten", "Loop", "Permission", "Stopped", "Update", "Updates"]

MOST_STEPS = 40  # answers for one question: a model that goes round in circles is stopped
LONGEST_RESULT = 16_000  # characters of a result that the model gets to read
LAST_WORDS = 2.5  # seconds that a call which is stopped has to hand over what it has

STOPPED = "interrupted: it was stopped before it was done, and may have done a part of it"
NOT_RUN = "interrupted: it was not run"
NOBODY = "not run: it needs somebody's consent, and nobody was there to ask"
SAID_NOTHING = "the model said nothing: ask again, or choose another model"
REFUSED = "the model refused to answer: ask in another way, or choose another model"


class EventWritten(NamedTuple):
    """An event was written."""

    event: Event


class Stopped(NamedTuple):
    """The loop ended without an answer, and why. Nothing comes after it."""

    why: str


Update = TextDelta | Retrying | EventWritten | Stopped
Updates = Generator[Update, None, None]


class Permission(NamedTuple):
    """A call may run; who or what allowed it is recorded with its result."""

    by: str


# May this tool run with these arguments? True or a permission, or the reason why not: the model is told.
Allow = Callable[[Tool, dict[str, Any]], bool | str | Permission]


class Loop:
    """An agent, a model and tools, working together."""

    def __init__(
        self,
        agent: Agent,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        allow: Allow | None = None,
        most_steps: int = MOST_STEPS,
        longest_result: int = LONGEST_RESULT,
    ) -> None:
        """Without `allow`, tools that ask first do not run."""
        self.agent = agent
        self.model = model
        self.tools = tuple(tools)
        self.allow = allow
        self.most_steps = most_steps
        self.longest_result = longest_result

    def ask(self, text: str) -> Updates:
        """Write what the person says, and go on until the model has answered."""
        with defer_signals():
            write_settings(self.agent, self.model, self.tools)
            event = self.agent.user(storable(text))
        yield EventWritten(event)
        yield from self.resume()

    def resume(self) -> Updates:
        """Let the model speak, and run what it calls, until it has nothing left to call."""
        for _ in range(self.most_steps):
            answer = yield from self._answer()
            yield from self._take(answer)
            if not answer.calls:
                yield from _stopped(answer)
                return
        yield Stopped(f"stopped after {self.most_steps} steps: say what to do next")

    # --- the model ---

    def _answer(self) -> Generator[Update, None, Response]:
        """One answer of the model, told while it comes."""
        said: list[str] = []
        answer = Response("")
        begins_again = False
        try:
            with defer_signals():
                conversation, at = asked(self.agent, self.model, self.tools)
            with stream_of(self.model.answer(conversation, self.tools)) as pieces:
                for piece in pieces:
                    if isinstance(piece, Response):
                        answer, said = placed(piece, at), [piece.text]
                        break
                    if isinstance(piece, TextDelta):
                        if begins_again:  # until it speaks, the attempt before is all there is
                            said.clear()
                        said.append(piece.text)
                    begins_again = isinstance(piece, Retrying)
                    if isinstance(piece, Retrying):
                        self._note(piece)
                    yield piece
        except BaseException as stop:
            self._keep("".join(said), stop)
            if isinstance(stop, ModelError):
                self._note(stop)
            raise
        return answer

    def _note(self, failed: Retrying | ModelError) -> None:
        """Keep that an attempt failed."""
        with defer_signals():
            note_failure(self.agent, self.model.name, failed)

    def _keep(self, text: str, stop: BaseException) -> None:
        """What was said before the answer was broken off."""
        why = str(stop) if isinstance(stop, Exception) else "stopped by the person"
        if text.strip():
            data = {"model": self.model.name, "interrupted": True, "why": storable(why)}
            with defer_signals(), _unsaved_on_error(text):
                self.agent.assistant(storable(text), data=data)

    def _take(self, answer: Response) -> Updates:
        """Write an answer, and run what it calls. Whatever stops this, each call has a result in the end."""
        work = _Work()
        waiting: dict[int, Event] = {}
        try:
            with defer_signals(), _unsaved_on_error(answer.text):
                written = self.agent.extend(_events(answer))
                waiting |= {event.seq: event for event in written if event.kind == "tool_call"}
            for event in written:
                yield EventWritten(event)
            yield from self._run(work, waiting)
        except BaseException:
            with (
                defer_signals(),
                suppress(Error),
            ):  # that the store takes nothing is known already
                self._stop(work, waiting)
            raise

    # --- the tools ---

    def _run(self, work: "_Work", waiting: dict[int, Event]) -> Updates:
        """Run the calls of one answer side by side; each result is written when it is there. All questions
        come first: while a person thinks nothing runs, so there is no result that would have to wait."""
        allowed = []
        for call in list(waiting.values()):
            try:
                tool, arguments, by = self._allowed(call)
                allowed.append((call.seq, tool, arguments))
                work.allowed_by |= {call.seq: by} if by else {}
            except ToolError as problem:
                yield self._record(waiting, call.seq, str(problem), error=True)
        for seq, tool, arguments in allowed:
            work.start(seq, tool, arguments)
        while waiting:
            seq = work.next(waiting)
            yield self._record(waiting, seq, *work.done[seq], work.allowed_by.get(seq))

    def _stop(self, work: "_Work", waiting: dict[int, Event]) -> None:
        """Stop what runs. What was done by then has its own result, the others have one that says so."""
        done = dict(work.done)
        work.stop()
        for seq in list(waiting):
            if seq not in done and seq in work.begun:
                last_words, _ = work.done.get(seq, ("", True))
                done[seq] = (f"{STOPPED}\n{last_words}".rstrip(), True)
            self._record(waiting, seq, *done.get(seq, (NOT_RUN, True)), work.allowed_by.get(seq))

    def _allowed(self, call: Event) -> tuple[Tool, dict[str, Any], str | None]:
        """What a call wants to run, with what, and who allowed it; raises ToolError that says what keeps it
        from running."""
        _, name, arguments = tool_call(call.data)
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools)
            raise ToolError(f"there is no tool {name!r}: there are {known or 'none'}")
        given = checked(tool, arguments)
        if not tool.asks:
            return tool, given, None
        answer = NOBODY if self.allow is None else self.allow(tool, given)
        if isinstance(answer, Permission):
            return tool, given, answer.by
        if answer is not True:
            raise ToolError(answer or "not run: it was not allowed")
        return tool, given, None

    def _record(
        self, waiting: dict[int, Event], seq: int, output: str, error: bool, by: str | None = None
    ) -> EventWritten:
        """Write a result, and wait for it no longer, both or neither."""
        with defer_signals(), _unsaved_on_error(output):
            content, data = self._result(waiting[seq], output, error)
            data |= {"allowed_by": storable(by)} if by else {}
            written = EventWritten(self.agent.append("tool_result", content, data))
            del waiting[seq]
        return written

    def _result(self, call: Event, output: str, error: bool) -> tuple[str, dict[str, Any]]:
        """A result's content and data: what the model reads, and the whole of it where that is more."""
        whole = storable(output)
        shown = shortened(whole, self.longest_result)
        id, name, _ = tool_call(call.data)
        data: dict[str, Any] = {"id": id, "name": name} | ({"error": True} if error else {})
        return shown, data | ({"whole": whole} if shown != whole else {})


class _Work:
    """Calls, each in a thread of its own, and what became of them. Nothing is taken out: whoever is
    interrupted in the middle can look again."""

    def __init__(self) -> None:
        self.begun: dict[int, Tool] = {}
        self.allowed_by: dict[int, str] = {}
        self.done: dict[int, tuple[str, bool]] = {}  # the output, and whether it is an error
        self._deadlines: dict[int, float] = {}
        self._news = threading.Event()

    def start(self, seq: int, tool: Tool, arguments: dict[str, Any]) -> None:
        self.begun[seq] = tool
        self._deadlines[seq] = time.monotonic() + tool.seconds
        threading.Thread(target=self._call, args=(seq, tool, arguments), daemon=True).start()

    def _call(self, seq: int, tool: Tool, arguments: dict[str, Any]) -> None:
        try:
            self._finish(seq, str(tool.run(**arguments)), error=False)
        except ToolError as error:
            self._finish(seq, str(error), error=True)
        except BaseException as error:  # whatever a tool does, the conversation goes on
            self._finish(seq, f"{tool.name} failed: {type(error).__name__}: {error}", error=True)

    def _finish(self, seq: int, output: str, *, error: bool) -> None:
        self.done.setdefault(seq, (output, error))  # one that was given up is not done once more
        self._news.set()

    def next(self, waiting: Iterable[int]) -> int:
        """Which of some calls is done, or took too long."""
        first = min(waiting, key=lambda seq: self._deadlines[seq])
        if not self._wait(lambda: any(seq in self.done for seq in waiting), self._deadlines[first]):
            tool = self.begun[first]
            self._finish(first, f"{tool.name} did not finish within {tool.seconds:g} seconds", error=True)
            self._cancel([first])
        return next(seq for seq in waiting if seq in self.done)

    def stop(self) -> None:
        """Stop what is still running, where it can be stopped, and hear what it has to say."""
        stopped = [seq for seq, tool in self.begun.items() if seq not in self.done and tool.cancel]
        self._cancel(stopped)
        self._wait(lambda: all(seq in self.done for seq in stopped), time.monotonic() + LAST_WORDS)

    def _cancel(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            cancel = self.begun[seq].cancel
            if cancel:
                cancel()

    def _wait(self, is_so: Callable[[], bool], until: float) -> bool:
        """Whether something becomes so in time."""
        while not is_so():
            self._news.clear()
            if not is_so() and not self._news.wait(max(0.0, until - time.monotonic())):
                return False
        return True


def _events(answer: Response) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """The events of an answer; what else is to be kept of it rides on the first."""
    calls: list[dict[str, Any]] = []
    for call in answer.calls:
        # Results come in any order: with one id for two calls nobody could tell whose they are.
        is_taken = any(call.id == other["id"] for other in calls)
        id = f"call_{os.urandom(12).hex()}" if is_taken else call.id
        calls.append({"id": id, "name": call.name, "arguments": call.arguments})
    if answer.text.strip() or not calls:
        return [
            ("assistant", answer.text, answer.data or None),
            *(("tool_call", None, call) for call in calls),
        ]
    calls[0] |= answer.data or {}
    return [("tool_call", None, call) for call in calls]


def shortened(text: str, longest: int) -> str:
    """A long text without its middle, and a note that says so."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 3
    left_out = len(text) - head - tail
    note = f"[… {left_out:,} of {len(text):,} characters left out here: ask for a smaller part to see them …]"
    return f"{text[:head]}\n{note}\n{text[-tail:]}"


def _stopped(answer: Response) -> Iterator[Stopped]:
    """That an answer without calls is none, if it is none."""
    if (answer.data or {}).get("refused"):
        yield Stopped(REFUSED)
    elif not answer.text.strip():
        yield Stopped(SAID_NOTHING)


@contextmanager
def _unsaved_on_error(text: str) -> Iterator[None]:
    """An error within the block carries, as `unsaved`, the text that could not be written."""
    try:
        yield
    except Error as error:
        error.unsaved = text
        raise
