"""The turn loop: sends the conversation to a model, appends its answer, and runs the tools that it
calls.

    for update in Loop(agent, model, tools).ask("Which files are here?"): ...

Each event is written when it happens, by the agent's own methods, and the caller gets an update.
The loop draws nothing and decides nothing that a person should: it asks `allow`. When it is stopped
(`cancel`, Ctrl-C, or the iterator is closed), the part of the answer that arrived is kept, marked
as interrupted, and each call without a result gets one. Calls that an earlier process left open are
not run again.

The loop writes directly after the context that was sent. If someone else has written
to the agent since, the turn continues in a fork, which the loop works on from then on. If the
window is nearly full, the older part of the context is summarized, also in the middle of a turn.
"""

import os
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import Conflict, Error, NotFound
from backstory.log.checks import check_not_blank
from backstory.log.data_keys import COPY
from backstory.log.events import Event, RepeatedEvent
from backstory.log.messages import read_call
from backstory.log.moves import is_prompt
from backstory.runtime.compaction import Compacted, compact_context
from backstory.runtime.models import (
    ContextTooLong,
    Model,
    ModelError,
    Response,
    Retrying,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    storable,
    stream_of,
)
from backstory.runtime.permission import Allow, Permission, Permissions, Refusal
from backstory.runtime.requests import add_position, change_settings, note_failure, prepare_request
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools.tool import Action, Tool, ToolError, check_arguments
from backstory.runtime.workers import Workers
from backstory.storage.positions import check_expected
from backstory.wire.conversation import Conversation

__all__ = [
    "Allow",
    "Compacted",
    "EventWritten",
    "Forked",
    "Loop",
    "OutputDelta",
    "Permission",
    "Refusal",
    "Stopped",
    "Update",
    "Updates",
]

MAX_STEPS = 100  # answers in one turn, so that a model that calls tools without end is stopped
MAX_RESULT = 16_000  # characters of a result that the model reads
COMPACT_AT = 0.85  # of the model's window
KINDS_BESIDE_A_TURN = frozenset({"note", "mark"})  # others may write them without causing a fork

STOPPED = "interrupted: it was stopped before it was done, and may have done a part of it"
NOT_RUN = "interrupted: it was not run"
CUT = "not run: your answer was cut off: write smaller parts"
SAID_NOTHING = "the model said nothing: ask again, or choose another model"
GONE = "this prompt was written before, and is no longer in the context: ask with another key"
REFUSED = "the model refused to answer: ask in another way, or choose another model"
OUT_OF_STEPS = "stopped after {} steps: continue it with resume(), or /retry in the chat"
INCOMPLETE = "stopped before it was complete"


class EventWritten(NamedTuple):
    """An event was written."""

    event: Event


class Forked(NamedTuple):
    """Someone else wrote to the agent in the meantime: the turn continues in a fork."""

    agent: Agent  # the fork
    before: Agent  # the agent that it was forked from


class OutputDelta(NamedTuple):
    """A piece of the output of a tool that is still running."""

    call: Event
    text: str


class Stopped(NamedTuple):
    """The loop ended without an answer, and why. Nothing comes after it."""

    why: str


Update = (
    TextDelta | ThinkingDelta | Retrying | EventWritten | OutputDelta | Compacted | Forked | Stopped
)
Updates = Generator[Update, None, None]


class TurnCancelled(Exception):
    """`Loop.cancel` was called."""


