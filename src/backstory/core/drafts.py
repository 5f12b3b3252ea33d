"""Batches: events as callers write them, as tuples or as events of another log. Pure."""

from collections.abc import Iterable
from typing import Any

from backstory.core.events import Draft, Event, draft
from backstory.errors import InvalidEvent


def drafts(events: Iterable[Event | tuple[Any, ...]]) -> list[Draft]:
    """Checked events; an error names the place in the batch."""
    checked = []
    for index, event in enumerate(events):
        try:
            checked.append(_draft(event))
        except InvalidEvent as error:
            message = f"nothing was written: event {index} of the batch: {error.message}"
            raise InvalidEvent(message, remedy=error.remedy) from error
    return checked


def _draft(event: Event | tuple[Any, ...]) -> Draft:
    if isinstance(event, Event):
        return draft(event.kind, event.content, event.data, event.key)
    if isinstance(event, tuple | list) and 1 <= len(event) <= 4:
        return draft(*event)
    raise InvalidEvent(f"{event!r:.60} is not an event", remedy="pass it as (kind, content, data)")
