"""Parameters of a request as people write them: their names and allowed values.

    temperature 0.2      effort low      thinking 4000      max_tokens 2000      openai.seed 7

A format before a dot means that the parameter is sent in this format only.
"""

import json
from collections.abc import Mapping
from typing import Any

from backstory.errors import Invalid
from backstory.wire import FORMATS

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Name: its type, and the least and the most value of a number.
NUMBERS: Mapping[str, tuple[type, float, float]] = {
    "temperature": (float, 0, 2),
    "top_p": (float, 0, 1),
    "max_tokens": (int, 1, 10_000_000),
    "thinking": (int, 0, 10_000_000),
}
NAMES = (*NUMBERS, "effort", "stop", "tool_choice")


def parameter(name: str, value: Any) -> Any:
    """Check the value of a parameter, and return it; text is converted if a number is needed."""
    check_name(name)
    if name in NUMBERS:
        return _number(name, value)
    if name == "effort":
        if value not in EFFORTS:
            raise Invalid(f"effort is {value!r}", remedy=f"use one of {', '.join(EFFORTS)}")
        return value
    return _json(value)


def check_name(name: str) -> None:
    """Raise Invalid if there is no parameter with this name."""
    outer, _, inner = name.partition(".")
    is_of_format = outer in FORMATS and inner != ""
    if name not in NAMES and not is_of_format:
        raise Invalid(
            f"there is no parameter {name!r}",
            remedy=f"use {', '.join(NAMES)}, or FORMAT.NAME for one that only a format knows",
        )


def parameters(values: Any) -> dict[str, Any]:
    """The parameters of a table. Those of one format are in a nested table, or have its name and
    a dot before their own; the result has them in a nested table."""
    if not isinstance(values, Mapping):
        raise Invalid(f"params is {values!r:.50}", remedy="write it as a table: [params]")
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name in FORMATS and isinstance(value, Mapping):
            checked[name] = {**checked.get(name, {}), **value}
            continue
        checked_value = parameter(name, value)
        outer, dot, inner = name.partition(".")
        if dot:
            checked[outer] = {**checked.get(outer, {}), inner: checked_value}
        else:
            checked[name] = checked_value
    return checked


def _number(name: str, value: Any) -> int | float:
    kind, least, most = NUMBERS[name]
    try:
        number: int | float = kind(value)
        if isinstance(value, bool) or number != float(value) or not least <= number <= most:
            raise ValueError
    except (TypeError, ValueError, OverflowError):  # int(inf) overflows
        what = "a whole number" if kind is int else "a number"
        raise Invalid(
            f"{name} is {value!r}", remedy=f"use {what} from {least:,} to {most:,}"
        ) from None
    return number


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
