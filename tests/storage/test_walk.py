"""What a restore costs: the live ranges and nothing else, in a constant number of queries.

Counted, not timed: statements that reach the database, and rows that are read in it.
"""

import re

import apsw
import psycopg
import pytest

import backstory
from backstory.storage.postgres import agents as postgres_agents
from backstory.storage.postgres import lineages, ranges
from backstory.storage.postgres import rows as postgres
from backstory.storage.postgres import server as postgres_server
from backstory.storage.protocols import Wanted
from backstory.storage.sqlite import lineages as sqlite_lineages
from backstory.storage.sqlite import rows as sqlite_rows
from tests import databases


@pytest.fixture
def statements(durable_url, monkeypatch):
    """The store, and the list of statements that it has run."""
    seen = []
    with backstory.open(durable_url) as store:
        if durable_url.endswith(".db"):
            for db in store._backend._free:
                db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
        else:
            run = psycopg.Connection.execute
            monkeypatch.setattr(
                psycopg.Connection,
                "execute",
                lambda db, sql, *a, **k: (seen.append(str(sql)), run(db, sql, *a, **k))[1],
            )
        yield store, seen


def deep(store, depth):
    agent = store.start(f"root-{depth}")
    for n in range(depth):
        agent.user(str(n))
        agent.mark("x")
        agent.user("dead")
        agent.rewind("x")
        agent = agent.fork()
    agent.user("last")
    return agent


@pytest.mark.parametrize("depth", [1, 60])
def test_a_restore_takes_two_queries_however_deep_the_ancestry(statements, depth):
    store, seen = statements
    agent = deep(store, depth)
    seen.clear()
    assert len(agent.context().messages) == 3 * depth + 1
    assert len(seen) == 2
    seen.clear()
    assert len(agent.context(at=agent.events()[0].created_at).messages) == 1
    assert len(seen) - 2 <= 3  # of which two are for events()


def test_marks_forks_and_appends_take_a_few_queries_however_deep_the_ancestry(statements):
    store, seen = statements
    agent = deep(store, 60)
    # An append takes one more in a new second: SQLite keeps the second of the last write.
    for call, most in (
        (agent.marks, 2),
        (agent.fork, 5),
        (lambda: agent.user("x"), 5),
        (agent.rewind, 10),
    ):
        seen.clear()
        call()
        assert len(seen) <= most, seen


def test_sqlite_reads_the_live_rows_and_no_others(tmp_path):
    """The virtual machine's steps are the cost of a statement, whatever the clock says."""

    def steps_of_a_restore(dead_rounds):
        with backstory.open(tmp_path / f"{dead_rounds}.db") as store:
            agent = store.start()
            agent.mark("x")
            for _ in range(dead_rounds):
                agent.extend([("user", "dead", None)] * 100)
                agent.rewind("x")
            agent.extend([("user", "live", None)] * 200)
            [db] = store._backend._free
            steps = 0

            def count(event):
                nonlocal steps
                steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

            db.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
            assert len(agent.context().messages) == 200 + 1 + bool(dead_rounds)
            return steps

    assert steps_of_a_restore(50) <= 1.02 * steps_of_a_restore(1)


