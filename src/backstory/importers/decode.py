"""From bytes to JSON values that an event can hold, whatever a crash made of them. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

ESCAPED = "U+0000 or a lone surrogate, escaped"
REPLACED = "bytes that are not UTF-8, replaced"
SEVERAL = "several records in one line"
LONGEST_TEXT = 1 << 20  # of a text in a line that is too long to be held
_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")
_QUOTE = re.compile(rb'["\\]')
_CUT_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3})?\Z")


class Decoded(NamedTuple):
    """What a line came to."""

    values: list[Any]
    mended: tuple[str, ...] = ()
    fault: str | None = None  # why the rest of it is no JSON


def decode(line: bytes) -> Decoded:
    """The JSON values in a line: one, as a rule; two if a newline was lost; what is left if it is broken."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _salvage(line)
    if b"\\u0000" in line:
        value, escaped = clean(value)
        return Decoded([value], (ESCAPED,) if escaped else ())
    return Decoded([value])


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


_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda name: name)


def clean(value: Any) -> tuple[Any, bool]:
    """The value with what no store can hold written as an escape, and whether there was any."""
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
    """A JSON text without the greater part of its longest strings, so that it can be held: each of those ends
    with how many bytes were left out. Nothing else is changed."""
    out = bytearray()
    inside = escaped = False
    begun = dropped = 0
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            if escaped:
                end, escaped = at + 1, False
            else:
                found = _QUOTE.search(chunk, at) if inside else None
                end = (found.start() if found else len(chunk)) if inside else chunk.find(b'"', at)
                end = len(chunk) if end < 0 else end
            room = len(chunk) if not inside else max(0, longest - (len(out) - begun))
            out += chunk[at : min(end, at + room)]
            dropped += max(0, end - at - room)
            at = end
            if at >= len(chunk):
                break
            if inside and chunk[at : at + 1] == b"\\" and not escaped:
                if len(out) - begun < longest:
                    out += b"\\"
                else:
                    dropped += 1
                escaped = True
            elif chunk[at : at + 1] == b'"':
                if inside and dropped:
                    _close(out, dropped)
                out += b'"'
                inside, dropped, begun = not inside, 0, len(out)
            at += 1
    return bytes(out)


def _close(out: bytearray, dropped: int) -> None:
    """End a string that was cut: not within a character, not within an escape."""
    tail = bytes(out[-16:])
    whole = _CUT_ESCAPE.sub(b"", tail.decode("utf-8", "ignore").encode("utf-8"))
    out[-16:] = whole if tail.decode("utf-8", "ignore") else b""
    out += f"… ({dropped} bytes left out)".encode()


def keys_of(text: str) -> frozenset[str]:
    """The keys at the top of a JSON object of which only the beginning is there."""
    found: set[str] = set()
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        elif depth == 1 and token["key"]:
            found.add(token["name"])
    return frozenset(found)


_TOKEN = re.compile(r'[{}\[\]]|"(?P<name>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?')
