"""The server backend: PostgreSQL 14 or newer, through psycopg and its pool.

It handles connections and transactions, and what happens to them when the server is lost or the process
forks. The statements are in `rows`; the tables, and the functions that write to them, are in `schema`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

import psycopg
from psycopg_pool import PoolTimeout

from backstory.errors import (
    CannotOpen,
    KeyTaken,
    NameTaken,
    ReadOnly,
    Remedy,
    StorageError,
)
from backstory.log.events import EncodedRow, Event, decoded_rows
from backstory.log.terms import Query
from backstory.storage.address import without_password
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.ids import new_id
from backstory.storage.postgres import index as postgres_index
from backstory.storage.postgres.append import CAN_POLL, append_directly
from backstory.storage.postgres.cluster import (
    distribute_index,
    distribute_store,
    is_distributed,
    servers,
)
from backstory.storage.postgres.connections import Connections
from backstory.storage.postgres.intake import PostgresIntake
from backstory.storage.postgres.reads import PostgresReads
from backstory.storage.postgres.removal import PostgresRemoval
from backstory.storage.postgres.rows import PostgresRows
from backstory.storage.postgres.server import (
    CANNOT_WRITE,
    ONE_MIGRATES,
    PATIENCE,
    Clash,
    Connection,
    check_connection,
    conninfo,
    is_pooled,
    migrate,
    reads_only,
    split_prepare,
    transaction,
    translation,
)
from backstory.storage.postgres.watch import NOTIFY, PostgresWatch
from backstory.storage.protocols import (
    AgentRecord,
    BasedDrafts,
    Found,
    NewAgent,
    Packed,
    Piece,
    Wanted,
)

TRIES = 1_000  # to create an agent; after each, someone else has created one in the same session
ENTRY_TRIES = (
    100  # where only an entry in the directory clashes: it is not without its agent for long
)
REFUSED_BY_CITUS = (psycopg.errors.UndefinedTable, psycopg.errors.FeatureNotSupported)


class PostgresBackend(PostgresReads):
    """A store in the schema `backstory` of a PostgreSQL database. An agent's primary key is its number within
    its place."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._only_reads = self.read_only = read_only  # the caller's choice; that, or the server's
        try:
            self.url = without_password(url)
            address, self._prepares = split_prepare(url)
            self._conninfo = conninfo(address, read_only=read_only)
        except (psycopg.Error, ValueError):  # the driver's message may contain the password
            raise CannotOpen(
                "this is not a PostgreSQL address",
                remedy="write postgresql://user:password@host:port/database, with special characters "
                "percent-encoded",
            ) from None
        self._pool = self._opened_pool()
        self._pid = os.getpid()
        self._closed = False
        self._new_to_planner = 0  # index rows since the last ANALYZE
        self._watches: WeakSet[PostgresWatch] = WeakSet()

    def _opened_pool(self) -> Connections:
        with self._translated(CannotOpen):
            # Connect without the pool first: the pool would only report a timeout.
            with psycopg.connect(self._conninfo, autocommit=True) as db:
                check_connection(db, self.url, read_only=self._only_reads)
                migrate(db, self.url, read_only=self._only_reads)
                self._is_distributed = is_distributed(db)
                self._prepares = self._prepares and not is_pooled(db)
                self._is_direct = self._prepares and CAN_POLL
                self.read_only = self._only_reads or db.execute(CANNOT_WRITE).fetchone() == (True,)
            return Connections(self._conninfo, prepares=self._prepares, patience=PATIENCE)

    def create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        entries = 0  # how often an id was taken in the directory, but by no agent
        for _ in range(TRIES):
            try:
                return self._created(new, events, now)
            except (
                Clash
            ) as clash:  # another agent was created in this place meanwhile: take the next number
                new = self._not_taken(new)
                entries += clash.is_in("directory_pkey")
            if entries == ENTRY_TRIES:
                break
        raise StorageError(
            f"{self.url!r}: cannot create the agent {new.key or new.name!r}, because something "
            "that belongs to no agent is in its place, such as what is left of one that was removed by hand",
            remedy=Remedy("{} shows what it is; then restore a backup, or remove it", "verify"),
        )

    def _created(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        with self._connection(to_write=True) as db:
            return PostgresRows(db).create(new, events, now)

    def _not_taken(self, new: NewAgent) -> NewAgent:
        """The agent to try again with, if only its number or its random id was taken."""
        is_there = self.agents(Wanted(prefix=new.id, deleted=True))
        if new.key is not None and is_there:
            raise KeyTaken.of_agent(new.key)
        if self.agents(Wanted(session=new.session, name=new.name)):
            raise NameTaken.of(new.name)
        return new._replace(id=new_id(new.session)) if is_there else new

    def rename(self, agent: AgentRecord, name: str) -> None:
        try:
            with (
                self._connection(to_write=True) as db,
                transaction(db, on_many_servers=self._is_distributed),
            ):
                PostgresRows(db).rename(agent, name)
        except Clash:
            raise NameTaken.of(name) from None

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        with (
            self._connection(to_write=True) as db,
            transaction(db, on_many_servers=self._is_distributed),
        ):
            return PostgresRows(db).describe(agent, change)

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        # Not through `_connection`, whose context managers would take a third of the client's time.
        pool = self._own_pool(to_write=True)
        try:
            with pool.connection() as db:
                if len(events) != 1 or not self._is_direct or self._is_distributed:
                    return PostgresRows(db).append(agent, events, expected, now)
                written = append_directly(db, agent, *events[0], expected, now)
                if written is None:
                    raise PostgresRows(db).conflict(agent, expected)
                return [written]
        except (psycopg.Error, PoolTimeout) as error:
            if self._was_distributed(error):
                return self.append(agent, events, expected, now)
            raise self._translation(error, StorageError) from error

    def _was_distributed(self, error: Exception) -> bool:
        """Whether a plain append failed, without writing, because the store was distributed meanwhile: Citus
        allows no function that locks in an UPDATE, and workers do not have `followers`."""
        is_plain = isinstance(error, REFUSED_BY_CITUS) and not self._is_distributed
        return is_plain and self._has_servers()

    @contextmanager
    def exclusive(self, *agents: AgentRecord) -> Iterator[PostgresRows]:
        with (
            self._connection(to_write=True) as db,
            transaction(db, on_many_servers=self._is_distributed),
        ):
            # Its appends call the function: psycopg may have removed the prepared statement (after a DROP, an
            # ALTER or a ROLLBACK), and within a transaction the append could not be retried.
            rows = PostgresRows(db)
            # The server has room for a few thousand such locks, and a batch may be for more agents.
            in_turn = len(agents) == 1 and not self._is_distributed
            for agent in sorted(
                agents, key=lambda agent: agent.id
            ):  # in one order, to avoid deadlocks
                rows.hold(agent, in_turn=in_turn)
            yield rows

    def distribute(self, progress: Callable[[int, int], None]) -> tuple[int, int]:
        moved = 0
        with self._connection() as db:
            if not is_distributed(db):
                moved = distribute_store(db, self.url, progress)
            self._is_distributed = True
            return moved, servers(db)

    def copy_to(self, path: str) -> bool:
        return False

    def packed(self, rows: Sequence[EncodedRow]) -> Packed:
        return decoded_rows(rows)

    @contextmanager
    def intake(self) -> Iterator[PostgresIntake]:
        with (
            self._connection(to_write=True) as db,
            transaction(db, on_many_servers=self._is_distributed),
        ):
            yield PostgresIntake(db)

    @contextmanager
    def removal(self) -> Iterator[PostgresRemoval]:
        with (
            self._connection(to_write=True) as db,
            transaction(db, on_many_servers=self._is_distributed),
        ):
            yield PostgresRemoval(db)

    def backlog(self, session: str, pieces: Sequence[Piece] | None) -> list[Backlog]:
        exists = self._query(postgres_index.EXISTS, {}) == [(True,)]
        if not exists and not self.read_only:
            self._make_index()
            exists = True
        asked = postgres_index.backlog_of(session, pieces, exists=exists)
        return [Backlog(*row) for row in self._query(*asked)]

    def unindexed(self, backlog: Sequence[Backlog]) -> list[Unindexed]:
        if not self._has_servers():
            return self._query(postgres_index.UNINDEXED, postgres_index.backlogs(backlog))
        with self._connection() as db:
            return postgres_index.unindexed_one_by_one(db, backlog)

    def _make_index(self) -> None:
        with self._connection() as db, db.transaction():
            db.execute(ONE_MIGRATES)
            if db.execute(postgres_index.EXISTS).fetchone() == (True,):
                return  # another process created it while we waited
            db.execute(postgres_index.CREATE)
            if is_distributed(db):
                distribute_index(db)

    def index(self, texts: Sequence[tuple[Backlog, Texts]], *, last: bool = True) -> None:
        one_by_one = self._has_servers()
        with self._connection() as db:
            with db.transaction():
                postgres_index.index(db, texts, one_by_one=one_by_one)
            self._new_to_planner += sum(len(found) for _, found in texts)
            if self._new_to_planner >= postgres_index.WORTH_ANALYZING:
                db.execute("ANALYZE backstory.search_3, backstory.searched_3")
                self._new_to_planner = 0

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
            return postgres_index.find(db, query, kinds, pieces, session, limit)

    def watch(self) -> PostgresWatch:
        if self._closed:
            raise self._is_closed()
        notify = None if self._has_servers() else self._notify
        watch = PostgresWatch(self._conninfo, notify, lambda: self._translated(StorageError))
        self._watches.add(watch)
        return watch

    def _notify(self) -> None:
        if not self._has_servers():
            with self._connection() as db:
                db.execute(NOTIFY)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        if self._pid == os.getpid():  # after a fork, the connections belong to the parent
            self._pool.close()
        self._closed = True

    @contextmanager
    def _connection(self, *, to_write: bool = False) -> Iterator[Connection]:
        pool = self._own_pool(to_write=to_write)
        with self._translated(StorageError), pool.connection() as db:
            yield db

    def _own_pool(self, *, to_write: bool = False) -> Connections:
        if self._closed:
            raise self._is_closed()
        if to_write and self._only_reads:  # Citus runs a function on a worker, where it could write
            raise reads_only(self.url)
        if self._pid != os.getpid():  # connections must not be shared with a parent process
            self._left_to_parent = self._pool
            self._pid, self._pool = os.getpid(), self._opened_pool()
        return self._pool

    def _is_closed(self) -> StorageError:
        return StorageError(f"the store {self.url!r} is closed", remedy="open it again")

    @contextmanager
    def _translated(self, otherwise: type[StorageError]) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, PoolTimeout) as error:
            raise self._translation(error, otherwise) from error

    def _translation(self, error: Exception, otherwise: type[StorageError]) -> StorageError:
        translated = translation(error, self.url, otherwise)
        if self._only_reads and isinstance(translated, ReadOnly):
            return reads_only(self.url)
        return translated
