"""Encodes JSON exactly, compares it, and escapes invisible characters.

orjson is several times faster than the standard library. It refuses or changes a few values that
Python's own JSON has: NaN, integers beyond 64 bits, lone surrogates. Callers decide what to do with
those.
"""

import json
from functools import cache
from typing import Any, NamedTuple

# Invisible characters that a terminal acts on, or that change how others are read: delete and C1,
# direction marks and overrides, separators, and zero-width characters.
UNSEEN = frozenset(
    (
        *range(0x7F, 0xA0),
        *(0xAD, 0x61C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
    )
)
DELETE = 0x7F  # an ASCII character, which json.dumps does not escape
ESCAPES = {code: json.dumps(chr(code))[1:-1] for code in UNSEEN} | {DELETE: "\\u007f"}


@cache
def import_orjson() -> Any:
    """Return orjson. It is imported when it is first needed, so that `import backstory` does not
    wait for it."""
    # orjson's own initialization imports these modules, and crashes the interpreter if Ctrl-C
    # interrupts that. If they are there already, it runs no Python code.
    import dataclasses  # noqa: F401
    import datetime  # noqa: F401
    import enum  # noqa: F401
    import uuid  # noqa: F401

    import orjson

    return orjson


class ExactCopy(NamedTuple):
    """The compact JSON text of a value, and the equal value that was parsed from the text."""

    text: bytes
    value: Any


def copy_exactly(value: Any) -> ExactCopy | None:
    """Return the JSON text of `value` and its copy, or None if orjson cannot write it exactly."""
    orjson = import_orjson()
    # orjson would write subclasses, dataclasses and dates, which are not JSON.
    refuse_others = (
        orjson.OPT_PASSTHROUGH_SUBCLASS
        | orjson.OPT_PASSTHROUGH_DATACLASS
        | orjson.OPT_PASSTHROUGH_DATETIME
    )
    try:
        text = orjson.dumps(value, None, refuse_others)
        copy = orjson.loads(text)
        is_exact = copy == value
    except (TypeError, ValueError, RecursionError):
        return None
    return ExactCopy(text, copy) if is_exact else None


def encode_exactly(value: Any) -> bytes | None:
    """Return the compact JSON text of `value`, or None if orjson cannot write it exactly."""
    copy = copy_exactly(value)
    return None if copy is None else copy.text


def is_same_json(one: Any, other: Any) -> bool:
    """Return True if two values are the same JSON, with the keys of objects in any order.

    To Python 1 and true are equal; to a reader of the JSON they are not.
    """
    return one == other and _to_sorted_json(one) == _to_sorted_json(other)


def _to_sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def escape_unseen(json_text: str) -> str:
    """Return JSON text with its invisible characters escaped."""
    if json_text.isascii() and chr(DELETE) not in json_text:
        return json_text
    return json_text.translate(ESCAPES)