class Loop:
    """An agent, a model and tools, working together."""

    def __init__(
        self,
        agent: Agent,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        allow: Allow | None = None,
        max_steps: int = MAX_STEPS,
        max_result: int = MAX_RESULT,
        compact_at: float | None = COMPACT_AT,
    ) -> None:
        """Without `allow`, only what has the effect `read` runs. `compact_at` is the part of the
        model's window at which the context is compacted; None: never."""
        self.agent = agent
        self.model = model
        self.tools = tuple(tools)
        self.allow: Allow = allow or Permissions().decide
        self.max_steps = max_steps
        self.max_result = max_result
        self.compact_at = compact_at
        self._turn: LoopTurn | None = None

    def ask(self, text: str, *, key: str | None = None, expected: int | None = None) -> Updates:
        """Write a prompt, and continue until the model has answered. With `expected`, only if that
        is the head (else Conflict). With `key`, a prompt that was written before is not written
        again: its turn is continued, or, if it was answered, only reported."""
        check_expected(expected)
        check_not_blank("user", text)
        turn = self.resume()  # before the prompt is written, so that `cancel` finds it
        with defer_signals():
            event = self._write_prompt(text, key, expected)
        yield EventWritten(event)
        if isinstance(event, RepeatedEvent):
            yield from self._repeat(event, turn)
        else:
            yield from turn

    def _write_prompt(self, text: str, key: str | None, expected: int | None) -> Event:
        """Write a prompt, after the settings that changed."""
        prompt = ("user", storable(text), None, key)
        if key is not None and expected is None and self.agent.events(keys=[key]):
            return self.agent.extend([prompt])[-1]  # a repeat sends nothing, so it changes nothing
        # As of the expected head, so that a repeat writes the same events.
        at = None if expected is None else min(expected, self.agent.head)
        settings = change_settings(self.agent, self.model, self.tools, at=at)
        return self.agent.extend([*settings, prompt], expected=expected)[-1]

    def _repeat(self, prompt: RepeatedEvent, turn: Updates) -> Updates:
        """Report the events after a prompt. If it was not answered yet, let `turn` answer it."""
        if not prompt.is_live:
            yield Stopped(GONE)
            return
        last: Event = prompt
        messages = self.agent.messages()
        start = find_copy(prompt, messages).seq
        for event in messages:
            if event.seq <= start:
                continue
            if is_prompt(event):
                return  # the conversation has continued
            yield EventWritten(event)
            last = event
        is_interrupted = (last.data or {}).get("interrupted") is True
        if last.kind != "assistant" or is_interrupted:
            yield from turn

    def resume(self) -> Updates:
        """Let the model answer, and run the tools that it calls, until it calls no more."""
        turn = LoopTurn(self)
        self._turn = turn
        return turn.run()

    def compact(self, focus: str = "") -> Updates:
        """Let the model summarize the older part of the context. `focus` is what it should keep in
        mind. Raises NotFound if there is nothing to compact."""
        turn = LoopTurn(self)
        self._turn = turn
        return turn.run_compaction(focus)

    def cancel(self) -> None:
        """Stop the turn, from any thread: close the connection to the model, and stop the tools.
        The turn ends with `Stopped`."""
        if self._turn is not None:
            self._turn.cancel()


