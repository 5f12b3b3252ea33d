"""Labels: notes that give an earlier position a name. Pure."""

from collections.abc import Iterable

from backstory.core.events import Event

LABEL = "backstory.label"  # the name of the notes; their data: {"label": a name or None, "at": a position}


def labels_in(notes: Iterable[Event]) -> dict[str, int]:
    """The positions that labels name, by the notes of a lineage, oldest first. The newest note of a name
    counts, and one without a name takes the names of its position away."""
    found: dict[str, int] = {}
    for note in notes:
        match note.data:
            case {"label": str(name), "at": int(at)}:
                found[name] = at
            case {"label": None, "at": int(at)}:
                found = {name: place for name, place in found.items() if place != at}
    return found
