"""The turn loop: a conversation goes to the model, its answer into the log, its calls to the tools.

    for update in Loop(agent, model, tools).ask("Which files are here?"): ...

Each event is written when it happens, by the agent's own methods, and the caller is told. The loop
draws nothing and decides nothing that a person should: it asks `allow`. When it is stopped (Ctrl-C, or
the iterator is closed), what the model had said is kept, marked as interrupted, and calls without a
result get one that says so. Calls that an earlier process left open are not run again.

What the loop writes comes directly behind what the model was asked with. If someone else has written to the
agent meanwhile, the turn goes on in a fork, which the loop works on from then on.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import Conflict, Error
from backstory.log.checks import check_not_blank
from backstory.log.data_keys import COPY
from backstory.log.events import Event, RepeatedEvent
from backstory.log.messages import read_call
from backstory.log.moves import is_prompt
from backstory.runtime.models import (
    Model,
    ModelError,
    Response,
    Retrying,
    TextDelta,
    ThinkingDelta,
    stream_of,
)
from backstory.runtime.models.arguments import storable
from backstory.runtime.requests import asked, change_settings, note_failure, placed
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools.tool import Tool, ToolError, checked
from backstory.runtime.workers import Workers
from backstory.storage.positions import check_expected

__all__ = ["Allow", "EventWritten", "Forked", "Loop", "Permission", "Stopped", "Update", "Updates"]

MOST_STEPS = 40  # answers for one question, so that a model that calls tools without end is stopped
ASIDE = frozenset({"note", "mark"})  # what may come between a question and its answer
LONGEST_RESULT = 16_000  # characters of a result that the model reads

STOPPED = "interrupted: it was stopped before it was done, and may have done a part of it"
NOT_RUN = "interrupted: it was not run"
NOBODY = "not run: it needs consent, and there was no one to ask"
SAID_NOTHING = "the model said nothing: ask again, or choose another model"
GONE = "this prompt was written before, and is no longer in the context: ask with another key"
REFUSED = "the model refused to answer: ask in another way, or choose another model"


class EventWritten(NamedTuple):
    """An event was written."""

    event: Event


class Forked(NamedTuple):
    """Someone else wrote to the agent in the meantime: the turn continues in a fork."""

    agent: Agent  # the fork
    before: Agent  # the agent that it was forked from


class Stopped(NamedTuple):
    """The loop ended without an answer, and why. Nothing comes after it."""

    why: str


Update = TextDelta | ThinkingDelta | Retrying | EventWritten | Forked | Stopped
Updates = Generator[Update, None, None]


class Permission(NamedTuple):
    """A call may run; who or what allowed it is recorded with its result."""

    by: str


# May this tool run with these arguments? True or a permission, or the reason for a refusal, which the model
# reads.
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
        self._at: int | None = None  # the head after which the turn's next event belongs

    def ask(self, text: str, *, key: str | None = None, expected: int | None = None) -> Updates:
        """Write a prompt, and continue until the model has answered. With `expected`, only if that is the head
        (else Conflict). With `key`, a prompt that was written before is not written again: its turn is continued,
        or, if it was answered, only reported."""
        check_expected(expected)
        check_not_blank("user", text)
        prompt = ("user", storable(text), None, key)
        with defer_signals():
            # As of the expected head, so that a repeat writes the same events.
            at = None if expected is None else min(expected, self.agent.head)
            settings = change_settings(self.agent, self.model, self.tools, at=at)
            written = self.agent.extend([*settings, prompt], expected=expected)
        event = written[-1]
        yield EventWritten(event)
        if isinstance(event, RepeatedEvent):
            yield from self._repeat(event)
        else:
            yield from self.resume()

    def _repeat(self, prompt: RepeatedEvent) -> Updates:
        """Report what was written after a prompt, and let the model answer it if it was not answered yet."""
        if not prompt.is_live:
            yield Stopped(GONE)
            return
        last: Event = prompt
        messages = self.agent.messages()
        for event in messages:
            if (event.data or {}).get(COPY) == prompt.seq:
                last = event  # a compaction has kept the prompt
        start = last.seq
        for event in messages:
            if event.seq > start:
                if is_prompt(event):
                    return  # the conversation has continued
                yield EventWritten(event)
                last = event
        is_interrupted = (last.data or {}).get("interrupted") is True
        if last.kind != "assistant" or is_interrupted:
            yield from self.resume()

    def resume(self) -> Updates:
        """Let the model answer, and run the tools that it calls, until it calls no more."""
        for _ in range(self.most_steps):
            answer = yield from self._answer()
            yield from self._take(answer)
            if not answer.calls:
                yield from _stopped(answer)
                return
        yield Stopped(f"stopped after {self.most_steps} steps: say what to do next")

    # --- the log ---

    def _write(self, drafts: Sequence[tuple[Any, ...]]) -> list[Event]:
        """Write after what the turn has so far, in a fork if someone else has written since."""
        while True:
            try:
                written = self.agent.extend(drafts, expected=self._at)
            except Conflict:
                between = self.agent.events(after=self._at or 0)
                if between and all(event.kind in ASIDE for event in between):
                    self._at = between[-1].seq
                else:
                    self.agent = self.agent.fork(at=self._at)
            else:
                self._at = written[-1].seq
                return written

    def _told(self, before: Agent, written: Sequence[Event]) -> list[Update]:
        """The updates for a write."""
        forked: list[Update] = [Forked(self.agent, before)] if self.agent != before else []
        return [*forked, *map(EventWritten, written)]

    # --- the model ---

    def _answer(self) -> Generator[Update, None, Response]:
        """One answer of the model, yielded as it comes in."""
        said: list[str] = []
        answer = Response("")
        begins_again = False
        try:
            with defer_signals():
                conversation, at = asked(self.agent, self.model, self.tools)
                self._at = at
            with stream_of(self.model.answer(conversation, self.tools)) as pieces:
                for piece in pieces:
                    if isinstance(piece, Response):
                        answer, said = placed(piece, at), [piece.text]
                        break
                    if isinstance(piece, TextDelta):
                        if begins_again:  # until the new attempt says something, keep the text of the previous one
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
        """Record a failed attempt."""
        with defer_signals():
            note = note_failure(self.agent, self.model.name, failed)
            if note is not None and self._at == note.seq - 1:
                self._at = note.seq

    def _keep(self, text: str, stop: BaseException) -> None:
        """Write the partial answer."""
        why = str(stop) if isinstance(stop, Exception) else "stopped by the person"
        if text.strip():
            data = {"model": self.model.name, "interrupted": True, "why": storable(why)}
            with defer_signals(), _unsaved_on_error(text):
                self._write([("assistant", storable(text), data)])

    def _take(self, answer: Response) -> Updates:
        """Write an answer, and run what it calls. Whatever stops this, each call has a result afterwards."""
        work = Workers()
        waiting: dict[int, Event] = {}
        try:
            with defer_signals(), _unsaved_on_error(answer.text):
                before = self.agent
                written = self._write(_events(answer))
                waiting |= {event.seq: event for event in written if event.kind == "tool_call"}
            yield from self._told(before, written)
            yield from self._run(work, waiting)
        except BaseException:
            with (
                defer_signals(),
                suppress(Error),
            ):  # the store's own error is raised already
                self._stop(work, waiting)
            raise

    # --- the tools ---

    def _run(self, work: Workers, waiting: dict[int, Event]) -> Updates:
        """Run the calls of one answer in parallel; each result is written as soon as it is there. All
        questions for consent come first, so that no result has to wait for a person."""
        allowed = []
        for call in list(waiting.values()):
            try:
                tool, arguments, by = self._allowed(call)
                allowed.append((call.seq, tool, arguments))
                work.allowed_by |= {call.seq: by} if by else {}
            except ToolError as problem:
                yield from self._record(waiting, call.seq, str(problem), error=True)
        for seq, tool, arguments in allowed:
            work.start(seq, tool, arguments)
        while waiting:
            seq = work.next(waiting)
            yield from self._record(waiting, seq, *work.done[seq], work.allowed_by.get(seq))

    def _stop(self, work: Workers, waiting: dict[int, Event]) -> None:
        """Stop running calls. Those that were finished have their own results, the others one that says they
        were stopped."""
        done = dict(work.done)
        work.stop()
        for seq in list(waiting):
            if seq not in done and seq in work.begun:
                last_words, _ = work.done.get(seq, ("", True))
                done[seq] = (f"{STOPPED}\n{last_words}".rstrip(), True)
            self._record(waiting, seq, *done.get(seq, (NOT_RUN, True)), work.allowed_by.get(seq))

    def _allowed(self, call: Event) -> tuple[Tool, dict[str, Any], str | None]:
        """The tool of a call, its arguments, and who allowed it; raises ToolError if it cannot run."""
        _, name, arguments = read_call(call.data)
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools)
            raise ToolError(f"no tool {name!r}: the tools are {known or 'none'}")
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
    ) -> list[Update]:
        """Write a result and stop waiting for it, both or neither."""
        with defer_signals(), _unsaved_on_error(output):
            content, data = self._result(waiting[seq], output, error)
            data |= {"allowed_by": storable(by)} if by else {}
            before = self.agent
            written = self._write([("tool_result", content, data)])
            del waiting[seq]
        return self._told(before, written)

    def _result(self, call: Event, output: str, error: bool) -> tuple[str, dict[str, Any]]:
        """A result's content and data: what the model reads, and the whole output if that is more."""
        whole = storable(output)
        shown = shortened(whole, self.longest_result)
        id, name, _ = read_call(call.data)
        data: dict[str, Any] = {"id": id, "name": name} | ({"error": True} if error else {})
        return shown, data | ({"whole": whole} if shown != whole else {})


def _events(answer: Response) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """The events of an answer. Its data is kept with the first one."""
    calls: list[dict[str, Any]] = []
    for call in answer.calls:
        # Results come in any order, so two calls with one id could not be told apart.
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
    """Why an answer without calls counts as no answer, if it does."""
    if (answer.data or {}).get("refused"):
        yield Stopped(REFUSED)
    elif not answer.text.strip():
        yield Stopped(SAID_NOTHING)


@contextmanager
def _unsaved_on_error(text: str) -> Iterator[None]:
    """Set `unsaved` of an error in the block to the text that could not be written."""
    try:
        yield
    except Error as error:
        error.unsaved = text
        raise