class LoopTurn:
    """One run of the loop, from a prompt to an answer without calls."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._position: int | None = None  # after which the next event of the turn belongs
        self._open_calls: dict[int, Event] = {}
        self._workers = Workers()
        self._stream: Iterator[StreamItem] = iter(())
        self._is_cancelled = threading.Event()
        self._compacted_size = 0  # tokens after the last compaction

    def run(self) -> Updates:
        """Run the turn. Whatever ends it, each of its calls has a result afterwards."""
        try:
            for _ in range(self._loop.max_steps):
                yield from self._compact_if_full()
                response = yield from self._ask_model_of_any_size()
                yield from self._append(list_events(response), unsaved=response.text)
                if not response.calls:
                    yield from explain_missing_answer(response)
                    return
                yield from self._run_calls(bool((response.data or {}).get("cut")))
        except TurnCancelled:
            self._close_open_calls()
            yield Stopped(INCOMPLETE)
        except BaseException:
            with suppress(Error):  # the first error matters more
                self._close_open_calls()
            raise
        else:  # no answer within max_steps
            yield Stopped(OUT_OF_STEPS.format(self._loop.max_steps))

    def cancel(self) -> None:
        """Close the connection to the model, and stop the tools. Any thread may call this."""
        self._is_cancelled.set()
        self._workers.wake()
        cancel = getattr(self._stream, "cancel", None)  # a model may return any iterator
        if cancel is not None:
            cancel()

    def _check_cancelled(self) -> None:
        if self._is_cancelled.is_set():
            raise TurnCancelled

    # --- the model ---

    def _ask_model_of_any_size(self) -> Generator[Update, None, Response]:
        """Ask the model. If the context is too long for it, compact the context and ask again,
        once."""
        try:
            return (yield from self._ask_model())
        except ContextTooLong:
            if self._loop.compact_at is None or not (yield from self._compact()):
                raise
        return (yield from self._ask_model())

    def _ask_model(self) -> Generator[Update, None, Response]:
        """Send the conversation. Yield the parts of the answer, and return the complete one."""
        loop = self._loop
        text = PartialText()
        try:
            with defer_signals():
                conversation, self._position = prepare_request(loop.agent, loop.model, loop.tools)
            with stream_of(self._open_stream(conversation, loop.tools)) as parts:
                self._check_cancelled()  # `cancel` may have come before there was a stream
                for part in parts:
                    text.add(part)
                    if isinstance(part, Response):
                        return add_position(part, self._position)
                    self._check_cancelled()
                    if isinstance(part, Retrying):
                        self._note_failure(part)
                    yield part
            self._check_cancelled()
            return Response("")
        except BaseException as error:
            self._append_partial(text.value, error)
            if isinstance(error, ModelError):
                self._note_failure(error)
            raise

    def _open_stream(
        self, conversation: Conversation, tools: Sequence[Tool]
    ) -> Iterator[StreamItem]:
        """Ask the model, in a way that `cancel` can end."""
        self._check_cancelled()
        self._stream = self._loop.model.answer(conversation, tools)
        return self._stream

    def _append_partial(self, text: str, error: BaseException) -> None:
        """Append the part of the answer that arrived."""
        if not text.strip():
            return
        is_failure = isinstance(error, Exception) and not isinstance(error, TurnCancelled)
        why = str(error) if is_failure else INCOMPLETE
        data = {"model": self._loop.model.name, "interrupted": True, "why": storable(why)}
        self._append([("assistant", storable(text), data)], unsaved=text)

    def _note_failure(self, failure: Retrying | ModelError) -> None:
        """Record a failed attempt."""
        with defer_signals():
            note = note_failure(self._loop.agent, self._loop.model.name, failure)
            if note is not None and self._position == note.seq - 1:
                self._position = note.seq

    # --- compaction ---

    def _stream_summary(
        self, conversation: Conversation, tools: Sequence[Tool]
    ) -> Iterator[StreamItem]:
        """Ask the model for a summary. Raises TurnCancelled at the next part after `cancel`, so
        that nothing is written then, whatever the model is."""
        with stream_of(self._open_stream(conversation, tools)) as parts:
            for part in parts:
                self._check_cancelled()
                yield part

    def run_compaction(self, focus: str) -> Updates:
        """Compact the context, whatever its size."""
        loop = self._loop
        work = compact_context(
            loop.agent, loop.model, loop.tools, focus=focus, open_stream=self._stream_summary
        )
        try:
            with closing(work) as parts:
                yield from parts
        except (TurnCancelled, ModelError):
            if not self._is_cancelled.is_set():
                raise
            yield Stopped(INCOMPLETE)

    def _compact_if_full(self) -> Updates:
        """Compact the context if the model's window is nearly full."""
        loop = self._loop
        if loop.compact_at is None or loop.model.window is None:
            return
        size = int(loop.agent.conversation().tokens(loop.model.name))
        # What a compaction leaves may be large: the next one waits until a tenth more was written.
        if size >= loop.compact_at * loop.model.window and size > 1.1 * self._compacted_size:
            yield from self._compact()

    def _compact(self) -> Generator[Update, None, bool]:
        """Compact the context. Return False if there is nothing to compact, or someone else
        wrote."""
        loop = self._loop
        work = compact_context(loop.agent, loop.model, loop.tools, open_stream=self._stream_summary)
        try:
            with closing(work) as parts:
                for part in parts:
                    if isinstance(part, Compacted):
                        self._compacted_size = part.after
                        yield part
                        return True
                    self._check_cancelled()
                    if isinstance(part, Retrying):
                        yield part
        except (NotFound, Conflict):
            return False
        except ModelError:
            self._check_cancelled()  # then there is no summary
            raise
        return False

    # --- the log ---

    def _append(self, drafts: Sequence[tuple[Any, ...]], *, unsaved: str) -> list[Update]:
        """Append events of this turn, and return the updates for them.

        For Ctrl-C, the commit and what the turn remembers of it are one step. If the store fails,
        the error carries the text that is lost.
        """
        before = self._loop.agent
        try:
            with defer_signals():
                written = self._append_or_fork(drafts)
                self._position = written[-1].seq
                self._remember_calls(written)
        except Error as error:
            error.unsaved = unsaved
            raise
        updates: list[Update] = [EventWritten(event) for event in written]
        if self._loop.agent != before:
            updates.insert(0, Forked(self._loop.agent, before))
        return updates

    def _append_or_fork(self, drafts: Sequence[tuple[Any, ...]]) -> list[Event]:
        """Append directly after the turn; in a fork if someone else has written since."""
        loop = self._loop
        while True:
            try:
                return loop.agent.extend(drafts, expected=self._position)
            except Conflict:
                between = loop.agent.events(after=self._position or 0)
                is_beside = all(event.kind in KINDS_BESIDE_A_TURN for event in between)
                if between and is_beside:
                    self._position = between[-1].seq
                else:
                    loop.agent = loop.agent.fork(at=self._position)

    def _remember_calls(self, written: Sequence[Event]) -> None:
        for event in written:
            if event.kind == "tool_call":
                self._open_calls[event.seq] = event

    # --- the tools ---

    def _run_calls(self, is_cut: bool) -> Updates:
        """Run the calls of one answer, and append each result when it is there.

        What only reads runs side by side. A change or a command runs alone, after the calls before
        it, and before the next call is prepared: so each question is about what is there then, and
        no result waits for a person.
        """
        reads: list[tuple[int, Tool, Action]] = []
        for call in list(self._open_calls.values()):
            try:
                tool, action = self._prepare(call, is_cut)
            except ToolError as problem:
                yield from self._append_result(call, str(problem), is_error=True)
                continue
            self._check_cancelled()
            if action.effect == "read":
                reads.append((call.seq, tool, action))
                continue
            yield from self._run_together(reads)
            reads = []
            yield from self._run_together([(call.seq, tool, action)])
        yield from self._run_together(reads)

    def _run_together(self, prepared: Sequence[tuple[int, Tool, Action]]) -> Updates:
        """Run prepared calls side by side, and append their results as they come."""
        for seq, tool, action in prepared:
            self._workers.start(seq, tool, action)
        yield from self._wait_for([seq for seq, _, _ in prepared])

    def _prepare(self, call: Event, is_cut: bool) -> tuple[Tool, Action]:
        """Find the tool of a call, prepare its action, and get permission. Raises ToolError."""
        _, name, arguments = read_call(call.data)
        tools = {tool.name: tool for tool in self._loop.tools}
        if name not in tools:
            raise ToolError(f"no tool {name!r}: the tools are {', '.join(tools) or 'none'}")
        if is_cut and not isinstance(arguments, dict):
            raise ToolError(CUT)
        tool = tools[name]
        checked_arguments = check_arguments(tool, arguments)
        try:
            action = tool.prepare(checked_arguments)
        except ToolError:
            raise
        except Exception as error:  # whatever a tool does, the conversation continues
            raise ToolError(f"{name} failed: {type(error).__name__}: {error}") from error
        decision = self._loop.allow(action, call)
        if isinstance(decision, Refusal):
            raise ToolError(decision.why)
        if decision.by is not None:
            self._workers.allowed_by[call.seq] = decision.by
        return tool, action

    def _wait_for(self, seqs: Sequence[int]) -> Updates:
        """Append the results of these calls as they come."""
        waiting = set(seqs)
        while waiting:
            finished = self._workers.wait(waiting)
            self._check_cancelled()
            for seq, text in self._workers.take_output().items():
                yield OutputDelta(self._open_calls[seq], text)
            for seq in finished:
                waiting.discard(seq)
                output, is_error = self._workers.done[seq]
                yield from self._append_result(self._open_calls[seq], output, is_error=is_error)

    def _append_result(self, call: Event, output: str, *, is_error: bool) -> list[Update]:
        """Append the result of a call, which is not open any more then."""
        complete = storable(output)
        content = shorten_result(complete, self._loop.max_result)
        id, name, _ = read_call(call.data)
        data: dict[str, Any] = {"id": id, "name": name}
        if is_error:
            data["error"] = True
        if content != complete:
            data["whole"] = complete
        allowed_by = self._workers.allowed_by.get(call.seq)
        if allowed_by is not None:
            data["allowed_by"] = storable(allowed_by)
        with defer_signals():
            updates = self._append([("tool_result", content, data)], unsaved=output)
            del self._open_calls[call.seq]
        return updates

    def _close_open_calls(self) -> None:
        """Stop the tools, and append a result for each call that has none."""
        with defer_signals():
            finished = dict(self._workers.done)
            self._workers.stop()
            for seq, call in list(self._open_calls.items()):
                if seq in finished:
                    output, is_error = finished[seq]
                elif seq in self._workers.begun:
                    last_output, _ = self._workers.done.get(seq, ("", True))
                    output, is_error = f"{STOPPED}\n{last_output}".rstrip(), True
                else:
                    output, is_error = NOT_RUN, True
                self._append_result(call, output, is_error=is_error)


