"""Watches an SQLite file that other processes write to.

Commits of this process are signalled. SQLite's `data_version` shows commits of others: it is read
twenty times a second, which takes some microseconds each time.
"""

import threading
import time

import apsw

from backstory.storage.locks import ForkGate
from backstory.storage.pool import ErrorTranslator
from backstory.storage.signals import CommitSignal, SignalWatch, limit_wait
from backstory.storage.sqlite.file import FileState, OpenMode, read_state

CHECK_INTERVAL = 0.05  # seconds between two reads of the version
RECOVERY_TIMEOUT = 10_000  # milliseconds to wait while a file is being recovered


class SqliteWatch(SignalWatch):
    """Watches one file through its own connection, which is opened inside of `gate`. `translator`
    raises SQLite's errors as ours."""

    def __init__(
        self,
        signal: CommitSignal,
        path: str,
        mode: OpenMode,
        gate: ForkGate,
        translator: ErrorTranslator,
    ) -> None:
        super().__init__(signal)
        self._path = path
        self._mode = mode
        self._gate = gate
        self._translator = translator
        # One thread uses the connection, and another may close it. While there is no connection,
        # the lock is taken only inside of the gate, so that a fork never copies it locked.
        self._connection_lock = threading.Lock()
        self._db: apsw.Connection | None = None
        self._connect()

    def _connect(self) -> None:
        with self._gate, self._connection_lock:
            if self.closed:
                return
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            db = apsw.Connection(self._mode.name, flags=flags)
            db.set_busy_timeout(RECOVERY_TIMEOUT)
            self._version = self._read_version(db)
            self._db = db

    def wait(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if self.wait_for_signal(limit_wait(deadline, CHECK_INTERVAL)):
                return
            with self._translator:
                has_changed = self._has_changed()
            if has_changed:
                return
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _has_changed(self) -> bool:
        """Return True if another process has committed since the last call."""
        if self._db is None:  # it was closed before a fork
            self._connect()
            return True
        with self._connection_lock:
            if self._db is None:
                return False
            before = self._version
            self._version = self._read_version(self._db)
        return before != self._version

    def _read_version(self, db: apsw.Connection) -> int | FileState:
        if self._mode.is_immutable:  # SQLite would not look at the file again
            return read_state(self._path)
        return int(db.pragma("data_version"))

    def close(self) -> None:
        super().close()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection. The next `wait` opens another one, unless the watch is closed."""
        if self._db is None:
            return
        with self._connection_lock:
            if self._db is not None:
                self._db.close()
                self._db = None
