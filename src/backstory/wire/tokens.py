"""How many tokens a conversation is: exact for OpenAI's vocabularies, else a stated estimate.

The exact count needs the extra `tokens` (splintr-rs, which carries the vocabularies with it and works
offline). Without it, or for a model whose vocabulary is not public, the number says that it is an estimate.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from backstory.wire.encoder import compact

# What OpenAI publishes on how chat messages are framed.
PER_MESSAGE = 3
PER_REPLY = 3
BYTES_PER_TOKEN = 4
PER_IMAGE = 1000

NEWEST = "o200k_base"
VOCABULARIES = {
    "gpt-5": NEWEST,
    "gpt-4.1": NEWEST,
    "gpt-4.5": NEWEST,
    "gpt-4o": NEWEST,
    "chatgpt-4o": NEWEST,
    "gpt-oss": NEWEST,
    "o1": NEWEST,
    "o3": NEWEST,
    "o4": NEWEST,
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
}

Count = Callable[[str], int]


class Tokens(int):
    """A number of tokens that knows how it was come by."""

    exact: bool
    how: str

    def __new__(cls, number: int, exact: bool, how: str) -> "Tokens":
        tokens = super().__new__(cls, number)
        tokens.exact = exact
        tokens.how = how
        return tokens

    def __repr__(self) -> str:
        return f"{int(self)} tokens ({self.how})"

    __str__ = int.__repr__


def counted(messages: Iterable[dict[str, Any]], model: str | None = None) -> Tokens:
    """The tokens of Chat Completions messages. Without a model: a current OpenAI model's."""
    name = vocabulary(model)
    count = counter(name or NEWEST)
    messages = list(messages)
    images = sum(_images(message.get("content")) for message in messages)
    number = sum(PER_MESSAGE + sum(map(count or estimate, _texts(message))) for message in messages)
    number += PER_REPLY + images * PER_IMAGE
    if count is None:
        return Tokens(number, False, f"estimated at {BYTES_PER_TOKEN} bytes each; backstory[tokens] counts")
    if name is None:
        return Tokens(number, False, f"estimated with {NEWEST}: no vocabulary of {model!r} is known")
    if images:
        return Tokens(number, False, f"counted with {name}, {PER_IMAGE} assumed for each image")
    return Tokens(number, True, f"counted with {name}")


def vocabulary(model: str | None) -> str | None:
    """The vocabulary of a model, by the longest beginning of its name that is known."""
    if model is None:
        return NEWEST
    bare = model.rpartition("/")[2]
    known = [prefix for prefix in VOCABULARIES if bare.startswith(prefix)]
    return VOCABULARIES[max(known, key=len)] if known else None


@cache
def counter(name: str) -> Count | None:
    """What counts in a vocabulary; None where the extra is not installed."""
    try:
        from splintr import Tokenizer
    except ImportError:
        return None
    encode = Tokenizer.from_pretrained(name).encode_ordinary
    return lambda text: len(encode(text))


def estimate(text: str) -> int:
    """Tokens by the length of the text in bytes, which is fair to all scripts."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _texts(message: dict[str, Any]) -> Iterator[str]:
    yield message["role"]
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if part.get("type") != "image_url":
            yield part["text"] if isinstance(part.get("text"), str) else compact(part)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        yield str(function.get("name", ""))
        yield str(function.get("arguments", function.get("input", "")))


def _images(content: Any) -> int:
    return sum(part.get("type") == "image_url" for part in content) if isinstance(content, list) else 0
