"""The exact JSON of a framework's message, kept as text in the data of an event. Pure.

Most of the text repeats what the event contains anyway: its content, the arguments of a call, the
native blocks, the data of files. Each of these is replaced by a control character. JSON text never
contains one, because it escapes them, so putting the parts back gives the same text again, whatever
the message is.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.log.data_keys import ITEM, NATIVE

SHORTEST = 40  # characters of JSON; replacing less saves nothing
NATIVE_MARK = "\x01"
ARGUMENTS_MARK = "\x02"
CONTENT_MARK = "\x03"
FILE_MARKS = [chr(code) for code in range(4, 32)]  # of the data of the first 28 native blocks
NATIVE_IS_ITEM = "item"  # as native form: the item is the provider's own form, and stored once

# The text is ASCII, so every store accepts it, lone surrogates and U+0000 included.
_write_json = json.JSONEncoder(separators=(",", ":")).encode


class ItemPart(NamedTuple):
    """The part of a framework's item that an event is.

    An item of three events is written as below: the last one contains the text of all of them, and
    the others say how many follow.

        {"of": "adk", "part": 2}
        {"of": "adk", "part": 1}
        {"of": "adk", "json": "…", "events": 3}
    """

    rest: int = 0  # the number of events of the item that follow this one
    total: int | None = None  # the number of events of the item, if this is its last one


def read_item_part(data: dict[str, Any]) -> ItemPart:
    """Return the part of an item that the event with this data is."""
    item = data.get(ITEM)
    if not isinstance(item, dict):
        return ItemPart()
    rest = item.get("part")
    if type(rest) is int:
        return ItemPart(rest)
    total = item.get("events")
    return ItemPart(total=total) if type(total) is int else ItemPart()


def write_item(value: Any) -> str:
    """Return the JSON text of a framework's message. Raises TypeError, ValueError or
    RecursionError if it is not JSON."""
    return _write_json(value)


def shorten_item(text: str, content: str | None, data: dict[str, Any]) -> str:
    """Shorten the text of an item for an event with this content and data."""
    for mark, known in _list_known_texts(content, data):
        if len(known) >= SHORTEST:
            text = text.replace(known, mark)
    return text


def restore_item(text: str, content: str | None, data: dict[str, Any]) -> str:
    """Return the text that `shorten_item` was given."""
    if text.isprintable():
        return text
    for mark, known in reversed(list(_list_known_texts(content, data))):
        text = text.replace(mark, known)
    return text


def read_item(content: str | None, data: dict[str, Any]) -> Any:
    """Return the item in the data of an event."""
    return read_json(restore_item(data[ITEM]["json"], content, data))


def read_json(text: str) -> Any:
    """Return the value of the text that `write_item` gave."""
    # Not orjson: it refuses NaN and lone surrogates and reads 2**70 as a float. To look for these
    # first takes longer than json does.
    return json.loads(text)


def fill_native_item(data: dict[str, Any], content: str | None) -> dict[str, Any]:
    """Return the data of an event with its item as the native form, if that is where it is."""
    native = data.get(NATIVE)
    if not isinstance(native, dict) or native.get("wire") != NATIVE_IS_ITEM:
        return data
    item = data.get(ITEM)
    if not isinstance(item, dict) or not isinstance(item.get("json"), str):
        return data
    try:
        form = read_item(content, data)
    except ValueError:  # damaged: its own text and calls are still readable
        return data
    return {**data, NATIVE: {**native, "wire": [form]}}


def _list_known_texts(content: str | None, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the JSON texts that an event contains anyway, each with its mark."""
    native = data.get(NATIVE)
    blocks = native.get("wire") if isinstance(native, dict) else None
    if isinstance(blocks, list):
        yield NATIVE_MARK, _write_json(blocks)[1:-1]
        for mark, block in zip(FILE_MARKS, blocks, strict=False):
            if isinstance(block, dict) and isinstance(block.get("data"), str):
                yield mark, _write_json(block["data"])[1:-1]
    if data.get("arguments"):
        yield ARGUMENTS_MARK, _write_json(data["arguments"])
    if content:
        yield CONTENT_MARK, _write_json(content)
