"""How the databases answer: what may not grow with the store is looked up, not searched for."""

import apsw
import psycopg
import pytest

import backstory
from backstory.storage.postgres import agents as postgres_agents
from backstory.storage.postgres import lineages as postgres_lineages
from backstory.storage.postgres import rows as postgres_rows
from backstory.storage.protocols import Wanted
from backstory.storage.sqlite import rows as sqlite_rows
from tests import databases

# There each worker plans for its own shards, without the settings of this connection, and the coordinator
# sorts what they return: the indexes are the same, but the plan that is shown does not tell.
one_server = pytest.mark.skipif(
    bool(databases.CITUS), reason="on a cluster, plans are made by its workers"
)


@pytest.fixture
def sqlite_plan(tmp_path):
    path = str(tmp_path / "store.db")
    backstory.open(path).close()
    db = apsw.Connection(path)

    def plan(wanted, **more):
        sql, bindings = sqlite_rows._listing(wanted, **more)
        return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]

    yield plan
    db.close()


def test_the_latest_agents_are_read_from_an_index_on_sqlite(sqlite_plan):
    plan = sqlite_plan(Wanted(latest_first=True, limit=1))
    assert "SCAN a USING INDEX agents_touched" in plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan  # only the agents of one second are sorted


def test_the_latest_agents_of_one_session_are_not_searched_for_among_all(sqlite_plan):
    plan = sqlite_plan(Wanted(latest_first=True, limit=1, session="x"))
    assert not any("agents_touched" in step for step in plan)


@pytest.mark.parametrize("order", ["born", "updated"])
def test_a_page_of_keys_that_begin_alike_is_read_in_its_order_on_sqlite(sqlite_plan, order):
    """However many they are; few of them are looked up by their keys."""
    wanted = Wanted(key_prefix="user:", latest_first=order == "updated", limit=50)
    assert any("agents_key" in step for step in sqlite_plan(wanted))
    common = sqlite_plan(wanted, common=True)
    assert not any("agents_key" in step for step in common)
    assert "USE TEMP B-TREE FOR ORDER BY" not in common


def test_pages_of_very_many_keys_that_begin_alike_are_those_of_few(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_rows, "COMMON", 3)
    with backstory.open(tmp_path / "store.db") as store:
        made = [store.ensure(f"{kind}:{n}") for n in range(9) for kind in ("user", "other")][::2]
        made[4].user("later")
        assert pages(store, "born") == [agent.id for agent in made]
        assert pages(store, "updated") == [
            made[4].id,
            *(one.id for one in reversed(made) if one != made[4]),
        ]


def pages(store, order):
    found, last = [], None
    while page := store.agents(prefix="user:", order=order, limit=2, after=last):
        found += [agent.id for agent in page]
        last = page[-1]
    return found


def test_a_title_is_looked_up_on_sqlite(sqlite_plan):
    assert any("USING INDEX agents_title" in step for step in sqlite_plan(Wanted(title="x")))


@one_server
def test_a_title_is_looked_up_on_postgresql(empty_database):
    postgres_url = empty_database()
    backstory.open(postgres_url).close()
    sql, bindings = postgres_agents.listing(Wanted(title="x"))
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
    sql, bindings = postgres_agents.listing(Wanted(latest_first=True, limit=1))
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
    """Even where nearly every place has one agent: a planner that believes it of all would read a whole
    session, of any number of forks, for each parent."""
    url = empty_database()
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        for _ in range(300):
            agent = store.start()
        db.execute("ANALYZE backstory.agents")
        with db.transaction():
            db.execute("SET LOCAL enable_seqscan = off")
            walk = {**postgres_rows.of(agent._record), "start": 1, "at": None}
            plan = "\n".join(
                row for (row,) in db.execute(f"EXPLAIN {postgres_lineages.WALK}", walk)
            )
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
    sql, bindings = postgres_agents.listing(Wanted(roots=True, limit=50))
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
    sql, bindings = postgres_agents.listing(Wanted(key_prefix=prefix, limit=10))
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
        db.execute(MANY_KEYS, postgres_rows.of(record))
        if is_analyzed:
            db.execute("ANALYZE backstory.events")
        names = {
            f"%({name})s": f"${n}"
            for n, name in enumerate(("nos", "lows", "highs", "keys", "place"), 1)
        }
        sql = postgres_rows.KEYED
        for name, number in names.items():
            sql = sql.replace(name, number)
        db.execute(
            f"SET plan_cache_mode = {mode}; PREPARE keyed (int[], int[], int[], text[], bigint) AS {sql}"
        )
        place = postgres_rows.of(record)["place"]
        rows = db.execute(
            f"EXPLAIN EXECUTE keyed ('{{{record.pk}}}', '{{1}}', '{{20000}}', '{{key 7}}', {place})"
        )
        plan = "\n".join(row for (row,) in rows)
    assert "event_keys" in plan
    assert "events_pkey" not in plan
