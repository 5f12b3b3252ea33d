"""Texts in tokens: counted in a vocabulary of OpenAI's, or estimated from their length.

Counting needs the extra `tokens` (splintr-rs, which carries the vocabularies with it and works offline).
"""

from collections.abc import Callable
from functools import cache

OLDER = "cl100k_base"
NEWEST = "o200k_base"
BYTES_PER_TOKEN = 4

Count = Callable[[str], int]


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
