"""The handle people hold: one agent, its log and its contexts.

It turns calls into events and references into positions; everything it writes goes through
`Log.write`, everything it knows it asks the store. It keeps nothing that could go stale but the
agent's own record.
"""

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.core.events import Draft, Event, draft, to_datetime
from backstory.core.gc_pause import collector_at_rest
from backstory.core.replay import Context, Explanation
from backstory.errors import Conflict, Invalid, InvalidEvent, NotFound
from backstory.storage.ids import checked_name, new_id
from backstory.storage.log import At, Log, no_position, now
from backstory.storage.protocols import AgentRecord, NewAgent, Walk

if TYPE_CHECKING:
    from backstory.wire.conversation import Conversation


NO_ARGUMENTS: dict[str, Any] = {}


class Preview(NamedTuple):
    """What a clear, rewind, jump or undo would do."""

    target: int  # the position whose context it would go to; 0: the empty one
    leaves: list[Event]  # what would leave the context
    returns: list[Event]  # what would come back into it


class Agent:
    """One branch of a session."""

    def __init__(self, log: Log, record: AgentRecord) -> None:
        self._log = log
        self._record = record

    def __repr__(self) -> str:
        return f"<Agent {self.name!r} {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agent) and (self._log, self.id) == (other._log, other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        """The agent's id, a time-ordered UUID."""
        return self._record.id

    @property
    def name(self) -> str:
        """The agent's name, unique in its session."""
        return self._record.name

    @property
    def session(self) -> str:
        """The id of the session, which is the id of its root agent."""
        return self._record.session

    @property
    def parent(self) -> str | None:
        """The id of the agent it was forked or spawned from; None for a root."""
        return self._record.parent

    @property
    def fork_seq(self) -> int:
        """The last position it inherits; 0 for one that inherits nothing."""
        return self._record.fork_seq

    @property
    def born_seq(self) -> int:
        """Where in its parent it was born: the fork position, or the parent's head at a spawn."""
        return self._record.born_seq

    @property
    def spawned(self) -> bool:
        """Whether it is a sub-agent with a context of its own."""
        return self._record.spawned

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return to_datetime(self._record.created_us)

    @property
    def record(self) -> AgentRecord:
        """The agent as it was when this handle was made, its head and times included."""
        return self._record

    @property
    def head(self) -> int:
        """The newest position, asked of the store each time."""
        return self._log.backend.head(self._record)

    # --- writing ---

    def append(
        self,
        kind: str,
        content: str | None = None,
        data: dict[str, Any] | None = None,
        *,
        expected: int | None = None,
    ) -> Event:
        """Write one event of any kind. With `expected`, only if that is the head (else Conflict);
        repeated after a lost answer, it returns the event that is there."""
        return self._log.write(self._record, [draft(kind, content, data)], expected)[0]

    def extend(
        self, events: Iterable[Event | tuple[Any, ...]], *, expected: int | None = None
    ) -> list[Event]:
        """Write events, given as (kind, content, data) or as events of another log, all or none."""
        if not isinstance(events, Iterable):
            raise Invalid(f"{events!r:.60} is not a batch", remedy="pass a list of (kind, content, data)")
        given = list(events)
        with collector_at_rest():
            return self._log.write(self._record, _drafts(given), expected)

    def system(self, content: str, *, data: dict[str, Any] | None = None) -> Event:
        """Write a system message. `data`: what else is to be kept of it."""
        return self.append("system", content, data)

    def user(self, content: str, *, data: dict[str, Any] | None = None) -> Event:
        """Write what the person said. `data`: what else is to be kept of it."""
        return self.append("user", content, data)

    def assistant(self, content: str, *, data: dict[str, Any] | None = None) -> Event:
        """Write what the model said. `data`: what else is to be kept of it, as its name or usage."""
        return self.append("assistant", content, data)

    def tool_call(self, name: str, arguments: Any = NO_ARGUMENTS, *, id: str | None = None) -> Event:
        """Write a tool call, its arguments as the model gave them: an object, or any text.
        Without an id it gets one."""
        call_id = f"call_{os.urandom(12).hex()}" if id is None else id
        return self.append("tool_call", None, {"id": call_id, "name": name, "arguments": arguments})

    def tool_result(self, call: Event | str, output: str, *, error: bool = False) -> Event:
        """Write what a tool call (the event, or its id) came to."""
        data = {"id": call} if isinstance(call, str) else _answering(call)
        return self.append("tool_result", output, data | ({"error": True} if error else {}))

    def mark(self, label: str | None = None) -> Event:
        """Set a mark to come back to."""
        if label is not None and not isinstance(label, str):
            raise InvalidEvent(f"a mark's label must be a string, not {type(label).__name__}")
        return self.append("mark", None, None if label is None else {"label": label})

    def clear(self) -> Event:
        """Empty the context; the log keeps everything."""
        return self.append("clear")

    def rewind(self, to: int | str | None = None) -> Event:
        """Go back to a mark on the stack: the newest, the newest with a label, or the one at a
        position. The mark stays."""
        if isinstance(to, bool) or not isinstance(to, int | str | None):
            raise Invalid(f"{to!r} is not a mark", remedy="pass a label, a position or nothing")

        return self._move("rewind", self._mark_target(to))

    def _mark_target(self, to: int | str | None) -> Callable[[Walk], int]:
        return lambda walk: self._log.mark(self._record, walk, to).seq

    def jump(self, to: int | str | datetime) -> Event:
        """Go to the context of any earlier position, dead or alive."""
        return self._move("jump", self._position_target(to))

    def _position_target(self, to: int | str | datetime | None) -> Callable[[Walk], int]:
        position = self._log.position(self._record, to)
        if position is None:
            raise Invalid("jump needs a target", remedy="pass a position, a mark's label or a datetime")

        def target(walk: Walk) -> int:
            if position > walk.head:
                raise no_position(self.name, position, walk.head)
            return position

        return target

    def undo(self) -> Event:
        """Take back the last clear, rewind or jump; once more, and it is done again."""
        return self._move("jump", self._undo_target)

    def _undo_target(self, walk: Walk) -> int:
        for piece in walk.pieces[::-1]:
            if piece.base is not None:
                return piece.low - 1
        raise NotFound(f"nothing to undo: no clear, rewind or jump led to the context of agent {self.name!r}")

    def preview(self, move: str, to: int | str | datetime | None = None) -> Preview:
        """What "clear", "rewind", "jump" or "undo" would do now. Nothing is written."""
        targets: dict[str, Callable[[], Callable[[Walk], int]]] = {
            "clear": lambda: lambda walk: 0,
            "rewind": lambda: self._mark_target(to if isinstance(to, int | str) else None),
            "jump": lambda: self._position_target(to),
            "undo": lambda: self._undo_target,
        }
        if move not in targets:
            raise Invalid(f"{move!r} is not a move", remedy=f"use one of {', '.join(targets)}")
        walk = self._log.walk(self._record)
        target = targets[move]()(walk)
        now, then = (self.context(position).messages for position in (walk.head, target))
        before, after = ({event.seq for event in events} for events in (now, then))
        return Preview(
            target,
            [event for event in now if event.seq not in after],
            [event for event in then if event.seq not in before],
        )

    def _move(self, kind: str, target: Callable[[Walk], int]) -> Event:
        """Write a rewind or jump that is valid: if somebody writes while the target is being
        looked up, look again."""
        while True:
            walk = self._log.walk(self._record)
            try:
                move = draft(kind, None, {"target_message_id": target(walk)})
                return self._log.write_at(self._record, [move], walk.head)[0]
            except Conflict:
                continue

    # --- branching ---

    def fork(self, name: str | None = None, *, at: At = None) -> "Agent":
        """A new agent that goes on from a position (a mark's label, a moment; default: the head).
        Nothing is copied."""
        owner_key, position = self._log.owner(self._record, at)
        return self._child(name, "fork", parent_key=owner_key, fork_seq=position, born_seq=position)

    def spawn(self, name: str | None = None) -> "Agent":
        """A new agent below this one that inherits nothing."""
        return self._child(name, "spawn", parent_key=self._record.key, born_seq=self.head, spawned=True)

    def _child(self, name: str | None, otherwise: str, **birth: Any) -> "Agent":
        id = new_id()
        name = f"{otherwise}-{id[-6:]}" if name is None else checked_name(name)
        record = self._log.backend.create(NewAgent(id, self.session, name, **birth), [], now())
        return Agent(self._log, record)

    def rename(self, name: str) -> None:
        """Give the agent another name."""
        self._log.backend.rename(self._record, checked_name(name))
        self._record = self._record._replace(name=name)

    # --- reading ---

    def context(self, at: At = None) -> Context:
        """What is live: now, or at a position, a mark's label or a moment."""
        return self._log.context(self._record, at)

    def conversation(self, at: At = None) -> "Conversation":
        """What a model is given: the context's messages, control events left out. `.to(format)` makes
        a provider's request of it."""
        from backstory.wire.conversation import conversation_of

        return conversation_of(self.context(at).messages)

    def marks(self, at: At = None) -> list[Event]:
        """The mark stack, oldest first."""
        return self._log.marks_in(self._record, self._log.walk(self._record, at))

    def event(self, seq: int) -> Event:
        """One event of the lineage, dead or alive."""
        return self._log.event(self._record, seq)

    def events(self, *, after: At = 0, until: At = None) -> list[Event]:
        """The whole lineage, dead events included, or the part behind `after` up to `until`."""
        return self._log.events(self._record, after, until)

    def position(self, at: At = None) -> int:
        """The position that a mark's label or a moment stands for; the head, if none is given."""
        return self.head if at is None else self._log.position(self._record, at) or 0

    def live_ranges(self, at: At = None) -> list[tuple[int, int]]:
        """The positions that are live, as (first, last), oldest first: for reading a long context
        part by part. Clears and inert events lie in them, too; `explained` tells them apart."""
        return [(piece.low, piece.high) for piece in self._log.walk(self._record, at).pieces]

    def explained(self, *, after: At = 0, until: At = None, at: At = None) -> list[tuple[Event, Explanation]]:
        """Events behind `after` up to `until`, each with why it is or is not in the context."""
        return self._log.explained(self._record, after, until, at)

    def explain(self, seq: int, *, at: At = None) -> Explanation:
        """Why an event is or is not in the context."""
        return self._log.explain(self._record, seq, at)


def _drafts(events: Iterable[Event | tuple[Any, ...]]) -> list[Draft]:
    drafts = []
    for index, event in enumerate(events):
        try:
            drafts.append(_draft(event))
        except InvalidEvent as error:
            message = f"nothing was written: event {index} of the batch: {error.message}"
            raise InvalidEvent(message, remedy=error.remedy) from error
    return drafts


def _draft(event: Event | tuple[Any, ...]) -> Draft:
    if isinstance(event, Event):
        return draft(event.kind, event.content, event.data)
    if isinstance(event, tuple | list) and 1 <= len(event) <= 3:
        return draft(*event)
    raise InvalidEvent(f"{event!r:.60} is not an event", remedy="pass it as (kind, content, data)")


def _answering(call: Event) -> dict[str, Any]:
    if not isinstance(call, Event):
        raise InvalidEvent(f"{call!r:.60} is not a tool call", remedy="pass the call's event or its id")
    data = call.data or {}
    if call.kind != "tool_call" or "id" not in data:
        raise InvalidEvent(
            f"event {call.seq} ({call.kind}) is not a tool call with an id",
            remedy="pass the call's event or its id",
        )
    return {key: data[key] for key in ("id", "name") if key in data}
