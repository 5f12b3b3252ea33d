"""Plans of PostgreSQL: what may not grow with the store is looked up, not searched for."""

import psycopg
import pytest

import backstory
from backstory.storage.postgres.listing import build_listing
from backstory.storage.postgres.rows import PostgresReader, identify
from backstory.storage.protocol import AgentQuery
from tests import databases

# There each worker plans for its own shards, without the settings of this connection, and the coordinator
# sorts what they return: the indexes are the same, but the plan that is shown does not tell.
one_server = pytest.mark.skipif(
    bool(databases.CITUS), reason="on a cluster, plans are made by its workers"
)


@one_server
def test_a_title_is_looked_up_on_postgresql(empty_database):
    postgres_url = empty_database()
    backstory.open(postgres_url).close()
    sql, bindings = build_listing(AgentQuery(title="x"))
    with psycopg.connect(postgres_url) as db:
        db.execute("SET enable_seqscan = off")  # an empty table is always read as a whole
        plan = "\n".join(row for (row,) in db.execute(f"EXPLAIN {sql}", bindings))
    assert "agents_title" in plan


MANY_AGENTS = """
    INSERT INTO backstory.agents (place, no, id, session, name, fork_seq, born_seq, spawned, created_at, head,
        updated_at, touched)
    SELECT n, 1, gen_random_uuid(), gen_random_uuid(), n::text, 0, 0, false, n, 0, n::bigint * 1000000, n
    FROM generate_series(1, 5000) n"""


def test_the_latest_agent_is_not_planned_again_each_time_on_postgresql(empty_database):
    postgres_url = empty_database()
    backstory.open(postgres_url).close()
    sql, bindings = build_listing(AgentQuery(latest_first=True, limit=1))
    with psycopg.connect(postgres_url) as db:
        db.execute(MANY_AGENTS)
        db.execute("ANALYZE backstory.agents")
        for _ in range(8):  # the server tries five plans before it decides
            [agent] = db.execute(sql, bindings, prepare=True).fetchall()
        [(plans,)] = db.execute(
            "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%backstory.agents a%'"
        ).fetchall()
    assert agent[3] == "5000"
    assert plans > 0


@one_server
def test_a_parent_is_looked_up_by_its_number_on_postgresql(empty_database):
    """Even if nearly every place has one agent: a planner that believes it of all would read a
    session, of any number of forks, for each parent."""
    url = empty_database()
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        for _ in range(300):
            agent = store.start()
        db.execute("ANALYZE backstory.agents")
        with db.transaction():
            db.execute("SET LOCAL enable_seqscan = off")
            walk = {**identify(agent._record), "at": None}
            plan = "\n".join(row for (row,) in db.execute(f"EXPLAIN {PostgresReader.WALK}", walk))
    assert "agents_pkey" in plan
    assert "agents_session_name_key" not in plan


def test_an_agent_is_found_by_a_title_of_any_length(store):
    agent = store.start()
    agent.describe(title="a very long title " * 1_000)
    assert store.agent(agent.about["title"]).id == agent.id


@one_server
def test_a_page_of_agents_by_birth_is_read_from_an_index_on_postgresql(empty_database):
    postgres_url = empty_database()
    backstory.open(postgres_url).close()
    sql, bindings = build_listing(AgentQuery(roots_only=True, limit=50))
    with psycopg.connect(postgres_url) as db:
        db.execute("SET enable_seqscan = off")
        plan = "\n".join(row for (row,) in db.execute(f"EXPLAIN {sql}", bindings))
    assert "agents_birth" in plan
    assert "Sort" not in plan


@one_server
@pytest.mark.parametrize(
    ("prefix", "index"), [("user:", "agents_birth"), ("other:5", "agents_key")]
)
def test_a_prefix_is_looked_up_unless_most_keys_have_it(empty_database, prefix, index):
    url = empty_database()
    backstory.open(url).close()
    sql, bindings = build_listing(AgentQuery(key_prefix=prefix, limit=10))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(MANY_AGENTS)
        db.execute(
            "UPDATE backstory.agents SET key = "
            "CASE WHEN place % 10 = 0 THEN 'other:' ELSE 'user:' END || place"
        )
        db.execute("VACUUM ANALYZE backstory.agents")
        plan = "\n".join(row for (row,) in db.execute(f"EXPLAIN {sql}", bindings))
    assert index in plan


MANY_KEYS = """
    INSERT INTO backstory.events (place, created_at, agent, seq, kind, content, key, digest)
    SELECT %(place)s::bigint, 1, %(no)s, n, 'user', 'text', 'key ' || n, 'x'
    FROM generate_series(1, 20000) n"""


@one_server
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_key_is_looked_up_however_long_the_log_is(empty_database, is_analyzed, mode):
    """Even together with a range of positions, and in a store where other places have one event each."""
    url = empty_database()
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        record = store.start()._record
        db.execute(MANY_KEYS, identify(record))
        if is_analyzed:
            db.execute("ANALYZE backstory.events")
        names = {
            f"%({name})s": f"${n}"
            for n, name in enumerate(("nos", "lows", "highs", "keys", "place", "no"), 1)
        }
        sql = PostgresReader.FIND_KEYS_IN_PIECES
        for name, number in names.items():
            sql = sql.replace(name, number)
        types = "int[], int[], int[], text[], bigint, int"
        db.execute(f"SET plan_cache_mode = {mode}; PREPARE keyed ({types}) AS {sql}")
        place, no = identify(record).values()
        values = f"'{{{no}}}', '{{1}}', '{{20000}}', '{{key 7}}', {place}, {no}"
        rows = db.execute(f"EXPLAIN EXECUTE keyed ({values})")
        plan = "\n".join(row for (row,) in rows)
    assert "event_keys" in plan
    assert "events_pkey" not in plan
