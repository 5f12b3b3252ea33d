"""Finds the position that a rewind, jump, undo or redo leads to, and that a label or a time means.

Nothing is written here. A move calls these functions while its agent is locked, a preview without a
lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from backstory.errors import Invalid, MarkNotFound, NotFound, Remedy
from backstory.log import moves
from backstory.log.arguments import check_moment
from backstory.log.data_keys import REDO, UNDO
from backstory.log.events import LAST_POSITION, Event
from backstory.storage.agent_errors import build_position_error, suggest_name
from backstory.storage.positions import check_position, clip
from backstory.storage.protocol import AgentRecord, EventFilter, Reader, Walk

At = int | str | datetime | None  # a position, a label or a time; None: the head

MARKS = EventFilter(kinds=frozenset({"mark"}))
LABELS = EventFilter(kinds=frozenset({"note"}), note_names=(moves.LABEL,))


class Move(NamedTuple):
    """A move that a caller asks for. `to` is the target of a rewind or jump."""

    command: Literal["rewind", "jump", "undo", "undo_turn", "redo"]
    to: At = None

    @property
    def kind(self) -> str:
        """The kind of the event that the move writes."""
        return "rewind" if self.command == "rewind" else "jump"

    @property
    def flags(self) -> dict[str, Any]:
        """The part of the event's data that names the command."""
        match self.command:
            case "undo" | "undo_turn":
                return {UNDO: True}
            case "redo":
                return {REDO: True}
        return {}

    def is_written_as(self, event: Event) -> bool:
        """Return True if `event` was written by a move of this command."""
        command = moves.read_command(event)
        flags = {} if command is None else {command: True}
        return event.kind == self.kind and flags == self.flags


def find_target(reader: Reader, agent: AgentRecord, walk: Walk, move: Move) -> int:
    """Return the position whose context a move leads to. Raises NotFound or Invalid."""
    match move.command:
        case "rewind":
            return find_rewind_position(reader, agent, walk, move.to)
        case "jump":
            return find_jump_position(reader, agent, walk, move.to)
        case "undo":
            return find_undo_position(reader, agent, walk)
        case "undo_turn":
            return find_turn_position(reader, agent, walk)
        case "redo":
            return find_redo_position(reader, agent, walk)


def find_rewind_position(reader: Reader, agent: AgentRecord, walk: Walk, to: At) -> int:
    """Return the position of a mark on the stack."""
    if isinstance(to, bool) or not isinstance(to, int | str | None):
        raise Invalid(f"{to!r} is not a mark", remedy="pass a label, a position or nothing")
    return find_mark(reader, agent, walk, to).seq


def find_jump_position(reader: Reader, agent: AgentRecord, walk: Walk, to: At) -> int:
    """Return the position that a position, a label or a time means."""
    if isinstance(to, str):
        return find_label(reader, agent, walk, to)
    position = resolve_position(reader, agent, to)
    if position is None:
        raise Invalid("jump needs a target", remedy="pass a position, a mark's label or a datetime")
    if isinstance(to, datetime):
        position = min(position, walk.at)  # the walk may end before the newest event
    check_position(agent, position, walk.at)
    return position


def find_undo_position(reader: Reader, agent: AgentRecord, walk: Walk) -> int:
    """Return the position before the last clear, rewind, jump or compaction."""
    pieces = []
    for piece in walk.pieces:
        if piece.base is not None:
            pieces.append(piece._replace(high=piece.low))
    events = reader.read_events(agent, pieces)
    target = moves.find_undo_target(reversed(events))
    if target is None:
        raise NotFound(
            f"nothing to undo: no clear, rewind or jump led to the context of {agent.name!r}"
        )
    return target


def find_turn_position(reader: Reader, agent: AgentRecord, walk: Walk) -> int:
    """Return the position before the last turn or move."""
    newest_first = reversed(walk.pieces)
    pieces = ((piece.base, reader.read_events(agent, [piece])) for piece in newest_first)
    target = moves.find_turn_target(pieces)
    if target is None:
        raise NotFound(f"nothing to undo: no turn and no move led to the context of {agent.name!r}")
    return target


