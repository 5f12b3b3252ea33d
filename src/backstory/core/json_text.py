"""JSON text that is guaranteed to be parsed as an equal value. Pure.

orjson is several times faster than the standard library. It refuses or changes a few values that Python's own
JSON has: NaN, whole numbers beyond 64 bits, lone surrogates. Those are left to the caller.
"""

import json
from typing import Any


def exact_json(value: Any) -> bytes | None:
    """Compact JSON that is parsed as an equal value; None if orjson cannot provide it."""
    import orjson  # here, so that `import backstory` does not wait for it

    text = parsed_json(value)
    return text if text is not None and orjson.loads(text) == value else None


def parsed_json(value: Any) -> bytes | None:
    """The same for a value that a JSON parser gave: it comes back as it is, and need not be compared."""
    import orjson

    # Subclasses, dataclasses and dates are not JSON, but orjson would write them.
    as_it_is = (
        orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    )
    try:
        return orjson.dumps(value, option=as_it_is)
    except (TypeError, ValueError, RecursionError):
        return None


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, the keys of objects in any order. To Python 1 and true are equal;
    to whoever reads the JSON they are not."""
    return one == other and _in_order(one) == _in_order(other)


def _in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def compact_object(text: str) -> dict[str, Any] | None:
    """The object in a JSON text that would be written just like this again; None for any other text."""
    import orjson

    try:
        value = orjson.loads(text)
        return value if type(value) is dict and orjson.dumps(value) == text.encode() else None
    except (TypeError, ValueError, RecursionError):
        return None
