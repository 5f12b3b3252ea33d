"""Watching an SQLite file that other processes write to.

Commits of this process are signalled. A commit of another process changes the time or the size of the
write-ahead log, which can be checked without SQLite. Then SQLite's `data_version` says whether it was a
commit. It is also queried four times a second in any case, because the clock of a file system may be coarse.
"""

import os
import threading
import time

import apsw

from backstory.storage.commit_signal import CommitSignal, SignalWatch, until
from backstory.storage.sqlite.file import Place

GLANCE = 0.05  # seconds between two looks at the write-ahead log
PATIENCE = 10_000  # milliseconds to wait while a file is being recovered
POLL = 0.25  # seconds between two statements while nothing happens


class SqliteWatch(SignalWatch):
    """Watches one file through its own connection."""

    def __init__(self, signal: CommitSignal, path: str, place: Place) -> None:
        super().__init__(signal)
        self._path, self._place = path, place.name
        self._stamp: tuple[int, int] | None = None
        self._version = 0
        self._asking = threading.Lock()  # one thread uses the connection, and another may close it
        self._open()

    def wait(self, seconds: float | None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._signalled(until(deadline, GLANCE)) and not self._has_changed():
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _has_changed(self) -> bool:
        if self._pid != os.getpid():  # a connection must not be used after a fork
            self._left_to_parent = self._db
            self._open()
            return True
        stamp = self._wal_stamp()
        if stamp == self._stamp and time.monotonic() < self._asked + POLL:
            return False
        with self._asking:
            before, self._version = (
                self._version,
                self._version if self.closed else self._data_version(),
            )
        self._stamp = stamp
        return before != self._version

    def _open(self) -> None:
        self._pid = os.getpid()
        self._db = apsw.Connection(
            self._place, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        self._db.set_busy_timeout(PATIENCE)
        self._stamp = self._wal_stamp()
        self._version = self._data_version()

    def _data_version(self) -> int:
        self._asked = time.monotonic()
        return int(self._db.pragma("data_version"))

    def _wal_stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(f"{self._path}-wal")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def close(self) -> None:
        super().close()
        with self._asking:
            if self._pid == os.getpid():
                self._db.close()
