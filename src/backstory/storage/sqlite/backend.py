"""The SQLite backend: one file, through apsw. Connections, transactions and commits.

The reads are in `rows`, the writes in `transaction`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

import apsw

from backstory.errors import Busy, ReadOnly
from backstory.log.events import Event
from backstory.storage.locks import ForkGate, ForkSafeLock, get_commit_signal
from backstory.storage.pool import ConnectionPool
from backstory.storage.protocol import AgentRecord, Drafts, NewAgent, Pieces
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite import schema
from backstory.storage.sqlite.file import (
    GET_PERMISSION,
    OpenMode,
    StoreFile,
    build_closed_error,
    create_private_file,
    empty_log,
    make_translator,
    open_connection,
    open_readable,
    open_writable,
)
from backstory.storage.sqlite.index import WORTH_MERGING, SqliteIndexReader
from backstory.storage.sqlite.rows import Bindings
from backstory.storage.sqlite.transaction import SqliteTransaction
from backstory.storage.sqlite.watch import SqliteWatch


class SqliteBackend(SqliteIndexReader):
    """A store in one SQLite file. An agent's primary key is its number.

    Threads borrow connections from a small pool. Writers in one process wait for a lock; writers in
    several processes wait for SQLite's own.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.url = os.path.abspath(path)  # the program may change its working directory
        self.read_only = read_only
        self._mode = OpenMode(self.url, apsw.SQLITE_OPEN_READWRITE)
        with make_translator(self.url):
            first = self._open_first()
        self._file = StoreFile(self.url)
        self._pool = ConnectionPool(
            partial(open_connection, self._mode, self.url),
            self._file.close_connection,
            first=first,
            is_idle=is_out_of_transaction,
        )
        self._write_lock = ForkSafeLock()
        self._fork_gate = ForkGate()
        self._signal = get_commit_signal(self._file.identity or self.url)
        self._watches: WeakSet[SqliteWatch] = WeakSet()
        self._unmerged = 0  # events that were indexed since segments were merged

    def _open_first(self) -> apsw.Connection:
        """Open the first connection. If the file or its folder cannot be written, only read."""
        if not self.read_only:
            try:
                return open_writable(self.url)
            except (ReadOnly, apsw.ReadOnlyError, apsw.CantOpenError):
                if not os.path.isfile(self.url):
                    raise
        self.read_only = True
        db, self._mode = open_readable(self.url)
        return db

    def _run(self, sql: str, bindings: Bindings = (), shape: RowShape = tuple) -> list[Any]:
        with self._fork_gate, self._file.translator, self._pool.borrow() as db:
            return make_records(shape, db.execute(sql, bindings))

    # --- writing ---

    @contextmanager
    def begin(
        self, *, sessions: Sequence[str] = (), agents: Sequence[AgentRecord] = ()
    ) -> Iterator[SqliteTransaction]:
        """As in the protocol. One lock protects the complete store, so sessions need none."""
        self._check_writable()
        # No fork gate as in `_run`: a fork waits for the write lock, too.
        with self._write_lock, self._file.translator, self._pool.borrow() as db:
            transaction = SqliteTransaction(db)
            try:
                self._start(db)
                for agent in agents:
                    transaction.read_head(agent)  # raises if it was deleted
                yield transaction
                self._commit(db)
            finally:
                roll_back(db)
        if transaction.has_removed_text:
            self._empty_log()

    def append(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int
    ) -> list[Event]:
        # Not through `begin`: Ctrl-C inside of contextlib could leave the lock taken as long as the
        # traceback exists, and most writes are appends.
        self._check_writable()
        with self._write_lock, self._file.translator, self._pool.borrow() as db:
            try:
                self._start(db)
                events = SqliteTransaction(db).append(agent, drafts, expected, now_us)
                self._commit(db)
                return events
            finally:
                roll_back(db)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(f"{self.url!r} is open for reading only", remedy=GET_PERMISSION)

    def _start(self, db: apsw.Connection) -> None:
        self._file.check_exists()
        db.execute("BEGIN IMMEDIATE")

    def _commit(self, db: apsw.Connection) -> None:
        db.execute("COMMIT")
        self._file.check_side_files()
        self._signal.send()

    def _empty_log(self) -> None:
        """Write the write-ahead log into the file, so that it contains no removed text."""
        with self._write_lock, self._file.translator, self._pool.borrow() as db:
            is_empty = empty_log(db)
        if not is_empty:
            raise Busy(
                f"{self.url!r}: the text was removed, but it stays in the write-ahead log while "
                "others are still reading",
                remedy="end the other programs; the last one that closes the store empties the log",
            )

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int) -> AgentRecord:
        with self.begin() as transaction:
            return transaction.create_agent(new, drafts, now_us)

    # --- the search index ---

    def count_unindexed(self, agent: AgentRecord | None = None, pieces: Pieces = ()) -> int:
        if not self.read_only and not self.has_index():
            with self.begin() as transaction:
                transaction.create_index()
        backlogs = self.read_backlogs(agent, pieces)
        return sum(backlog.upto - backlog.after for backlog in backlogs)

    def index_events(
        self, limit: int, agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> int:
        with self.begin() as transaction:
            count = transaction.index_events(limit, agent, pieces)
        self._unmerged += count
        has_caught_up = count < limit
        if has_caught_up and self._unmerged >= WORTH_MERGING:
            self._merge_segments()
        return count

    def _merge_segments(self) -> None:
        """Merge the segments of the index, in short transactions."""
        self._unmerged = 0
        is_first = True
        has_more = True
        while has_more:
            with self.begin() as transaction:
                has_more = transaction.merge_segments(is_first=is_first)
            is_first = False

    # --- the file ---

    def check_tables(self) -> list[str]:
        self._check_open()
        with self._fork_gate, self._file.translator:
            with closing(open_connection(self._mode, self.url)) as db:
                return schema.check_tables(db)

    def measure_size(self) -> int:
        sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        [(size,)] = self._run(sql)
        return int(size)

    def copy_to(self, path: str) -> bool:
        """Copy all pages in one read transaction, so that writers are not blocked."""
        create_private_file(path)
        with self._fork_gate, self._file.translator, self._pool.borrow() as db:
            with closing(apsw.Connection(path)) as copy:
                with copy.backup("main", db, "main") as backup:
                    backup.step(-1)
        return True

    def is_replaced(self) -> bool:
        return self._file.is_replaced()

    def watch(self) -> SqliteWatch:
        self._check_open()
        with self._file.translator:
            watch = SqliteWatch(self._signal, self.url, self._mode)
        self._watches.add(watch)
        return watch

    def _check_open(self) -> None:
        """Raise StorageError if the store was closed."""
        if self._pool.closed:
            raise build_closed_error(self.url)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self._pool.close()


def roll_back(db: apsw.Connection) -> None:
    """End a transaction that was not committed."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def is_out_of_transaction(db: apsw.Connection) -> bool:
    """Return True if a connection can be lent again."""
    return not db.in_transaction
