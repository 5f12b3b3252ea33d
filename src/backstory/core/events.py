"""Events, and the checks that every new one must pass.

Pure: immutable values, and rules that need nothing but the value itself. Nothing here knows about databases,
agents or replay.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from backstory.core.chain import ERASED, inner, is_erased
from backstory.core.json_text import compact_object, exact_json, is_same_json, parsed_json
from backstory.core.kinds import KINDS, NEEDS_CONTENT, TOOL_KINDS
from backstory.core.messages import check_message
from backstory.errors import Invalid, InvalidEvent

if TYPE_CHECKING:
    _Columns = object
else:
    _Columns = tuple


DEEPEST = 100  # levels of nested data
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
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds  # faster than a division


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
        seq, kind, content, data_json, created_us, key = (getattr(Row, name) for name in Row._fields)

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
    seqs, kinds, contents, data, *_ = zip(*rows, strict=True) if rows else ((),) * len(Columns._fields)
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
        return self.data_json == event.data_json or is_same_json(parse_object(self.data_json), event.data)


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
            raise InvalidEvent(f"this {kind} event has no content", remedy="pass a string, not None")
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
        text = parsed_json(data) if type(data) is dict and ERASED not in data else None
        if text is None or text.count(b"{") + text.count(b"[") > DEEPEST:
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
        exact = parsed_json(data) if is_parsed else exact_json(data)
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
            f"the data of this {kind} event is nested more than {DEEPEST} levels deep", remedy="flatten it"
        )
    for within in value.values() if isinstance(value, dict) else value:
        if isinstance(within, dict | list):
            _check_depth(within, deepest - 1, kind)


def plain(text: str) -> str:
    """The text as a plain `str`. A member of a string enum is a `str`, too, but `str(…)`, f-strings and
    drivers disagree whether that means its name or its value."""
    return text if type(text) is str else str.__str__(text)


def check_text(text: str, what: str) -> None:
    """Refuse text that one of the databases cannot store, so that all of them agree."""
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
    """Compact JSON text; raises for NaN and objects that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text, or None if it has none."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
