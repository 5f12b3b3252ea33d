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
from typing import Any, TypeVar
from weakref import WeakSet

import apsw

from backstory.errors import (
    ConnectionLost,
    Corrupt,
    ReadOnly,
    Remedy,
    StorageError,
    TextRemains,
)
from backstory.log.events import Event
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
    FoundEvent,
    NewAgent,
    SearchScope,
    WordQuery,
)
from backstory.storage.signals import get_commit_signal
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite import schema
from backstory.storage.sqlite.file import (
    GET_PERMISSION,
    OpenMode,
    SqliteConnection,
    StoreFile,
    is_current,
    make_translator,
    open_connection,
    open_readable,
    open_writable,
)
from backstory.storage.sqlite.index import WORTH_MERGING, SqliteIndex
from backstory.storage.sqlite.replacement import copy_pages, mark_as_copy
from backstory.storage.sqlite.rows import Bindings, SqliteReader
from backstory.storage.sqlite.transaction import SqliteTransaction
from backstory.storage.sqlite.wal import StampWriter, empty_log
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
        with opening_gate:
            self._open()

    def _open(self) -> None:
        with self._translator:
            first = self._open_first()
        self._file = StoreFile(self.url)
        self._pool = ConnectionPool(
            self._connect,
            self._file.close_connection,
            first=first,
            is_idle=is_out_of_transaction,
            is_alive=partial(is_current, path=self.url),
        )
        self._stamp = StampWriter(self.url)
        self._write_lock = ForkSafeLock()
        self._fork_gate = ForkGate()
        self._signal = get_commit_signal(self._file.identity or self.url)
        self._watches: WeakSet[SqliteWatch] = WeakSet()
        self._unmerged = 0  # events that were indexed since segments were merged
        self._text_remains = False  # True if the log could not be emptied after a removal
        call_before_fork(self)

    def _compute_deadline(self) -> float:
        """Return the monotonic time at which a call that begins now ends at the latest."""
        return time.monotonic() + self._timeout

    def _open_first(self) -> SqliteConnection:
        """Open the first connection. If the file or its folder cannot be written, only read."""
        deadline = self._compute_deadline()
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

    def _run(self, sql: str, bindings: Bindings = (), shape: RowShape = tuple) -> list[Any]:
        def read(db: SqliteConnection) -> list[Any]:
            return make_records(shape, db.execute(sql, bindings))

        return self._read(read)

    def _read(self, read: Callable[[SqliteConnection], T]) -> T:
        """Return what `read` returns for a connection. If that has no locks, and others wrote to
        the file meanwhile, the result may be wrong, or the file look damaged: then read again,
        once, through a new connection."""
        deadline = self._compute_deadline()
        for _ in range(2):
            with self._fork_gate, self._translator, self._pool.borrow(deadline) as db:
                try:
                    found = read(db)
                except (Corrupt, apsw.CorruptError):
                    if is_current(db, self.url):
                        raise
                else:
                    if is_current(db, self.url):
                        return found
        raise ReadOnly(
            f"{self.url!r} is being written, and cannot be read at the same time in a directory "
            "that you cannot write to",
            remedy="get permission to write there, or copy the store and open the copy",
        )

    # --- writing ---

    @contextmanager
    def begin(
        self, *, sessions: Sequence[str] = (), agents: Sequence[AgentRecord] = ()
    ) -> Iterator[SqliteTransaction]:
        """As in the protocol. One lock protects the complete store, so sessions need none."""
        self._check_writable()
        deadline = self._compute_deadline()
        with self._translator:
            # No fork gate as in `_run`: a fork waits for the write lock, too.
            self._write_lock.take(deadline)
            try:
                with self._pool.borrow(deadline) as db:
                    transaction = SqliteTransaction(db)
                    try:
                        self._start(db)
                        for agent in agents:
                            check_exists(transaction, agent)
                        yield transaction
                        self._commit(db)
                    finally:
                        roll_back(db)
            finally:
                self._write_lock.release()
        if transaction.has_removed_text:
            self._empty_log()

    def append(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None = None
    ) -> list[Event]:
        # Not through `begin`: Ctrl-C inside of contextlib could leave the lock taken as long as the
        # traceback exists, and most writes are appends.
        self._check_writable()
        deadline = self._compute_deadline()
        with self._translator:
            self._write_lock.take(deadline)
            try:
                with self._pool.borrow(deadline) as db:
                    try:
                        self._start(db)
                        events = SqliteTransaction(db).append(agent, drafts, expected)
                        self._commit(db)
                        return events
                    finally:
                        roll_back(db)
            finally:
                self._write_lock.release()

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        with self.begin() as transaction:
            return transaction.create_agent(new, drafts, now_us)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnly(f"{self.url!r} is open for reading only", remedy=GET_PERMISSION)

    def _start(self, db: apsw.Connection) -> None:
        self._file.check_file()
        db.execute("BEGIN IMMEDIATE")
        self._stamp.renew(db)

    def _commit(self, db: apsw.Connection) -> None:
        try:
            db.execute("COMMIT")
        except apsw.IOError as error:
            # If the log was written but not synced, the event is there after a crash.
            raise ConnectionLost(
                f"{self.url!r}: {error}: what was under way may or may not have been written",
                remedy=Remedy("{} shows whether it was", "events"),
            ) from error
        self._file.check_side_files()
        self._file.remember_size()
        self._signal.send()

    def _empty_log(self) -> None:
        """Write the write-ahead log into the file, so that it contains no removed text. Others may
        write between two attempts."""
        deadline = time.monotonic()
        if not self._text_remains:  # others are waited for once
            deadline += min(self._timeout, EMPTYING_TIMEOUT)
        while not self._try_to_empty_log():
            if time.monotonic() >= deadline:
                self._text_remains = True
                raise TextRemains(
                    f"{self.url!r}: the text was removed, but it stays in the write-ahead log "
                    "while others are still reading",
                    remedy="end the other programs; the last one that closes the store empties "
                    "the log",
                )
            time.sleep(EMPTYING_PAUSE)
        self._text_remains = False

    def _try_to_empty_log(self) -> bool:
        try:
            with self._fork_gate, self._translator, self._pool.borrow() as db:
                db.deadline = time.monotonic() + EMPTYING_WAIT
                return empty_log(db)
        except StorageError as error:
            # Not tried again: a sync that succeeds after one that failed proves nothing.
            raise TextRemains(
                f"{self.url!r}: the text was removed, but it may stay in the write-ahead log "
                f"({error.message})",
                remedy="check the disk, then close the store, and open and close it again",
            ) from error

    # --- the search index ---

    def count_unindexed(self, scope: SearchScope = WHOLE_STORE) -> int:
        index = SqliteIndex(self._run)
        if not self.read_only and not index.exists():
            with self.begin() as transaction:
                transaction.index.create()
        return index.count_unindexed(scope)

    def index_events(self, limit: int, scope: SearchScope = WHOLE_STORE) -> int:
        with self.begin() as transaction:
            count = transaction.index.add_events(limit, scope)
        self._unmerged += count
        has_caught_up = count < limit
        if has_caught_up and self._unmerged >= WORTH_MERGING:
            self._merge_segments()
        return count

    def find_words(self, query: WordQuery, limit: int) -> list[FoundEvent]:
        return SqliteIndex(self._run).find_words(query, limit)

    def _merge_segments(self) -> None:
        """Merge the segments of the index, in short transactions."""
        self._unmerged = 0
        is_first = True
        has_more = True
        while has_more:
            with self.begin() as transaction:
                has_more = transaction.index.merge_segments(is_first=is_first)
            is_first = False

    # --- the file ---

    def check_tables(self) -> list[str]:
        self._check_open()
        return self._read(self._check_anew)

    def _check_anew(self, _: SqliteConnection) -> list[str]:
        """Check the tables through a new connection, as `schema.check_tables` needs it."""
        with closing(self._connect(self._compute_deadline())) as db:
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
            watch = SqliteWatch(self._signal, self.url, self._mode, self._fork_gate)
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
            self._pool.close()
            self._stamp.close()

    def prepare_fork(self) -> None:
        """Close the connections; parent and child open their own. SQLite keeps a list of the locks
        that its process has, and a child inherits the list, but no lock. It would take none for
        the connections that it opens, and the next process that closes the store would remove the
        log that the child writes to."""
        for watch in list(self._watches):
            watch.disconnect()
        self._pool.close_idle()
        self._stamp.close()
        self._file.forget_side_files()


def roll_back(db: apsw.Connection) -> None:
    """End a transaction that was not committed."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def is_out_of_transaction(db: apsw.Connection) -> bool:
    """Return True if a connection can be lent again."""
    return not db.in_transaction
