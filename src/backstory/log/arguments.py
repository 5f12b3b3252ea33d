"""Checks of the arguments of calls that are not events: text, keys, names, times, limits, authors,
and the details of agents.

`check_…` functions return the value that can be used, or raise Invalid with a remedy.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from backstory.errors import Invalid, InvalidEvent
from backstory.log.events import LAST_POSITION, parse_object, to_json
from backstory.log.times import to_microseconds

LONGEST_KEY = 1_000  # characters
LONGEST_NAME = 200  # characters of an agent's name
LONGEST_REASON = 1_000  # characters
# The end of a key that is derived from another one (`storage.repeats`).
DERIVED_END = re.compile(r" \((?:part|again) [0-9]+\)\Z")
RESERVED = "backstory."  # the prefix of note names that only the library uses
NAMESPACE = "6d2b1f0e-5a0c-5c6e-9a55-0b1a5e7c0de5"  # of the ids that are derived from keys
MOST_GENERATIONS = 100_000  # that are tried before an id and a key are reported as not matching
LARGEST_ABOUT = 64 * 1024  # bytes of an agent's details
# A NUL as JSON escapes it, not an escaped backslash before u0000.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


# --- text ---

# Every store refuses the same text, so that an event fits into each.


class TextProblem(NamedTuple):
    """The reason why a store cannot contain some text."""

    message: str
    remedy: str


def find_text_problem(text: str) -> TextProblem | None:
    """Return the reason why one of the databases cannot store `text`, or None."""
    if "\0" in text:
        return TextProblem("contains a NUL character (U+0000)", "remove or escape it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return TextProblem(
            f"contains a lone surrogate at character {error.start}, which is not valid Unicode",
            "decode the text with errors='replace' first",
        )
    return None


def check_text(text: str, what: str) -> str:
    """Return `text` as a plain `str`. Raise InvalidEvent if a store cannot contain it. `what` names
    it in the message.

    A member of a string enum is a `str`, too, but `str(…)`, f-strings and drivers disagree whether
    that means its name or its value.
    """
    problem = find_text_problem(text)
    if problem is not None:
        raise InvalidEvent(f"{what} {problem.message}", remedy=problem.remedy)
    return str.__str__(text)


# --- keys and names ---


def check_list(values: Any, what: str, remedy: str) -> list[Any]:
    """Return the items of a list. Refuses a single string, whose letters would be the items. `what`
    names them in the message."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise Invalid(f"{values!r:.60} is not a list of {what}", remedy=remedy)
    return list(values)


def check_key(key: Any) -> str:
    """Return the key of an event or agent: any text of 1 to 1,000 characters."""
    rule = f"a key is text of 1 to {LONGEST_KEY:,} characters"
    if not isinstance(key, str):
        raise Invalid(f"{rule}, not {type(key).__name__}", remedy="pass a string")
    if not key:
        raise Invalid(f"{rule}, and this one is empty", remedy="leave it out, or use another one")
    if len(key) > LONGEST_KEY:
        raise Invalid(f"{rule}, and this one has {len(key):,}", remedy="use its hash")
    return check_text(key, "the key")


def check_new_key(key: Any) -> str:
    """Return the key of a new event, which must not look like one that is derived from another."""
    new_key = check_key(key)
    end = DERIVED_END.search(new_key)
    if end is not None:
        raise Invalid(
            f"{key!r:.60}: keys that end in {end[0].strip()!r} are the library's own",
            remedy="use another key",
        )
    return new_key


def check_keys(keys: Any) -> list[str]:
    """Return the keys of events."""
    return [check_key(key) for key in check_list(keys, "keys", "pass [key, …]")]


def check_once(once: Any) -> None:
    """Raise Invalid if `once` is not one of the ranges in which a key is unique."""
    if once not in ("lineage", "context"):
        raise Invalid(f"once={once!r:.60} is unknown", remedy='pass "lineage" or "context"')


def check_prefix(prefix: Any) -> str:
    """Return a prefix of keys, which may be empty."""
    return "" if prefix == "" else check_key(prefix)


def check_name(name: Any) -> str:
    """Return the name of an agent, which can be part of a reference like session/name@position."""
    if not isinstance(name, str):
        raise Invalid(f"an agent's name must be a string, not {type(name).__name__}")
    shown = name if len(name) <= 40 else f"{name[:40]}…"
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(
            f"{shown!r} cannot be a name",
            remedy=f"use 1 to {LONGEST_NAME} characters, without spaces around them",
        )
    if not name.isprintable() or "/" in name or "@" in name:
        raise Invalid(
            f"{shown!r} cannot be a name", remedy="leave out '/', '@' and control characters"
        )
    return str.__str__(name)


def check_note_name(name: Any) -> str:
    """Return the name of a note, which may be a reserved one."""
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"{name!r:.60} is not the name of a note", remedy="pass a non-empty string")
    return check_text(name, "the name of a note")


