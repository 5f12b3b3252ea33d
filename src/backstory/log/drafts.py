"""Drafts: events that have no position yet, and the checks that every new event must pass.

Also what callers may pass instead of a draft, and parts of an event's data. Pure: rules that need nothing
but the value itself.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from backstory.errors import Invalid, InvalidEvent
from backstory.log.chain import ERASED, inner, is_erased
from backstory.log.events import (
    Event,
    check_text,
    checked_key,
    decoded,
    parse_object,
    plain,
    to_json,
)
from backstory.log.gc_pause import pause_gc
from backstory.log.json_text import compact_object, exact_json, is_same_json, parsed_json
from backstory.log.kinds import KINDS, NEEDS_CONTENT, TOOL_KINDS
from backstory.log.messages import check_message

if TYPE_CHECKING:
    from backstory.log.events import Row

DEEPEST = 100  # levels of nested data


class Draft(NamedTuple):
    """An event that was checked but has no position yet."""

    kind: str
    content: str | None
    data_json: str | None
    key: str | None = None

    def at(self, seq: int, created_us: int = 0) -> Event:
        """The event that it becomes at a position."""
        return Event((seq, self.kind, self.content, self.data_json, created_us, self.key))

    def says(self, event: Event) -> bool:
        """Whether it says the same as an event; the order of the keys in its data does not matter."""
        if (self.kind, self.key) != (event.kind, event.key):
            return False
        if is_erased(event.data_json):  # its digests still identify what it said
            return inner(self.content, self.data_json) == inner(None, None, event.data)
        if self.content != event.content:
            return False
        return self.data_json == event.data_json or is_same_json(
            parse_object(self.data_json), event.data
        )


class EncodedDraft(NamedTuple):
    """A draft with its texts as UTF-8."""

    kind: str
    content: bytes | None
    data: bytes | None
    key: str | None = None

    @property
    def decoded(self) -> Draft:
        """The same draft with texts."""
        return Draft(self.kind, decoded(self.content), decoded(self.data), self.key)


def redrafted(event: Event) -> Draft:
    """A draft that says what an event says. The text of its data is kept, if it is compact."""
    _, kind, content, text, _, key = cast("Row", event)  # faster than its attributes
    data = None if text is None else compact_object(text)
    if text is None or data is None:
        return draft(kind, content, event.data, key)
    return draft(kind, content, data, key, text=text)


def draft(
    kind: Any,
    content: Any = None,
    data: Any = None,
    key: Any = None,
    *,
    is_parsed: bool = False,
    text: str | None = None,
) -> Draft:
    """A draft that can be stored; raises InvalidEvent, which says what to correct. `is_parsed`: the data is
    what a JSON parser returned, so its text need not be parsed again for a comparison. `text`: the data's
    compact JSON, where it is known."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidEvent(f"unknown kind {kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    if content is None:
        if kind in NEEDS_CONTENT:
            raise InvalidEvent(
                f"this {kind} event has no content", remedy="pass a string, not None"
            )
    elif not isinstance(content, str):
        raise InvalidEvent(
            f"the content of this {kind} event must be a string, not {type(content).__name__}",
            remedy="convert it first, or put structured values into data",
        )
    elif not content.isascii() or "\0" in content:
        check_text(content, f"the content of this {kind} event")
    if type(kind) is not str:
        kind = plain(kind)
    if content is not None and type(content) is not str:
        content = plain(content)
    text = None if data is None else _data_json(kind, data, is_parsed, text)
    if text is not None or kind in TOOL_KINDS:
        check_message(kind, content, data)
    # Not Draft(…): of a long batch, that alone would be a tenth of the checking.
    return tuple.__new__(Draft, (kind, content, text, None if key is None else checked_key(key)))


def encoded(draft: Draft) -> EncodedDraft:
    """A draft with its texts as UTF-8."""
    kind, content, data, key = draft
    texts = None if content is None else content.encode(), None if data is None else data.encode()
    return EncodedDraft(kind, *texts, key)


def encoded_draft(kind: Any, content: Any, data: Any, key: Any) -> EncodedDraft:
    """What `encoded(draft(…, is_parsed=True))` returns or raises, at half the price, because the bytes that
    are checked are those that are kept."""
    texts = _checked_bytes(kind, content, data)
    if texts is None:
        return encoded(draft(kind, content, data, key, is_parsed=True))
    if data is not None or kind in TOOL_KINDS:
        check_message(kind, content, data)
    return tuple.__new__(EncodedDraft, (kind, *texts, None if key is None else checked_key(key)))


def _checked_bytes(kind: Any, content: Any, data: Any) -> tuple[bytes | None, bytes | None] | None:
    """The content and the data of an event as bytes, if nothing is unusual about them; else None."""
    if type(kind) is not str or kind not in KINDS or (content is None and kind in NEEDS_CONTENT):
        return None
    said = text = None
    if content is not None:
        try:
            said = content.encode() if type(content) is str else None
        except UnicodeEncodeError:
            return None
        if said is None or b"\0" in said:
            return None
    if data is not None:
        text = parsed_json(data, DEEPEST) if type(data) is dict and ERASED not in data else None
        if text is None:
            return None
    return said, text


def _data_json(kind: str, data: Any, is_parsed: bool, text: str | None) -> str:
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
    if text is None:
        exact = parsed_json(data, DEEPEST) if is_parsed else exact_json(data)
        text = _slower_json(kind, data) if exact is None else exact.decode()
    # Without that many brackets it cannot be as deep.
    if len(text) > 2 * DEEPEST and text.count("{") + text.count("[") > DEEPEST:
        _check_depth(data, DEEPEST, kind)
    return text


def _slower_json(kind: str, data: dict[str, Any]) -> str:
    """The text of data that orjson cannot serialize exactly; raises InvalidEvent if no JSON can."""
    try:
        text = to_json(data)
        survives = json.loads(text) == data
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(
            f"the data of this {kind} event is not JSON ({error})",
            remedy="use strings, finite numbers, true, false, null, lists and objects",
        ) from error
    if not survives:
        raise InvalidEvent(
            f"the data of this {kind} event would not be read back unchanged",
            remedy="use strings as keys, and lists instead of tuples",
        )
    check_text(text, f"the data of this {kind} event")
    return text


def _check_depth(value: dict[str, Any] | list[Any], deepest: int, kind: str) -> None:
    """Refuse data so deep that a reader with a deep call stack could not parse it."""
    if deepest < 0:
        raise InvalidEvent(
            f"the data of this {kind} event is nested more than {DEEPEST} levels deep",
            remedy="flatten it",
        )
    for within in value.values() if isinstance(value, dict) else value:
        if isinstance(within, dict | list):
            _check_depth(within, deepest - 1, kind)


def as_batch(events: Any) -> list[Any]:
    """The events of a batch, whatever they are given in."""
    if not isinstance(events, Iterable):
        raise Invalid(
            f"{events!r:.60} is not a batch", remedy="pass a list of (kind, content, data)"
        )
    return list(events)


def drafts(events: Iterable[Event | tuple[Any, ...]]) -> list[Draft]:
    """Checked events; an error names the index in the batch."""
    batch = as_batch(events)
    checked: list[Draft] = []
    try:
        with pause_gc(len(batch)):
            for event in batch:
                checked.append(_draft(event))
    except InvalidEvent as error:
        message = f"nothing was written: event {len(checked)} of the batch: {error.message}"
        raise InvalidEvent(message, remedy=error.remedy) from error
    return checked


def _draft(event: Event | tuple[Any, ...]) -> Draft:
    if isinstance(event, Event):
        return redrafted(event)
    if isinstance(event, (tuple, list)) and 1 <= len(event) <= 4:  # a union is slower
        return draft(*event)
    raise InvalidEvent(f"{event!r:.60} is not an event", remedy="pass it as (kind, content, data)")


def call_data(id: str, name: str, arguments: Any) -> dict[str, Any]:
    """The data of a tool call. If the arguments are the text of a JSON object, the object is kept, and the
    text beside it if serializing the object would not give it back."""
    data = {"id": id, "name": name, "arguments": arguments}
    value = parse_object(arguments) if isinstance(arguments, str) else None
    if value is None:
        return data
    data["arguments"] = value
    try:
        is_same = to_json(value) == arguments
    except ValueError:  # NaN, which only the text can express
        return data | {"arguments": arguments}
    return data if is_same else data | {"arguments_text": arguments}


def author(who: str | None) -> dict[str, Any]:
    """The part of an event's data that says who did it."""
    if who is not None and not isinstance(who, str):
        raise Invalid(f"by={who!r:.60} is not a name", remedy="pass a string")
    return {} if who is None else {"by": who}


def answered_call(call: Event) -> dict[str, Any]:
    """The part of a tool result's data that says which call it answers."""
    if not isinstance(call, Event):
        raise InvalidEvent(
            f"{call!r:.60} is not a tool call", remedy="pass the call's event or its id"
        )
    data = call.data or {}
    if call.kind != "tool_call" or "id" not in data:
        raise InvalidEvent(
            f"event {call.seq} ({call.kind}) is not a tool call with an id",
            remedy="pass the call's event or its id",
        )
    return {key: data[key] for key in ("id", "name") if key in data}
