"""Undo and redo: which position to jump to, from the moves that led to a context.

Both are ordinary jumps in the log. Their data says which they are, so that the next undo goes one move
further back instead of undoing the undo. Pure.
"""

from collections.abc import Callable, Iterable, Sequence

from backstory.log.compaction import COMPACTED, COPY
from backstory.log.events import Event
from backstory.log.kinds import MOVES

NOT_ASKED = {
    COPY,
    COMPACTED,
    "carried",
    "meta",
}  # keys in the data of user messages that no person typed
UNDO, REDO = "undo", "redo"  # keys in a jump's data that say what wrote it


def undo_target(moves: Sequence[Event]) -> int | None:
    """Where an undo goes: to before the newest move that can be taken back. `moves` are the clears, rewinds
    and jumps that led to the context, newest first. A clear at the start of a log has nothing before it."""
    for move in moves:
        if undo_or_redo(move) is None and move.seq > 1:
            return move.seq - 1
    return None


def turn_target(pieces: Iterable[Sequence[Event]]) -> int | None:
    """Where an undo goes if a question with its answer counts as a move, too. `pieces` are the events of a
    context, newest piece first; each begins with the move that led to it, except a fork's own first piece."""
    for events in pieces:
        prompts = [event for event in events if is_prompt(event)]
        if prompts:
            return prompts[-1].seq - 1
        if events and events[0].kind in MOVES | {"clear"}:
            target = undo_target(events[:1])
            if target is not None:
                return target
    return None


def is_prompt(event: Event) -> bool:
    """Whether a person typed this: it is not a copy, a summary, or something that a program added."""
    return event.kind == "user" and not NOT_ASKED & (event.data or {}).keys()


def redo_target(head: Event | None, event_at: Callable[[int], Event | None]) -> int | None:
    """Where a redo goes: to before the undo that led here, if nothing was written since. After a redo, the
    next one takes back the undo before that."""
    event = head
    while event is not None and undo_or_redo(event) == REDO:
        event = event_at(target(event))
    return event.seq - 1 if event is not None and undo_or_redo(event) == UNDO else None


def target(move: Event) -> int:
    """The position that a valid rewind or jump went to."""
    found = (move.data or {}).get("target_message_id")
    return found if type(found) is int else 0


def undo_or_redo(move: Event) -> str | None:
    """Whether an undo or a redo wrote a jump; None if neither did."""
    data = move.data or {} if move.kind == "jump" else {}
    return next((word for word in (UNDO, REDO) if data.get(word) is True), None)
