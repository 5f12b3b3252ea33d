"""Makes what a model wrote storable in the log, without changing its meaning."""

import json
from typing import Any, NoReturn


def parsed(text: str) -> Any:
    """The arguments of a call: the JSON object in the text, or the text itself if it is not one."""
    try:
        value = json.loads(text or "{}", parse_constant=_refused)
    except (ValueError, RecursionError):
        return storable(text)
    return storable_value(value) if isinstance(value, dict) else storable(text)


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def storable(text: str) -> str:
    """Text that every store can hold: without NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")
    )


def storable_value(value: Any) -> Any:
    """A JSON value in which every text is storable."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(inner) for inner in value]
        case dict():
            return {storable(key): storable_value(inner) for key, inner in value.items()}
    return value
