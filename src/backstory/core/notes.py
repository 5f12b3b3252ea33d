"""The names of notes: any text, but those of the library's own notes are not for others. Pure."""

from typing import Any

from backstory.core.events import check_text, plain
from backstory.errors import Invalid

OURS = "backstory."  # how the names of the library's own notes begin


def checked_note_name(name: Any) -> str:
    """A name that a note can have. Raises Invalid."""
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"{name!r:.60} is not the name of a note", remedy="pass a non-empty string")
    check_text(name, "the name of a note")
    return plain(name)


def own_note_name(name: Any) -> str:
    """A name that a note of the caller's can have. Raises Invalid."""
    checked = checked_note_name(name)
    if checked.startswith(OURS):
        raise Invalid(
            f"{name!r:.60}: names that begin with {OURS!r} are the library's own", remedy="use another name"
        )
    return checked
