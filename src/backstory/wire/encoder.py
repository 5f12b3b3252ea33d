"""JSON in and out: with orjson if it is installed, otherwise with the standard library.

orjson is several times faster. It refuses a few things (integers beyond 64 bits, deep nesting), which the
standard library then does. It writes some floats differently, so an environment uses one or the other for
everything else.
"""

import base64
import json
from typing import Any

try:
    import orjson
except ImportError:  # pragma: no cover - it is only faster
    orjson = None  # type: ignore[assignment]

__all__ = ["compact", "encoded", "orjson", "parse", "to_json"]

# Compact and deterministic; a NaN here would be our bug.
to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

parse = json.loads if orjson is None else orjson.loads


def compact(value: Any) -> str:
    """JSON text."""
    if orjson is not None:
        try:
            return orjson.dumps(value).decode()
        except TypeError:
            pass
    return to_json(value)


def encoded(body: dict[str, Any]) -> bytes:
    """A body as JSON in UTF-8; bytes in it (Bedrock's blobs) become base64."""
    if orjson is not None:
        try:
            return orjson.dumps(body, default=_blob)
        except TypeError:
            pass
    return to_json(_without_blobs(body)).encode()


def _blob(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError


def _without_blobs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_blobs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_blobs(item) for item in value]
    return _blob(value) if isinstance(value, bytes) else value
