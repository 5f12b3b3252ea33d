"""The four shapes of an event, and JSON text.

A `Draft` has no position yet. An `Event` has one. A `StoredRow` is the complete row of an event,
with its base and digest. An `OutlineRow` is an event without its text.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

from backstory.log.times import EPOCH, to_datetime, to_microseconds

LAST_POSITION = 2**31 - 1  # no agent has more events

# An event to append: its kind, content, data and key. What comes last may be left out.
EventTuple = (
    tuple[str]
    | tuple[str, str | None]
    | tuple[str, str | None, dict[str, Any] | None]
    | tuple[str, str | None, dict[str, Any] | None, str | None]
)


class Event(NamedTuple):
    """One immutable record of what happened. `Event.of(…)` makes one by hand."""

    seq: int  # the position
    kind: str
    content: str | None
    data_json: str | None  # the data as JSON text
    created_us: int  # microseconds since 1970
    key: str | None  # unique in its lineage

    @classmethod
    def of(
        cls,
        seq: int,
        kind: str,
        content: str | None = None,
        data: dict[str, Any] | str | None = None,
        created_at: datetime = EPOCH,
        *,
        key: str | None = None,
    ) -> "Event":
        """Return an event with these values. `data` may also be JSON text."""
        if data is None or isinstance(data, str):
            data_json = data
        else:
            data_json = to_json(data)
        return cls(seq, kind, content, data_json, to_microseconds(created_at), key)

    @property
    def data(self) -> dict[str, Any] | None:
        """The parsed data, a new dict each time. None if there is none, or if it is broken."""
        return parse_object(self.data_json)

    @property
    def created_at(self) -> datetime:
        """The time of the event, in UTC."""
        return to_datetime(self.created_us)

    @property
    def label(self) -> str | None:
        """The label of a mark. None for a mark without one, and for every other kind."""
        if self.kind != "mark":
            return None
        data = self.data or {}
        label = data.get("label")
        return label if isinstance(label, str) else None

    def __repr__(self) -> str:
        key = "" if self.key is None else f", key={self.key!r}"
        return (
            f"Event(seq={self.seq}, kind={self.kind!r}, content={self.content!r}, "
            f"data={self.data!r}, created_at={self.created_at.isoformat()!r}{key})"
        )


class RepeatedEvent(Event):
    """An event that was there already, so that the call that returns it did not write it."""

    is_live = False  # True if the event, or a compaction's copy of it, is in the context
    removed: Sequence[Event] = ()  # of an undo or redo: as in `UndoEvent`
    returned: Sequence[Event] = ()

    @classmethod
    def build(cls, event: Event, is_live: bool) -> Self:
        """Return `event` as one that was found."""
        repeated = cls._make(event)
        repeated.is_live = is_live
        return repeated


class UndoEvent(Event):
    """An undo or redo, and what it changed."""

    removed: Sequence[Event] = ()  # the messages, notes and marks that left the context
    returned: Sequence[Event] = ()  # those that came back to it


class ErasedEvent(Event):
    """An event whose text was erased, or would be. Its copies may belong to other agents."""

    owner_id = ""  # the id of the agent that wrote it

    @classmethod
    def build(cls, event: Event, owner_id: str) -> "ErasedEvent":
        """Return `event` as one of an agent."""
        erased = cls._make(event)
        erased.owner_id = owner_id
        return erased


class Draft(NamedTuple):
    """An event that was checked and has no position yet."""

    kind: str
    content: str | None = None
    data_json: str | None = None
    key: str | None = None
    base: int | None = None  # the position that it continues; None: the event before
    created_us: int | None = None  # the time of an imported event; None: now

    def to_event(self, seq: int, created_us: int = 0) -> Event:
        """Return the event that this draft becomes at position `seq`."""
        return Event(seq, self.kind, self.content, self.data_json, created_us, self.key)


class StoredRow(NamedTuple):
    """The complete row of an event. In a damaged store, its values may have any type."""

    seq: int
    kind: str
    content: str | None
    data_json: str | None
    created_us: int
    key: str | None
    base: int | None
    digest: bytes
    salt: bytes | None = None  # random bytes in its digests; None if it is erased

    @property
    def event(self) -> Event:
        """The event without base, digest and salt."""
        return Event._make(self[:6])

    @property
    def size(self) -> int:
        """The bytes of its content and data."""
        return len((self.content or "").encode()) + len((self.data_json or "").encode())


class OutlineRow(NamedTuple):
    """An event of a lineage without its text."""

    seq: int
    kind: str
    size: int  # bytes of its content and data
    created_us: int
    base: int | None  # the position that it continues; None: the event before

    @property
    def created_at(self) -> datetime:
        """The time of the event, in UTC."""
        return to_datetime(self.created_us)


def to_json(value: Any) -> str:
    """Return compact JSON text. Raises ValueError or TypeError for NaN and other objects that JSON
    lacks."""
    return ENCODER.encode(value)


# `json.dumps` would make a new encoder for each text.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_object(text: str | None) -> dict[str, Any] | None:
    """Return the JSON object in `text`, or None if the text is not a JSON object."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
