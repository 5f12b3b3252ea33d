"""Brings the search index up to date, for a search that waits or in the background."""

import logging
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from backstory.errors import Error
from backstory.storage.protocol import WHOLE_STORE, Backend, SearchScope

# Events that a search indexes before it answers, even if it does not wait. More are indexed in the
# background then.
AT_ONCE = 2_000
INDEX_BATCH = 2_000  # events indexed in one transaction, so no append waits for more

logger = logging.getLogger("backstory")

Progress = Callable[[int, int], None]  # called with the events indexed so far, and all that will be

_threads: WeakKeyDictionary[Any, threading.Thread] = WeakKeyDictionary()  # by backends
_starting = threading.Lock()


def update_index(
    backend: Backend, scope: SearchScope, progress: Progress | None, must_wait: bool
) -> int:
    """Index the events that are searched, or start that in the background. Return how many are
    missing."""
    count = backend.count_unindexed(scope)
    if count == 0:
        return 0
    if not must_wait and count > AT_ONCE:
        start_indexing(backend)
        return count
    if index_events(backend, scope, count, progress) >= count:
        return 0
    # Another process has indexed the rest, or the log is damaged.
    return backend.count_unindexed(scope)


def index_events(
    backend: Backend, scope: SearchScope, count: int, progress: Progress | None = None
) -> int:
    """Index `count` events, and those that were appended since, in small transactions. Return how
    many were indexed, which may be fewer."""
    total = 0
    while True:
        indexed = backend.index_events(INDEX_BATCH, scope)
        if indexed == 0:
            return total
        total += indexed
        if progress is not None:
            progress(min(total, count), count)
        # After a full batch, there may be more: newer events may have been indexed before others.
        is_last = indexed < INDEX_BATCH
        if is_last and total >= count:
            return total


def start_indexing(backend: Backend) -> None:
    """Index all events in a background thread, unless one is running already. It ends when it is
    done, or when the store is closed; the next search starts it again."""
    with _starting:
        running = _threads.get(backend)
        if running is None or not running.is_alive():
            thread = threading.Thread(
                target=_index_all, args=(backend,), name="backstory-index", daemon=True
            )
            _threads[backend] = thread
            thread.start()


def _index_all(backend: Backend) -> None:
    try:
        count = backend.count_unindexed()
        if count > 0:
            index_events(backend, WHOLE_STORE, count)
    except Error as error:  # the store was closed, or is busy: nobody waits for this
        logger.info("the search index is behind: %s", error)
