"""The chain of digests, and the rows that new events become.

Each digest covers its event and the digest before it, so it names one exact history: an event and
everything before it. PostgreSQL runs `link` on the server, with the bytes of `digest_tail`.

An erased event keeps the digests of its texts, so that the chain stays valid. Each event has a
random salt that goes into them and is erased with the text: without it, nobody can find out by
trying what the text was. The digest of a request could be used in the same way by someone who has
the rest of the request, so the chain does not cover it, and an erasure empties it.

That digest is `sha256` in the `request` of an event's data. An earlier version left out every
`"sha256"` of the data, so an event may have a digest that was computed in that way.
"""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

from backstory.log.data_keys import ERASED, REQUEST
from backstory.log.events import Draft, StoredRow
from backstory.log.times import next_time

WIDTH = 16  # bytes of a digest: half of a SHA-256, still too long to find a second text for
START = bytes(WIDTH)  # the digest before the first event
NO_TEXT = bytes(32)  # the digest of a column that is NULL: no text has this SHA-256
BASE = Struct(">q")
POSITION_AND_TIME = Struct(">qq")
SALT_WIDTH = 8  # bytes
ANY_DIGEST = re.compile('"sha256":"[0-9a-f]{64}"')
EMPTY_DIGEST = '"sha256":""'
# Numbers stay text: Python does not convert those of thousands of digits.
DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
SPACE = re.compile(r"[ \t\r\n]*")


TextDigests = tuple[bytes, bytes]  # the SHA-256 of an event's content and of its data


def digest_text(text: str | None, salt: bytes | None) -> bytes:
    """Return the SHA-256 of a salt and `text`, or NO_TEXT if there is no text."""
    if text is None:
        return NO_TEXT
    return sha256((salt or b"") + text.encode()).digest()


def empty_request_digests(data_json: str | None) -> str | None:
    """Return the data of an event without the digest of its request."""
    if data_json is None or ANY_DIGEST.search(data_json) is None:  # faster than parsing it
        return data_json
    digest = _find_request_digest(data_json)
    if digest is None:
        return data_json
    return data_json[: digest.start()] + EMPTY_DIGEST + data_json[digest.end() :]


def empty_all_digests(data_json: str | None) -> str | None:
    """Return the data of an event as an earlier version computed its digest from it."""
    return None if data_json is None else ANY_DIGEST.sub(EMPTY_DIGEST, data_json)


def _find_request_digest(data_json: str) -> re.Match[str] | None:
    """Return where the data of an event has the digest of its request. None if it has none, or is
    not JSON."""
    try:
        request = _find_members(data_json, 0).get(REQUEST)
        if request is None:
            return None
        digest = _find_members(data_json, request.value).get("sha256")
    except (ValueError, RecursionError):
        return None
    return None if digest is None else ANY_DIGEST.match(data_json, digest.name)


class MemberStart(NamedTuple):
    """The indexes at which a member of a JSON object has its name and its value."""

    name: int
    value: int


def _find_members(text: str, start: int) -> dict[str, MemberStart]:
    """Return the members of the JSON object at the index `start`, by name; no members if another
    value is there. Raises ValueError or RecursionError."""
    members: dict[str, MemberStart] = {}
    if not text.startswith("{", start):
        return members
    position = _skip_space(text, start + 1)
    while text.startswith('"', position):
        name, end = DECODER.raw_decode(text, position)
        value = _skip_space(text, _skip_space(text, end) + 1)  # after the colon
        members[name] = MemberStart(position, value)
        _, end = DECODER.raw_decode(text, value)
        position = _skip_space(text, _skip_space(text, end) + 1)  # after the comma or brace
    return members


def _skip_space(text: str, start: int) -> int:
    space = SPACE.match(text, start)
    return start if space is None else space.end()


