"""Brings the search index up to date: at once, or in a background thread.

What was appended since the last search is indexed in small transactions, so that an append never waits for
more than one of them.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from backstory.errors import Error
from backstory.log.terms import searchable, words
from backstory.storage.backlog import Backlog, Texts
from backstory.storage.protocols import Index, Piece

PAGE = 2_000  # events indexed in one transaction, of any number of agents

Progress = Callable[[int, int], None]  # called with the events indexed so far, and all that will be

_threads: "WeakKeyDictionary[Any, threading.Thread]" = WeakKeyDictionary()
_starting = threading.Lock()


def catch_up(
    backend: Index,
    session: str = "",
    pieces: Sequence[Piece] | None = None,
    progress: Progress | None = None,
) -> None:
    """Index now what is missing for the agents that own pieces in a session (None: for all agents)."""
    backlog, before = backend.backlog(session, pieces), 0
    while backlog and size(backlog) != before:  # a damaged log ends early; verify reports that
        before = size(backlog)
        _index_pages(backend, backlog, progress)
        backlog = backend.backlog(session, pieces)  # what another process began and did not finish


def size(backlog: Sequence[Backlog]) -> int:
    """How many events there are in it."""
    return sum(behind.upto - behind.after for behind in backlog)


def catch_up_soon(backend: Index) -> None:
    """Index what is missing in a background thread, unless one is running already. It ends when it is done,
    or when the store is closed; the next search starts it again."""
    with _starting:
        running = _threads.get(backend)
        if running is None or not running.is_alive():
            thread = threading.Thread(
                target=_index_all, args=(backend,), name="backstory-index", daemon=True
            )
            _threads[backend] = thread
            thread.start()


def _index_all(backend: Index) -> None:
    try:
        catch_up(backend)
    except Error as error:  # the store was closed, or is busy: no one waits for this
        logging.getLogger("backstory").info("the search index is behind: %s", error)


def _index_pages(backend: Index, backlog: Sequence[Backlog], progress: Progress | None) -> None:
    done, total = 0, size(backlog)
    for page in _pages(backlog):
        done += size(page)
        backend.index(_texts(backend, page), last=done == total)
        if progress:
            progress(done, total)


def _pages(backlog: Sequence[Backlog]) -> Iterator[list[Backlog]]:
    """The same events in pages, with no agent twice in one page."""
    page: list[Backlog] = []
    left = PAGE
    for behind in backlog:
        after = behind.after
        while after < behind.upto:
            end = min(behind.upto, after + left)
            page.append(behind._replace(after=after, upto=end))
            left -= end - after
            after = end
            if not left:
                yield page
                page, left = [], PAGE
    if page:
        yield page


def _texts(backend: Index, page: Sequence[Backlog]) -> list[tuple[Backlog, Texts]]:
    """The words of the events of a page."""
    texts: list[Texts] = [[] for _ in page]
    for place, seq, kind, content, data in backend.unindexed(page):
        texts[place].append((seq, words(searchable(kind, content, data))))
    return list(zip(page, texts, strict=True))
