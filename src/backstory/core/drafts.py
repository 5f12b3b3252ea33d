"""Turns what callers pass into drafts: tuples or events of another log. Also makes parts of an event's data.
Pure."""

from collections.abc import Iterable
from typing import Any

from backstory.core.events import Draft, Event, draft, parse_object, redrafted, to_json
from backstory.core.gc_pause import pause_gc
from backstory.errors import Invalid, InvalidEvent


def as_batch(events: Any) -> list[Any]:
    """The events of a batch, whatever they are given in."""
    if not isinstance(events, Iterable):
        raise Invalid(f"{events!r:.60} is not a batch", remedy="pass a list of (kind, content, data)")
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
        raise InvalidEvent(f"{call!r:.60} is not a tool call", remedy="pass the call's event or its id")
    data = call.data or {}
    if call.kind != "tool_call" or "id" not in data:
        raise InvalidEvent(
            f"event {call.seq} ({call.kind}) is not a tool call with an id",
            remedy="pass the call's event or its id",
        )
    return {key: data[key] for key in ("id", "name") if key in data}
