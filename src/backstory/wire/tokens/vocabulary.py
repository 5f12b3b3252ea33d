"""Texts in tokens: counted in a vocabulary of OpenAI's, or estimated from their length.

Counting needs the extra `tokens` (splintr-rs, which carries the vocabularies with it and works offline).
A count is kept as long as the process lives, so that a context that grew by a message is not counted again.
"""

from collections.abc import Callable
from functools import cache
from hashlib import blake2b

BYTES_PER_TOKEN = 4
SHORT = 64  # characters: a shorter text is counted as fast as it is looked up
MOST_KEPT = 200_000  # counts, about 20 MB

Count = Callable[[str], int]


@cache
def counter(name: str) -> Count | None:
    """What counts in a vocabulary; None where the extra is not installed."""
    try:
        from splintr import Tokenizer
    except ImportError:
        return None
    encode = Tokenizer.from_pretrained(name).encode_ordinary
    return kept(lambda text: len(encode(text)))


def kept(count: Count) -> Count:
    """The same, but what was counted is not counted again. The texts themselves are not kept, and of the
    counts only the latest."""
    counts: dict[bytes, int] = {}

    def count_once(text: str) -> int:
        if len(text) < SHORT:
            return count(text)
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        known = counts.get(digest)
        if known is None:
            known = count(text)
            if len(counts) >= MOST_KEPT:
                counts.clear()
            counts[digest] = known
        return known

    return count_once


def estimate(text: str) -> int:
    """Tokens by the length of the text in bytes, which is fair to all scripts."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
