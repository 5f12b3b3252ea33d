"""Watching a PostgreSQL store that other processes write to.

A watch LISTENs on its own connection, and has a row in the table `followers`. An append sends a NOTIFY only
while that table has rows, because it makes all commits of a database wait for one another, and does not look
there each time (`append.LOOK_EVERY`). The store is polled four times a second until every writer knows of the
watch and the first notification has arrived, and for good where none ever does (a pooler, a standby, a user
who may not write, a store on many servers).
"""

import os
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import psycopg

from backstory.storage.commit_signal import until
from backstory.storage.postgres.cluster import DISTRIBUTED
from backstory.storage.postgres.server import Connection

POLL = 0.25  # seconds between two reads while notifications are not reliable
KEEP_ALIVE = 30.0  # seconds between two statements while nothing happens
SETTLED = (
    2.0  # seconds until every writer that looked before our row was there has a transaction id
)

REGISTER = """
    WITH gone AS (DELETE FROM backstory.followers WHERE until < pg_catalog.clock_timestamp())
    INSERT INTO backstory.followers VALUES (%s, pg_catalog.clock_timestamp() + interval '100 seconds')
    ON CONFLICT (id) DO UPDATE SET until = excluded.until"""
LEAVE = "DELETE FROM backstory.followers WHERE id = %s"
NOTIFY = "SELECT pg_catalog.pg_notify('backstory', '')"
# A transaction that looked for followers before our row was there does not notify us. It already has a
# transaction id, or gets one within a moment. So we wait for that moment, note the next id, and wait until no
# transaction with a smaller id is running.
NEXT_TRANSACTION = (
    "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint"
)
OLDEST_TRANSACTION = (
    "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text::bigint"
)

# Errors that mean there are no notifications: on a standby, or for a user who may not write.
UNAVAILABLE = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


class PostgresWatch:
    """Watches one database. `notify` sends a notification over another connection; without it, the store is
    polled."""

    def __init__(
        self,
        conninfo: str,
        notify: Callable[[], None] | None,
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.closed = False
        self._conninfo, self._notify, self._translated = conninfo, notify, translated
        self._id = uuid.uuid4()
        self._woken = False
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._waiting = threading.Lock()
        self._db: Connection | None = None
        self._pid = os.getpid()
        self._heard = False  # whether notifications come through
        self._is_last = False  # whether there will be no more of them
        self._before = (
            0  # the first transaction id that must have seen our row; 0: all older ones are over
        )
        self._refresh_at = self._settled_at = 0.0
        with self._translated():
            self._listen()

    def wait(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._waiting, self._translated():
            try:
                while not (self._woken or self.closed or self._has_changed(deadline)):
                    if deadline is not None and time.monotonic() >= deadline:
                        return
            except psycopg.OperationalError:
                self._drop()
                raise

    def _has_changed(self, deadline: float | None) -> bool:
        db = self._db
        if db is None or self._pid != os.getpid():
            self._listen()
            return True  # we were not notified of what was committed meanwhile
        is_reliable = self._heard and not self._before
        if self._is_notified(db):
            return True
        if self._select(
            db, until(deadline, until(self._refresh_at, KEEP_ALIVE) if is_reliable else POLL)
        ):
            return self._is_notified(db)
        if is_reliable and time.monotonic() < self._refresh_at:
            return False
        self._refresh(db)
        return True

    def _is_notified(self, db: Connection) -> bool:
        """Whether there was a notification, perhaps along with the result of a statement."""
        notified = [notification.payload for notification in db.notifies(timeout=0)]
        self._is_last = self._is_last or DISTRIBUTED in notified
        self._heard = (self._heard or bool(notified)) and not self._is_last
        return bool(notified)

    def _listen(self) -> None:
        self._pid = os.getpid()
        self._heard, self._before = False, 0
        self._refresh_at = float("inf")
        self._db = db = psycopg.connect(self._conninfo, autocommit=True)
        if self._notify is None:
            return
        try:
            db.execute("LISTEN backstory")
            self._register(db)
            self._notify()
            self._before = -1  # not known until that moment has passed
            self._settled_at = time.monotonic() + SETTLED
        except UNAVAILABLE:
            self._refresh_at = float("inf")

    def _register(self, db: Connection) -> None:
        db.execute(REGISTER, (self._id,))
        self._refresh_at = time.monotonic() + KEEP_ALIVE

    def _refresh(self, db: Connection) -> None:
        if self._before > 0:
            [(oldest,)] = db.execute(OLDEST_TRANSACTION).fetchall()
            self._before = 0 if oldest >= self._before else self._before
        elif self._before and time.monotonic() >= self._settled_at:
            [(self._before,)] = db.execute(NEXT_TRANSACTION).fetchall()
        if time.monotonic() >= self._refresh_at:
            self._register(db)

    def _select(self, db: Connection, seconds: float) -> bool:
        """Whether the server sent something within this many seconds; `wake` ends the wait, too."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(db.fileno(), selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        if self._bell in ready:
            self._bell.recv(4096)
        return any(one is not self._bell for one in ready)

    def woken(self) -> bool:
        woken, self._woken = self._woken, False
        return woken

    def wake(self) -> None:
        self._woken = True
        with suppress(OSError):  # it has been woken already, or it is closed
            self._rope.send(b"!")

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is not None and self._pid == os.getpid():
            db.close()

    def close(self) -> None:
        self.closed = True
        self.wake()
        with self._waiting:
            if self._db is not None and self._pid == os.getpid():
                with suppress(psycopg.Error):  # otherwise, the row expires
                    self._db.execute(LEAVE, (self._id,))
            self._drop()
            self._bell.close()
            self._rope.close()
