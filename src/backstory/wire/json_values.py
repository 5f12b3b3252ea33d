"""JSON in and out, the values that JSON can carry, and the arguments of calls.

orjson is several times faster than the standard library. It refuses integers beyond 64 bits and
deep nesting, which the standard library then does.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import orjson

from backstory.log.events import to_json

DEEPEST = 100  # levels of nesting, as in a store; encoders give up at about 250
# Levels that stay free in a value that is cut off, so that it still fits in a form when it is
# loaded again.
ROOM = 10
TOO_DEEP = "(nested too deeply)"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def write_json(value: Any) -> str:
    """Return `value` as compact JSON text."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return to_json(value)


def encode_body(body: dict[str, Any]) -> bytes:
    """Return `body` as JSON in UTF-8. Bytes in it (Bedrock's blobs) become base64."""
    try:
        return orjson.dumps(body, default=_encode_blob)
    except TypeError:
        return _BODY_ENCODER.encode(body).encode()


def _encode_blob(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"JSON has no {type(value).__name__}")


# Compact, as orjson writes it; a NaN here would be our bug.
_BODY_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_encode_blob
)


# --- values that JSON can carry ---


def clean_value(value: Any) -> Any:
    """Return `value` without what JSON cannot carry: lone surrogates, NaN, objects, deep
    nesting."""
    try:
        return _clean(value, DEEPEST, None)
    except _NestedTooDeeply:
        return _clean(value, DEEPEST - ROOM, TOO_DEEP)


class _NestedTooDeeply(Exception):
    """A value has more levels than `DEEPEST`."""


def _clean(value: Any, levels: int, instead: str | None) -> Any:
    """Clean `value`. Below `levels`, put `instead`, or raise _NestedTooDeeply if it is None."""
    if levels < 0:
        if instead is None:
            raise _NestedTooDeeply
        return instead
    if isinstance(value, dict):
        cleaned: dict[str, Any] = {}
        for key, item in value.items():
            cleaned[_clean_text(str(key))] = _clean(item, levels - 1, instead)
        return cleaned
    if isinstance(value, list | tuple):
        return [_clean(item, levels - 1, instead) for item in value]
    return _clean_scalar(value)


def _clean_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return _clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    return str(value)


def _clean_text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def is_exact(value: Any, levels: int = DEEPEST) -> bool:
    """Return False if `value` is nested too deeply, or has a float that may have been an integer.

    orjson reads integers beyond 64 bits as floats: 10**20 wei would reach the model as 1e20.
    """
    if levels == 0:
        return False
    for item in value.values() if type(value) is dict else value:
        kind = type(item)
        if kind is str:
            continue
        if kind is dict or kind is list:
            if not is_exact(item, levels - 1):
                return False
        elif kind is float and abs(item) >= 2**63:
            return False
    return True


def replace_lone_surrogates(value: Any, mark: str) -> Any:
    """Return a copy of a JSON value with `mark` for each half of a surrogate pair. A value that is
    nested too deeply is not copied: the store reports it."""
    try:
        return _replace_lone_surrogates(value, mark)
    except RecursionError:
        return value


def _replace_lone_surrogates(value: Any, mark: str) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _LONE_SURROGATE.sub(mark, value)
    if isinstance(value, list):
        return [_replace_lone_surrogates(item, mark) for item in value]
    if not isinstance(value, dict):
        return value
    copied: dict[Any, Any] = {}
    for key, item in value.items():
        copied[_replace_lone_surrogates(key, mark)] = _replace_lone_surrogates(item, mark)
    return copied


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is Python's, not JSON's")


# --- arguments of calls ---


class Arguments(NamedTuple):
    """The arguments of a call, as every service accepts them."""

    value: dict[str, Any]
    text: str | None  # the text in which they were given, if it means the same
    is_same: bool  # is nothing lost or changed?


def read_arguments(raw: Any) -> Arguments:
    """Read the arguments of a call, which are an object or JSON text, as an object."""
    if isinstance(raw, dict):
        return Arguments(raw, None, True)
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return Arguments({}, None, True)
    if not isinstance(raw, str):
        return Arguments({"_value": raw}, None, False)
    try:
        given = json.loads(raw, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return Arguments({"_invalid_json": raw}, None, False)
    value = clean_value(given)
    if not isinstance(value, dict):
        return Arguments({"_value": value}, None, False)
    is_same = value == given
    return Arguments(value, raw if is_same else None, is_same)


def is_json(text: str | None) -> bool:
    """Return True if `text` is a JSON value, but no object, that every service can read."""
    arguments = read_arguments(text)
    if arguments.is_same or "_value" not in arguments.value:
        return False
    return bool(arguments.value["_value"] == json.loads(text or ""))


def as_plain(value: Any) -> Any:
    """Return an answer, or a list of stream events, as plain JSON values; SDK objects convert
    themselves."""
    if isinstance(value, Mapping | str | bytes) or value is None:
        return value
    if hasattr(value, "model_dump"):  # pydantic: OpenAI's, Anthropic's and Google's
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return [as_plain(item) for item in value] if isinstance(value, Iterable) else value
