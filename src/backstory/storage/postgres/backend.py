"""The server backend: PostgreSQL 14 or newer, through psycopg.

It handles connections and transactions, and what happens to them when the server is lost. The reads
are in `rows`, the writes in `transaction`, the tables in `schema`.

All reads, and all writes of a transaction except batches of rows (COPY and `executemany`), BEGIN
and COMMIT, the search index and Citus, go through `_run`, so tests can count, pause and fail
statements there. Opening, migrating, checking and watching a store do not.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import psycopg

from backstory.errors import (
    CannotOpen,
    ConnectionLost,
    KeyTaken,
    NameTaken,
    Remedy,
    StorageError,
)
from backstory.log.events import Event
from backstory.log.terms import FoundEvent
from backstory.storage.address import without_password
from backstory.storage.ids import find_agent_by_id
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.pool import ConnectionPool, Loan, PoolTimeout, build_closed_error
from backstory.storage.postgres import citus, migrations, schema, server
from backstory.storage.postgres.index import ANALYZE, WORTH_ANALYZING, PostgresIndex
from backstory.storage.postgres.rows import PostgresReader, run_statement
from backstory.storage.postgres.server import PostgresConnection
from backstory.storage.postgres.transaction import PostgresTransaction
from backstory.storage.postgres.watch import NOTIFY, PostgresWatch
from backstory.storage.protocol import (
    EVERY_AGENT,
    WHOLE_STORE,
    AgentQuery,
    AgentRecord,
    Drafts,
    NewAgent,
    SearchQuery,
    SearchScope,
)
from backstory.storage.sql import RowShape

RECONNECT_PAUSE = 0.2  # seconds between attempts to reach a server that does not answer
READ_PAUSES = (0.0, 0.1, 0.5)  # seconds before a read is repeated
# Attempts to create an agent whose id or name is taken, but by no agent. Such an entry in the
# directory is not without its agent for long, and an agent may just have been deleted.
CREATE_ATTEMPTS = 100
STORE_SIZE = """
    SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(oid)), 0)::bigint
    FROM pg_catalog.pg_class
    WHERE relnamespace = 'backstory'::regnamespace AND relkind IN ('r', 'm')"""


class PostgresBackend(PostgresReader):
    """A store in the schema `backstory` of a PostgreSQL database. The primary key of an agent is
    its number within its place, the part of the tables where its session is (see `schema`)."""

    can_index_alone = False

    def __init__(
        self, url: str, *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self._must_not_write = read_only
        self.read_only = read_only  # also True if the server allows no writes
        self._timeout = timeout
        try:
            self.url = without_password(url)
            address, self._prepares = server.split_prepare(url)
            self._conninfo = server.build_conninfo(address, read_only=read_only, timeout=timeout)
        except (psycopg.Error, ValueError):  # the driver's message may contain the password
            raise CannotOpen(
                "this is not a PostgreSQL address",
                remedy="write postgresql://user:password@host:port/database, with special "
                "characters percent-encoded",
            ) from None
        make_translator = partial(
            server.make_translator, self.url, read_only=read_only, timeout=timeout
        )
        self._translator = make_translator()
        self._closed = False
        self._cluster = citus.Cluster()
        self._rows_since_analyze = 0
        self._watches: WeakSet[PostgresWatch] = WeakSet()
        with make_translator(otherwise=CannotOpen):
            first = self._connect_once(self.compute_deadline())
            try:
                self._prepare_store(first)
            except BaseException:
                first.close()
                raise
        self._pool = ConnectionPool(
            self._connect,
            PostgresConnection.close,
            first=first,
            is_idle=server.is_idle,
            is_alive=server.is_alive,
            limit=server.MOST_CONNECTIONS,
        )

    def _prepare_store(self, db: PostgresConnection) -> None:
        """Create or migrate the tables, and find out what the server can do."""
        server.check_settings(db, self.url, read_only=self.read_only)
        migrations.migrate(db, self.url, read_only=self.read_only)
        self._cluster.check(db)
        if self._prepares and server.is_pooler(db):
            self._prepares = False
            db.prepare_threshold = None
        self.read_only = self.read_only or server.cannot_write(db)

    def compute_deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _connect_once(self, deadline: float) -> PostgresConnection:
        return server.connect(
            self._conninfo, prepares=self._prepares, timeout=self._timeout, deadline=deadline
        )

    def _connect(self, deadline: float) -> PostgresConnection:
        """Open a connection for the pool. A server that restarts is waited for."""
        while True:
            try:
                return self._connect_once(deadline)
            except psycopg.OperationalError as error:
                if time.monotonic() + RECONNECT_PAUSE > deadline:
                    raise PoolTimeout(str(error).strip()) from error
            time.sleep(RECONNECT_PAUSE)

    # --- connections ---

    def _borrow(self, deadline: float | None = None) -> Loan[PostgresConnection]:
        """Return a loan for a call that ends at `deadline`, or that begins now."""
        return self._pool.borrow(self.compute_deadline() if deadline is None else deadline)

    def _run(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        """Run a read, and repeat it if the connection is lost, so that reads survive a restart of
        the server. While a server shuts down, more than one connection may be lost."""
        deadline = self.compute_deadline()
        for pause in READ_PAUSES:
            try:
                return self._run_once(sql, bindings, shape, deadline)
            except ConnectionLost:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
        return self._run_once(sql, bindings, shape, deadline)

    def _run_once(self, sql: str, bindings: Any, shape: RowShape, deadline: float) -> list[Any]:
        with self._translator, self._borrow(deadline) as db:
            return run_statement(db.open_cursor(shape), sql, bindings)

    # --- reads that a distributed store answers differently ---

    def _check_cluster(self) -> bool:
        """Return True if the store is distributed."""
        with self._translator, self._borrow() as db:
            return self._cluster.check(db)

    def list_agents(self, query: AgentQuery = EVERY_AGENT) -> list[AgentRecord]:
        try:
            return super().list_agents(query)
        except ConnectionLost:
            if not query.allow_partial or not self._check_cluster():
                raise
            with self._translator, self._borrow() as db:
                return citus.list_reachable_agents(db, query)

    def measure_size(self) -> int:
        sql = citus.STORE_SIZE if self._check_cluster() else STORE_SIZE
        [(size,)] = self._run(sql)
        return int(size)

    def distribute(self, progress: Callable[[int, int], None]) -> tuple[int, int]:
        """Distribute the store over the servers of its cluster. Return how many rows were moved (0
        if that was done before), and over how many servers it is distributed. Raises Invalid if
        there is no cluster."""
        moved = 0
        with self._translator, self._borrow() as db:
            db.deadline = math.inf  # moving all rows may take hours
            if not self._cluster.check(db):
                moved = citus.distribute_store(db, self.url, progress)
                self._cluster.check(db)
            return moved, citus.count_servers(db)

    # --- writes ---

    def _check_writable(self) -> None:
        # Not left to the server: Citus runs a function on a worker, where it could write.
        if self._must_not_write:
            raise server.build_read_only_error(self.url)

    @contextmanager
    def begin(
        self,
        *,
        sessions: Sequence[str] = (),
        agents: Sequence[AgentRecord] = (),
        deadline: float | None = None,
    ) -> Iterator[PostgresTransaction]:
        self._check_writable()
        with self._translator, self._borrow(deadline) as db, db.transaction():
            transaction = self._cluster.make_transaction(db)
            transaction.lock(sessions, agents)
            yield transaction

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        deadline: float | None = None,
    ) -> list[Event]:
        self._check_writable()
        with self._translator, self._borrow(deadline) as db:
            try:
                return self._cluster.make_writer(db).append(agent, drafts, expected)
            except citus.REFUSALS:
                # Another process may have distributed the store.
                if not self._cluster.notices_change(db):
                    raise
            return self._cluster.make_writer(db).append(agent, drafts, expected)

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        self._check_writable()
        deadline = self.compute_deadline()
        for _ in range(CREATE_ATTEMPTS):
            with self._translator, self._borrow(deadline) as db:
                writer = self._cluster.make_writer(db)
                with suppress(psycopg.errors.UniqueViolation):
                    return writer.insert_agent(new, drafts, now_us)
            self._check_taken(new)
        raise StorageError(
            f"{self.url!r}: cannot create the agent {new.key or new.name!r}, because something "
            "that belongs to no agent is in its place, such as what is left of one that was "
            "removed by hand",
            remedy=Remedy("{} shows what it is; then restore a backup, or remove it", "verify"),
        )

    def _check_taken(self, new: NewAgent) -> None:
        """Raise KeyTaken or NameTaken if an agent has the id or the name of `new`."""
        if new.key is not None and find_agent_by_id(self, new.id, include_deleted=True):
            raise KeyTaken.of_agent(new.key)
        if self.list_agents(AgentQuery(session=new.session, name=new.name)):
            raise NameTaken.of(new.name)

    # --- the search index ---

    def count_unindexed(self, scope: SearchScope = WHOLE_STORE) -> int:
        index = PostgresIndex(self._run)
        if not index.exists():
            if self.read_only:
                return index.count_without_index(scope)
            self._create_index()
        return index.count_unindexed(scope)

    def _create_index(self) -> None:
        """Create the index, unless another process has just created it."""
        with self._translator, self._borrow() as db, db.transaction():
            db.execute(schema.LOCK_STORE)
            if db.execute(schema.HAS_SEARCH_INDEX).fetchone() == (True,):
                return
            db.execute(schema.SEARCH_TABLES)
            if self._cluster.check(db):
                citus.distribute_index(db)

    def index_events(self, limit: int, scope: SearchScope = WHOLE_STORE) -> int:
        self._check_writable()
        if not PostgresIndex(self._run).exists():
            self._create_index()
        self._check_cluster()
        with self.begin() as transaction:
            count = transaction.index.index_next(limit, scope)
        self._rows_since_analyze += count
        if self._rows_since_analyze >= WORTH_ANALYZING:
            self._rows_since_analyze = 0
            with self._translator, self._borrow() as db:
                db.execute(ANALYZE)
        return count

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        return PostgresIndex(self._run).find_matches(query, limit)

    # --- the store ---

    def check_tables(self) -> list[str]:
        return schema.check_tables(self._run)

    def copy_to(self, path: str) -> bool:
        return False  # the server cannot write an SQLite file

    def is_replaced(self) -> bool:
        return False

    def watch(self) -> PostgresWatch:
        if self._closed:
            raise build_closed_error(self.url)
        notify = None if self._check_cluster() else self._notify
        watch = PostgresWatch(self._connect_once, self._timeout, notify, self._translator)
        self._watches.add(watch)
        return watch

    def _notify(self) -> None:
        """Send a notification, so that a watch finds out whether it arrives."""
        with self._translator, self._borrow() as db:
            if not self._cluster.check(db):
                db.execute(NOTIFY)

    def close(self) -> None:
        self._closed = True
        for watch in list(self._watches):
            watch.close()
        self._pool.close()
