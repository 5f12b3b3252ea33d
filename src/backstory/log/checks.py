"""Checks of new values: events, keys, names, notes, and the details of agents.

`check_…` functions return the value that can be stored, or raise Invalid or InvalidEvent with a
remedy. `find_text_problem` alone decides which text a store can contain. `log.problems` has the
milder checks of values that are stored already.
"""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from backstory.errors import Invalid, InvalidEvent
from backstory.log.data_keys import ERASED
from backstory.log.events import (
    LAST_POSITION,
    Draft,
    Event,
    parse_object,
    to_json,
)
from backstory.log.json_text import encode_exactly
from backstory.log.kinds import KINDS, MESSAGE_KINDS, NEEDS_CONTENT, NEVER_BLANK
from backstory.log.messages import describe_author, read_call, read_result
from backstory.log.times import to_microseconds

LONGEST_KEY = 1_000  # characters
LONGEST_NAME = 200  # characters of an agent's name
LONGEST_REASON = 1_000  # characters
LARGEST_ABOUT = 64 * 1024  # bytes of an agent's details
DEEPEST = 100  # levels of nested data
RESERVED = "backstory."  # the prefix of note names that only the library uses

# A NUL as JSON escapes it, not an escaped backslash before u0000.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


# Text


class TextProblem(NamedTuple):
    """The reason why a store cannot contain some text."""

    message: str
    remedy: str


def find_text_problem(text: str) -> TextProblem | None:
    """Return the reason why one of the databases cannot store `text`, or None.

    All stores refuse the same text, so that an event fits into each of them.
    """
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


def check_text(text: str, what: str) -> None:
    """Raise InvalidEvent if a store cannot contain `text`. `what` names it in the message."""
    problem = find_text_problem(text)
    if problem is not None:
        raise InvalidEvent(f"{what} {problem.message}", remedy=problem.remedy)


def to_plain_str(text: str) -> str:
    """Return the text as a plain `str`.

    A member of a string enum is a `str`, too, but `str(…)`, f-strings and drivers disagree whether
    that means its name or its value.
    """
    if type(text) is str:
        return text
    return str.__str__(text)


# Events


def check_draft(kind: Any, content: Any = None, data: Any = None, key: Any = None) -> Draft:
    """Return the draft of a new event. Raises InvalidEvent, which says what to correct."""
    kind = check_kind(kind)
    content = check_content(kind, content)
    data_json = None if data is None else check_data(kind, data)
    check_message(kind, content, data)
    if key is not None:
        key = check_key(key)
    return Draft(kind, content, data_json, key)


def check_kind(kind: Any) -> str:
    """Return the kind of a new event, which must be in the table of kinds."""
    if isinstance(kind, str):
        name = to_plain_str(kind)
        if name in KINDS:
            return name
    raise InvalidEvent(f"unknown kind {kind!r}", remedy=f"use one of {', '.join(KINDS)}")


def check_content(kind: str, content: Any) -> str | None:
    """Return the content of a new event."""
    if content is None:
        if kind in NEEDS_CONTENT:
            raise InvalidEvent(
                f"this {kind} event has no content", remedy="pass a string, not None"
            )
        return None
    if not isinstance(content, str):
        raise InvalidEvent(
            f"the content of this {kind} event must be a string, not {type(content).__name__}",
            remedy="convert it first, or put structured values into data",
        )
    check_text(content, f"the content of this {kind} event")
    return to_plain_str(content)


def check_data(kind: str, data: Any) -> str:
    """Return the JSON text of a new event's data. Parsing the text gives equal data."""
    if not isinstance(data, dict):
        raise InvalidEvent(
            f"the data of this {kind} event must be a dict or None, not {type(data).__name__}",
            remedy="pass a JSON object",
        )
    if ERASED in data:
        raise InvalidEvent(
            f"{ERASED!r} in the data of this {kind} event is reserved for events that were erased",
            remedy="use another key",
        )
    exact = encode_exactly(data)
    text = _encode_slowly(kind, data) if exact is None else exact.decode()
    if text.count("{") + text.count("[") > DEEPEST:  # fewer brackets cannot be as deep
        _check_depth(data, DEEPEST, kind)
    return text


