"""Plans and costs of SQLite: what may not grow with the store is looked up, not searched for."""

import re
from contextlib import closing

import apsw
import pytest

import backstory
from backstory.log.events import Draft
from backstory.storage.protocol import AgentQuery, EventFilter, Piece
from backstory.storage.sqlite import rows as sqlite_rows
from backstory.storage.sqlite.backend import SqliteBackend

MARKS = EventFilter(kinds=frozenset({"mark"}))
LABELS = EventFilter(kinds=frozenset({"note"}), note_names=("label",))
LAST_LABEL = LABELS._replace(newest_only=True)
MOVES = EventFilter(irregular_only=True)
PIECES = [Piece(1, 1, 1)]


@pytest.fixture
def backend(tmp_path, monkeypatch):
    """A backend that returns the plan of its last statement by `read_plan()`."""
    with closing(SqliteBackend(str(tmp_path / "store.db"))) as backend:
        run = backend._run
        statements = []

        def run_and_record(sql, bindings=(), shape=tuple):
            statements.append((sql, bindings))
            return run(sql, bindings, shape)

        def read_plan():
            sql, bindings = statements[-1]
            return [row[3] for row in run(f"EXPLAIN QUERY PLAN {sql}", bindings)]

        monkeypatch.setattr(backend, "_run", run_and_record)
        backend.read_plan = read_plan
        yield backend


@pytest.fixture
def agent(tmp_path):
    with backstory.open(tmp_path / "store.db") as store:
        store.start("main").user("hello")
    with closing(SqliteBackend(str(tmp_path / "store.db"))) as other:
        [agent] = other.list_agents()
        return agent


def test_the_latest_agents_are_read_from_an_index(backend):
    backend.list_agents(AgentQuery(latest_first=True, limit=1))
    plan = backend.read_plan()
    assert "SCAN a USING INDEX agents_touched" in plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan  # only the agents of one second are sorted


def test_the_latest_agents_of_one_session_are_not_searched_for_among_all(backend):
    backend.list_agents(AgentQuery(latest_first=True, limit=1, session="x"))
    assert not any("agents_touched" in step for step in backend.read_plan())


def test_new_events_are_looked_for_in_agents_that_were_written_to(backend, agent):
    assert backend.index_events(10) == 1
    assert backend.count_unindexed() == 0
    plan = backend.read_plan()
    assert "SCAN o" in plan or "SCAN unsearched_3" in plan
    assert not any("SCAN a" in step for step in plan)
    assert backend._run("SELECT * FROM unsearched_3") == []
    backend.append(agent, [Draft("user", "more", None)])
    assert backend._run("SELECT * FROM unsearched_3") == [(agent.pk,)]
    assert backend.count_unindexed() == 1


@pytest.mark.parametrize("latest_first", [False, True])
def test_a_page_of_a_rare_key_prefix_is_looked_up_by_keys(backend, latest_first):
    backend.list_agents(AgentQuery(key_prefix="user:", latest_first=latest_first, limit=50))
    assert any("agents_key" in step for step in backend.read_plan())


@pytest.mark.parametrize("latest_first", [False, True])
def test_a_page_of_a_common_key_prefix_is_read_in_its_order(backend, monkeypatch, latest_first):
    monkeypatch.setattr(sqlite_rows, "COMMON", 0)  # all prefixes are common
    backend.list_agents(AgentQuery(key_prefix="user:", latest_first=latest_first, limit=50))
    plan = backend.read_plan()
    assert not any("agents_key" in step for step in plan)
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan


def test_pages_of_a_common_key_prefix_are_those_of_a_rare_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_rows, "COMMON", 3)
    with backstory.open(tmp_path / "store.db") as store:
        made = []
        for n in range(9):
            made.append(store.ensure(f"user:{n}"))
            store.ensure(f"other:{n}")
        made[4].user("later")
        assert read_pages(store, "born") == [agent.id for agent in made]
        others = [agent.id for agent in reversed(made) if agent != made[4]]
        assert read_pages(store, "updated") == [made[4].id, *others]


