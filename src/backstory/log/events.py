"""Events, the rows that they are kept as, and their keys, times and texts.

Pure: immutable values, and rules that need nothing but the value itself. Nothing here knows about databases,
agents or replay.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from backstory.errors import Invalid, InvalidEvent

if TYPE_CHECKING:
    _Columns = object
else:
    _Columns = tuple


LONGEST_KEY = 1_000  # characters
A_KEY = f"a key is a text of 1 to {LONGEST_KEY:,} characters"

TextAndData = tuple[str | None, str | None]  # an event's content, and the JSON of its data

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
EARLIEST, LATEST = (
    (moment.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND for moment in (datetime.min, datetime.max)
)


def to_microseconds(moment: datetime) -> int:
    """The microseconds since 1970 of an aware datetime, exactly."""
    since = moment - EPOCH
    return (
        since.days * 86_400 + since.seconds
    ) * 1_000_000 + since.microseconds  # faster than a division


def to_datetime(microseconds: int) -> datetime:
    """The aware datetime this many microseconds after 1970, exactly. A value out of range, as in a damaged
    store, becomes the earliest or latest date."""
    return EPOCH + timedelta(microseconds=min(max(microseconds, EARLIEST), LATEST))


class Row(NamedTuple):
    """An event as the databases keep it: plain columns."""

    seq: int
    kind: str
    content: str | None
    data_json: str | None
    created_us: int
    key: str | None


class Event(_Columns):
    """One immutable record of what happened. `Event.of(…)` makes one by hand.

    An event is its row and nothing else, so that ten thousand of them cost little more than the
    read itself: `data` and `created_at` are made from the row when someone asks. `data` is a
    fresh dict each time, so changing it cannot change the event.
    """

    # At run time a subclass of tuple and not of Row: Row(…) would run Python code for every event, while
    # Event(row) does not. The fields are read by Row's own descriptors. A type checker sees properties and no
    # tuple, so fields can be neither set nor read by index.
    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, row: Iterable[Any], /) -> None: ...
        @property
        def seq(self) -> int:
            """The position."""

        @property
        def kind(self) -> str:
            """Its kind, one of the table of kinds."""

        @property
        def content(self) -> str | None:
            """Its text."""

        @property
        def data_json(self) -> str | None:
            """Its data as JSON text."""

        @property
        def created_us(self) -> int:
            """When it was written, in microseconds since 1970."""

        @property
        def key(self) -> str | None:
            """Its key, unique in its lineage."""

    else:
        seq, kind, content, data_json, created_us, key = (
            getattr(Row, name) for name in Row._fields
        )

        def __eq__(self, other: object) -> bool:
            # Not NotImplemented: Python would then ask the other operand, for which this is an equal tuple.
            return isinstance(other, Event) and tuple.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = tuple.__hash__

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
        """An event from its values; `data` may also be the JSON text itself."""
        text = data if data is None or isinstance(data, str) else to_json(data)
        created_us = 0 if created_at is EPOCH else to_microseconds(created_at)
        return cls((seq, kind, content, text, created_us, key))

    @property
    def data(self) -> dict[str, Any] | None:
        """The parsed JSON object; None if there is none, or if stored data is broken."""
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
        key = "" if self.key is None else f", key={self.key!r}"
        return (
            f"Event(seq={self.seq}, kind={self.kind!r}, content={self.content!r}, "
            f"data={self.data!r}, created_at={self.created_at.isoformat()!r}{key})"
        )


def from_rows(rows: Iterable[tuple[Any, ...]]) -> list[Event]:
    """The events of rows in the order of `Row`'s columns."""
    return list(map(Event, rows))


class Columns(NamedTuple):
    """What a model may be given of many events, as columns: faster than making an object of each event."""

    seqs: Sequence[int]
    kinds: Sequence[str]
    contents: Sequence[str | None]
    data: Sequence[str | None]

    def events(self) -> list[Event]:
        """The events, without their times and keys."""
        return from_rows(zip(*self, repeat(0), repeat(None), strict=False))


def columns_of(events: Sequence[Event]) -> Columns:
    """The columns of events, unpacked together, which is several times faster."""
    rows = cast("Sequence[Row]", events)  # they are rows: see `Event`
    return columns_in(rows)


