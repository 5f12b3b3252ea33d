"""Everything that knows Citus: a PostgreSQL store that is distributed over many servers.

The agents, the events and the directory of ids are distributed by place. So all of a session is on
one server, and the functions that write to it run there. For what happens when a node fails, see
docs/scale.md.

The ordinary path knows nothing of this. `Cluster` remembers whether a store is distributed, which
can happen while it is open, and then makes the writers below. They replace the steps of
`PostgresWriter` and `PostgresTransaction` that a distributed store refuses.
"""

import json
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from operator import attrgetter
from typing import Any

import psycopg
from psycopg import sql

from backstory.errors import Invalid, PartMissing
from backstory.log.events import Event
from backstory.storage.ids import parse_place
from backstory.storage.postgres import server
from backstory.storage.postgres.index import PostgresBacklog, PostgresIndexWriter
from backstory.storage.postgres.listing import build_listing
from backstory.storage.postgres.schema import HAS_SEARCH_INDEX
from backstory.storage.postgres.server import Connection, PostgresConnection
from backstory.storage.postgres.transaction import PostgresTransaction
from backstory.storage.postgres.watch import DISTRIBUTED
from backstory.storage.postgres.writer import DraftBatch, PostgresWriter
from backstory.storage.protocol import AgentQuery, AgentRecord, Drafts

HAS_CITUS = "SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus'"
IS_DISTRIBUTED = """
    SELECT 1 FROM pg_catalog.pg_dist_partition
    WHERE logicalrelid = pg_catalog.to_regclass('backstory.events')"""
SERVERS = """
    SELECT pg_catalog.count(DISTINCT (nodename, nodeport)) FROM citus_shards
    WHERE table_name = 'backstory.events'::regclass"""
STORE_SIZE = """
    SELECT coalesce(pg_catalog.sum(CASE WHEN d.logicalrelid IS NULL
        THEN pg_catalog.pg_total_relation_size(c.oid)
        ELSE citus_total_relation_size(c.oid) END), 0)::bigint
    FROM pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_dist_partition d ON d.logicalrelid = c.oid
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind IN ('r', 'm')
        AND NOT relation_is_a_known_shard(c.oid)"""


def has_citus(db: Connection) -> bool:
    """Return True if the database has the extension."""
    return db.execute(HAS_CITUS).fetchone() is not None


def is_distributed(db: Connection) -> bool:
    """Return True if the store's tables are distributed."""
    return has_citus(db) and db.execute(IS_DISTRIBUTED).fetchone() is not None


def count_servers(db: Connection) -> int:
    """Return how many servers have events of a distributed store."""
    [(number,)] = db.execute(SERVERS).fetchall()
    return int(number)


# --- writing ---

# The errors of a plain append to a distributed store. Nothing was written: Citus allows no function
# that locks in an UPDATE, and workers do not have `followers`.
REFUSALS = (psycopg.errors.UndefinedTable, psycopg.errors.FeatureNotSupported)
# It changes no row. But until the transaction ends, Citus moves this part of the store to no other
# server. Otherwise the part could be moved between two statements, and the second, if it is a
# function that was sent to the old server, would fail. Citus locks the agents of a part before its
# other tables, and so do we: nobody waits in a circle.
HOLD_PART = "UPDATE backstory.agents SET head = head WHERE place = %s::bigint AND no = 0"
# A statement that joins a list with the events would ask all servers. This one asks one.
READ_TEXTS_OF_AGENT = """
    SELECT seq, kind, content, data FROM backstory.events
    WHERE place = %s::bigint AND agent = %s AND seq > %s AND seq <= %s ORDER BY seq"""


class CitusWriter(PostgresWriter):
    """Appends by the function alone, which runs on the server that has the session."""

    def _prepare(self, ids: Iterable[str]) -> None:
        """Limit the time of waiting for locks on the workers, which do not know the settings of our
        connection, and keep the parts of the store where they are."""
        self._db.execute("SET LOCAL citus.propagate_set_commands TO 'local'")
        self._db.execute(f"SET LOCAL lock_timeout TO {server.limit_locks(self._db.timeout)}")
        for place in sorted(set(map(parse_place, ids))):
            self._db.execute(HOLD_PART, (place,))

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        return self._append_batches(agent, drafts, expected, now_us)

    def _append_batch(
        self, agent: AgentRecord, batch: DraftBatch, expected: int | None, now_us: int | None
    ) -> list[Event]:
        if batch.is_too_large_for_array:
            raise Invalid(
                f"an event of {batch.bytes:,} bytes is too large for a distributed store, which "
                f"takes at most {server.LARGEST_BATCH:,}",
                remedy="put the content in a file, and its path in the event",
            )
        return self._append_by_function(agent, batch.drafts, expected, now_us)


