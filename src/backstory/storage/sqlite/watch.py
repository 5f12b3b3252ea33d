"""Watches an SQLite file that other processes write to.

Commits of this process are signalled. A commit of another process changes the time or the size of
the write-ahead log, which can be checked without SQLite. Then SQLite's `data_version` shows whether
it was a commit. It is also read four times a second in any case, because the clock of a file system
may be coarse.
"""

import os
import threading
import time
from typing import NamedTuple

import apsw

from backstory.storage.locks import ForkGate
from backstory.storage.signals import CommitSignal, SignalWatch, limit_wait
from backstory.storage.sqlite.file import FileState, OpenMode, read_state

LOG_CHECK_INTERVAL = 0.05  # seconds between two checks of the write-ahead log
VERSION_INTERVAL = 0.25  # seconds between two statements while nothing happens
RECOVERY_TIMEOUT = 10_000  # milliseconds to wait while a file is being recovered


class LogState(NamedTuple):
    """The time and the size of a write-ahead log."""

    changed_ns: int
    size: int


class SqliteWatch(SignalWatch):
    """Watches one file through its own connection, which is opened inside of `gate`."""

    def __init__(self, signal: CommitSignal, path: str, mode: OpenMode, gate: ForkGate) -> None:
        super().__init__(signal)
        self._path = path
        self._mode = mode
        self._gate = gate
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
            self._log_state = self._read_log_state()
            self._version = self._read_version(db)
            self._db = db

    def wait(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if self.wait_for_signal(limit_wait(deadline, LOG_CHECK_INTERVAL)):
                return
            if self._has_changed():
                return
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _has_changed(self) -> bool:
        """Return True if another process has committed since the last call."""
        if self._db is None:  # it was closed before a fork
            self._connect()
            return True
        log_state = self._read_log_state()
        is_due = time.monotonic() >= self._version_read_at + VERSION_INTERVAL
        if log_state == self._log_state and not is_due:
            return False
        self._log_state = log_state
        with self._connection_lock:
            if self._db is None:
                return False
            before = self._version
            self._version = self._read_version(self._db)
        return before != self._version

    def _read_version(self, db: apsw.Connection) -> int | FileState:
        self._version_read_at = time.monotonic()
        if self._mode.is_immutable:  # SQLite would not look at the file again
            return read_state(self._path)
        return int(db.pragma("data_version"))

    def _read_log_state(self) -> LogState | None:
        try:
            found = os.stat(f"{self._path}-wal")
        except OSError:
            return None
        return LogState(found.st_mtime_ns, found.st_size)

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
