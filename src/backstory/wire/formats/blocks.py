"""What the formats whose messages are lists of blocks have in common."""

from collections.abc import Callable
from typing import Any

from backstory.wire.formats.base import usage_of
from backstory.wire.turns import Other, Part, Reasoning, Text, is_blank


def is_said(value: Any) -> bool:
    """Whether a field holds a text with something in it."""
    return isinstance(value, str) and bool(value.strip())


def cited(text: str, block: dict[str, Any]) -> list[Part]:
    """Words, and the sources they name, which no other format can show."""
    return [Text(text), Other("citations")] if block.get("citations") else [Text(text)]


def without_empty_text(
    form: Any, is_empty: Callable[[dict[str, Any]], bool]
) -> tuple[Any, list[str]]:
    """A list of blocks without its empty texts, and what to say about that."""
    if not isinstance(form, list) or not any(map(is_empty, form)):
        return form, []
    return [block for block in form if not is_empty(block)], ["empty text in it is left out"]


def unread(value: dict[str, Any], read: frozenset[str]) -> list[Part]:
    """What a block has beyond what is read of it: no other provider can have that."""
    return [*map(Other, unread_keys(value, read))]


def unread_keys(value: dict[str, Any], read: frozenset[str]) -> tuple[str, ...]:
    """The same by its names. How to cache and to cite are settings of a request and say nothing; neither does
    a caller that is the model itself."""
    return tuple(
        key
        for key, found in value.items()
        if found and key not in read and key not in _SETTINGS and found != _DIRECT
    )


_SETTINGS = frozenset({"type", "cache_control", "prompt_cache_breakpoint", "citations"})
_DIRECT = {"type": "direct"}


def is_without_words(parts: list[Part]) -> bool:
    """Whether there is nothing but blank text. A result may come without any parts."""
    return bool(parts) and all(isinstance(part, Text) and is_blank(part.text) for part in parts)


def has_unsigned(parts: list[Part]) -> bool:
    """Return True if there is reasoning without its signature."""
    return any(isinstance(part, Reasoning) and not part.is_signed for part in parts)


def renamed_block(form: Any, key: str, id: str) -> Any:
    """A result's one block with another id of its call."""
    [block] = form
    return [block | {key: id}]


def summed(usage: dict[str, Any], read: tuple[str, str, str], wrote: str) -> dict[str, int]:
    """Tokens as they are kept. These services count apart what came from the cache and what was put there."""
    parts = [usage.get(name) for name in read]
    whole = sum(part for part in parts if type(part) is int)
    return usage_of(whole, usage.get(wrote), *parts[1:])
