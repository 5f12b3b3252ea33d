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
    """Return the error for something in a body that is not valid in the format."""
    return Invalid(f"{path}: {problem}")


def expect(value: Any, type_: type[T], path: str) -> T:
    """Return the value if it is of the type. Raises Invalid otherwise."""
    if isinstance(value, type_):
        return value
    found = type(value).__name__
    if value is None:
        found = "null"
    elif type(value) in _NAMES:
        found = _NAMES[type(value)]
    raise wrong(path, f"expected {_NAMES[type_]}, found {found}")


def text_or_none(value: Any, path: str) -> str | None:
    """Return a string that may be missing."""
    if value is None:
        return None
    return expect(value, str, path)


def field(value: dict[str, Any], key: str, type_: type[T], path: str) -> T:
    """Return a required field."""
    inside = f"{path}.{key}"
    if key not in value:
        raise wrong(inside, f"missing, expected {_NAMES[type_]}")
    return expect(value[key], type_, inside)


def optional(value: dict[str, Any], key: str, type_: type[T], path: str) -> T:
    """Return a field that may be missing or null, which both mean empty."""
    if value.get(key) is None:
        return type_()
    return field(value, key, type_, path)


def name_in(value: dict[str, Any], key: str, path: str) -> str:
    """Return an id or a name: a required string that must not be empty."""
    found = field(value, key, str, path)
    if not found.strip():
        raise wrong(f"{path}.{key}", f"expected a non-empty string, found {found!r}")
    return found


def id_in(value: dict[str, Any], key: str, path: str) -> str:
    """Return the id of a call. Servers have sent empty ids, null, or none at all, and accepted
    them again."""
    id = text_or_none(value.get(key), f"{path}.{key}")
    return id or ""


def check_keys(value: dict[str, Any], known: frozenset[str], path: str) -> None:
    """Refuse fields that the service refuses. A field that is null is ignored."""
    for key, found in value.items():
        if key in known or found is None:
            continue
        names = " and ".join(sorted(known))
        raise wrong(f"{path}.{key}", f"the service takes only {names} here")


def items(value: dict[str, Any], key: str, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the objects of an array in a field, each with its path."""
    inside = f"{path}.{key}" if path else key
    if key not in value:
        raise wrong(inside, "missing, expected an array")
    return objects(value[key], inside)


def objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of an array, each with its path."""
    array = expect(value, list, path)
    for index, item in enumerate(array):
        inside = f"{path}[{index}]"
        yield inside, expect(item, dict, inside)


def one_of(value: Any, allowed: tuple[str, ...], path: str) -> str:
    """Return one of a few words. Raises Invalid for another value."""
    if isinstance(value, str) and value in allowed:
        return value
    names = ", ".join(allowed)
    raise wrong(path, f"expected one of {names}, found {value!r}")
