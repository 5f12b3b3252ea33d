"""What a model wrote, made fit for the log without changing what it says."""

import json
from typing import Any, NoReturn


def parsed(text: str) -> Any:
    """The arguments of a call: the JSON object in the text, or the text itself where there is none."""
    try:
        value = json.loads(text or "{}", parse_constant=_refused)
    except (ValueError, RecursionError):
        return storable(text)
    return storable_value(value) if isinstance(value, dict) else storable(text)


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def storable(text: str) -> str:
    """Text that every store can hold: no NUL, no half of a character."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")


def storable_value(value: Any) -> Any:
    """The same for everything in a JSON value."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(inner) for inner in value]
        case dict():
            return {storable(key): storable_value(inner) for key, inner in value.items()}
    return value
