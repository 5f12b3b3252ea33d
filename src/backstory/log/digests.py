"""The chain of digests: each covers its event and, through the digest before it, all events before.

So a digest names one exact history. PostgreSQL runs `link` on the server, with the bytes of
`digest_tail`.
"""

from collections.abc import Iterable
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

from backstory.log.events import Draft, StoredRow

WIDTH = 16  # bytes of a digest: half of a SHA-256, still too long to find a second text for
START = bytes(WIDTH)  # the digest before the first event
NO_TEXT = bytes(32)  # the digest of a column that is NULL: no text has this SHA-256
BASE = Struct(">q")
POSITION_AND_TIME = Struct(">qq")

# The key of an erased event's data that contains the digests of its content and data.
ERASED = "erased"
# No other data begins like this: a new event may not use the key.
ERASED_BEGINNING = f'{{"{ERASED}":{{'


class LogEnd(NamedTuple):
    """The end of a log: the newest position, its time and its digest."""

    head: int
    last_us: int
    digest: bytes = START


TextDigests = tuple[bytes, bytes]  # the SHA-256 of an event's content and of its data


def digest_text(text: str | None) -> bytes:
    """Return the SHA-256 of `text`, or NO_TEXT if there is none."""
    if text is None:
        return NO_TEXT
    return sha256(text.encode()).digest()


def digest_texts(
    content: str | None, data_json: str | None, data: dict[str, Any] | None = None
) -> TextDigests:
    """Return the digests of an event's texts.

    `data` is the parsed data of an event that may be erased: then it contains the digests of the
    original texts.
    """
    erasure = data.get(ERASED) if data else None
    if isinstance(erasure, dict):
        return bytes.fromhex(erasure["content"]), bytes.fromhex(erasure["data"])
    return digest_text(content), digest_text(data_json)


def is_erased(data_json: str | None) -> bool:
    """Return True if the data of an event say that it was erased."""
    return data_json is not None and data_json.startswith(ERASED_BEGINNING)


def build_tail(kind: str, base: int | None, key: str | None, texts: TextDigests) -> bytes:
    """Return the part of a digest's input that comes after position and time."""
    base_bytes = BASE.pack(-1 if base is None else base)
    # No kind and no key contains a NUL, so a NUL can end them: two rows never give the same bytes.
    names = f"{kind}\0{key or ''}\0".encode()
    content_digest, data_digest = texts
    return base_bytes + names + content_digest + data_digest


def digest_tail(draft: Draft) -> bytes:
    """Return the part of a digest's input that is known before the append."""
    texts = digest_texts(draft.content, draft.data_json)
    return build_tail(draft.kind, draft.base, draft.key, texts)


def link(previous: bytes, seq: int, created_us: int, tail: bytes) -> bytes:
    """Return the digest of the event at `seq`, which follows the digest `previous`."""
    numbers = POSITION_AND_TIME.pack(seq, created_us)
    digest = sha256(previous + numbers + tail).digest()
    return digest[:WIDTH]


def digest_row(previous: bytes, row: StoredRow, data: dict[str, Any] | None) -> bytes:
    """Return the digest that `row` should have after `previous`. `data` is its parsed data."""
    texts = digest_texts(row.content, row.data_json, data)
    tail = build_tail(row.kind, row.base, row.key, texts)
    return link(previous, row.seq, row.created_us, tail)


def build_rows(end: LogEnd, drafts: Iterable[Draft], now_us: int) -> tuple[list[StoredRow], LogEnd]:
    """Return the rows of `drafts` after `end`, and the new end of the log.

    The time of an event is its own time or `now_us`, but never before that of the previous event.
    """
    seq, created_us, digest = end
    rows = []
    for draft in drafts:
        kind, content, data_json, key, base, own_time = draft
        seq += 1
        created_us = max(created_us, now_us if own_time is None else own_time)
        digest = link(digest, seq, created_us, digest_tail(draft))
        rows.append(StoredRow(seq, kind, content, data_json, created_us, key, base, digest))
    return rows, LogEnd(seq, created_us, digest)


def combine_digests(digests: Iterable[tuple[str, bytes]]) -> bytes:
    """Return one digest over many agents: their ids and the digests of their heads, by id."""
    total = sha256()
    for agent, head in sorted(digests):
        total.update(agent.encode() + b"\0" + head)
    return total.digest()[:WIDTH]