class CitusTransaction(CitusWriter, PostgresTransaction):
    """A transaction in a distributed store. Appends are CitusWriter's; all else is
    PostgresTransaction's."""

    # No plain append could overtake, so there is no queue.
    LOCK_IN_QUEUE = PostgresTransaction.LOCK_AGENT

    @cached_property
    def index(self) -> "CitusIndexWriter":
        """The search index, within this transaction."""
        return CitusIndexWriter(self._run, self._db)


class CitusIndexWriter(PostgresIndexWriter):
    """The search index of a distributed store, within a transaction."""

    def read_texts(self, backlogs: Sequence[PostgresBacklog]) -> list[tuple[Any, ...]]:
        events = []
        for nth, backlog in enumerate(backlogs):
            for row in self._db.execute(READ_TEXTS_OF_AGENT, backlog[:4]).fetchall():
                events.append((nth, *row))
        return events


class Cluster:
    """Remembers whether a store is distributed, which is never undone, and opens its writers."""

    def __init__(self) -> None:
        self.is_distributed = False  # as far as we know

    def check(self, db: Connection) -> bool:
        """Return True if the store is distributed. Asks the server until it is."""
        if not self.is_distributed:
            self.is_distributed = is_distributed(db)
        return self.is_distributed

    def notices_change(self, db: Connection) -> bool:
        """Return True if the store was distributed without our knowledge."""
        return not self.is_distributed and self.check(db)

    def make_writer(self, db: PostgresConnection) -> PostgresWriter:
        """Return what appends and creates agents over a connection."""
        return CitusWriter(db) if self.is_distributed else PostgresWriter(db)

    def make_transaction(self, db: PostgresConnection) -> PostgresTransaction:
        """Return what writes in a transaction that was begun on a connection."""
        return CitusTransaction(db) if self.is_distributed else PostgresTransaction(db)


# --- distributing a store ---


FIRST = "SELECT create_distributed_table(%s::regclass, 'place', colocate_with => 'none')"
WITH_AGENTS = """
    SELECT create_distributed_table(%s::regclass, 'place', colocate_with => 'backstory.agents')"""
BY_ID = "SELECT create_distributed_table(%s::regclass, 'id', colocate_with => 'none')"
EVERYWHERE = "SELECT create_reference_table(%s::regclass)"
# The tables, in the order in which they are distributed, and the statement that does it.
TABLES: dict[str, str] = {
    "agents": FIRST,
    "events": WITH_AGENTS,
    "directory": WITH_AGENTS,
    "sources": BY_ID,
    "places": WITH_AGENTS,
    "removals": WITH_AGENTS,
    "meta": EVERYWHERE,
}
INDEX_TABLES: dict[str, str] = {
    "search_3": WITH_AGENTS,
    "searched_3": WITH_AGENTS,
}
# A notification does not leave its server. So followers poll, and appends do not look for
# followers.
NOBODY_LISTENS = """
    CREATE OR REPLACE FUNCTION backstory.announce() RETURNS boolean
    LANGUAGE sql AS 'SELECT false'"""
# `HOLD_PART` for a function that is one call: it would read where the part was, and write where it
# is.
HOLD_IN_FUNCTIONS = """
    CREATE OR REPLACE FUNCTION backstory.hold_part(_place bigint) RETURNS void
    LANGUAGE plpgsql AS $body$
    BEGIN
        UPDATE backstory.agents SET head = head WHERE place = _place AND no = 0;
    END
    $body$"""
