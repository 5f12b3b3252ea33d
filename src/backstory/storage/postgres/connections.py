"""The connections of one process to the server: a pool that keeps a few connections ready for reuse.

Taking a connection from the pool and returning it costs a client as much as the rest of an append. A
connection that is kept ready is only checked for anything that the server has sent in the meantime.
"""

import select
import time
from collections import deque
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from backstory.storage.postgres.append import forget

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_CONNECTIONS = 32
AT_HAND = 4  # connections, at most
WHILE = 600.0  # seconds; then the pool decides whether it is too old


class _Kept(NamedTuple):
    """A connection, what tells whether there is something to read from it, and since when it is out."""

    db: Connection
    poll: "select.poll | None"  # select() itself knows no file numbers above 1023
    since: float

    @property
    def is_silent(self) -> bool:
        """An idle connection has nothing to say: if there is something to read, the server has most likely
        closed it, and only then is it worth a round trip to find out."""
        if self.poll is not None:
            return not self.poll.poll(0)
        return not select.select([self.db.fileno()], [], [], 0)[0]


def check_if_silent(db: Connection) -> None:
    """Ask the server only if it may have closed the connection."""
    if not _kept(db).is_silent:
        ConnectionPool.check_connection(db)


def _kept(db: Connection) -> _Kept:
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is not None:
        poll.register(db.fileno(), select.POLLIN)
    return _Kept(db, poll, time.monotonic())


class Connections(ConnectionPool[Connection]):
    """The pool."""

    def __init__(self, conninfo: str, *, prepares: bool, patience: float) -> None:
        self._at_hand: deque[_Kept] = deque()
        self._asking: deque[None] = deque()  # as long as there are threads that wait for the pool
        super().__init__(
            conninfo,
            min_size=1,
            max_size=MOST_CONNECTIONS,
            kwargs={"autocommit": True, **({} if prepares else {"prepare_threshold": None})},
            timeout=patience,
            check=check_if_silent,
            open=True,
        )

    def connection(self, timeout: float | None = None) -> "Lent":  # type: ignore[override]
        """A connection, for as long as a block runs."""
        return Lent(self, timeout)

    def take(self, timeout: float | None) -> _Kept:
        if kept := self._one_at_hand():
            return kept
        self._asking.append(None)
        try:
            # Look again: a thread that returned one in between did not see that this one is waiting.
            return self._one_at_hand() or _kept(self.getconn(timeout))
        finally:
            self._asking.pop()

    def _one_at_hand(self) -> _Kept | None:
        while self._at_hand:
            try:
                kept = self._at_hand.pop()
            except IndexError:  # another thread was quicker
                return None
            if not kept.db.closed and kept.is_silent:
                return kept
            self.putconn(kept.db)  # the pool finds out, and replaces it
        return None

    def give_back(self, kept: _Kept) -> None:
        """Keep the connection ready, or return it if a thread waits, if it is old, or if it is not idle:
        the pool ends a transaction that was left open, and closes what was interrupted."""
        status = kept.db.pgconn.transaction_status
        is_old = time.monotonic() - kept.since > WHILE
        if self.closed or self._asking or is_old or status != TransactionStatus.IDLE:
            self.putconn(kept.db)
            return
        self._at_hand.append(kept)
        if self._asking or self.closed or len(self._at_hand) > AT_HAND:
            self._put_one_back()

    def _put_one_back(self) -> None:
        try:
            kept = self._at_hand.popleft()
        except IndexError:
            return
        self.putconn(kept.db)

    def close(self, timeout: float = 5.0) -> None:
        """Close the idle connections; the others are closed when they are returned."""
        while self._at_hand:
            self._put_one_back()
        super().close(timeout)


class Lent:
    """A connection that is taken from the pool for a block. A class: a generator would cost as much as a
    round trip to the server."""

    __slots__ = ("_kept", "_pool", "_timeout")

    def __init__(self, pool: Connections, timeout: float | None) -> None:
        self._pool, self._timeout = pool, timeout

    def __enter__(self) -> Connection:
        self._kept = self._pool.take(self._timeout)
        return self._kept.db

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None:
            forget(self._kept.db)
        self._pool.give_back(self._kept)
