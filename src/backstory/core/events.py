"""What is recorded: events, the table of their kinds, and the check at the door.

Pure: frozen values and the rules that need nothing but the value itself. Nothing here
knows about databases, agents or replay.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from backstory.core.messages import TOOL_KINDS, check_message
from backstory.errors import InvalidEvent


class Base(Enum):
    """Which position an event continues."""

    BEFORE = "the event before it"
    NOTHING = "position 0, the empty context"
    MARK = "a mark on the mark stack"
    ANYWHERE = "any earlier position"


class Kind(NamedTuple):
    """One row of the table of kinds."""

    base: Base
    shows: bool  # is it part of the context?
    speaks: bool  # does a model get it?


KINDS = {
    "system": Kind(Base.BEFORE, shows=True, speaks=True),
    "user": Kind(Base.BEFORE, shows=True, speaks=True),
    "assistant": Kind(Base.BEFORE, shows=True, speaks=True),
    "tool_call": Kind(Base.BEFORE, shows=True, speaks=True),
    "tool_result": Kind(Base.BEFORE, shows=True, speaks=True),
    "mark": Kind(Base.BEFORE, shows=True, speaks=False),
    "clear": Kind(Base.NOTHING, shows=False, speaks=False),
    "rewind": Kind(Base.MARK, shows=True, speaks=False),
    "jump": Kind(Base.ANYWHERE, shows=True, speaks=False),
}

MOVES = frozenset(k for k, kind in KINDS.items() if kind.base in (Base.MARK, Base.ANYWHERE))
ALWAYS_SHOWN = frozenset(k for k, kind in KINDS.items() if kind.shows) - MOVES
MUST_HAVE_TEXT = frozenset({"system", "user", "assistant", "tool_result"})

DEEPEST = 100  # levels of nested data

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(moment: datetime) -> int:
    """The microseconds since 1970 of an aware datetime, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    """The aware datetime of so many microseconds since 1970, exactly."""
    return EPOCH + timedelta(microseconds=microseconds)


class Row(NamedTuple):
    """An event as the databases keep it: five plain columns."""

    seq: int
    kind: str
    content: str | None
    data_json: str | None
    created_us: int


class Event(tuple[int, str, str | None, str | None, int]):
    """One immutable record of what happened. `Event.of(…)` makes one by hand.

    An event is its row and nothing else, so that ten thousand of them cost little more than the
    read itself: `data` and `created_at` are made from the row when somebody asks. `data` is a
    fresh dict each time, so changing it cannot change the event.
    """

    # A subclass of tuple and not of Row: Row(…) would run Python code for every event, while
    # Event(row) does not. The fields are read by Row's own descriptors.
    __slots__ = ()
    seq = Row.seq
    kind = Row.kind
    content = Row.content
    data_json = Row.data_json
    created_us = Row.created_us

    @classmethod
    def of(
        cls,
        seq: int,
        kind: str,
        content: str | None = None,
        data: dict[str, Any] | str | None = None,
        created_at: datetime = EPOCH,
    ) -> "Event":
        """An event from its values; `data` may also be the JSON text itself."""
        text = data if data is None or isinstance(data, str) else to_json(data)
        return cls((seq, kind, content, text, to_microseconds(created_at)))

    @property
    def data(self) -> dict[str, Any] | None:
        """The parsed JSON object; None where there is none, or where old data is broken."""
        return parse_object(self.data_json)

    @property
    def created_at(self) -> datetime:
        """When it was written, in UTC."""
        return to_datetime(self.created_us)

    @property
    def label(self) -> str | None:
        """A mark's label; None for a mark without one and for every other kind."""
        label = (self.data or {}).get("label") if self.kind == "mark" else None
        return label if isinstance(label, str) else None

    def __repr__(self) -> str:
        return (
            f"Event(seq={self.seq}, kind={self.kind!r}, content={self.content!r}, "
            f"data={self.data!r}, created_at={self.created_at.isoformat()!r})"
        )


def from_rows(rows: Iterable[tuple[Any, ...]]) -> list[Event]:
    """The events of rows in the order of `Row`'s columns."""
    return list(map(Event, rows))


def from_draft(seq: int, draft: "Draft") -> Event:
    """The event that a draft will be at a position, before it has a time."""
    return Event((seq, *draft, 0))


class Draft(NamedTuple):
    """An event that passed the door but has no position yet."""

    kind: str
    content: str | None
    data_json: str | None


def draft(kind: Any, content: Any = None, data: Any = None) -> Draft:
    """The door's check: a storable event, or InvalidEvent that says what to mend."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidEvent(f"unknown kind {kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    if content is None:
        if kind in MUST_HAVE_TEXT:
            raise InvalidEvent(f"this {kind} event has no content", remedy="pass a string, not None")
    elif not isinstance(content, str):
        raise InvalidEvent(
            f"the content of this {kind} event must be a string, not {type(content).__name__}",
            remedy="convert it first, or put structured values into data",
        )
    elif not content.isascii() or "\0" in content:
        _check_text(content, f"the content of this {kind} event")
    text = None if data is None else _data_json(kind, data)
    if text is not None or kind in TOOL_KINDS:
        check_message(kind, content, data)
    return Draft(kind, content, text)


def _data_json(kind: str, data: Any) -> str:
    if not isinstance(data, dict):
        raise InvalidEvent(
            f"the data of this {kind} event must be a dict or None, not {type(data).__name__}",
            remedy="pass a JSON object",
        )
    try:
        text = to_json(data)
        _check_depth(data, DEEPEST, kind)
        survives = json.loads(text) == data
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"the data of this {kind} event is not JSON ({error})") from error
    if not survives:
        raise InvalidEvent(
            f"the data of this {kind} event would not come back as it is",
            remedy="use strings as keys, and lists instead of tuples",
        )
    _check_text(text, f"the data of this {kind} event")
    return text


def _check_depth(value: dict[str, Any] | list[Any], deepest: int, kind: str) -> None:
    """Refuse what a reader deep in a program of its own could not parse any more."""
    if deepest < 0:
        raise InvalidEvent(
            f"the data of this {kind} event is nested more than {DEEPEST} levels deep", remedy="flatten it"
        )
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            _check_depth(inner, deepest - 1, kind)


def _check_text(text: str, what: str) -> None:
    """Refuse what one of the databases cannot hold, so that all of them agree."""
    if "\0" in text:
        raise InvalidEvent(f"{what} contains a NUL character (U+0000)", remedy="remove or escape it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidEvent(
            f"{what} contains a lone surrogate at character {error.start}, which is not valid Unicode",
            remedy="decode the text with errors='replace' first",
        ) from error


def to_json(value: Any) -> str:
    """Compact JSON text; what JSON cannot say (NaN, other objects) raises."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text, or None where there is none to be had."""
    try:
        value = json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
