"""Undo, redo and labels: the positions that they lead to, found in the events of a log.

An undo and a redo are ordinary jumps. Their data says which command wrote them, so that the next
undo goes one move further back instead of undoing the undo. A label is a note that gives an earlier
position a name.
"""

from collections.abc import Callable, Iterable, Sequence

from backstory.log.data_keys import COMPACTED, COPY, REDO, TARGET, UNDO
from backstory.log.events import Event

LABEL = "backstory.label"  # the name of a note; data: {"label": a name or None, "at": a position}

# Keys in the data of user messages that no person typed.
PROGRAM_KEYS = frozenset({COPY, COMPACTED, "carried", "meta"})


def read_command(move: Event) -> str | None:
    """Return UNDO or REDO if that command wrote this jump, else None."""
    if move.kind != "jump":
        return None
    data = move.data or {}
    for command in (UNDO, REDO):
        if data.get(command) is True:
            return command
    return None


def find_undo_target(moves: Iterable[Event]) -> int | None:
    """Return the position before the newest move that can be undone, or None if there is none.

    `moves` are the clears, rewinds and jumps that led to the context, newest first.
    """
    for move in moves:
        if move.seq == 1:  # a clear at the start of a log: nothing is before it
            continue
        if read_command(move) is None:
            return move.seq - 1
    return None


def find_turn_target(pieces: Iterable[tuple[int | None, Sequence[Event]]]) -> int | None:
    """Return the position before the newest turn or move, or None if there is none.

    `pieces` are the pieces of a context, newest first, each with its base and its events. If it has
    a base, it begins with the move that led to it.
    """
    for base, events in pieces:
        for event in reversed(events):
            if is_prompt(event):
                return event.seq - 1
        if base is not None:
            target = find_undo_target(events[:1])
            if target is not None:
                return target
    return None


def is_prompt(event: Event) -> bool:
    """Return True if a person typed this: not a copy, a summary or a program's addition."""
    if event.kind != "user":
        return False
    data = event.data or {}
    return PROGRAM_KEYS.isdisjoint(data)


def find_redo_target(head: Event | None, find_event: Callable[[int], Event | None]) -> int | None:
    """Return the position before the undo that led to `head`, or None if the head is no undo.

    A redo leads to the state before an undo, so the next redo continues with the undo before that.
    `find_event` returns the event at a position.
    """
    event = head
    while event is not None and read_command(event) == REDO:
        target = read_target(event)
        event = find_event(target) if target < event.seq else None
    if event is None or read_command(event) != UNDO:
        return None
    return event.seq - 1


def read_target(move: Event) -> int:
    """Return the position that a valid rewind or jump continues."""
    data = move.data or {}
    target = data.get(TARGET)
    return target if type(target) is int else 0


def read_labels(notes: Iterable[Event]) -> dict[str, int]:
    """Return the position of each label, from the notes of a lineage, oldest first.

    The newest note with a name counts. A note without a name removes the names of its position.
    """
    labels: dict[str, int] = {}
    for note in notes:
        data = note.data or {}
        position = data.get("at")
        if "label" not in data or type(position) is not int:  # True is not a position
            continue
        if not 0 <= position <= note.seq:
            continue
        name = data["label"]
        if isinstance(name, str):
            labels[name] = position
        elif name is None:
            labels = {label: at for label, at in labels.items() if at != position}
    return labels
