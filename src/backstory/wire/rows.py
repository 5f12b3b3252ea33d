"""From messages to rows that the repair can trust: kind, text and data of sound types.

Old logs hold what they hold: a text that is not a string, data that JSON cannot carry back out. Whatever
it is, it comes out of here as something that can be written to a wire, and nothing raises.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from backstory.log.events import Event
from backstory.log.kinds import CONTROL_KINDS, MESSAGE_KINDS, TEXT_KINDS
from backstory.log.messages import Message
from backstory.wire.holes import HOLE, with_filled
from backstory.wire.json_values import clean_value, is_exact, is_unicode, parse

Report = Callable[[str, int | None, str], None]  # takes the fields of a Repair
Row = tuple[int | None, str, str, dict[str, Any] | None]  # position, kind, text, data
Readable = Event | Message | tuple[Any, ...]
LONG = 10_000  # the standard library reads long strings faster than orjson does, and exactly


def rows(messages: Iterable[Readable], report: Report) -> Iterator[Row]:
    """The spoken messages as rows, their positions or, where they have none, their indexes first."""
    for index, message in enumerate(messages):
        raw: Any
        if isinstance(message, Event):
            at, kind, text, raw, _, _ = message
        else:
            seq, kind, text, raw = _fields(message)
            at = index if seq is None else seq
        if kind not in MESSAGE_KINDS:
            if kind not in CONTROL_KINDS:
                report("kind", at, f"{kind!r} is not a known kind of message, so it is left out")
            continue
        if type(text) is not str or not (text.isascii() or is_unicode(text)):
            text = _as_text(text)
        data = None
        if raw is not None:
            if isinstance(message, Event):
                data = read_data(at, kind, raw, report)
            else:
                data = repair_data(at, kind, raw, report)
            # A message has no text to look at for holes.
            if data and "native" in data and (type(raw) is not str or HOLE in raw):
                data = with_filled(data, text)
        yield at, kind, text, data


def read_data(at: int | None, kind: str, text: str, report: Report) -> dict[str, Any] | None:
    """Return the data of an event as a dict that JSON can carry."""
    if type(text) is str and len(text) < LONG:
        try:
            data = parse(text)
        except ValueError:  # NaN, half of a surrogate pair: the standard library reads them
            data = None
        if type(data) is dict and is_exact(data):
            return data
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError):  # TypeError: SQLite keeps what it was given
        data = None
    if data is None and '"native"' in str(text):
        report("data", at, "its data cannot be read: the native content in it is left out")
    return repair_data(at, kind, data, report)


def _fields(message: Any) -> tuple[int | None, Any, Any, Any]:
    if isinstance(message, Message):
        return message.seq, message.kind, message.content, message.data
    kind, content, data = (*(message if isinstance(message, tuple) else ()), None, None, None)[:3]
    return None, kind if isinstance(kind, str) else repr(kind), content, data


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value.encode(errors="replace").decode() if isinstance(value, str) else str(value)


def repair_data(at: int | None, kind: str, data: Any, report: Report) -> dict[str, Any] | None:
    """Return data without what JSON cannot carry, and report what is replaced."""
    if not isinstance(data, dict):
        return None
    if kind in TEXT_KINDS:
        data = {name: data[name] for name in ("native", "answer") if name in data}
    cleaned: dict[str, Any] = clean_value(data)
    if cleaned != data:
        report(
            "data",
            at,
            f"JSON cannot carry all of the data of this {kind}: what it cannot is replaced",
        )
    return cleaned
