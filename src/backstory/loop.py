"""The turn loop: a conversation goes to the model, its answer into the log, its calls to the tools.

    for happening in Loop(agent, model, tools).ask("Which files are here?"): ...

Each event is written when it happens, by the agent's own methods, and whoever iterates is told. The loop
draws nothing and decides nothing that a person should: it asks `allow`. When it is stopped (Ctrl-C, or
the iterator is closed), what the model had said is kept, marked as interrupted, and calls under way get a
result that says so. Calls that an earlier process left open are not run again.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.deferring import undisturbed
from backstory.events import Event
from backstory.messages import tool_call
from backstory.models import Answer, Model, ModelError, Retrying, Said
from backstory.models.arguments import storable
from backstory.tools.tool import Tool, ToolError, checked

MOST_STEPS = 40  # answers for one question: a model that goes round in circles is stopped
LONGEST_RESULT = 16_000  # characters of a result that the model gets to read

STOPPED = "interrupted: it was stopped before it was done, and may have done a part of it"
NOT_RUN = "interrupted: it was not run"
NOBODY = "not run: it needs somebody's consent, and nobody was there to ask"


class Wrote(NamedTuple):
    """An event was written."""

    event: Event


class Halted(NamedTuple):
    """The loop ended before the model did, and why."""

    why: str


Happening = Said | Retrying | Wrote | Halted
Happenings = Generator[Happening, None, None]

# May this tool run with these arguments? True, or the reason why not, which the model is told.
Allow = Callable[[Tool, dict[str, Any]], bool | str]


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

    def ask(self, text: str) -> Happenings:
        """Write what the person says, and go on until the model has answered."""
        with undisturbed():
            event = self.agent.user(storable(text))
        yield Wrote(event)
        yield from self.go_on()

    def go_on(self) -> Happenings:
        """Let the model speak, and run what it calls, until it has nothing left to call."""
        for _ in range(self.most_steps):
            calls = yield from self._answer()
            if not calls:
                return
            yield from self._run(calls)
        yield Halted(f"stopped after {self.most_steps} steps: say what to do next")

    # --- the model ---

    def _answer(self) -> Generator[Happening, None, list[Event]]:
        """One answer of the model, in the log; returns its calls."""
        said: list[str] = []
        pieces = self.model.answer(self.agent.conversation(), self.tools)
        answer = Answer("")
        try:
            for piece in pieces:
                if isinstance(piece, Answer):
                    answer = piece
                    break
                if isinstance(piece, Said):
                    said.append(piece.text)
                else:
                    said.clear()
                yield piece
        except (KeyboardInterrupt, GeneratorExit, ModelError) as stop:
            self._keep("".join(said), stop)
            raise
        finally:
            _close(pieces)
        with undisturbed():
            written = self.agent.extend(_events(answer))
        for event in written:
            yield Wrote(event)
        return [event for event in written if event.kind == "tool_call"]

    def _keep(self, text: str, stop: BaseException) -> None:
        """What was said before the answer was broken off."""
        why = str(stop) if isinstance(stop, ModelError) else "stopped by the person"
        if text.strip():
            with undisturbed():
                self.agent.assistant(
                    storable(text), data={"model": self.model.name, "interrupted": True, "why": why}
                )

    # --- the tools ---

    def _run(self, calls: list[Event]) -> Happenings:
        """Run the calls of one answer side by side; each result is written when it is there."""
        work = _Work()
        waiting = {call.seq: call for call in calls}
        try:
            for call in calls:
                problem = self._start(work, call)
                if problem is not None:
                    yield self._result(waiting.pop(call.seq), problem, error=True)
            while waiting:
                seq, output, error = work.next()
                yield self._result(waiting.pop(seq), output, error=error)
        except BaseException:
            work.stop()
            for call in waiting.values():
                self._result(call, STOPPED if call.seq in work.running else NOT_RUN, error=True)
            raise

    def _start(self, work: "_Work", call: Event) -> str | None:
        """Start a call; returns what keeps it from running, if anything does."""
        _, name, arguments = tool_call(call.data)
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools)
            return f"there is no tool {name!r}: there are {known or 'none'}"
        try:
            given = checked(tool, arguments)
        except ToolError as error:
            return str(error)
        refusal = self._refusal(tool, given)
        if refusal is None:
            work.start(call.seq, tool, given)
        return refusal

    def _refusal(self, tool: Tool, arguments: dict[str, Any]) -> str | None:
        if not tool.asks:
            return None
        answer = NOBODY if self.allow is None else self.allow(tool, arguments)
        if isinstance(answer, str):
            return answer
        return None if answer else "not run: it was not allowed"

    def _result(self, call: Event, output: str, *, error: bool) -> Wrote:
        """Write a result: what the model reads, and the whole of it where that is more."""
        whole = storable(output)
        shown = shortened(whole, self.longest_result)
        id, name, _ = tool_call(call.data)
        data: dict[str, Any] = {"id": id, "name": name} | ({"error": True} if error else {})
        if shown != whole:
            data["whole"] = whole
        with undisturbed():
            return Wrote(self.agent.append("tool_result", shown, data))


class _Work:
    """Calls that are running, each in a thread of its own."""

    def __init__(self) -> None:
        self.running: dict[int, Tool] = {}
        self._deadlines: dict[int, float] = {}
        self._done: SimpleQueue[tuple[int, str, bool]] = SimpleQueue()

    def start(self, seq: int, tool: Tool, arguments: dict[str, Any]) -> None:
        self.running[seq] = tool
        self._deadlines[seq] = time.monotonic() + tool.seconds
        threading.Thread(target=self._call, args=(seq, tool, arguments), daemon=True).start()

    def _call(self, seq: int, tool: Tool, arguments: dict[str, Any]) -> None:
        try:
            self._done.put((seq, str(tool.run(**arguments)), False))
        except ToolError as error:
            self._done.put((seq, str(error), True))
        except BaseException as error:  # whatever a tool does, the conversation goes on
            self._done.put((seq, f"{tool.name} failed: {type(error).__name__}: {error}", True))

    def next(self) -> tuple[int, str, bool]:
        """The next call that is done, or that took too long: its position, output, and whether it failed."""
        while True:
            seq = min(self._deadlines, key=lambda one: self._deadlines[one])
            try:
                done = self._done.get(timeout=max(0.0, self._deadlines[seq] - time.monotonic()))
            except Empty:
                tool = self._forget(seq)
                if tool.cancel:
                    tool.cancel()
                return seq, f"{tool.name} did not finish within {tool.seconds:g} seconds", True
            if done[0] in self.running:  # not one that had been given up
                self._forget(done[0])
                return done

    def _forget(self, seq: int) -> Tool:
        del self._deadlines[seq]
        return self.running.pop(seq)

    def stop(self) -> None:
        """Stop what is still running, where it can be stopped."""
        for tool in self.running.values():
            if tool.cancel:
                tool.cancel()


def _events(answer: Answer) -> list[tuple[str, str | None, dict[str, Any] | None]]:
    """The events of an answer; what else is to be kept of it rides on the first."""
    calls: list[dict[str, Any]] = [
        {"id": call.id, "name": call.name, "arguments": call.arguments} for call in answer.calls
    ]
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


def _close(pieces: Any) -> None:
    close = getattr(pieces, "close", None)
    if close:
        close()