def read_pages(store, order):
    found, last = [], None
    while page := store.agents(prefix="user:", order=order, limit=2, after=last):
        found += [agent.id for agent in page]
        last = page[-1]
    return found


def test_a_title_is_looked_up(backend):
    backend.list_agents(AgentQuery(title="x"))
    assert any("USING INDEX agents_title" in step for step in backend.read_plan())


READS = {
    "walk": (lambda rows, agent: rows.walk(agent), "COVERING INDEX jumps"),
    "marks": (lambda rows, agent: rows.read_events(agent, PIECES, MARKS), "INDEX marks"),
    "notes": (
        lambda rows, agent: rows.read_events(agent, PIECES, LABELS),
        "INDEX notes (content=?",
    ),
    "the last note": (
        lambda rows, agent: rows.read_events(agent, PIECES, LAST_LABEL),
        "INDEX notes (content=?",
    ),
    "keys": (lambda rows, agent: rows.find_keys(["k"], agent, PIECES), "INDEX event_keys"),
    "a position": (
        lambda rows, agent: rows.find_position_at_time(agent, 1),
        "SEARCH e USING INTEGER",
    ),
    "the head": (lambda rows, agent: rows.read_head(agent), "SEARCH a USING INTEGER"),
    "the marks of a session": (
        lambda rows, agent: rows.read_owned(AgentQuery(session=agent.session), MARKS),
        "INDEX marks",
    ),
    "the last notes of a session": (
        lambda rows, agent: rows.read_owned(AgentQuery(session=agent.session), LAST_LABEL),
        "INDEX notes (content=?",
    ),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_searches_no_table(backend, agent, name):
    read, index = READS[name]
    statements = []
    run = backend._run

    def run_and_record(sql, bindings=(), shape=tuple):
        statements.append((sql, bindings))
        return run(sql, bindings, shape)

    backend._run = run_and_record
    read(backend, agent)
    sql, bindings = statements[0]
    plan = " ".join(row[3] for row in run(f"EXPLAIN QUERY PLAN {sql}", bindings))
    assert index in plan
    assert not re.search(r"SCAN (e|a|j|events|agents)\b", plan)


def test_the_notes_of_several_names_are_in_order(tmp_path):
    with backstory.open(tmp_path / "store.db") as store:
        agent = store.start()
        for name in ("b", "a", "c", "b", "a"):
            agent.note(name, {})
    with closing(SqliteBackend(str(tmp_path / "store.db"))) as backend:
        [record] = backend.list_agents()
        where = EventFilter(kinds=frozenset({"note"}), note_names=("a", "b"))
        events = backend.read_events(record, backend.read_lineage(record), where)
    assert [event.seq for event in events] == [1, 2, 4, 5]


def test_a_restore_reads_the_live_rows_and_no_others(tmp_path, monkeypatch):
    """The steps of the virtual machine are the cost of a statement, whatever the clock says."""
    few = count_steps_of_restore(tmp_path / "few.db", monkeypatch, dead_rounds=1)
    many = count_steps_of_restore(tmp_path / "many.db", monkeypatch, dead_rounds=50)
    assert many <= 1.02 * few


def count_steps_of_restore(path, monkeypatch, dead_rounds):
    opened, steps = [], []
    connection = apsw.Connection

    def connect(*args, **kwargs):
        opened.append(connection(*args, **kwargs))
        return opened[-1]

    def count(event):
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    monkeypatch.setattr(apsw, "Connection", connect)
    with backstory.open(path) as store:
        agent = store.start()
        agent.mark("x")
        for _ in range(dead_rounds):
            agent.extend([("user", "dead", None)] * 100)
            agent.rewind("x")
        agent.extend([("user", "live", None)] * 200)
        for db in opened:
            db.trace_v2(apsw.SQLITE_TRACE_PROFILE, count)
        assert len(agent.context().messages) == 202
    return sum(steps)
