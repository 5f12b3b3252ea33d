"""A PostgreSQL store that Citus distributes over many servers: which rows are on which server.

The agents, the events and the directory of ids are distributed by place. So a whole session is on one server,
and the functions that write to it run there. For what happens when a node fails, see docs/scale.md.
"""

import json
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from backstory.errors import Invalid, PartMissing
from backstory.storage.postgres.agents import listing
from backstory.storage.postgres.schema import APPEND_ONE
from backstory.storage.protocols import AgentRecord, Wanted

Connection = psycopg.Connection[tuple[Any, ...]]

HAS_CITUS = "SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus'"
IS_DISTRIBUTED = """
    SELECT 1 FROM pg_catalog.pg_dist_partition
    WHERE logicalrelid = pg_catalog.to_regclass('backstory.events')"""

# The tables, each with the call that distributes it. The others are colocated with the first one.
TABLES: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("agents", "create_distributed_table('backstory.agents', 'place', colocate_with => 'none')"),
    (
        "events",
        "create_distributed_table('backstory.events', 'place', colocate_with => 'backstory.agents')",
    ),
    (
        "directory",
        "create_distributed_table('backstory.directory', 'place', colocate_with => 'backstory.agents')",
    ),
    ("sources", "create_distributed_table('backstory.sources', 'id', colocate_with => 'none')"),
    ("meta", "create_reference_table('backstory.meta')"),
)
INDEX_TABLES: tuple[tuple[LiteralString, LiteralString], ...] = (
    (
        "search_3",
        "create_distributed_table('backstory.search_3', 'place', colocate_with => 'backstory.agents')",
    ),
    (
        "searched_3",
        "create_distributed_table('backstory.searched_3', 'place', colocate_with => 'backstory.agents')",
    ),
)
# A notification does not leave its server. So followers poll, and appends do not check for followers.
NOBODY_LISTENS: LiteralString = """
    CREATE OR REPLACE FUNCTION backstory.announce() RETURNS boolean LANGUAGE sql AS 'SELECT false';
    """ + APPEND_ONE.replace("{is_followed}", "false")
# Insert events one by one: Citus would collect an INSERT … SELECT on the coordinator and send it out again.
ONE_BY_ONE: LiteralString = """
    CREATE OR REPLACE FUNCTION backstory.add_events(
        _place bigint, _no int, _before int, _at bigint, _previous bytea,
        _kind text[], _content text[], _data text[], _key text[], _base int[]
    ) RETURNS bytea LANGUAGE plpgsql AS $body$
    DECLARE
        previous bytea := _previous;
    BEGIN
        FOR i IN 1..pg_catalog.cardinality(_kind) LOOP
            previous := backstory.digest(
                previous, _before + i, _at, _base[i], _kind[i], _key[i], _content[i], _data[i]);
            INSERT INTO backstory.events (
                place, created_at, agent, seq, base, kind, content, data, key, digest)
            VALUES (_place, _at, _no, _before + i, _base[i], _kind[i], _content[i], _data[i], _key[i],
                previous);
        END LOOP;
        RETURN previous;
    END
    $body$"""
FUNCTIONS: LiteralString = """
    SELECT create_distributed_function(p.oid::regprocedure)
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'backstory'::regnamespace
        AND p.proname IN ('digest', 'announce', 'add_events', 'place_of')"""
# Such a function runs on the server of the place that it is called with: one round trip. Without force, it
# would run on the coordinator if it is called in a transaction.
DELEGATED: LiteralString = """
    SELECT create_distributed_function(p.oid::regprocedure, '_place', colocate_with => 'backstory.agents',
        force_delegation => true)
    FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'backstory'::regnamespace
        AND p.proname IN ('append_one', 'append_many', 'create_agent')"""
# A worker does not know the settings of our connections: the functions bring along how long we wait.
WAITS_AS_LONG: LiteralString = """
    ALTER FUNCTION backstory.append_one SET lock_timeout TO {0};
    ALTER FUNCTION backstory.append_many SET lock_timeout TO {0};
    ALTER FUNCTION backstory.create_agent SET lock_timeout TO {0}"""
SHORT_WAIT: LiteralString = "SET LOCAL lock_timeout = '400ms'"
USUAL_WAIT: LiteralString = "SET LOCAL lock_timeout TO DEFAULT"
TRIES = 120  # a minute
# Tells processes that have the store open that there will be no more notifications, so they must poll.
DISTRIBUTED: LiteralString = "distributed"
LAST_NOTICE: LiteralString = f"SELECT pg_catalog.pg_notify('backstory', '{DISTRIBUTED}')"
# The rows that were copied to the shards are still in the local tables, hidden.
CLEAR_LOCAL: LiteralString = "SELECT truncate_local_data_after_distributing_table(%s::regclass)"
HAS_INDEX: LiteralString = "SELECT pg_catalog.to_regclass('backstory.search_3') IS NOT NULL"

SIZE = """
    SELECT coalesce(pg_catalog.sum(CASE WHEN d.logicalrelid IS NULL
        THEN pg_catalog.pg_total_relation_size(c.oid)
        ELSE citus_total_relation_size(c.oid) END), 0)::bigint
    FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_dist_partition d ON d.logicalrelid = c.oid
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind IN ('r', 'm')
        AND NOT relation_is_a_known_shard(c.oid)"""
