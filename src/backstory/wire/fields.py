"""Reads a provider's body field by field. Every error says where it is.

A path is written as in Python: `messages[3].tool_calls[0].id`. Nothing is built for it unless there
is an error: it grows while the error leaves the readers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from backstory.errors import Invalid
from backstory.wire.json_values import write_json

T = TypeVar("T")

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    bool: "true or false",
}


class WrongField(Invalid):
    """A field that is not valid in its format."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path.removeprefix('.')}: {problem}")
        self.problem = problem
        self.path = path

    def move_into(self, outer: str) -> "WrongField":
        """Return the same error with a longer path."""
        return WrongField(self.problem, outer + self.path)


# --- values ---


def expect(value: Any, type_: type[T]) -> T:
    """Return the value if it is of the type. Raises WrongField otherwise."""
    if isinstance(value, type_):
        return value
    found = type(value).__name__
    if value is None:
        found = "null"
    elif type(value) in _NAMES:
        found = _NAMES[type(value)]
    raise WrongField(f"expected {_NAMES[type_]}, found {found}")


def read_at(path: str, read: Callable[..., T], *values: Any) -> T:
    """Return what `read` makes of the values. An error in them is at `path`."""
    try:
        return read(*values)
    except WrongField as error:
        raise error.move_into(path) from None


def read_each(value: Any, read: Callable[[dict[str, Any]], Iterable[T]]) -> list[T]:
    """Return what `read` makes of the objects in an array, one after another."""
    found: list[T] = []
    for index, item in enumerate(expect(value, list)):
        try:
            found.extend(read(expect(item, dict)))
        except WrongField as error:
            raise error.move_into(f"[{index}]") from None
    return found


def read_as_json(value: Any) -> str:
    """Return a value, such as a tool's output, as JSON text."""
    try:
        return write_json(value)
    except (TypeError, ValueError) as error:
        raise WrongField(f"this is not JSON: {error}") from error


# --- fields ---


def field(value: Mapping[str, Any], key: str, type_: type[T]) -> T:
    """Return a required field."""
    found = value.get(key)
    if isinstance(found, type_):
        return found
    if key not in value:
        raise WrongField(f"missing, expected {_NAMES[type_]}", f".{key}")
    return read_at(f".{key}", lambda: expect(found, type_))


def optional(value: Mapping[str, Any], key: str, type_: type[T]) -> T:
    """Return a field that may be missing or null, which both mean empty."""
    if value.get(key) is None:
        return type_()
    return field(value, key, type_)


def text_or_none(value: Mapping[str, Any], key: str) -> str | None:
    """Return a string that may be missing or null."""
    return None if value.get(key) is None else field(value, key, str)


def name_in(value: Mapping[str, Any], key: str) -> str:
    """Return an id or a name: a required string that must not be empty."""
    found = field(value, key, str)
    if not found.strip():
        raise WrongField(f"expected a non-empty string, found {found!r}", f".{key}")
    return found


def string_in(value: Mapping[str, Any], key: str) -> str | None:
    """Return a field that is a string; None if it is missing, or something else."""
    found = value.get(key)
    return found if isinstance(found, str) else None


def one_in(value: Mapping[str, Any], key: str, allowed: Collection[str]) -> str:
    """Return a field that is one of a few words. Raises WrongField for another value."""
    found = value.get(key)
    if isinstance(found, str) and found in allowed:
        return found
    raise WrongField(f"expected one of {', '.join(allowed)}, found {found!r}", f".{key}")


def check_keys(value: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse fields that the service refuses. A field that is null is ignored."""
    for key, found in value.items():
        if key not in known and found is not None:
            names = " and ".join(sorted(known))
            raise WrongField(f"the service takes only {names} here", f".{key}")


def read_items(
    value: Mapping[str, Any], key: str, read: Callable[[dict[str, Any]], Iterable[T]]
) -> list[T]:
    """Return what `read` makes of the objects in a required array."""
    array = field(value, key, list)
    return read_at(f".{key}", read_each, array, read)