def digest_texts(
    content: str | None,
    data_json: str | None,
    salt: bytes | None,
    data: dict[str, Any] | None = None,
) -> TextDigests:
    """Return the digests of an event's texts.

    `data` is the parsed data of an event that may be erased: then it contains the digests of the
    original texts.
    """
    erasure = data.get(ERASED) if data else None
    if isinstance(erasure, dict):
        return bytes.fromhex(erasure["content"]), bytes.fromhex(erasure["data"])
    data_digest = NO_TEXT
    if data_json is not None:
        data_digest = digest_text(empty_request_digests(data_json), salt)
    return digest_text(content, salt), data_digest


def build_tail(kind: str, base: int | None, key: str | None, texts: TextDigests) -> bytes:
    """Return the part of a digest's input that comes after position and time."""
    base_bytes = BASE.pack(-1 if base is None else base)
    # No kind and no key contains a NUL, so a NUL can end them: two rows never give the same bytes.
    names = f"{kind}\0{key or ''}\0".encode()
    content_digest, data_digest = texts
    return base_bytes + names + content_digest + data_digest


def digest_tail(draft: Draft, salt: bytes) -> bytes:
    """Return the part of a digest's input that is known before the append."""
    texts = digest_texts(draft.content, draft.data_json, salt)
    return build_tail(draft.kind, draft.base, draft.key, texts)


def link(previous: bytes, seq: int, created_us: int, tail: bytes) -> bytes:
    """Return the digest of the event at `seq`, which follows the digest `previous`."""
    numbers = POSITION_AND_TIME.pack(seq, created_us)
    digest = sha256(previous + numbers + tail).digest()
    return digest[:WIDTH]


def digest_row(previous: bytes, row: StoredRow, data: dict[str, Any] | None) -> bytes:
    """Return the digest that `row` should have after `previous`. `data` is its parsed data."""
    return link_row(previous, row, find_texts(previous, row, data))


def find_texts(previous: bytes, row: StoredRow, data: dict[str, Any] | None) -> TextDigests:
    """Return the digests of a row's texts: those of an earlier version, if the digest of the row
    was computed from them after `previous`."""
    texts = digest_texts(row.content, row.data_json, row.salt, data)
    if not is_ambiguous(row):
        return texts
    older_texts = texts[0], digest_text(empty_all_digests(row.data_json), row.salt)
    if link_row(previous, row, older_texts) == row.digest:
        return older_texts
    return texts


def is_ambiguous(row: StoredRow) -> bool:
    """Return True if an earlier version would have computed another digest for this row."""
    older = empty_all_digests(row.data_json)
    return older != row.data_json and older != empty_request_digests(row.data_json)


def link_row(previous: bytes, row: StoredRow, texts: TextDigests) -> bytes:
    """Return the digest of a row after `previous`, given the digests of its texts."""
    tail = build_tail(row.kind, row.base, row.key, texts)
    return link(previous, row.seq, row.created_us, tail)


def combine_digests(digests: Iterable[tuple[str, bytes]]) -> bytes:
    """Return one digest over many agents: their ids and the digests of their heads, by id."""
    total = sha256()
    for agent, head in sorted(digests):
        total.update(agent.encode() + b"\0" + head)
    return total.digest()[:WIDTH]


# --- new rows ---


class LogEnd(NamedTuple):
    """The end of a log: the newest position, its time and its digest."""

    head: int
    last_us: int
    digest: bytes = START


def build_rows(
    end: LogEnd, drafts: Sequence[Draft], now_us: int, salts: Sequence[bytes]
) -> tuple[list[StoredRow], LogEnd]:
    """Return the rows of `drafts`, each with its salt, after `end`, and the new end of the log.

    The time of an event is that of `next_time`, for its own time or else `now_us`.
    """
    seq, created_us, digest = end
    rows = []
    for draft, salt in zip(drafts, salts, strict=True):
        kind, content, data_json, key, base, own_time = draft
        seq += 1
        wanted_us = now_us if own_time is None else own_time
        created_us = next_time(created_us, wanted_us, now_us)
        digest = link(digest, seq, created_us, digest_tail(draft, salt))
        rows.append(StoredRow(seq, kind, content, data_json, created_us, key, base, digest, salt))
    return rows, LogEnd(seq, created_us, digest)
