"""The questions that the checkers of all five formats ask of a value. Knows no sequence, never raises.

A request comes from a stranger here: any field may be missing or of any type, so nothing is looked up or
compared before its type is known.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """How a body is read: see `rules.violations`."""

    pending: bool = False
    strict: bool = True
    model: str = ""  # "": nobody knows, so the strictest is meant
    stored: bool = False
    compatible: bool = False
    signatures: bool = False

    def is_for(self, models: re.Pattern[str]) -> bool:
        """Whether a rule that holds for some models holds here."""
        return bool(models.search(self.model))


OPENAI_NAME = r"^[a-zA-Z0-9_-]+$"
OPENAI_LONGEST_NAME = 64


def field(value: Any, key: str) -> Any:
    """The member of an object, or None of anything that is no object."""
    return value.get(key) if isinstance(value, dict) else None


def items(value: Any) -> list[Any]:
    """A list's elements; of anything else none."""
    return value if isinstance(value, list) else []


def one_of(value: Any, allowed: Any) -> bool:
    """Whether value is one of these words (a list or a dict would not even hash)."""
    return isinstance(value, str) and value in allowed


def has_text(value: Any) -> bool:
    """A string with something other than whitespace in it."""
    return isinstance(value, str) and bool(value.strip())


def is_base64(value: Any) -> bool:
    """Standard or URL-safe base64 of at least one byte, as protobuf's JSON and the image fields read it."""
    if not isinstance(value, str) or not value:
        return False
    standard = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return bool(base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True))
    except (binascii.Error, ValueError):
        return False


def is_image_url(value: Any) -> bool:
    """An address that a service can fetch, or the image itself."""
    if not isinstance(value, str):
        return False
    if value.startswith("data:"):
        head, _, data = value.partition(",")
        return head.startswith("data:image/") and head.endswith(";base64") and is_base64(data)
    return re.fullmatch(r"https?://\S+", value) is not None


def holds_json(arguments: str, type: type = object) -> bool:
    """Whether a string holds JSON of a type, by JSON's own grammar (Python's reader would take NaN)."""
    try:
        return isinstance(json.loads(arguments, parse_constant=_no_constant), type)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> None:
    raise ValueError(name)


def json_violations(body: Any, *, bytes_allowed: bool) -> Iterator[str]:
    """The body must become UTF-8 JSON at all: no NaN, no foreign objects, no half of a surrogate pair."""

    def foreign(value: Any) -> str:
        # boto3 takes an image as bytes and encodes it itself; the other clients send JSON as it is.
        if bytes_allowed and isinstance(value, bytes):
            return ""
        raise TypeError(f"a {type(value).__name__}")

    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False, default=foreign).encode()
    except UnicodeEncodeError:
        yield "The request body is not valid JSON: no low surrogate in string"
    except (TypeError, ValueError, RecursionError) as why:
        yield f"We could not parse the JSON body of your request. ({why})"


def openai_string(
    value: Any, path: str, *, longest: int, pattern: str | None = None
) -> Iterator[str]:
    """A string field as both of OpenAI's services check it."""
    if not isinstance(value, str):
        yield f"Invalid type for '{path}': expected a string, but got {kind(value)} instead."
    elif not value:
        yield f"Invalid '{path}': empty string. Expected a string with minimum length 1"
    elif len(value) > longest:
        yield f"Invalid '{path}': string too long. Expected a string with maximum length {longest}"
    elif pattern and not re.fullmatch(pattern.strip("^$"), value):
        yield (
            f"Invalid '{path}': string does not match pattern."
            f" Expected a string that matches the pattern '{pattern}'."
        )


def openai_arguments(value: Any, path: str, request: Request) -> Iterator[str]:
    """OpenAI insists on a string; the servers that speak its language insist on JSON in it, and some of them
    on an object."""
    if not isinstance(value, str):
        yield f"{path}: Input should be a valid string"
    elif not holds_json(value, dict if request.strict else object):
        yield f"{path}: Failed to parse tool call arguments as JSON"


def openai_text(value: Any, path: str, request: Request) -> Iterator[str]:
    """A text. OpenAI takes blank ones; some servers that speak its language do not, so we write none."""
    if value is None:
        yield f"Invalid value for 'content': expected a string, got null. ({path})"
    elif not isinstance(value, str):
        yield f"Invalid type for '{path}': expected a string, but got {kind(value)} instead."
    elif request.strict and not value.strip():
        yield f"Invalid '{path}': empty string. Expected a string with minimum length 1"


def openai_image(url: Any, path: str) -> Iterator[str]:
    """The address of an image."""
    if not is_image_url(url):
        yield f"Invalid '{path}'. Expected a valid URL, but got a value with an invalid format."


def kind(value: Any) -> str:
    """What JSON calls the value's type."""
    names = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number")
