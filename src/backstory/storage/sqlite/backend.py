"""The SQLite backend: one file, through apsw. Connections, transactions and commits.

The reads are in `rows`, the writes in `transaction`.

All reads, and all writes of a transaction except batches of rows (`_run_many`, by which it also
appends), BEGIN and COMMIT, go through `_run`, so tests can count, pause and fail statements there.
Opening, migrating, checking and watching a store do not.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

import apsw

from backstory.errors import (
    Busy,
    ConnectionLost,
    Corrupt,
    ReadOnly,
    Remedy,
    StorageError,
    TextRemains,
)
from backstory.log.events import Event
from backstory.log.terms import FoundEvent
from backstory.storage.agent_errors import check_exists
from backstory.storage.locks import (
    DEFAULT_TIMEOUT,
    ForkGate,
    ForkSafeLock,
    call_before_fork,
    opening_gate,
)
from backstory.storage.pool import ConnectionPool, build_closed_error
from backstory.storage.protocol import (
    WHOLE_STORE,
    AgentRecord,
    Drafts,
    NewAgent,
    SearchQuery,
    SearchScope,
)
from backstory.storage.signals import CommitSignal, get_commit_signal
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite import schema
from backstory.storage.sqlite.file import (
    GET_PERMISSION,
    OpenMode,
    SqliteConnection,
    StoreFile,
    is_up_to_date,
    make_translator,
    open_connection,
    open_readable,
    open_writable,
)
from backstory.storage.sqlite.index import SqliteIndex, TemporaryIndex
from backstory.storage.sqlite.replacement import copy_pages, mark_as_copy
from backstory.storage.sqlite.rows import SqliteReader
from backstory.storage.sqlite.stamp import StampWriter, empty_wal, has_foreign_wal
from backstory.storage.sqlite.transaction import SqliteTransaction
from backstory.storage.sqlite.watch import SqliteWatch

T = TypeVar("T")

EMPTYING_TIMEOUT = 5.0  # seconds to try to empty the write-ahead log after text was removed
EMPTYING_PAUSE = 0.05  # seconds between two attempts
# Seconds that an attempt waits for readers. SQLite has the write lock meanwhile.
EMPTYING_WAIT = 0.02


class SqliteBackend(SqliteReader):
    """A store in one SQLite file. An agent's primary key is its number.

    Threads borrow connections from a small pool. Writers in one process wait for a lock; writers in
    several processes wait for SQLite's own.
    """

    can_index_alone = True

    def __init__(
        self, path: str, *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        # The program may change its working directory, and SQLite puts the log beside the file that
        # a link leads to.
        self.url = os.path.realpath(path)
        self.read_only = read_only
        self._timeout = timeout
        self._mode = OpenMode(self.url, apsw.SQLITE_OPEN_READWRITE)
        self._translator = make_translator(self.url, timeout)
        with opening_gate, self._translator:
            self._open()

    def _open(self) -> None:
        first = self._open_first()
        self._file = StoreFile(self.url)
        self._pool = ConnectionPool(
            self._connect,
            self._file.close_connection,
            first=first,
            is_idle=is_out_of_transaction,
            is_alive=partial(is_up_to_date, path=self.url),
        )
        self._stamp = StampWriter(self.url, first)
        self._write_lock = ForkSafeLock()
        self._fork_gate = ForkGate()
        self._signal = get_commit_signal(self._file.identity or self.url)
        self._watches: WeakSet[SqliteWatch] = WeakSet()
        self._index_lock = Lock()
        self._temporary_index: TemporaryIndex | None = None
        self._text_remains = False  # True if the log could not be emptied after a removal
        call_before_fork(self)

    def compute_deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _open_first(self) -> SqliteConnection:
        """Open the first connection. If the file or its folder cannot be written, only read."""
        deadline = self.compute_deadline()
        if not self.read_only:
            try:
                return open_writable(self.url, deadline)
            except (ReadOnly, apsw.ReadOnlyError, apsw.CantOpenError):
                if not os.path.isfile(self.url):
                    raise
        self.read_only = True
        db, self._mode = open_readable(self.url, deadline)
        return db

    def _connect(self, deadline: float) -> SqliteConnection:
        """Open a connection for the pool."""
        if self.read_only:  # with or without locks, whatever is possible by now
            db, self._mode = open_readable(self.url, deadline)
        else:
            db = open_connection(self._mode, self.url, deadline)
        self._file.add_connection(db)
        return db

    # --- reading ---

    def _run(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        def read(db: SqliteConnection) -> list[Any]:
            return make_records(shape, db.execute(sql, bindings))

        return self._read(read)

    def _read(self, read: Callable[[SqliteConnection], T]) -> T:
        """Return what `read` returns for a connection. If that has no locks, and others wrote to
        the file meanwhile, the result may be wrong, or the file look damaged: then read again,
        once, through a new connection."""
        deadline = self.compute_deadline()
        for _ in range(2):
            with self._fork_gate, self._translator, self._pool.borrow(deadline) as db:
                try:
                    found = read(db)
                except (Corrupt, apsw.CorruptError):
                    if is_up_to_date(db, self.url):
                        raise
                else:
                    if is_up_to_date(db, self.url):
                        return found
        raise ReadOnly(
            f"{self.url!r} is being written, and cannot be read at the same time in a directory "
            "that you cannot write to",
            remedy="get permission to write there, or copy the store and open the copy",
        )

    # --- writing ---

    @contextmanager
    def begin(
        self,
        *,
        sessions: Sequence[str] = (),
        agents: Sequence[AgentRecord] = (),
        deadline: float | None = None,
    ) -> Iterator[SqliteTransaction]:
        """As in the protocol. One lock protects the complete store, so sessions need none."""
        self._check_writable()
        if deadline is None:
            deadline = self.compute_deadline()
        with self._translator:
            # No fork gate as in `_run`: a fork waits for the write lock, too.
            self._write_lock.take(deadline)
            try:
                with self._pool.borrow(deadline) as db, self._write_on(db) as transaction:
                    for agent in agents:
                        check_exists(transaction, agent)
                    yield transaction
            finally:
                self._write_lock.release()
        if transaction.is_removal:
            self._empty_write_ahead_log(deadline)

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        deadline: float | None = None,
    ) -> list[Event]:
        # Not through `begin`: Ctrl-C inside of contextlib could leave the lock taken as long as the
        # traceback exists, and most writes are appends. An `__exit__` could not release the lock,
        # either: Ctrl-C may come when it begins.
        self._check_writable()
        if deadline is None:
            deadline = self.compute_deadline()
        with self._translator:
            self._write_lock.take(deadline)
            try:
                with self._pool.borrow(deadline) as db, self._write_on(db) as transaction:
                    return transaction.append(agent, drafts, expected)
            finally:
                self._write_lock.release()

    def _write_on(self, db: SqliteConnection) -> "WriteBlock":
        return WriteBlock(db, self._file, self._stamp, self._signal)

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        with self.begin() as transaction:
            return transaction.create_agent(new, drafts, now_us)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(f"{self.url!r} is open for reading only", remedy=GET_PERMISSION)

    def _empty_write_ahead_log(self, deadline: float) -> None:
        """Write the write-ahead log into the file, so that it contains no removed text. Others may
        write between two attempts. There is one attempt at least."""
        last_start = min(deadline, time.monotonic() + EMPTYING_TIMEOUT)
        # Others are waited for once.
        while not self._try_to_empty():
            if self._text_remains or time.monotonic() >= last_start:
                self._text_remains = True
                raise TextRemains(
                    f"{self.url!r}: the text was removed, but it stays in the write-ahead log "
                    "while others are still reading",
                    remedy="end the other programs; the last one that closes the store empties "
                    "the log",
                )
            time.sleep(EMPTYING_PAUSE)
        self._text_remains = False

    def _try_to_empty(self) -> bool:
        try:
            with self._fork_gate, self._translator, self._pool.borrow() as db:
                db.deadline = time.monotonic() + EMPTYING_WAIT
                return empty_wal(db, self.url)
        except Busy:
            return False
        except (StorageError, Corrupt) as error:
            # Not tried again: a sync that succeeds after one that failed proves nothing.
            raise TextRemains(
                f"{self.url!r}: the text was removed, but it may stay in the write-ahead log "
                f"({error.message})",
                remedy="check the disk, then close the store, and open, verify and close it again",
            ) from error

    # --- the search index ---

    def count_unindexed(self, scope: SearchScope = WHOLE_STORE) -> int:
        index = self._find_index(scope)
        if not self.read_only and not index.exists():
            with self.begin() as transaction:
                transaction.index.create()
        return index.count_unindexed(scope)

    def _find_index(self, scope: SearchScope) -> SqliteIndex:
        """Return the index of the store or, if that lacks events of `scope` and the store may only
        be read, one of this process."""
        index = SqliteIndex(self._run)
        if not self.read_only or index.count_unindexed(scope) == 0:
            return index
        with self._index_lock:
            if self._temporary_index is None:
                self._temporary_index = TemporaryIndex(self._mode, self._translator)
            return self._temporary_index

    def index_events(self, limit: int, scope: SearchScope = WHOLE_STORE) -> int:
        if self.read_only:
            return self._find_index(scope).index_next(limit, scope)
        with self.begin() as transaction:
            return transaction.index.index_next(limit, scope)

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        return self._find_index(query.scope).find_matches(query, limit)

    # --- the file ---

    def check_tables(self) -> list[str]:
        self._check_open()
        return self._read(self._check_anew)

    def _check_anew(self, _: SqliteConnection) -> list[str]:
        """Check the tables through a new connection, as `schema.check_tables` needs it."""
        with closing(self._connect(self.compute_deadline())) as db:
            if has_foreign_wal(db, self.url):
                return [
                    "the file was overwritten with another one, which its log does not belong to"
                ]
            return schema.check_tables(db)

    def measure_size(self) -> int:
        sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        [(size,)] = self._run(sql)
        return int(size)

    def copy_to(self, path: str) -> bool:
        def copy(db: SqliteConnection) -> None:
            copy_pages(db, path)
            mark_as_copy(path)

        self._read(copy)
        return True

    def is_replaced(self) -> bool:
        return self._file.is_replaced()

    def watch(self) -> SqliteWatch:
        self._check_open()
        with self._fork_gate, self._translator:
            watch = SqliteWatch(
                self._signal, self.url, self._mode, self._fork_gate, self._translator
            )
            self._watches.add(watch)
        return watch

    def _check_open(self) -> None:
        """Raise StorageError if the store was closed."""
        if self._pool.closed:
            raise build_closed_error(self.url)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        with self._fork_gate, self._translator:
            self._close_temporary_index()
            self._pool.close()
            self._stamp.close()

    def _close_temporary_index(self) -> None:
        with self._index_lock:
            if self._temporary_index is not None:
                self._temporary_index.close()
            self._temporary_index = None

    def prepare_fork(self) -> None:
        """Close the connections; parent and child open their own. SQLite keeps a list of the locks
        that its process has, and a child inherits the list, but no lock. It would take none for
        the connections that it opens, and the next process that closes the store would remove the
        log that the child writes to."""
        for watch in list(self._watches):
            watch.disconnect()
        self._close_temporary_index()
        self._pool.close_idle()
        self._stamp.close()
        self._file.forget_side_files()


class WriteBlock:
    """Begins a transaction for a `with` block, and commits it, or rolls it back after an error. If
    Ctrl-C comes in between, the pool closes the connection, which rolls it back, too."""

    def __init__(
        self, db: SqliteConnection, file: StoreFile, stamp: StampWriter, signal: CommitSignal
    ) -> None:
        self._db = db
        self._file = file
        self._stamp = stamp
        self._signal = signal

    def __enter__(self) -> SqliteTransaction:
        try:
            self._file.check_file()
            self._db.execute("BEGIN IMMEDIATE")
            self._stamp.renew(self._db)
        except BaseException:
            self._roll_back()
            raise
        return SqliteTransaction(self._db)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._commit()
        finally:
            self._roll_back()

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except apsw.IOError as error:
            # If the log was written but not synced, the event is there after a crash.
            path = self._file.path
            raise ConnectionLost(
                f"{path!r}: {error}: what was under way may or may not have been written",
                remedy=Remedy("{} shows whether it was", "events"),
            ) from error
        self._file.check_side_files()
        self._file.remember_size()
        self._signal.send()

    def _roll_back(self) -> None:
        """End the transaction, unless it was committed."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def is_out_of_transaction(db: apsw.Connection) -> bool:
    """Return True if a connection can be lent again."""
    return not db.in_transaction
