"""The names of notes: any text, except those reserved for the library. Pure."""

from collections.abc import Iterable
from typing import Any

from backstory.errors import Invalid
from backstory.log.events import check_text, plain

OURS = "backstory."  # the prefix of reserved names


def checked_note_name(name: Any) -> str:
    """A name that a note can have. Raises Invalid."""
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"{name!r:.60} is not the name of a note", remedy="pass a non-empty string")
    check_text(name, "the name of a note")
    return plain(name)


def checked_note_names(names: Iterable[Any]) -> list[str]:
    """Names that notes can have. Raises Invalid, also for a single string, which would be read as its
    letters."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise Invalid(f"notes={names!r:.60} is not a list of names", remedy="pass notes=[…]")
    return [checked_note_name(name) for name in names]


def own_note_name(name: Any) -> str:
    """A name that a caller may use, so not a reserved one. Raises Invalid."""
    checked = checked_note_name(name)
    if checked.startswith(OURS):
        raise Invalid(
            f"{name!r:.60}: names that begin with {OURS!r} are the library's own",
            remedy="use another name",
        )
    return checked
