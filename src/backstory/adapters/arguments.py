"""What a framework passes is checked before anything is written. Pure."""

from typing import Any


def check(value: Any, type_: type, what: str) -> None:
    """TypeError if a value is not of its type; `what` names the value in the message."""
    if not isinstance(value, type_):
        raise TypeError(f"{what} is of the type {type_.__name__}, not {type(value).__name__}")
