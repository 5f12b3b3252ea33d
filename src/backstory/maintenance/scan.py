"""Search without an index, by reading every event: for stores that cannot be written to, and so not
indexed."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakSet

from backstory.log.terms import Query, matches, score, searchable, words
from backstory.storage.protocols import AgentRecord, Agents, Found, Index, Piece, StoredRows, Wanted

PAGE = 2_000

logger = logging.getLogger("backstory")
said: WeakSet[Any] = WeakSet()  # backends that a warning was logged for, so that it is logged once


class Scannable(Agents, StoredRows, Index, Protocol):
    """What can be scanned."""

    url: str
    read_only: bool


def has_to_scan(backend: Scannable) -> bool:
    """Whether a store's index is incomplete and cannot be brought up to date. If so, a warning is logged."""
    if not backend.read_only:
        return False
    if not backend.backlog("", None):
        return False
    if backend not in said:
        said.add(backend)
        why = "%s is open for reading only, so it is searched without an index, which takes longer"
        logger.warning(why, backend.url)
    return True


def scan(
    backend: Scannable,
    query: Query,
    *,
    kinds: Sequence[str],
    pieces: Sequence[Piece] | None,
    limit: int,
) -> list[Found]:
    """The best matches, as the index would find them."""
    found = []
    for agent in backend.agents(Wanted(deleted=True)):
        ranges = None if pieces is None else [piece for piece in pieces if piece.owner == agent.pk]
        if ranges == []:
            continue
        for seq, text in _texts(backend, agent, kinds, ranges):
            if matches(query, text):
                found.append(Found(agent.id, seq, score(query, text)))
    return sorted(found, key=lambda hit: -hit.score)[:limit]


def _texts(
    backend: Scannable, agent: AgentRecord, kinds: Sequence[str], ranges: Sequence[Piece] | None
) -> Iterator[tuple[int, list[str]]]:
    """The words of an agent's own events, or of those in some ranges."""
    after = agent.fork_seq
    while rows := backend.stored(agent, after, PAGE):
        for row in rows:
            inside = ranges is None or any(piece.low <= row.seq <= piece.high for piece in ranges)
            if inside and (not kinds or row.kind in kinds):
                yield row.seq, words(searchable(row.kind, row.content, row.data_json))
        after = rows[-1].seq