def test_the_walk_uses_the_index_over_the_events_that_have_a_base(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        [db] = store._backend._free
        for sql, index in (
            (sqlite_lineages.WALK, "COVERING INDEX jumps"),
            (sqlite_rows.MARKS, "INDEX marks"),
        ):
            plan = " ".join(
                row[3]
                for row in db.execute(
                    "EXPLAIN QUERY PLAN " + sql,
                    {"no": 1, "start": 1, "at": 1} if ":no" in sql else ("[]",),
                )
            )
            assert index in plan
            assert not re.search(r"SCAN (e|a|j|events|agents)\b", plan)


# --- PostgreSQL: one session, one partition ---


@pytest.fixture(scope="module")
def partitioned():
    """The tables of the store, hash-partitioned by session, with some rows in them: only read from."""
    name = databases.create()
    yield from _partitioned(databases.url(name))
    databases.drop(name)


def _partitioned(url):
    with psycopg.connect(postgres_server.conninfo(url), autocommit=True) as db:
        db.execute("CREATE SCHEMA backstory")
        db.execute(postgres_server.META)
        for step in postgres_server.MIGRATIONS:
            db.execute(step.replace("{partition}", "PARTITION BY HASH (place)"))
        for table in ("agents", "events"):
            for n in range(8):
                db.execute(
                    f"CREATE TABLE backstory.{table}_{n} PARTITION OF backstory.{table} "
                    f"FOR VALUES WITH (MODULUS 8, REMAINDER {n})"
                )
        db.execute("UPDATE backstory.meta SET version = %s", (len(postgres_server.MIGRATIONS),))
        with backstory.open(url) as store:
            for n in range(30):
                deep(store, 3).extend([("user", str(n), None)] * 50)
            db.execute("ANALYZE")
            yield store, db


def listed(wanted, place=None):
    statement = postgres_agents.listing(wanted, place)
    assert statement is not None
    return statement[0]


NOBODY = "00000000-0000-0000-0000-000000000000"
HOT = {
    "hold": (postgres.HOLD, {}),
    "walk": (lineages.WALK, {"start": 1, "at": None}),
    "moves": (lineages.JUMPS, {"start": 1, "at": 9}),
    "lineage": (lineages.LINEAGE, {}),
    "as of a time": (lineages.POSITION_AT, {"moment": 10**18}),
    "read": (postgres.READ, {"nos": [1, 2], "lows": [1, 3], "highs": [2, 9]}),
    "notes": (postgres.NAMED_NOTES, {"nos": [1], "lows": [1], "highs": [2], "name": "n"}),
    "last note": (postgres.LAST_NOTE, {"nos": [1], "lows": [1], "highs": [2], "name": "n"}),
    "keyed": (postgres.KEYED, {"nos": [1], "lows": [1], "highs": [2], "keys": ["k"]}),
    "marks": (postgres.MARKS, {"nos": [1, 2], "lows": [1, 3], "highs": [2, 9]}),
    "head": (postgres.HEAD, {}),
    "rename": (postgres.RENAME, {"name": "n"}),
    "agents of a session": (
        listed(Wanted(session=NOBODY, name="…")),
        {"name": "main"},
    ),
    "rows to verify": (postgres.STORED, {"after": 0, "limit": 9}),
    "an agent by its id": (
        listed(Wanted(prefix=NOBODY), 0),
        {"low": NOBODY, "high": NOBODY},
    ),
}


@pytest.mark.parametrize("name", HOT)
def test_every_hot_statement_touches_exactly_one_partition(partitioned, name):
    store, db = partitioned
    sql, bindings = HOT[name]
    agent = store.agents()[-1]._record
    plan = db.execute(
        "EXPLAIN (VERBOSE) " + sql, {"session": agent.session, **postgres.of(agent), **bindings}
    ).fetchall()
    text = "\n".join(row[0] for row in plan)
    # Only the qualified names are tables: behind them stand aliases that look the same.
    touched = set(re.findall(r"backstory\.(events|agents)_(\d)\b", text))
    assert touched
    assert len({partition for _, partition in touched}) == 1


def test_the_store_works_on_partitioned_tables(partitioned):
    store, _ = partitioned
    agent = store.agents()[-1]
    assert len(agent.context().messages) == 3 * 3 + 1 + 50
    assert store.verify() == []


def test_postgres_reads_the_live_rows_and_no_others(new_database):
    with backstory.open(new_database()) as store:
        agent = store.start()
        agent.mark("x")
        for _ in range(50):
            agent.extend([("user", "dead " * 50, None)] * 200)
            agent.rewind("x")
        agent.extend([("user", "live", None)] * 200)
        backend = store._backend
        with backend._pool.connection() as db:
            db.execute("VACUUM ANALYZE backstory.events")
        pieces = backend.walk(agent.snapshot, None).pieces
        bindings = ranges.within(agent.session, pieces)
        with backend._pool.connection() as db:
            plan = "\n".join(
                r[0] for r in db.execute("EXPLAIN (ANALYZE, TIMING OFF) " + postgres.READ, bindings)
            )
        assert "Rows Removed by Filter" not in plan
        assert "Seq Scan" not in plan
        assert len(agent.context().messages) == 202
