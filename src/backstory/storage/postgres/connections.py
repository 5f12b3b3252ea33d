"""The connections of one process to the server: a pool that keeps a few connections ready for reuse.

Taking a connection from the pool and returning it costs a client as much as the rest of an append. A
connection that is kept ready is only checked for anything that the server has sent in the meantime.
"""

import select
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from backstory.storage.postgres.append import AppendConnection

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_CONNECTIONS = 32
AT_HAND = 4  # connections, at most
IDLE = TransactionStatus.IDLE
WHILE = 600.0  # seconds; after that, the pool decides whether it is too old


def _news_of(db: Connection) -> Callable[[], object]:
    """A function that returns something true if there is something to read. The server sends nothing over an
    idle connection, so it has most likely closed the connection then, and only then is a check worth a round
    trip."""
    socket = db.fileno()
    if not hasattr(select, "poll"):
        return lambda: select.select([socket], [], [], 0)[0]
    poll = select.poll()  # select() cannot handle file descriptors above 1023
    poll.register(socket, select.POLLIN)
    return partial(poll.poll, 0)


def check_if_silent(db: Connection) -> None:
    """Ask the server only if it may have closed the connection."""
    if _news_of(db)():
        ConnectionPool.check_connection(db)


class _Lendable(AppendConnection):
    """A connection of a pool. If Ctrl-C interrupts the pool while it hands the connection over, nobody would
    return it. So it returns itself when it is garbage-collected."""

    lender: "Callable[[], Connections | None]"

    def __del__(self, *warn: Any) -> None:
        pool = self.lender() if hasattr(self, "lender") else None
        if pool is None or pool.closed or self.closed:
            super().__del__(*warn)
            return
        self._pool = pool  # as if it had been lent: the pool accepts no other
        pool.keep(self)


class _Kept:
    """A connection that was taken from the pool, and when. It is lent for a block. Not through a context
    manager made of a generator, which would cost as much as a round trip to the server."""

    __slots__ = ("_pool", "db", "has_news", "since")

    def __init__(self, db: _Lendable, pool: "Connections") -> None:
        self.db = db
        self._pool: Callable[[], Connections | None] = ref(pool)
        self.has_news = _closed if db.closed else _news_of(db)
        self.since = time.monotonic()

    def __enter__(self) -> _Lendable:
        return self.db

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None:
            self.db.forget()
        pool = self._pool()
        if pool is not None:
            pool.give_back(self)

    def put_back(self) -> None:
        """Return it to the pool, which checks whether it still works."""
        pool, self._pool = self._pool(), _nowhere
        if pool is not None:
            pool.putconn(self.db)

    def __del__(self) -> None:
        # Ctrl-C interrupted taking it or giving it back, so nothing refers to it, but the pool still counts
        # it. This may run at any time, so it must not take a lock; even before `__init__` is done.
        pool = getattr(self, "_pool", _nowhere)()
        if pool is None:
            return
        if pool.closed or self.db.pgconn.transaction_status != IDLE:
            self.db.close()
        if not pool.closed:
            pool.keep(self.db)


def _nowhere() -> None:
    """Stands for the pool of a connection that was put back."""


def _closed() -> bool:
    """There is always news of a connection that was closed when it was kept."""
    return True


class Connections(ConnectionPool[_Lendable]):
    """The pool, with a few connections kept ready."""

    def __init__(self, conninfo: str, *, prepares: bool, patience: float) -> None:
        self._at_hand: deque[_Kept] = deque()
        self._asking: deque[None] = (
            deque()
        )  # its length is the number of threads waiting for the pool
        super().__init__(
            conninfo,
            connection_class=_Lendable,
            configure=self._own,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            kwargs={"autocommit": True, **({} if prepares else {"prepare_threshold": None})},
            timeout=patience,
            check=check_if_silent,
            open=True,
        )

    def _own(self, db: _Lendable) -> None:
        """Note on a new connection which pool it belongs to."""
        db.lender = ref(self)

    def connection(self, timeout: float | None = None) -> _Kept:  # type: ignore[override]
        """A connection, for as long as a block runs."""
        return self._one_at_hand() or self._asked_for(timeout)

    def _asked_for(self, timeout: float | None) -> _Kept:
        self._asking.append(None)
        try:
            # Look again: a thread that returned one in between did not see that this thread is waiting.
            return self._one_at_hand() or _Kept(self.getconn(timeout), self)
        finally:
            self._asking.pop()

    def _one_at_hand(self) -> _Kept | None:
        while self._at_hand:
            try:
                kept = self._at_hand.pop()
            except IndexError:  # another thread was faster
                return None
            if not kept.db.closed and not kept.has_news():
                return kept
            kept.put_back()  # the pool checks it, and replaces it
        return None

    def give_back(self, kept: _Kept) -> None:
        """Keep the connection ready. Return it instead if it is old, or if it is not idle: the pool ends a
        transaction that was left open, and closes an interrupted connection. Return one if a thread waits."""
        if kept.db.pgconn.transaction_status != IDLE or time.monotonic() - kept.since > WHILE:
            kept.put_back()
            return
        self._at_hand.append(kept)
        if self._asking or self.closed or len(self._at_hand) > AT_HAND:
            self._put_one_back()

    def _put_one_back(self) -> None:
        try:
            kept = self._at_hand.popleft()
        except IndexError:
            return
        kept.put_back()

    def keep(self, db: _Lendable) -> None:
        """Keep a connection ready that nobody returned; if it is closed, it is replaced when it is taken."""
        self._at_hand.append(_Kept(db, self))

    def close(self, timeout: float = 5.0) -> None:
        """Close the idle connections; the others are closed when they are returned."""
        while self._at_hand:
            self._put_one_back()
        super().close(timeout)