def columns_in(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """The columns of rows that begin with a position, a kind, a content and the text of the data."""
    seqs, kinds, contents, data, *_ = (
        zip(*rows, strict=True) if rows else ((),) * len(Columns._fields)
    )
    return Columns(seqs, kinds, contents, data)


class Stored(NamedTuple):
    """The whole row of an event in a store: its columns, its base and its digest. It may come from a damaged
    store, so the types hold only after it was checked."""

    seq: int
    kind: str
    content: str | None
    data_json: str | None
    created_us: int
    key: str | None
    base: int | None
    digest: bytes

    @classmethod
    def of(cls, event: Event, base: int | None, digest: bytes) -> "Stored":
        """The row of an event."""
        columns: Any = event
        return cls._make((*columns, base, digest))

    @property
    def event(self) -> Event:
        """The event alone."""
        return Event(self[: len(Row._fields)])


def stored_rows(rows: Iterable[tuple[Any, ...]]) -> list[Stored]:
    """The rows that a database returned, in the order of `Stored`'s columns."""
    return list(map(_stored, rows))


# Not `Stored._make`, which is written in Python.
_stored: Callable[[tuple[Any, ...]], Stored] = partial(tuple.__new__, Stored)


class EncodedRow(NamedTuple):
    """The row of a new event with its texts as UTF-8, of which digests and frames are made: where there are
    very many events, each conversion of a text counts."""

    seq: int
    kind: str
    content: bytes | None
    data: bytes | None
    created_us: int
    key: str | None
    base: int | None
    digest: bytes


def decoded(text: bytes | None) -> str | None:
    """A text of an encoded row."""
    return None if text is None else text.decode()


def decoded_rows(rows: Iterable[EncodedRow]) -> list[Stored]:
    """Encoded rows for a database that takes texts."""
    return [Stored(row[0], row[1], decoded(row[2]), decoded(row[3]), *row[4:]) for row in rows]


def checked_key(key: Any) -> str:
    """A key of an event or agent: any text of 1 to 1,000 characters; raises Invalid."""
    if not isinstance(key, str):
        raise Invalid(f"{A_KEY}, not {type(key).__name__}", remedy="pass a string")
    if not key:
        raise Invalid(f"{A_KEY}, and this one is empty", remedy="leave it out, or use another one")
    if len(key) > LONGEST_KEY:
        raise Invalid(f"{A_KEY}, and this one has {len(key):,}", remedy="use its hash")
    if not key.isascii() or "\0" in key:
        check_text(key, "the key")
    return plain(key)


def checked_keys(keys: Any) -> list[str]:
    """Keys of events; raises Invalid, also for a single text, whose letters would be keys."""
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise Invalid(f"{keys!r:.60} is not a list of keys", remedy="pass [key, …]")
    return [checked_key(key) for key in keys]


def checked_prefix(prefix: Any) -> str:
    """A prefix of keys, which may be empty; raises Invalid."""
    return "" if prefix == "" else checked_key(prefix)


def moment_us(moment: Any) -> int:
    """The microseconds since 1970 of an aware datetime; raises Invalid for anything else."""
    if not isinstance(moment, datetime):
        raise Invalid(f"{moment!r:.60} is not a time", remedy="pass an aware datetime")
    if moment.tzinfo is None:
        raise Invalid(f"{moment.isoformat()} has no time zone", remedy="pass an aware datetime")
    return to_microseconds(moment)


def plain(text: str) -> str:
    """The text as a plain `str`. A member of a string enum is a `str`, too, but `str(…)`, f-strings and
    drivers disagree whether that means its name or its value."""
    return text if type(text) is str else str.__str__(text)


def check_text(text: str, what: str) -> None:
    """Refuse text that one of the databases cannot store, so that all of them agree."""
    if "\0" in text:
        raise InvalidEvent(
            f"{what} contains a NUL character (U+0000)", remedy="remove or escape it"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidEvent(
            f"{what} contains a lone surrogate at character {error.start}, which is not valid Unicode",
            remedy="decode the text with errors='replace' first",
        ) from error


def to_json(value: Any) -> str:
    """Compact JSON text; raises for NaN and objects that JSON does not have."""
    return _encoder.encode(value)


# `json.dumps` would make one for each text.
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text, or None if it has none."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