# Insert events one by one: Citus would collect an INSERT … SELECT on the coordinator and send it
# out again. And by a record: Citus copies all variables of an INSERT, which would be the arrays.
ONE_BY_ONE = """
    CREATE OR REPLACE FUNCTION backstory.add_events(
        _place bigint, _no int, _before int, _at bigint, _previous bytea, _kind text[],
        _content text[], _data text[], _key text[], _base int[], _salt bytea[], _tail bytea[]
    ) RETURNS bytea LANGUAGE plpgsql AS $body$
    DECLARE
        previous bytea := _previous;
        event record;
    BEGIN
        FOR event IN
            SELECT _before + n.nth::int AS seq, n.* FROM ROWS FROM (
                pg_catalog.unnest(_kind), pg_catalog.unnest(_content), pg_catalog.unnest(_data),
                pg_catalog.unnest(_key), pg_catalog.unnest(_base), pg_catalog.unnest(_salt),
                pg_catalog.unnest(_tail)
            ) WITH ORDINALITY AS n (kind, content, data, key, base, salt, tail, nth)
        LOOP
            previous := backstory.link(previous, event.seq, _at, event.tail);
            INSERT INTO backstory.events (
                place, created_at, agent, seq, base, kind, content, data, key, digest, salt)
            VALUES (_place, _at, _no, event.seq, event.base, event.kind, event.content,
                event.data, event.key, previous, event.salt);
        END LOOP;
        RETURN previous;
    END
    $body$"""
# The workers need all of our functions.
DISTRIBUTE_FUNCTIONS = """
    SELECT create_distributed_function(p.oid::regprocedure)
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'backstory'::regnamespace
        AND p.proname NOT IN ('append_many', 'create_agent')"""
# Such a function runs on the server of the place that it is called with: one round trip. Without
# force, it would run on the coordinator if it is called in a transaction.
DELEGATE_FUNCTIONS = """
    SELECT create_distributed_function(p.oid::regprocedure, '_place',
        colocate_with => 'backstory.agents', force_delegation => true)
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'backstory'::regnamespace
        AND p.proname IN ('append_many', 'create_agent')"""
# A worker does not know the settings of our connections, so the functions set how long they wait.
LIMIT_FUNCTIONS = """
    ALTER FUNCTION backstory.append_many SET lock_timeout TO {0};
    ALTER FUNCTION backstory.create_agent SET lock_timeout TO {0}"""
SHORT_WAIT = "SET LOCAL lock_timeout = '400ms'"
USUAL_WAIT = "SET LOCAL lock_timeout TO DEFAULT"
LOCK_ATTEMPTS = 120  # a minute
LAST_NOTICE = f"SELECT pg_catalog.pg_notify('backstory', '{DISTRIBUTED}')"
# The rows that were copied to the shards are still in the local tables, hidden.
CLEAR_LOCAL = "SELECT truncate_local_data_after_distributing_table(%s::regclass)"


def distribute_new_store(db: Connection) -> None:
    """Within a transaction: distribute the empty tables of a new store, if there is a cluster."""
    if has_citus(db):
        for _ in distribute_tables(db):
            pass


def distribute_store(db: Connection, url: str, progress: Callable[[int, int], None]) -> int:
    """Distribute the tables of a store in one transaction, and return how many rows were moved.
    `progress` is called with (rows moved, all rows)."""
    if not has_citus(db):
        raise Invalid(
            f"the database {url!r} does not have the Citus extension",
            remedy="run CREATE EXTENSION citus on all servers, and citus_add_node for each worker",
        )
    moved = 0
    with db.transaction():
        lock_tables(db)
        if is_distributed(db):
            return 0  # another process did it while we waited
        total = sum(count_rows(db, table) for table in list_tables(db))
        for rows in distribute_tables(db):
            moved += rows
            progress(moved, total)
        db.execute(LAST_NOTICE)
    return moved


def lock_tables(db: Connection) -> None:
    """Within a transaction: lock all tables. Others lock them in another order, and PostgreSQL
    resolves a deadlock after a second by ending either side. So we release all locks before that,
    and try again."""
    for _ in range(LOCK_ATTEMPTS):
        with suppress(psycopg.errors.LockNotAvailable), db.transaction():
            lock_tables_once(db)
            return
        time.sleep(random.uniform(0.01, 0.1))
    lock_tables_once(db)


