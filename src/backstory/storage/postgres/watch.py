"""Watching a PostgreSQL store that other processes write to.

A watch LISTENs on its own connection, and has a row in the table `followers`. An append sends a
NOTIFY only while that table has rows, because a NOTIFY makes all commits of a database wait for one
another. Until notifications are reliable, the store is polled four times a second, and for good if
none ever arrives (a pooler, a standby, a user who may not write, a distributed store).
"""

import math
import os
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum

import psycopg

from backstory.storage.locks import renew_in_child
from backstory.storage.pool import ErrorTranslator
from backstory.storage.postgres.server import Cursor, PostgresConnection
from backstory.storage.signals import limit_wait

POLL = 0.25  # seconds between two reads while notifications are not reliable
KEEP_ALIVE = 30.0  # seconds between two statements while nothing happens
EXPIRY = 100  # seconds after which the row of a watch that was not renewed has no effect

REGISTER = f"""
    WITH expired AS (DELETE FROM backstory.followers WHERE until < pg_catalog.clock_timestamp())
    INSERT INTO backstory.followers
    VALUES (%s, pg_catalog.clock_timestamp() + interval '{EXPIRY} seconds')
    ON CONFLICT (id) DO UPDATE SET until = excluded.until"""
UNREGISTER = "DELETE FROM backstory.followers WHERE id = %s"
LISTEN = "LISTEN backstory"
NOTIFY = "SELECT pg_catalog.pg_notify('backstory', '')"
# A notice with this text says that there will be no more of them: the store is now distributed.
DISTRIBUTED = "distributed"
# The transactions that look for followers, or have done so: each has this lock on the table from
# before its look until its end.
WRITERS = """
    SELECT virtualtransaction FROM pg_catalog.pg_locks
    WHERE locktype = 'relation' AND relation = 'backstory.followers'::regclass
        AND mode = 'AccessShareLock'
        AND database = (
            SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())"""

# Errors that mean that there are no notifications: on a standby, or for a user who may not write.
UNAVAILABLE = (
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


class WatchState(Enum):
    """How far a watch can rely on notifications."""

    POLLING = "no notification has arrived yet, or none will"
    WAITING_FOR_WRITERS = "they arrive, but some writers looked for followers before we registered"
    NOTIFIED = "every commit is notified"


class PostgresWatch:
    """A StoreWatch of one database. `connect` opens a connection by a deadline; `timeout` limits
    each statement. `notify` sends a notification over another connection; if it is None, the store
    is polled. `translator` raises errors of the server as ours."""

    def __init__(
        self,
        connect: Callable[[float], PostgresConnection],
        timeout: float,
        notify: Callable[[], None] | None,
        translator: ErrorTranslator,
    ) -> None:
        self.closed = False
        self._connect = connect
        self._timeout = timeout
        self._notify = notify
        self._translator = translator
        self._id = uuid.uuid4()
        self._is_woken = False
        self.renew()
        renew_in_child(self)
        self._db: PostgresConnection | None = None
        self._pid = os.getpid()
        self._state = WatchState.POLLING
        self._unaware: set[str] = set()  # transactions that may not have seen our row
        self._refresh_at = math.inf  # the monotonic time at which to renew our row
        with self._translator:
            self._listen()

    def renew(self) -> None:
        """Make a new lock and new sockets. After a fork, a thread of the parent may have the lock,
        and the parent uses the sockets."""
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._wakeup_receiver.setblocking(False)
        self._wakeup_sender.setblocking(False)
        self._waiting = threading.Lock()

    def wait(self, seconds: float | None) -> None:
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        with self._waiting, self._translator:
            try:
                if self._db is not None and self._pid == os.getpid():
                    self._wait_for_commit(self._db, deadline)
                elif not self.closed:
                    self._listen()  # nobody notified us of commits in the meantime
            except psycopg.OperationalError:
                self._drop_connection()
                raise

    def _wait_for_commit(self, db: PostgresConnection, deadline: float) -> None:
        """Wait for a notification, or until the next poll."""
        end = min(deadline, self._refresh_at)
        if self._state is not WatchState.NOTIFIED:
            end = min(deadline, time.monotonic() + POLL)
        while not self._is_woken and not self.closed:
            if self._take_notifications(db):
                return
            has_input = self._has_input(db, limit_wait(end, KEEP_ALIVE))
            if not has_input and time.monotonic() >= end:
                self._refresh(db)
                return

    def _take_notifications(self, db: PostgresConnection) -> bool:
        """Return True if there was a notification, perhaps along with the result of a
        statement."""
        payloads = [notification.payload for notification in db.notifies(timeout=0)]
        if DISTRIBUTED in payloads:
            self._notify = None
            self._state = WatchState.POLLING
        elif payloads and self._notify is not None and self._state is WatchState.POLLING:
            self._state = WatchState.WAITING_FOR_WRITERS
        return bool(payloads)

    def _listen(self) -> None:
        """Open a connection, and ask for notifications."""
        self._pid = os.getpid()
        self._state = WatchState.POLLING
        self._refresh_at = math.inf
        self._db = db = self._connect(time.monotonic() + self._timeout)
        db.deadline = math.inf  # it may wait for notifications for ever
        if self._notify is None:
            return
        try:
            self._execute(db, LISTEN)
            self._register(db)
            self._unaware = self._read_writers(db)
            self._notify()
        except UNAVAILABLE:
            self._refresh_at = math.inf

    def _register(self, db: PostgresConnection) -> None:
        self._execute(db, REGISTER, (self._id,))
        self._refresh_at = time.monotonic() + KEEP_ALIVE

    def _read_writers(self, db: PostgresConnection) -> set[str]:
        return {writer for (writer,) in self._execute(db, WRITERS).fetchall()}

    def _execute(
        self, db: PostgresConnection, sql: str, params: Sequence[uuid.UUID] = ()
    ) -> Cursor:
        db.deadline = time.monotonic() + self._timeout
        try:
            return db.execute(sql, params)
        finally:
            db.deadline = math.inf

    def _refresh(self, db: PostgresConnection) -> None:
        """Find out whether all writers know of the watch, and renew its row if that is due."""
        if self._state is WatchState.WAITING_FOR_WRITERS:
            self._unaware &= self._read_writers(db)
            if not self._unaware:
                self._state = WatchState.NOTIFIED
        if time.monotonic() >= self._refresh_at:
            self._register(db)

    def _has_input(self, db: PostgresConnection, seconds: float) -> bool:
        """Wait until the server sends something, but at most this long. `wake` ends the wait,
        too. Return True if the server sent something."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wakeup_receiver, selectors.EVENT_READ)
            selector.register(db.fileno(), selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(seconds)]
        if self._wakeup_receiver in ready:
            self._wakeup_receiver.recv(4096)
            ready.remove(self._wakeup_receiver)
        return bool(ready)

    def take_wakeup(self) -> bool:
        is_woken = self._is_woken
        self._is_woken = False
        return is_woken

    def wake(self) -> None:
        self._is_woken = True
        with suppress(OSError):  # it has been woken already, or it is closed
            self._wakeup_sender.send(b"!")

    def _drop_connection(self) -> None:
        db, self._db = self._db, None
        if db is not None and self._pid == os.getpid():
            db.close()

    def close(self) -> None:
        self.closed = True
        self.wake()
        with self._waiting:
            if self._db is not None and self._pid == os.getpid():
                with suppress(psycopg.Error):  # then the row expires
                    self._execute(self._db, UNREGISTER, (self._id,))
            self._drop_connection()
            self._wakeup_receiver.close()
            self._wakeup_sender.close()