SERVERS = "SELECT pg_catalog.count(DISTINCT (nodename, nodeport)) FROM citus_shards WHERE table_name = %s::regclass"
# Each shard of the agents, with its server.
SHARDS = """
    SELECT p.nodename, p.nodeport::int, pg_catalog.shard_name(s.logicalrelid, s.shardid)
    FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_shard_placement p USING (shardid)
    WHERE s.logicalrelid = 'backstory.agents'::regclass"""
# It reports a server that does not answer, instead of failing.
ASK_EACH = """
    SELECT node_name || ':' || node_port, success, result
    FROM pg_catalog.master_run_on_worker(%s::text[], %s::int[], %s::text[], true)"""
AS_JSON = """
    SELECT coalesce(pg_catalog.json_agg(pg_catalog.to_json(t)), '[]')::text
    FROM ({listing}) AS t ({columns})"""


def has_citus(db: Connection) -> bool:
    """Whether the database has the extension."""
    return db.execute(HAS_CITUS).fetchone() is not None


def is_distributed(db: Connection) -> bool:
    """Whether the store's tables are distributed over servers."""
    return has_citus(db) and db.execute(IS_DISTRIBUTED).fetchone() is not None


def distribute_store(db: Connection, url: str, progress: Callable[[int, int], None]) -> int:
    """Distribute the tables of a store in one transaction, and return how many rows were moved."""
    if not has_citus(db):
        raise Invalid(
            f"the database {url!r} does not have the Citus extension",
            remedy="run CREATE EXTENSION citus on all servers, and citus_add_node for each worker",
        )
    moved = 0
    with db.transaction():
        hold_tables(db)
        if is_distributed(db):
            return 0  # another process did it while we waited
        total = sum(_rows(db, name) for name, _ in _tables(db))
        for rows in distribute(db):
            moved += rows
            progress(moved, total)
        db.execute(LAST_NOTICE)
    return moved


def hold_tables(db: Connection) -> None:
    """Within a transaction: lock all tables. Others lock them in another order, and PostgreSQL resolves a
    deadlock after a second by ending either side. So we release all locks before that, and try again."""
    for _ in range(TRIES):
        with suppress(psycopg.errors.LockNotAvailable), db.transaction():
            _lock(db)
            return
        time.sleep(random.uniform(0.01, 0.1))
    _lock(db)


def _lock(db: Connection) -> None:
    db.execute(SHORT_WAIT)
    for name, _ in _tables(db):
        db.execute("LOCK TABLE backstory." + name)
    db.execute(USUAL_WAIT)


def distribute(db: Connection) -> Iterator[int]:
    """Within a transaction: distribute the tables, and yield the number of rows of each once it is done."""
    db.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
    db.execute(NOBODY_LISTENS)
    db.execute(ONE_BY_ONE)
    [(timeout,)] = db.execute("SHOW lock_timeout").fetchall()
    db.execute(sql.SQL(WAITS_AS_LONG).format(sql.Literal(timeout)))
    for name, call in _tables(db):
        rows = _rows(db, name)
        db.execute("SELECT " + call)
        if rows:
            db.execute(CLEAR_LOCAL, (f"backstory.{name}",))
        yield rows
    db.execute(FUNCTIONS)
    db.execute(DELEGATED)


def _tables(db: Connection) -> tuple[tuple[LiteralString, LiteralString], ...]:
    is_indexed = db.execute(HAS_INDEX).fetchone() == (True,)
    return (*TABLES, *(INDEX_TABLES if is_indexed else ()))


def _rows(db: Connection, name: LiteralString) -> int:
    [(rows,)] = db.execute("SELECT pg_catalog.count(*) FROM backstory." + name).fetchall()
    return int(rows)


def distribute_index(db: Connection) -> None:
    """Within a transaction: distribute the tables of the search index."""
    for _, call in INDEX_TABLES:
        db.execute("SELECT " + call)


def servers(db: Connection) -> int:
    """How many servers hold events."""
    [(number,)] = db.execute(SERVERS, ("backstory.events",)).fetchall()
    return int(number)


def reachable_agents(db: Connection, wanted: Wanted) -> list[AgentRecord]:
    """The matching agents on the servers that answer; warns about the servers that do not."""
    asked = listing(wanted)
    if asked is None:
        return []
    statement, bindings = asked
    hosts, ports, shards = zip(*db.execute(SHARDS).fetchall(), strict=True)
    commands = [
        _as_json(db, statement.replace("backstory.agents ", f"{shard} "), bindings)
        for shard in shards
    ]
    answers = db.execute(ASK_EACH, (list(hosts), list(ports), commands)).fetchall()
    missing = Counter(server for server, is_there, _ in answers if not is_there)
    found = [
        AgentRecord(**row) for _, is_there, text in answers if is_there for row in json.loads(text)
    ]
    if wanted.latest_first:
        found.sort(key=attrgetter("updated_us", "id"), reverse=True)
    else:
        found.sort(key=attrgetter("created_us", "id"))
    if missing:  # a server may have come back in the meantime
        lost = ", ".join(f"{server} ({parts} parts)" for server, parts in sorted(missing.items()))
        warnings.warn(f"the list is not complete: no answer from {lost}", PartMissing, stacklevel=4)
    return found[: wanted.limit]


def _as_json(db: Connection, statement: str, bindings: dict[str, Any]) -> str:
    """A listing as a statement without parameters that answers with one text."""
    listed = psycopg.ClientCursor(db).mogrify(statement, bindings)
    return AS_JSON.format(listing=listed, columns=", ".join(AgentRecord._fields))
