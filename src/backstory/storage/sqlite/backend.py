"""The embedded backend: one SQLite file, through apsw.

It handles connections and transactions, what happens to them when the process forks, and all writes. The
reads are in `reads`, and the statements in `rows`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

import apsw

from backstory.errors import Busy, ConnectionLost, ReadOnly, StorageError
from backstory.log.events import EncodedRow, Event
from backstory.log.terms import Query
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.commit_signal import shared_commit_signal
from backstory.storage.fork_lock import ForkGate, forkable_lock
from backstory.storage.protocols import (
    AgentRecord,
    BasedDrafts,
    Found,
    NewAgent,
    Packed,
    Piece,
)
from backstory.storage.sqlite import index as sqlite_index
from backstory.storage.sqlite.beside import FilesBeside
from backstory.storage.sqlite.file import (
    GET_PERMISSION,
    Place,
    Translated,
    connected,
    emptied_log,
    identity,
    make_private,
    prepared,
    readable,
)
from backstory.storage.sqlite.frames import Packer
from backstory.storage.sqlite.intake import SqliteIntake
from backstory.storage.sqlite.newest import Newest
from backstory.storage.sqlite.reads import SqliteReads
from backstory.storage.sqlite.removal import SqliteRemoval
from backstory.storage.sqlite.rows import SqliteRows
from backstory.storage.sqlite.watch import SqliteWatch


class SqliteBackend(SqliteReads):
    """A store in one SQLite file. An agent's primary key is its number.

    Threads borrow connections from a small pool. Writers in one process wait for a lock; writers in several
    processes wait for SQLite's own.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.url = os.path.abspath(path)  # the program may change its working directory
        self._writing = forkable_lock()
        self._asking = ForkGate()
        self._free: list[apsw.Connection] = []
        self._left_to_parent: list[apsw.Connection] = []
        self._pid = os.getpid()
        self._closed = False
        self._unmerged = 0  # events indexed since the last merge
        self._newest = Newest()
        self._translated = Translated(self.url)
        with self._translated:
            self._free.append(self._first(read_only))
        self._file = identity(self.url)
        self._beside = FilesBeside(self.url)
        self._committed = shared_commit_signal(self._file or self.url)
        self._watches: WeakSet[SqliteWatch] = WeakSet()

    def _first(self, read_only: bool) -> apsw.Connection:
        """The first connection. If the file or its folder cannot be written, it only reads."""
        self.read_only, self._place = read_only, Place(self.url, apsw.SQLITE_OPEN_READWRITE)
        if not read_only:
            try:
                return prepared(self.url)
            except (ReadOnly, apsw.ReadOnlyError, apsw.CantOpenError):
                if not os.path.isfile(self.url):
                    raise
        self.read_only = True
        db, self._place = readable(self.url)
        return db

    def create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        with self._write() as db:
            rows = SqliteRows(db)
            record = rows.create(new, now)
            written = rows.append(record, events, None, now) if events else []
            return record._replace(head=record.head + len(written))

    def rename(self, agent: AgentRecord, name: str) -> None:
        with self._write() as db:
            SqliteRows(db).rename(agent, name)

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        with self._write() as db:
            return SqliteRows(db).describe(agent, change)

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        # Not `with self._write()`: most writes are appends, and a generator around each takes its time.
        self._check_writable()
        with self._writing, self._translated:
            db = self._borrowed()
            try:
                self._begin(db)
                written = SqliteRows(db, self._newest).append(agent, events, expected, now)
                self._commit(db)
                self._newest.committed(db)
                return written
            except BaseException:
                _roll_back(db)
                raise
            finally:
                self._give_back(db)

    @contextmanager
    def exclusive(self, *agents: AgentRecord) -> Iterator[SqliteRows]:
        with self._write() as db:
            yield SqliteRows(db)

    def copy_to(self, path: str) -> bool:
        """Copy all pages in one read transaction, so that writers are not blocked."""
        with self._connection() as db:
            make_private(path)
            copy = apsw.Connection(path)
            try:
                with copy.backup("main", db, "main") as backup:
                    backup.step(-1)
            finally:
                copy.close()
        return True

    def packed(self, rows: Sequence[EncodedRow]) -> Packed:
        return list(Packer().packed(rows))

    @contextmanager
    def intake(self) -> Iterator[SqliteIntake]:
        with self._write() as db:
            yield SqliteIntake(db)

    @contextmanager
    def removal(self) -> Iterator[SqliteRemoval]:
        with self._write() as db:
            yield SqliteRemoval(db)
        self._empty_log()

    def _empty_log(self) -> None:
        """Write the write-ahead log into the file, and leave no removed text in it."""
        with self._writing, self._connection() as db:
            unfinished = not emptied_log(db)
        if unfinished:
            raise Busy(
                f"{self.url!r}: the text was removed, but it stays in the write-ahead log while others are "
                "still reading",
                remedy="end the other programs; the last one that closes the store empties the log",
            )

    def backlog(self, session: str, pieces: Sequence[Piece] | None) -> list[Backlog]:
        with self._connection() as db:
            made = sqlite_index.exists(db)
        if not made and not self.read_only:
            with self._write() as db:
                db.execute(sqlite_index.CREATE)
        with self._connection() as db:
            owners = None if pieces is None else {piece.owner for piece in pieces}
            return sqlite_index.backlog(db, owners)

    def unindexed(self, backlog: Sequence[Backlog]) -> list[Unindexed]:
        with self._connection() as db:
            return sqlite_index.unindexed(db, backlog)

    def index(self, texts: Sequence[tuple[Backlog, Texts]], *, last: bool = True) -> None:
        with self._write() as db:
            sqlite_index.index(db, texts)
        self._unmerged += sum(len(found) for _, found in texts)
        if last and self._unmerged >= sqlite_index.WORTH_MERGING:
            sqlite_index.merge(self._write)
            self._unmerged = 0

    def find(
        self,
        query: Query,
        *,
        kinds: Sequence[str],
        pieces: Sequence[Piece] | None,
        session: str,
        limit: int,
    ) -> list[Found]:
        with self._connection() as db:
            return sqlite_index.find(db, query, kinds, pieces, limit)

    def watch(self) -> SqliteWatch:
        if self._closed:
            raise self._is_closed()
        with self._translated:
            watch = SqliteWatch(self._committed, self.url, self._place)
        self._watches.add(watch)
        return watch

    def close(self) -> None:
        self._closed = True
        for watch in list(self._watches):
            watch.close()
        while self._free and self._pid == os.getpid():
            self._free.pop().close()

    @contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """A write transaction: durably commits everything that the block writes, or nothing."""
        self._check_writable()
        with self._writing, self._translated:  # a fork waits for the lock: no need to pass the gate
            db = self._borrowed()
            try:
                self._begin(db)
                yield db
                self._commit(db)
            except BaseException:
                _roll_back(db)
                raise
            finally:
                self._give_back(db)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(f"{self.url!r} is open for reading only", remedy=GET_PERMISSION)

    def _begin(self, db: apsw.Connection) -> None:
        if identity(self.url) != self._file:
            raise StorageError(
                f"{self.url!r} was moved or deleted while it was open", remedy="open it again"
            )
        db.execute("BEGIN IMMEDIATE")

    def _commit(self, db: apsw.Connection) -> None:
        db.execute("COMMIT")
        self._check_files()
        self._committed.send()

    def _check_files(self) -> None:
        """Raise if the files were removed or replaced: no other process would see what was just written."""
        replaced = self._beside.replaced()
        if replaced is not None:
            raise ConnectionLost(
                f"{replaced!r} was removed or replaced while the store was open: what was under way may or "
                "may not have been written",
                remedy="open the store again, and check",
            )

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        """A connection for this thread while the block runs."""
        with self._asking, self._translated:
            db = self._borrowed()
            try:
                yield db
            finally:
                self._give_back(db)

    def _borrowed(self) -> apsw.Connection:
        """A connection for this thread alone."""
        if self._closed:
            raise self._is_closed()
        if self._pid != os.getpid():
            self._start_again_after_fork()
        try:
            return self._free.pop()
        except IndexError:
            return connected(*self._place)

    def _give_back(self, db: apsw.Connection) -> None:
        if self._closed or db.in_transaction:
            db.close()
            self._beside.forget()  # SQLite removes the log with the last connection
        else:
            self._free.append(db)

    def _is_closed(self) -> StorageError:
        return StorageError(f"the store {self.url!r} is closed", remedy="open it again")

    def _start_again_after_fork(self) -> None:
        """Set the parent's connections aside, so that new ones are opened. SQLite's connections must not be
        used in a forked process, not even to close them."""
        self._left_to_parent += self._free
        self._free = []
        self._pid = os.getpid()  # last: another thread that sees it takes a connection


def _roll_back(db: apsw.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")
