"""JSON text that provably gives back the value it was made of. Pure.

orjson is several times faster than the standard library. It refuses or changes a few values that Python's own
JSON has: NaN, whole numbers beyond 64 bits, lone surrogates. Those are left to the caller.
"""

from typing import Any


def exact_json(value: Any) -> bytes | None:
    """Compact JSON that is parsed as an equal value; None where there is none to be had this way."""
    import orjson  # not before something is written: `import backstory` should not wait for it

    # Subclasses, dataclasses and dates are not JSON, but orjson would write them.
    as_it_is = (
        orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
    )
    try:
        text = orjson.dumps(value, option=as_it_is)
        return text if orjson.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None
