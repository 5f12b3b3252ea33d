"""Decodes JSON texts, even if a crash damaged them, to values that an event can contain. Pure."""

import json
import operator
import re
from math import isfinite
from typing import Any, NamedTuple

import orjson

from backstory.transcripts.model import Fault, ImportReport

ESCAPED = "U+0000 or a lone surrogate, escaped"
REPLACED = "bytes that are not UTF-8, replaced"
SEVERAL = "several records in one line"
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


class DecodedLine(NamedTuple):
    """The values in a line of JSON."""

    values: list[Any]
    mended: tuple[str, ...] = ()
    fault: str | None = None  # why the rest of it is not JSON


def decode_line(line: bytes) -> DecodedLine:
    """Return the values in a line: one, several if a newline was lost, the readable ones if it is
    damaged. They may contain U+0000, which `escape_nul` replaces in the content of an event."""
    try:
        return DecodedLine([orjson.loads(line)])
    except orjson.JSONDecodeError:
        return _decode_damaged(line)


def escape_nul(text: str) -> str:
    """Return a text as every store can store it: U+0000 as an escape."""
    if "\0" not in text:
        return text
    return text.replace("\0", "\\u0000")


def decode_column(text: Any, path: str, report: ImportReport) -> Any:
    """Return the JSON value in a column of a database. If there is none, report it."""
    data = text if isinstance(text, bytes) else str(text or "").encode("utf-8", "surrogatepass")
    found = decode_line(data)
    report.mended.update(found.mended)
    if found.fault is not None or not found.values:
        report.damaged.append(Fault(path, None, found.fault or "empty"))
        return None
    return found.values[0]


def _decode_damaged(line: bytes) -> DecodedLine:
    text = line.decode("utf-8", "replace").strip("\x00 \t\r\n\ufeff")
    mended = []
    if "\ufffd" in text and b"\xef\xbf\xbd" not in line:
        mended.append(REPLACED)
    values: list[Any] = []
    fault = None
    position = 0
    while position < len(text):
        try:
            value, position = DECODER.raw_decode(text, position)
            value, was_escaped = escape_value(value)
        except ValueError as error:
            fault = f"not JSON: {error}"
            break
        except RecursionError:
            fault = "nested too deep"
            break
        if was_escaped:
            mended.append(ESCAPED)
        values.append(value)
        while position < len(text) and text[position] in " \t\r\n\x00":
            position += 1
    if len(values) > 1:
        mended.append(SEVERAL)
    return DecodedLine(values, tuple(dict.fromkeys(mended)), fault)


def _parse_number(text: str) -> float | str:
    value = float(text)
    return value if isfinite(value) else text


DECODER = json.JSONDecoder(
    strict=False, parse_constant=lambda name: name, parse_float=_parse_number
)


def escape_value(value: Any) -> tuple[Any, bool]:
    """Return a value with what no store can store escaped, and True if there was any of that."""
    escaped = _escape(value)
    return escaped, escaped is not value


def _escape(value: Any) -> Any:
    """Return the value itself if there is nothing to escape."""
    if isinstance(value, str):
        if _NOT_STORABLE.search(value) is None:
            return value
        return _NOT_STORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, list):
        items = [_escape(item) for item in value]
        is_same = all(map(operator.is_, items, value))
        return value if is_same else items
    if isinstance(value, dict):
        pairs = {_escape(key): _escape(inner) for key, inner in value.items()}
        is_same = all(map(operator.is_, pairs, value)) and all(
            map(operator.is_, pairs.values(), value.values())
        )
        return value if is_same else pairs
    return value


# A bracket, or a string with its name if it is a key.
TOKEN = re.compile(r'[{}\[\]]|"(?P<name>[^"\\]*(?:\\.[^"\\]*)*)"(?P<key>\s*:)?')