class PartialText:
    """The text of an answer as far as it arrived. A new attempt replaces it when it has text."""

    def __init__(self) -> None:
        self.value = ""
        self._starts_over = False

    def add(self, part: Any) -> None:
        """Add the text of a part of the answer."""
        if isinstance(part, Response):
            self.value = part.text
        elif isinstance(part, Retrying):
            self._starts_over = True
        elif isinstance(part, TextDelta):
            if self._starts_over:
                self.value = ""
                self._starts_over = False
            self.value += part.text


def find_copy(prompt: Event, messages: Sequence[Event]) -> Event:
    """Return the last copy of a prompt that a compaction has made, or the prompt."""
    last = prompt
    for event in messages:
        if (event.data or {}).get(COPY) == prompt.seq:
            last = event
    return last


def list_events(answer: Response) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """Return the events of an answer. Its data is kept with the first one."""
    calls: list[dict[str, Any]] = []
    for call in answer.calls:
        used_ids = [other["id"] for other in calls]
        # Results come in any order: two calls with one id could not be told apart.
        id = f"call_{os.urandom(12).hex()}" if call.id in used_ids else call.id
        calls.append({"id": id, "name": call.name, "arguments": call.arguments})
    events: list[tuple[str, str | None, dict[str, Any] | None]] = []
    if answer.text.strip() or not calls:
        events.append(("assistant", answer.text, answer.data or None))
    else:
        calls[0] |= answer.data or {}
    events += [("tool_call", None, call) for call in calls]
    return events


def shorten_result(text: str, limit: int) -> str:
    """Return a long text without its middle, and a note that says so."""
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3]
    tail = text[-(limit // 3) :]
    left_out = len(text) - len(head) - len(tail)
    note = (
        f"[… {left_out:,} of {len(text):,} characters left out here: "
        "ask for a smaller part to see them …]"
    )
    return f"{head}\n{note}\n{tail}"


def explain_missing_answer(answer: Response) -> Iterator[Stopped]:
    """Yield why an answer without calls counts as no answer, if it does."""
    if (answer.data or {}).get("refused"):
        yield Stopped(REFUSED)
    elif not answer.text.strip():
        yield Stopped(SAID_NOTHING)
