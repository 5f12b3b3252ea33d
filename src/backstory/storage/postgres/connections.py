"""The connections of one process to the server: a pool that keeps a few connections ready for reuse.

Taking a connection from the pool and returning it costs a client as much as the rest of an append. A
connection that is kept ready is only checked for anything that the server has sent in the meantime.
"""

import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from backstory.storage.postgres.append import forget

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_CONNECTIONS = 32
AT_HAND = 4  # connections, at most
WHILE = 600.0  # seconds; after that, the pool decides whether it is too old


def _poll_of(db: Connection) -> "select.poll | None":
    """A poll object for the socket; select() cannot handle file descriptors above 1023."""
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is not None:
        poll.register(db.fileno(), select.POLLIN)
    return poll


def _is_silent(db: Connection, poll: "select.poll | None") -> bool:
    """Whether there is nothing to read. The server sends nothing over an idle connection, so if there is
    something, it has most likely closed the connection, and only then is a check worth a round trip."""
    if poll is not None:
        return not poll.poll(0)
    return not select.select([db.fileno()], [], [], 0)[0]


def check_if_silent(db: Connection) -> None:
    """Ask the server only if it may have closed the connection."""
    if not _is_silent(db, _poll_of(db)):
        ConnectionPool.check_connection(db)


class _Lendable(psycopg.Connection[tuple[Any, ...]]):
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
    """A connection that was taken from the pool, and when."""

    __slots__ = ("_poll", "_pool", "db", "since")

    def __init__(self, db: Connection, pool: "Connections") -> None:
        self.db = db
        self._pool: Callable[[], Connections | None] = ref(pool)
        self._poll = None if db.closed else _poll_of(db)
        self.since = time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether it can be lent again as it is."""
        return not self.db.closed and _is_silent(self.db, self._poll)

    def put_back(self) -> None:
        """Return it to the pool, which checks whether it still works."""
        pool, self._pool = self._pool(), _nowhere
        if pool is not None:
            pool.putconn(self.db)

    def __del__(self) -> None:
        # Ctrl-C interrupted taking it or giving it back, so nothing refers to it, but the pool still counts
        # it. This may run at any time, so it must not take a lock.
        pool = self._pool()
        if pool is None:
            return
        if pool.closed or self.db.pgconn.transaction_status != TransactionStatus.IDLE:
            self.db.close()
        if not pool.closed:
            pool.keep(self.db)


def _nowhere() -> None:
    """Stands for the pool of a connection that was put back."""


class Connections(ConnectionPool[Connection]):
    """The pool, with a few connections kept ready."""

    def __init__(self, conninfo: str, *, prepares: bool, patience: float) -> None:
        self._at_hand: deque[_Kept] = deque()
        self._asking: deque[None] = deque()  # its length is the number of threads waiting for the pool
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

    def _own(self, db: Connection) -> None:
        """Note on a new connection which pool it belongs to."""
        if isinstance(db, _Lendable):
            db.lender = ref(self)

    def connection(self, timeout: float | None = None) -> "Lent":  # type: ignore[override]
        """A connection, for as long as a block runs."""
        return Lent(self, timeout)

    def take(self, timeout: float | None) -> _Kept:
        if kept := self._one_at_hand():
            return kept
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
            if kept.is_usable:
                return kept
            kept.put_back()  # the pool checks it, and replaces it
        return None

    def give_back(self, kept: _Kept) -> None:
        """Keep the connection ready. Return it instead if a thread is waiting, if it is old, or if it is not
        idle: the pool ends a transaction that was left open, and closes an interrupted connection."""
        status = kept.db.pgconn.transaction_status
        is_old = time.monotonic() - kept.since > WHILE
        if self.closed or self._asking or is_old or status != TransactionStatus.IDLE:
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

    def keep(self, db: Connection) -> None:
        """Keep a connection ready that nobody returned; if it is closed, it is replaced when it is taken."""
        self._at_hand.append(_Kept(db, self))

    def close(self, timeout: float = 5.0) -> None:
        """Close the idle connections; the others are closed when they are returned."""
        while self._at_hand:
            self._put_one_back()
        super().close(timeout)


class Lent:
    """A connection that is taken from the pool for a block. Not a generator-based context manager, which
    would cost as much as a round trip to the server."""

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