def find_redo_position(reader: Reader, agent: AgentRecord, walk: Walk) -> int:
    """Return the position before the last undo."""
    lineage = reader.read_lineage(agent)

    def read_event(seq: int) -> Event | None:
        events = reader.read_events(agent, clip(lineage, seq, seq))
        return events[0] if events else None

    target = moves.find_redo_target(read_event(walk.at), read_event)
    if target is None:
        raise NotFound(
            f"nothing to redo: the last thing that happened to {agent.name!r} was not an undo"
        )
    return target


def resolve_position(reader: Reader, agent: AgentRecord, at: At) -> int | None:
    """Return the position that a label or a time means. None stays None, which means the head."""
    match at:
        case None:
            return None
        case datetime():
            return reader.find_position_at_time(agent, check_moment(at))
        case str():
            return find_label(reader, agent, reader.walk(agent), at)
        case int() if not isinstance(at, bool):
            # Callers compare the position with the head that they read. But a query takes only
            # numbers of 32 bits.
            if not 0 <= at <= LAST_POSITION:
                raise build_position_error(agent.name, at, reader.read_head(agent))
            return at
    raise Invalid(
        f"{at!r} is not a position", remedy="pass a whole number, a label or an aware datetime"
    )


def find_label(reader: Reader, agent: AgentRecord, walk: Walk, label: str) -> int:
    """Return the position of the newest mark on the stack with a label, or else the one that a
    label names."""
    stack = reader.read_events(agent, walk.pieces, MARKS)
    mark = select_mark(stack, label)
    if mark is not None:
        return mark.seq
    lineage = reader.read_lineage(agent)
    notes = reader.read_events(agent, clip(lineage, 1, walk.at), LABELS)
    labels = moves.read_labels(notes)
    if label not in labels:
        raise build_mark_error(reader, agent, stack, label)
    return labels[label]


def find_mark(reader: Reader, agent: AgentRecord, walk: Walk, which: int | str | None) -> Event:
    """Return the mark at a position, the newest with a label, or the newest on the stack. Raises
    MarkNotFound."""
    stack = reader.read_events(agent, walk.pieces, MARKS)
    mark = select_mark(stack, which)
    if mark is None:
        raise build_mark_error(reader, agent, stack, which)
    return mark


def select_mark(marks: Sequence[Event], which: int | str | None) -> Event | None:
    """Return the newest of `marks` that `which` means; None if there is none."""
    for mark in reversed(marks):
        if matches_mark(mark, which):
            return mark
    return None


def matches_mark(mark: Event, which: int | str | None) -> bool:
    """Return True if `which` is None, the mark's label or its position."""
    if which is None:
        return True
    if isinstance(which, str):
        return mark.label == which
    return mark.seq == which


def build_mark_error(
    reader: Reader, agent: AgentRecord, stack: Sequence[Event], which: int | str | None
) -> MarkNotFound:
    """Return the error for a mark that is not on the stack."""
    what = "no mark" if which is None else f"no mark {which!r}"
    if isinstance(which, str):
        what += suggest_name(which, [mark.label for mark in stack if mark.label])
    remedy = suggest_mark(reader, agent, stack, which)
    return MarkNotFound(f"agent {agent.name!r} has {what}", remedy=remedy)


def suggest_mark(
    reader: Reader, agent: AgentRecord, stack: Sequence[Event], which: int | str | None
) -> Remedy:
    """Return a remedy for a mark that is not on the stack."""
    if which is not None:
        lineage = reader.read_lineage(agent)
        mark = select_mark(reader.read_events(agent, lineage, MARKS), which)
        if mark is not None:
            text = f"it was set at position {mark.seq} and left behind; {{}} goes back there"
            return Remedy(text, "jump", (mark.seq,), agent.id)
        if isinstance(which, int) and 0 <= which <= lineage[-1].high:
            return Remedy("{} goes to a position without a mark", "jump", (which,), agent.id)
    if stack:
        return Remedy(f"its marks are {describe_marks(stack)}")
    return Remedy("{} sets one", "mark", agent_id=agent.id)


def describe_marks(marks: Sequence[Event]) -> str:
    """Return the labels and positions of marks as one string."""
    texts = []
    for mark in marks:
        texts.append(f"{mark.label!r} at {mark.seq}" if mark.label else str(mark.seq))
    return ", ".join(texts)
