"""Labels: notes that give an earlier position a name. Pure."""

from collections.abc import Iterable
from typing import Any

from backstory.log.events import Event

LABEL = "backstory.label"  # the name of the notes; their data: {"label": a name or None, "at": a position}


def labels_in(notes: Iterable[Event]) -> dict[str, int]:
    """The positions that labels name, from the notes of a lineage, oldest first. The newest note with a name
    counts. A note without a name removes the names of its position."""
    found: dict[str, int] = {}
    for note in notes:
        match note.data:
            case {"label": str(name), "at": at} if _is_before(at, note):
                found[name] = at
            case {"label": None, "at": at} if _is_before(at, note):
                found = {name: place for name, place in found.items() if place != at}
    return found


def _is_before(at: Any, note: Event) -> bool:
    """Whether this is a position that there is with the note: true is not one."""
    return type(at) is int and 0 <= at <= note.seq
