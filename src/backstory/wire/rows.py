"""From messages to rows that the repair can trust: kind, text and data of sound types.

Old logs hold what they hold: a text that is not a string, data that JSON cannot carry back out. Whatever
it is, it comes out of here as something that can be written to a wire, and nothing raises.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from backstory.log.events import Event
from backstory.log.kinds import CONTROL_KINDS, MESSAGE_KINDS, TEXT_KINDS
from backstory.log.messages import Message
from backstory.wire.columns import Columns
from backstory.wire.holes import HOLE, with_filled
from backstory.wire.json_values import DEEPEST, clean_value, is_unicode, refuse_constant

Report = Callable[[str, int | None, str], None]  # takes the fields of a Repair
Row = tuple[int | None, str, str, dict[str, Any] | None]  # position, kind, text, data
Readable = Event | Message | tuple[Any, ...]


class Gathered(Sequence[Event]):
    """Events that do not change, as columns. Objects are made of them only when one is looked at."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns.kinds)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._events[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    @cached_property
    def _events(self) -> list[Event]:
        return self.columns.events()


def rows(messages: Iterable[Readable], report: Report) -> Iterator[Row]:
    """The spoken messages as rows, their positions or, where they have none, their indexes first."""
    for index, message in enumerate(messages):
        if isinstance(message, Event):
            at, kind, text = message.seq, message.kind, message.content
            raw, sound = (None, True) if message.data_json is None else _parsed(message.data_json)
            has_holes = type(message.data_json) is str and _holds(message.data_json, HOLE)
        else:
            seq, kind, text, raw = _fields(message)
            at, sound = index if seq is None else seq, raw is None
            has_holes = True  # perhaps: there is no text to look at
        if kind not in MESSAGE_KINDS:
            if kind not in CONTROL_KINDS:
                report("kind", at, f"{kind!r} is not a known kind of message, so it is left out")
            continue
        if type(text) is not str or not (text.isascii() or is_unicode(text)):
            text = _as_text(text)
        data = raw if sound else _sound(at, kind, raw, report)
        if data is None and not sound and _names_native(message):
            report("data", at, "its data cannot be read: the native content in it is left out")
        if has_holes and data and "native" in data:
            data = with_filled(data, text)
        yield at, kind, text, data


def _names_native(message: Any) -> bool:
    """Whether there was native content in data that cannot be parsed."""
    return isinstance(message, Event) and '"native"' in str(message.data_json)


def _fields(message: Any) -> tuple[int | None, Any, Any, Any]:
    if isinstance(message, Message):
        return message.seq, message.kind, message.content, message.data
    kind, content, data = (*(message if isinstance(message, tuple) else ()), None, None, None)[:3]
    return None, kind if isinstance(kind, str) else repr(kind), content, data


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value.encode(errors="replace").decode() if isinstance(value, str) else str(value)


def _parsed(text: str) -> tuple[Any, bool]:
    """What a JSON text says, and whether that can be taken as it is. Looking at the text is cheaper
    than walking the value, and nearly all data is sound."""
    try:
        data = _strictly(text) if len(text) < _LONG else _with_long_strings(text)
    except (ValueError, TypeError, RecursionError):  # TypeError: SQLite keeps whatever it was given
        return _leniently(text), False
    if not isinstance(data, dict) or _may_be_deep(text):
        return data, False
    return data, not (_holds(text, "\\u") and any(sign in text for sign in _SIGNS))


_SIGNS = ("\\ud", "\\uD")
_LONG = 10_000
_FEW = 100  # strings
_MARK = "\\u0000"  # as JSON has it


def _holds(text: str, sign: str) -> bool:
    """Whether a character is in a text: a search for one character is many times faster, and images are
    large."""
    return sign[0] in text and sign in text


def _may_be_deep(text: str) -> bool:
    """Whether there are more brackets in a text than levels are allowed. In long texts they are looked for
    one by one: there they are rare, and counting reads every character."""
    if len(text) < _LONG:
        return text.count("[") + text.count("{") > DEEPEST
    return _has_more(text, "[", DEEPEST // 2) or _has_more(text, "{", DEEPEST // 2)


def _has_more(text: str, sign: str, most: int) -> bool:
    place = -1
    for _ in range(most + 1):
        place = text.find(sign, place + 1)
        if place < 0:
            return False
    return True


def _with_long_strings(text: str) -> Any:
    """What a long JSON text says. Its long strings are images, most of the time, which no parser has to read
    character by character: they are cut out of the text first, and put into what is left of it."""
    short, cut = _without_long_strings(text)
    return _put_back(_strictly(short), cut) if cut else _strictly(text)


def _without_long_strings(text: str) -> tuple[str, list[str]]:
    """A JSON text with marks for its long strings, and these. Without a backslash they say what they say."""
    if _holds(text, _MARK) or _has_more(text, '"', len(text) // _LONG + _FEW):
        return text, []
    pieces: list[str] = []
    cut: list[str] = []
    done, opening = 0, text.find('"')
    while opening >= 0:
        closing = _end_of_string(text, opening)
        if closing - opening > _LONG and "\\" not in (string := text[opening + 1 : closing]):
            pieces += (text[done : opening + 1], f"{_MARK}{len(cut)}")
            cut.append(string)
            done = closing
        opening = text.find('"', closing + 1)
    return "".join((*pieces, text[done:])), cut


def _end_of_string(text: str, opening: int) -> int:
    """The position of the quote that ends a string: not one with an odd number of backslashes before it."""
    closing = text.index('"', opening + 1)
    while text[closing - 1] == "\\":
        before = text[opening + 1 : closing]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            break
        closing = text.index('"', closing + 1)
    return closing


def _put_back(value: Any, cut: list[str]) -> Any:
    match value:
        case str() if value.startswith("\0"):
            return cut[int(value[1:])]
        case dict():
            return {_put_back(key, cut): _put_back(item, cut) for key, item in value.items()}
        case list():
            return [_put_back(item, cut) for item in value]
    return value


def _leniently(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else refuse_constant(text)  # 1e999, say


_strictly = json.JSONDecoder(parse_float=_finite, parse_constant=refuse_constant).decode


def _sound(at: int | None, kind: str, data: Any, report: Report) -> dict[str, Any] | None:
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
