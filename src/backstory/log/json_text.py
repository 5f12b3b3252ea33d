"""JSON text that is guaranteed to be parsed as an equal value. Pure.

orjson is several times faster than the standard library. It refuses or changes a few values that Python's own
JSON has: NaN, whole numbers beyond 64 bits, lone surrogates. Those are left to the caller.
"""

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any


@cache
def _orjson() -> tuple[Callable[[Any], bytes], Callable[[bytes | str], Any]]:
    """How orjson writes and reads; imported here, so that `import backstory` does not wait for it."""
    import orjson

    # Subclasses, dataclasses and dates are not JSON, but orjson would write them.
    as_it_is = (
        orjson.OPT_PASSTHROUGH_SUBCLASS
        | orjson.OPT_PASSTHROUGH_DATACLASS
        | orjson.OPT_PASSTHROUGH_DATETIME
    )
    dumps = orjson.dumps
    return lambda value: dumps(value, None, as_it_is), orjson.loads


def exact_json(value: Any) -> bytes | None:
    """Compact JSON that is parsed as an equal value; None if orjson cannot provide it."""
    dumps, loads = _orjson()
    try:
        text = dumps(value)
        return text if loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def exact_copy(value: Any) -> tuple[bytes, Any] | None:
    """The same JSON, and the equal value that was parsed from it."""
    dumps, loads = _orjson()
    try:
        text = dumps(value)
        copy = loads(text)
        return (text, copy) if copy == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def parsed_json(value: dict[str, Any], deepest: int) -> bytes | None:
    """The same for an object that a JSON parser gave, which need not be compared; None also if it is nested
    more than `deepest` levels deep."""
    dumps, _ = _orjson()
    try:
        return dumps(value) if _is_exact(value.values(), deepest) else None
    except (TypeError, ValueError, RecursionError):
        return None


def _is_exact(values: Iterable[Any], deepest: int) -> bool:
    """Whether parsed values are not too deep, and none is a number that is not finite: Python parses 1e400 as
    infinity, for which orjson writes null. Looking at the values is faster than searching their text, which
    may be long."""
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is dict:
            if not deepest or not _is_exact(value.values(), deepest - 1):
                return False
        elif kind is list:
            if not deepest or not _is_exact(value, deepest - 1):
                return False
        elif kind is float and value - value != 0:
            return False
    return True


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, the keys of objects in any order. To Python 1 and true are equal;
    to whoever reads the JSON they are not."""
    return one == other and _in_order(one) == _in_order(other)


def _in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def compact_object(text: str) -> dict[str, Any] | None:
    """The object in a JSON text that would be written just like this again; None for any other text."""
    dumps, loads = _orjson()
    try:
        value = loads(text)
        return value if type(value) is dict and dumps(value) == text.encode() else None
    except (TypeError, ValueError, RecursionError):
        return None
