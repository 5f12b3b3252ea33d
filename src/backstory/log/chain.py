"""The chain of digests: each covers its event and, through the digest before it, the whole past of the event.

So a digest names one exact history. Pure; PostgreSQL computes the same bytes in its append function.
"""

from collections.abc import Iterable
from hashlib import sha256
from struct import Struct
from typing import Any

WIDTH = 16  # bytes of a digest: half of a SHA-256, still too long to find a second text for
START = bytes(WIDTH)  # the digest before the first event
_NOTHING = bytes(32)  # stands for a column that is NULL: no text has this SHA-256
_NUMBERS, _NUMBER = Struct(">qqq").pack, Struct(">q").pack

ERASED = "erased"  # the key of `data` that keeps what an erased event's digests were


_BEGINS = f'{{"{ERASED}":{{'  # nothing else begins like this: `erased` is refused in the data of a new event


def is_erased(data_json: str | None) -> bool:
    """Whether an event is erased, by the text of its data."""
    return data_json is not None and data_json.startswith(_BEGINS)


def has_erased(texts: Iterable[str]) -> bool:
    """Whether any of several events is erased, by the texts of their data."""
    texts = list(texts)
    # Searching all texts at once is faster than searching each, and nearly always enough.
    return _BEGINS in "\n".join(texts) and any(map(is_erased, texts))


# The SHA-256 of an event's content and of its data: all that the chain needs. A plain tuple, because one is
# made for every event.
Inner = tuple[bytes, bytes]


def inner(content: str | None, data_json: str | None, data: dict[str, Any] | None = None) -> Inner:
    """The inner digests of an event. Those of an erased event are kept in its `data`."""
    kept = data.get(ERASED) if data else None
    if isinstance(kept, dict):
        return bytes.fromhex(kept["content"]), bytes.fromhex(kept["data"])
    return (
        _NOTHING if content is None else sha256(content.encode()).digest(),
        _NOTHING if data_json is None else sha256(data_json.encode()).digest(),
    )


def digest(
    previous: bytes,
    seq: int,
    kind: str,
    created_us: int,
    base: int | None,
    key: str | None,
    within: Inner,
) -> bytes:
    """The digest of an event that follows the one with the digest `previous`."""
    numbers = _NUMBERS(seq, created_us, -1 if base is None else base)
    # No kind and no key contains a NUL, so it can end them: two rows never give the same bytes.
    names = f"{kind}\0{key or ''}\0".encode()
    return sha256(b"".join((previous, numbers, names, *within))).digest()[:WIDTH]


def digest_of(
    previous: bytes,
    seq: int,
    kind: str,
    created_us: int,
    base: int | None,
    key: str | None,
    content: str | None,
    data_json: str | None,
) -> bytes:
    """The digest of an event that is not erased: `digest` and `inner` in one call, because a long batch makes
    very many."""
    numbers = _NUMBERS(seq, created_us, -1 if base is None else base)
    names = f"{kind}\0{key or ''}\0".encode()
    said = _NOTHING if content is None else sha256(content.encode()).digest()
    data = _NOTHING if data_json is None else sha256(data_json.encode()).digest()
    return sha256(b"".join((previous, numbers, names, said, data))).digest()[:WIDTH]


def digest_of_bytes(
    previous: bytes,
    seq: int,
    kind: str,
    created_us: int,
    base: int | None,
    key: str | None,
    content: bytes | None,
    data: bytes | None,
) -> bytes:
    """The same, for whoever needs the bytes of the texts anyway."""
    numbers = _NUMBERS(seq, created_us, -1 if base is None else base)
    names = f"{kind}\0{key or ''}\0".encode()
    said = _NOTHING if content is None else sha256(content).digest()
    rest = _NOTHING if data is None else sha256(data).digest()
    return sha256(b"".join((previous, numbers, names, said, rest))).digest()[:WIDTH]


def ending(
    kind: str, base: int | None, key: str | None, content: bytes | None, data: bytes | None
) -> bytes:
    """The part of a digest's input that follows position and time: all of it is known before an append."""
    names = f"{kind}\0{key or ''}\0".encode()
    said = _NOTHING if content is None else sha256(content).digest()
    rest = _NOTHING if data is None else sha256(data).digest()
    return b"".join((_NUMBER(-1 if base is None else base), names, said, rest))


def overall(digests: Iterable[tuple[str, bytes]]) -> bytes:
    """One digest over many agents: their ids and the digests of their heads, in the order of the ids."""
    total = sha256()
    for agent, head in sorted(digests):
        total.update(agent.encode() + b"\0" + head)
    return total.digest()[:WIDTH]
