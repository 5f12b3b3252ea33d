"""Bringing the search index up to date: at once, or in the background of a process that goes on.

What was appended since the last search is indexed in small transactions, so that an append never waits for
more than one of them.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from backstory.core.terms import searchable, words
from backstory.errors import Error
from backstory.storage.protocols import AgentRecord, Agents, Index, StoredRows, Wanted

PAGE = 2_000  # events indexed in one transaction

Progress = Callable[[int, int], None]  # how many events are indexed now, and how many will be

_threads: "WeakKeyDictionary[Any, threading.Thread]" = WeakKeyDictionary()
_starting = threading.Lock()


class Indexable(Agents, StoredRows, Index, Protocol):
    """What can be indexed: agents, their rows, and an index."""


def missing(backend: Indexable) -> list[tuple[AgentRecord, int]]:
    """The agents with events that are not in the index, each with the last position that is."""
    upto = backend.indexed()
    known = ((agent, upto.get(agent.id, agent.fork_seq)) for agent in backend.agents(Wanted(deleted=True)))
    return [(agent, after) for agent, after in known if agent.head > after]


def catch_up(
    backend: Indexable, behind: list[tuple[AgentRecord, int]], progress: Progress | None = None
) -> None:
    """Index what is missing, now."""
    total = sum(agent.head - after for agent, after in behind)
    done = 0
    for agent, after in behind:
        for count in _index_pages(backend, agent, after):
            done += count
            if progress:
                progress(done, total)


def catch_up_soon(backend: Indexable) -> None:
    """Index what is missing in a thread of its own, if none does so already. It ends when it is done, or when
    the store is closed; the next search begins it again."""
    with _starting:
        running = _threads.get(backend)
        if running is None or not running.is_alive():
            thread = threading.Thread(target=_index_all, args=(backend,), name="backstory-index", daemon=True)
            _threads[backend] = thread
            thread.start()


def _index_all(backend: Indexable) -> None:
    try:
        catch_up(backend, missing(backend))
    except Error as error:  # the store was closed, or is busy: nobody waits for this
        logging.getLogger("backstory").info("the search index is behind: %s", error)


def _index_pages(backend: Indexable, agent: AgentRecord, after: int) -> Iterator[int]:
    """Index one agent's events page by page; yields how many each time."""
    while after < agent.head:
        rows = backend.stored(agent, after, PAGE)
        if not rows:
            return  # a damaged log ends early: that is for verify to say
        texts = [(row.seq, words(searchable(row.kind, row.content, row.data_json))) for row in rows]
        reached = backend.index(agent, after, texts)
        yield reached - after
        after = reached