def check_note_names(names: Any) -> list[str]:
    """Return the names of notes."""
    return [check_note_name(name) for name in check_list(names, "names", "pass notes=[…]")]


def check_own_note_name(name: Any) -> str:
    """Return the name of a note that a caller may write: not a reserved one."""
    own_name = check_note_name(name)
    if own_name.startswith(RESERVED):
        raise Invalid(
            f"{name!r:.60}: names that begin with {RESERVED!r} are the library's own",
            remedy="use another name",
        )
    return own_name


def check_moment(moment: Any) -> int:
    """Return the microseconds from 1970 to an aware datetime."""
    if not isinstance(moment, datetime):
        raise Invalid(f"{moment!r:.60} is not a time", remedy="pass an aware datetime")
    if moment.tzinfo is None:
        raise Invalid(f"{moment.isoformat()} has no time zone", remedy="pass an aware datetime")
    return to_microseconds(moment)


def check_limit(limit: Any, what: str) -> int | None:
    """Return the most items that a page may have; None means all. `what` names the items."""
    if limit is None:
        return None
    if type(limit) is not int or limit < 1:
        raise Invalid(f"limit={limit!r:.60} is not a number of {what}", remedy="pass 1 or more")
    return min(limit, LAST_POSITION)


def describe_author(who: str | None) -> dict[str, Any]:
    """Return the part of an event's data that names its author."""
    if who is None:
        return {}
    if not isinstance(who, str):
        raise Invalid(f"by={who!r:.60} is not a name", remedy="pass a string")
    return {"by": who}


def check_reason(why: Any) -> str:
    """Return the reason for an erasure, which must not be blank."""
    if not isinstance(why, str) or not why.strip() or len(why) > LONGEST_REASON:
        raise Invalid(
            "an erasure needs a reason", remedy=f"say why, in 1 to {LONGEST_REASON:,} characters"
        )
    return check_text(why, "the reason of this erasure")


def check_author(who: str | None) -> str | None:
    """Return the name of the author of a removal, which is not written into an event."""
    name = describe_author(who).get("by")
    if name is None:
        return None
    return check_text(name, "the author of this removal")


# --- the ids of agents with a key ---

# The id is derived from the key, so the primary key decides who creates the agent first. A deleted
# agent whose row is still needed retains its id. The next agent with its key is of the next
# generation, and has another id.


def derive_id(key: str, generation: int = 0) -> str:
    """Return the id of the agent with a key. It is the same everywhere."""
    from uuid import UUID, uuid5  # here, because it is slow to import, and only keys need it

    text = check_key(key)
    if generation:
        text = f"{text}\n{generation}"
    return str(uuid5(UUID(NAMESPACE), text))


def is_derived_from_key(id: str) -> bool:
    """Return True if `derive_id` made this id: a UUID of version 5, which one digit tells."""
    return id[14] == "5"


def has_key(id: str, key: str) -> bool:
    """Return True if an id belongs to a key, in any generation."""
    return any(id == derive_id(key, generation) for generation in range(MOST_GENERATIONS))


# --- the details of an agent: a small JSON object with its title, tags or anything else ---


def change_about(before: str | None, change: dict[str, Any]) -> str | None:
    """Return the JSON text of an agent's details after a change, or None if no detail is left.

    A value of None removes its key.
    """
    _check_title(change.get("title"))
    _check_tags(change.get("tags"))
    about = (parse_object(before) or {}) | change
    about = {name: value for name, value in about.items() if value is not None}
    if not about:
        return None
    try:
        text = to_json(about)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"an agent's description must be JSON: {error}") from error
    if size > LARGEST_ABOUT:
        raise Invalid(
            f"an agent's description may take {LARGEST_ABOUT:,} bytes, this takes {size:,}",
            remedy="shorten it",
        )
    if ESCAPED_NUL.search(text):  # JSON escapes it, but PostgreSQL's JSON cannot contain it
        raise Invalid("an agent's description has a NUL character (U+0000)", remedy="remove it")
    return text


def _check_title(title: Any) -> None:
    if title is not None and not _is_filled(title):
        raise Invalid(f"a title must be a non-empty string, not {title!r:.60}")


def _check_tags(tags: Any) -> None:
    if tags is None:
        return
    if not isinstance(tags, list | tuple) or not all(map(_is_filled, tags)):
        raise Invalid(f"tags must be a list of non-empty strings, not {tags!r:.60}")


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def read_title_and_tags(about: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the title and the tags in an agent's details, without values of other types, which
    a damaged store may have."""
    details = parse_object(about) or {}
    title = details.get("title")
    tags = details.get("tags")
    if not isinstance(title, str):
        title = None
    if not isinstance(tags, list):
        tags = []
    return title, tuple(tag for tag in tags if isinstance(tag, str))