def _encode_slowly(kind: str, data: dict[str, Any]) -> str:
    """Return the text of data that orjson cannot write exactly, such as large integers."""
    try:
        text = to_json(data)
        is_exact = json.loads(text) == data
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(
            f"the data of this {kind} event is not JSON ({error})",
            remedy="use strings, finite numbers, true, false, null, lists and objects",
        ) from error
    if not is_exact:
        raise InvalidEvent(
            f"the data of this {kind} event would not be read back unchanged",
            remedy="use strings as keys, and lists instead of tuples",
        )
    check_text(text, f"the data of this {kind} event")
    return text


def _check_depth(value: dict[str, Any] | list[Any], levels: int, kind: str) -> None:
    """Refuse data so deep that a reader with a deep call stack could not parse it."""
    if levels < 0:
        raise InvalidEvent(
            f"the data of this {kind} event is nested more than {DEEPEST} levels deep",
            remedy="flatten it",
        )
    children = value.values() if isinstance(value, dict) else value
    for child in children:
        if isinstance(child, dict | list):
            _check_depth(child, levels - 1, kind)


def check_message(kind: str, content: str | None, data: Any) -> None:
    """Refuse a message that no wire format could represent."""
    if kind == "tool_call":
        call = read_call(data)
        _check_tool_field(kind, "id", call.id)
        _check_tool_field(kind, "name", call.name)
    elif kind == "tool_result":
        _check_tool_field(kind, "id", read_result(content, data).id)
    if kind not in MESSAGE_KINDS or not isinstance(data, dict):
        return
    if "native" in data and not isinstance(data["native"], dict):
        raise InvalidEvent(
            f"the native data of this {kind} event is not an object",
            remedy="pass an object with the name of its provider",
        )


def _check_tool_field(kind: str, field: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidEvent(
            f"the {field} of this {kind} event is {value!r}",
            remedy=f"pass its {field} in data, as a non-blank string",
        )


def check_not_blank(kind: str, content: Any, data: Any = None) -> None:
    """Refuse a blank user or system message without data.

    This is for `user()`, `system()`, `start(system=)` and other text that people type. `append` and
    `extend` accept such messages, because an imported history may have them. Assistant messages and
    tool results may be empty, because models and tools return nothing at times.
    """
    if kind not in NEVER_BLANK or data:
        return
    if isinstance(content, str) and not content.strip():
        raise InvalidEvent(f"the text of a {kind} message is empty: nothing was written")


def check_drafts(events: Any) -> list[Draft]:
    """Return the drafts of a batch of events or (kind, content, data, key) tuples.

    The time of an Event is not part of its draft. An error names the index in the batch.
    """
    if not isinstance(events, Iterable):
        raise Invalid(
            f"{events!r:.60} is not a batch", remedy="pass a list of (kind, content, data)"
        )
    drafts: list[Draft] = []
    for event in events:
        try:
            drafts.append(_check_item(event))
        except InvalidEvent as error:
            message = f"nothing was written: event {len(drafts)} of the batch: {error.message}"
            raise InvalidEvent(message, remedy=error.remedy) from error
    return drafts


def _check_item(item: Any) -> Draft:
    if isinstance(item, Event):
        return check_draft(item.kind, item.content, item.data, item.key)
    if isinstance(item, tuple | list) and 1 <= len(item) <= 4:
        return check_draft(*item)
    raise InvalidEvent(f"{item!r:.60} is not an event", remedy="pass it as (kind, content, data)")


def check_author(who: str | None) -> str | None:
    """Return the name of the author of a removal, which is not written into an event."""
    name = describe_author(who).get("by")
    if name is None:
        return None
    check_text(name, "the author of this removal")
    return to_plain_str(name)


# Keys, names, times and limits


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
    check_text(key, "the key")
    return to_plain_str(key)


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
    return to_plain_str(name)


def check_note_name(name: Any) -> str:
    """Return the name of a note, which may be a reserved one."""
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"{name!r:.60} is not the name of a note", remedy="pass a non-empty string")
    check_text(name, "the name of a note")
    return to_plain_str(name)


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


def check_reason(why: Any) -> str:
    """Return the reason for an erasure, which must not be blank."""
    if not isinstance(why, str) or not why.strip() or len(why) > LONGEST_REASON:
        raise Invalid(
            "an erasure needs a reason", remedy=f"say why, in 1 to {LONGEST_REASON:,} characters"
        )
    check_text(why, "the reason of this erasure")
    return to_plain_str(why)


# The details of an agent: a small JSON object with its title, tags, folder or anything else


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
