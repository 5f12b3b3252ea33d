"""Checks of new events.

`check_…` functions return the value that can be stored, or raise InvalidEvent with a remedy.
`log.problems` has the milder checks of values that are stored already.
"""

import json
from collections.abc import Iterable
from typing import Any

from backstory.errors import Invalid, InvalidEvent
from backstory.log.arguments import check_key, check_new_key, check_text
from backstory.log.data_keys import ERASED, NATIVE
from backstory.log.events import Draft, Event, to_json
from backstory.log.json_text import encode_exactly
from backstory.log.kinds import KINDS, MESSAGE_KINDS, NEEDS_CONTENT, NEVER_BLANK, TOOL_KINDS
from backstory.log.messages import read_call, read_result

DEEPEST = 100  # levels of nested data


def check_draft(kind: Any, content: Any = None, data: Any = None, key: Any = None) -> Draft:
    """Return the draft of a new event. Raises InvalidEvent, which says what to correct."""
    kind = check_kind(kind)
    content = check_content(kind, content)
    data_json = None if data is None else check_data(kind, data)
    if data is not None or kind in TOOL_KINDS:
        check_message(kind, content, data)
    if key is not None:
        key = check_new_key(key)
    return Draft(kind, content, data_json, key)


def check_kind(kind: Any) -> str:
    """Return the kind of a new event, which must be in the table of kinds."""
    if isinstance(kind, str) and kind in KINDS:
        return str.__str__(kind)
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
    return check_text(content, f"the content of this {kind} event")


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
    if NATIVE in data and not isinstance(data[NATIVE], dict):
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
        key = None if item.key is None else check_key(item.key)  # a copy may keep a derived one
        return check_draft(item.kind, item.content, item.data)._replace(key=key)
    if isinstance(item, tuple | list) and 1 <= len(item) <= 4:
        return check_draft(*item)
    raise InvalidEvent(f"{item!r:.60} is not an event", remedy="pass it as (kind, content, data)")