def lock_tables_once(db: Connection) -> None:
    """Within a transaction: lock all tables. Raises LockNotAvailable after a short wait."""
    db.execute(SHORT_WAIT)
    for table in list_tables(db):
        db.execute(f"LOCK TABLE backstory.{table}")
    db.execute(USUAL_WAIT)


def distribute_tables(db: Connection) -> Iterator[int]:
    """Within a transaction: distribute the tables, and yield the number of rows of each once it is
    done."""
    db.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
    db.execute(NOBODY_LISTENS)
    db.execute(HOLD_IN_FUNCTIONS)
    db.execute(ONE_BY_ONE)
    [(timeout,)] = db.execute("SHOW lock_timeout").fetchall()
    db.execute(sql.SQL(LIMIT_FUNCTIONS).format(sql.Literal(timeout)))
    for table, statement in list_tables(db).items():
        rows = count_rows(db, table)
        db.execute(statement, (f"backstory.{table}",))
        if rows:
            db.execute(CLEAR_LOCAL, (f"backstory.{table}",))
        yield rows
    db.execute(DISTRIBUTE_FUNCTIONS)
    db.execute(DELEGATE_FUNCTIONS)


def list_tables(db: Connection) -> dict[str, str]:
    """Return the tables of the store and the statements that distribute them, in order."""
    has_index = db.execute(HAS_SEARCH_INDEX).fetchone() == (True,)
    return TABLES | INDEX_TABLES if has_index else TABLES


def count_rows(db: Connection, table: str) -> int:
    """Return how many rows a table has."""
    [(rows,)] = db.execute(f"SELECT pg_catalog.count(*) FROM backstory.{table}").fetchall()
    return int(rows)


def distribute_index(db: Connection) -> None:
    """Within a transaction: distribute the tables of the search index."""
    for table, statement in INDEX_TABLES.items():
        db.execute(statement, (f"backstory.{table}",))


# --- listing agents when a server is down ---

# Each shard of the agents, with its server.
SHARDS = """
    SELECT p.nodename, p.nodeport::int, pg_catalog.shard_name(s.logicalrelid, s.shardid)
    FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_shard_placement p USING (shardid)
    WHERE s.logicalrelid = 'backstory.agents'::regclass"""
# Reports a server that does not answer, instead of failing.
ASK_EACH = """
    SELECT node_name || ':' || node_port, success, result
    FROM pg_catalog.master_run_on_worker(%s::text[], %s::int[], %s::text[], true)"""
AS_JSON = """
    SELECT coalesce(pg_catalog.json_agg(pg_catalog.to_json(t)), '[]')::text
    FROM ({listing}) AS t ({columns})"""


def list_reachable_agents(db: Connection, query: AgentQuery) -> list[AgentRecord]:
    """Return the matching agents on the servers that answer. Warns about the servers that do
    not."""
    listing = build_listing(query)
    if listing is None:
        return []
    statement, params = listing
    hosts, ports, commands = [], [], []
    for host, port, shard in db.execute(SHARDS).fetchall():
        hosts.append(host)
        ports.append(port)
        on_shard = statement.replace("backstory.agents ", f"{shard} ")
        # A statement without parameters that returns one JSON value.
        text = psycopg.ClientCursor(db).mogrify(on_shard, params)
        commands.append(AS_JSON.format(listing=text, columns=", ".join(AgentRecord._fields)))
    agents: list[AgentRecord] = []
    missing: Counter[str] = Counter()
    for address, has_answered, answer in db.execute(ASK_EACH, (hosts, ports, commands)).fetchall():
        if has_answered:
            agents += [AgentRecord(**row) for row in json.loads(answer)]
        else:
            missing[address] += 1
    if missing:  # otherwise, a server has come back in the meantime
        warn_about_missing(missing)
    if query.latest_first:
        agents.sort(key=attrgetter("updated_us", "id"), reverse=True)
    else:
        agents.sort(key=attrgetter("created_us", "id"))
    return agents[: query.limit]


def warn_about_missing(missing: Counter[str]) -> None:
    """Warn that a listing lacks the agents on some servers. `missing` counts the shards of each."""
    servers = ", ".join(f"{server} ({parts} parts)" for server, parts in sorted(missing.items()))
    message = f"the list is not complete: no answer from {servers}"
    warnings.warn(message, PartMissing, stacklevel=5)
