"""What a restore costs: the live ranges and nothing else, in a constant number of queries.

Counted, not timed: statements that reach the database, and rows that are read in it.
"""

import re

import psycopg
import pytest

import backstory
from backstory.storage.postgres import rows as postgres_rows
from backstory.storage.postgres import schema as postgres_schema
from backstory.storage.postgres import server as postgres_server
from backstory.storage.postgres.transaction import PostgresTransaction
from backstory.storage.protocol import AgentChange, AgentQuery, EventFilter, Piece
from backstory.storage.sqlite import backend as sqlite_backend
from backstory.storage.sqlite import transaction as sqlite_transaction
from tests import databases


@pytest.fixture
def statements(durable_url, monkeypatch):
    """The store, and the list of statements that it has run."""
    seen = []
    with backstory.open(durable_url) as store:
        if durable_url.endswith(".db"):
            for rows in (sqlite_backend.SqliteBackend, sqlite_transaction.SqliteTransaction):
                record_statements(monkeypatch, rows, seen)
        else:
            run = psycopg.Cursor.execute
            monkeypatch.setattr(
                psycopg.Cursor,
                "execute",
                lambda cursor, sql, *a, **k: (seen.append(str(sql)), run(cursor, sql, *a, **k))[1],
            )
        yield store, seen


def record_statements(monkeypatch, rows, seen):
    """Add each statement that `rows` runs to `seen`."""
    run = rows._run

    def run_and_record(self, sql, *bindings_and_shape):
        seen.append(sql)
        return run(self, sql, *bindings_and_shape)

    monkeypatch.setattr(rows, "_run", run_and_record)


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


# --- PostgreSQL: one session, one partition ---


@pytest.fixture(scope="module")
def partitioned():
    """A store whose tables are hash-partitioned by session, with some rows in them: only read
    from."""
    name = databases.create()
    yield from open_partitioned(databases.url(name))
    databases.drop(name)


# The ends of the statements that create the tables of agents and events. A partitioned table has no
# fill factor.
END_OF_TABLE = re.compile(r"\n    \)(?: WITH \(fillfactor = 80\))?;")


def open_partitioned(url):
    with psycopg.connect(postgres_server.build_conninfo(url), autocommit=True) as db:
        db.execute("CREATE SCHEMA backstory")
        for statement in (*postgres_schema.TABLES, postgres_schema.FUNCTIONS):
            db.execute(END_OF_TABLE.sub(") PARTITION BY HASH (place);", statement))
        for table in ("agents", "events"):
            for n in range(8):
                db.execute(
                    f"CREATE TABLE backstory.{table}_{n} PARTITION OF backstory.{table} "
                    f"FOR VALUES WITH (MODULUS 8, REMAINDER {n})"
                )
        db.execute(postgres_schema.SET_VERSION, (postgres_schema.VERSION,))
        with backstory.open(url) as store:
            for n in range(30):
                deep(store, 3).extend([("user", str(n), None)] * 50)
            db.execute("ANALYZE")
            yield store


def pieces_of(agent):
    return [Piece(agent.pk, agent.fork_seq + 1, agent.head)]


HOT = {
    "walk": lambda rows, agent: rows.walk(agent),
    "lineage": lambda rows, agent: rows.read_lineage(agent),
    "as of a time": lambda rows, agent: rows.find_position_at_time(agent, 10**18),
    "head": lambda rows, agent: rows.read_head(agent),
    "events": lambda rows, agent: rows.read_events(agent, pieces_of(agent)),
    "marks": lambda rows, agent: rows.read_events(
        agent, pieces_of(agent), EventFilter(kinds=frozenset({"mark"}))
    ),
    "newest note": lambda rows, agent: rows.read_events(
        agent,
        pieces_of(agent),
        EventFilter(kinds=frozenset({"note"}), note_names=("n",), newest_only=True),
    ),
    "moves": lambda rows, agent: rows.read_events(
        agent, pieces_of(agent), EventFilter(irregular_only=True)
    ),
    "outline": lambda rows, agent: rows.read_outline(agent, pieces_of(agent)),
    "keys": lambda rows, agent: rows.find_keys(["k"], agent, pieces_of(agent)),
    "rows": lambda rows, agent: rows.read_rows(agent, 0, 9),
    "rows of a session": lambda rows, agent: rows.read_owned(
        AgentQuery(session=agent.session, include_deleted=True), EventFilter()
    ),
    "agents of a session": lambda rows, agent: rows.list_agents(
        AgentQuery(session=agent.session, name="main")
    ),
    "an agent by its id": lambda rows, agent: rows.list_agents(AgentQuery(id_prefix=agent.id)),
    "lock": lambda rows, agent: rows.lock([], [agent]),
    "lock of a session": lambda rows, agent: rows.lock([agent.session], []),
    "new name": lambda rows, agent: rows.update_agent(agent, AgentChange(name="new")),
}


class PlanRows(PostgresTransaction):
    """Explains each statement that it runs."""

    def __init__(self, db):
        super().__init__(db)
        self.plans = []

    def _run(self, sql, params=None, shape=tuple):
        self.plans.append(explain(self._db, sql, params))
        return super()._run(sql, params, shape)


def explain(db, sql, params, options="VERBOSE"):
    rows = db.execute(f"EXPLAIN ({options}) {sql}", params)
    return "\n".join(row for (row,) in rows)


@pytest.mark.parametrize("name", HOT)
def test_every_hot_statement_touches_exactly_one_partition(partitioned, name):
    agent = partitioned.agents()[-1]._record
    with partitioned._backend._pool.borrow() as db, db.transaction(force_rollback=True):
        rows = PlanRows(db)
        HOT[name](rows, agent)
    for plan in rows.plans:
        if "Insert on backstory.places" in plan:
            continue  # one row, which names its place
        # Only the qualified names are tables: aliases that look the same follow them.
        touched = set(re.findall(r"backstory\.(events|agents)_(\d)\b", plan))
        assert len({partition for _, partition in touched}) == 1


def test_the_store_works_on_partitioned_tables(partitioned):
    agent = partitioned.agents()[-1]
    assert len(agent.context().messages) == 3 * 3 + 1 + 50
    assert partitioned.verify() == []


def test_postgres_reads_the_live_rows_and_no_others(new_database):
    with backstory.open(new_database()) as store:
        agent = store.start()
        agent.mark("x")
        for _ in range(50):
            agent.extend([("user", "dead " * 50, None)] * 200)
            agent.rewind("x")
        agent.extend([("user", "live", None)] * 200)
        backend = store._backend
        pieces = backend.walk(agent._record).pieces
        params = {**postgres_rows.identify(agent._record), **postgres_rows.write_pieces(pieces)}
        sql = postgres_rows.PostgresReader.READ_EVENTS.format(where="true")
        with backend._pool.borrow() as db:
            db.execute("VACUUM ANALYZE backstory.events")
            plan = explain(db, sql, params, "ANALYZE, TIMING OFF")
        assert "Rows Removed by Filter" not in plan
        assert "Seq Scan" not in plan.replace("Seq Scan on agents", "")  # which has one row
        assert len(agent.context().messages) == 202
