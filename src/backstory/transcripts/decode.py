"""From bytes to JSON values that an event can hold, even if a crash damaged them. Pure."""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

import orjson

from backstory.transcripts.transcript import Fault, Report

ESCAPED = "U+0000 or a lone surrogate, escaped"
REPLACED = "bytes that are not UTF-8, replaced"
SEVERAL = "several records in one line"
LONGEST_TEXT = 1 << 20  # of a text in a line that is too long for memory
_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")
_IN_STRING = re.compile(rb'[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u]|"')
LONGEST_ESCAPE = 6


class Decoded(NamedTuple):
    """A decoded line."""

    values: list[Any]
    mended: tuple[str, ...] = ()
    fault: str | None = None  # why the rest of it is not JSON


def decode(line: bytes) -> Decoded:
    """The JSON values in a line: usually one; two if a newline was lost; what can be saved if it is damaged.

    They may contain U+0000: `held` escapes it when a text becomes the content of an event.
    """
    try:
        return Decoded([orjson.loads(line)])
    except orjson.JSONDecodeError:
        return _salvage(line)


def held(text: str) -> str:
    """A text as every store can hold it: U+0000 as an escape."""
    return text.replace("\0", "\\u0000") if "\0" in text else text


def decoded(text: Any, path: str, report: Report) -> Any:
    """The JSON value in a column of a database; if there is none, None and a line in the report."""
    found = decode(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text or b"")
    )
    report.mended.update(found.mended)
    if found.fault is not None or not found.values:
        report.damaged.append(Fault(path, None, found.fault or "empty"))
        return None
    return found.values[0]


def _salvage(line: bytes) -> Decoded:
    text = line.decode("utf-8", "replace").strip("\x00 \t\r\n\ufeff")
    mended = [] if "\ufffd" not in text or b"\xef\xbf\xbd" in line else [REPLACED]
    values: list[Any] = []
    fault = None
    at = 0
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except ValueError as error:
            fault = f"not JSON: {error}"
            break
        except RecursionError:
            fault = "nested too deep"
            break
        value, escaped = clean(value)
        mended.extend([ESCAPED] if escaped else [])
        values.append(value)
        while at < len(text) and text[at] in " \t\r\n\x00":
            at += 1
    if len(values) > 1:
        mended.append(SEVERAL)
    return Decoded(values, tuple(dict.fromkeys(mended)), fault)


def _number(text: str) -> float | str:
    """A number, or the text of one that is too large for any."""
    value = float(text)
    return value if isfinite(value) else text


_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda name: name, parse_float=_number)


def clean(value: Any) -> tuple[Any, bool]:
    """The value with what no store can hold escaped, and whether there was anything to escape."""
    if isinstance(value, str):
        if _UNHOLDABLE.search(value) is None:
            return value, False
        return _UNHOLDABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value), True
    if isinstance(value, list):
        items = [clean(item) for item in value]
        return [item for item, _ in items], any(changed for _, changed in items)
    if isinstance(value, dict):
        pairs = [(clean(key), clean(inner)) for key, inner in value.items()]
        changed = any(key[1] or inner[1] for key, inner in pairs)
        return {key[0]: inner[0] for key, inner in pairs}, changed
    return value, False


def shortened(chunks: Iterator[bytes], longest: int = LONGEST_TEXT) -> bytes:
    """A JSON text with its longest strings shortened, so that it fits into memory: each of them ends with how
    many bytes were left out. Nothing else is changed."""
    out = bytearray()
    inside = False
    kept = dropped = 0
    rest = b""
    for chunk in chunks:
        data, rest, at = rest + chunk, b"", 0
        while at < len(data):
            if not inside:
                end = data.find(b'"', at) + 1 or len(data)
                inside, kept, dropped = data[end - 1 : end] == b'"', 0, 0
                out += data[at:end]
                at = end
                continue
            token = _IN_STRING.match(data, at)
            if token is None and len(data) - at < LONGEST_ESCAPE:
                rest = data[at:]
                break
            piece = token[0] if token is not None else data[at : at + 1]
            at += len(piece)
            if piece == b'"':
                _close(out, dropped)
                inside = False
                continue
            room = longest - kept if not dropped else 0
            taken = piece if len(piece) <= room else b"" if piece[:1] == b"\\" else piece[:room]
            out += taken
            kept += len(taken)
            dropped += len(piece) - len(taken)
    return bytes(out) + rest


def _close(out: bytearray, dropped: int) -> None:
    """End a string; if it was shortened, not within a character."""
    if dropped:
        for size in range(1, 4):
            lead = out[-size]
            if lead >= 0xC0:
                if size < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4):
                    del out[-size:]
                break
            if lead < 0x80:
                break
        out += f"… ({dropped} bytes left out)".encode()
    out += b'"'


def keys_of(text: str) -> frozenset[str]:
    """The top-level keys in the beginning of a JSON object, or of an array of objects."""
    found: set[str] = set()
    depth = 0
    top = 2 if text.lstrip()[:1] == "[" else 1
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        elif depth == top and token["key"]:
            found.add(token["name"])
    return frozenset(found)


_TOKEN = re.compile(r'[{}\[\]]|"(?P<name>[^"\\]*(?:\\.[^"\\]*)*)"(?P<key>\s*:)?')
