"""Reads a provider's body, and keeps the path, so that every error says where it is.

A path is written as in Python: `messages[3].tool_calls[0].id`.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from backstory.errors import Invalid

T = TypeVar("T")

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    bool: "true or false",
}


def wrong(path: str, problem: str) -> Invalid:
    """The error for something in a body that is not valid in the format."""
    return Invalid(f"{path}: {problem}")


def expect(value: Any, type_: type[T], path: str) -> T:
    """The value, if it is of the type."""
    if not isinstance(value, type_):
        found = "null" if value is None else _NAMES.get(type(value), type(value).__name__)
        raise wrong(path, f"expected {_NAMES[type_]}, found {found}")
    return value


def text_or_none(value: Any, path: str) -> str | None:
    """A string that may be missing."""
    return None if value is None else expect(value, str, path)


def field(value: dict[str, Any], key: str, type_: type[T], path: str) -> T:
    """A required field."""
    if key not in value:
        raise wrong(f"{path}.{key}", f"missing, expected {_NAMES[type_]}")
    return expect(value[key], type_, f"{path}.{key}")


def optional(value: dict[str, Any], key: str, type_: type[T], path: str) -> T:
    """A field that may be missing or null, which both mean empty."""
    return type_() if value.get(key) is None else field(value, key, type_, path)


def name_in(value: dict[str, Any], key: str, path: str) -> str:
    """An id or a name: a required string that must not be empty."""
    found = field(value, key, str, path)
    if not found.strip():
        raise wrong(f"{path}.{key}", f"expected a non-empty string, found {found!r}")
    return found


def id_in(value: dict[str, Any], key: str, path: str) -> str:
    """The id of a call. Servers have sent empty ids, null, or none at all, and accepted them
    again."""
    return text_or_none(value.get(key), f"{path}.{key}") or ""


def check_keys(value: dict[str, Any], known: frozenset[str], path: str) -> None:
    """Refuse fields that the service refuses; a field that is null is ignored."""
    for key, found in value.items():
        if key not in known and found is not None:
            raise wrong(
                f"{path}.{key}", f"the service takes only {' and '.join(sorted(known))} here"
            )


def items(value: dict[str, Any], key: str, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of an array in a field, each with its path."""
    inside = f"{path}.{key}" if path else key
    if key not in value:
        raise wrong(inside, "missing, expected an array")
    return objects(value[key], inside)


def objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of an array, each with its path."""
    for index, item in enumerate(expect(value, list, path)):
        yield f"{path}[{index}]", expect(item, dict, f"{path}[{index}]")


def one_of(value: Any, allowed: tuple[str, ...], path: str) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise wrong(path, f"expected one of {', '.join(allowed)}, found {value!r}")
    return value
