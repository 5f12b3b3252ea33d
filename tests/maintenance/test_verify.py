"""verify() finds damage, names its position, and finds nothing else."""

import threading
from contextlib import closing
from weakref import WeakSet

import apsw
import pytest

import backstory
from backstory.maintenance import checker
from backstory.storage.sqlite.schema import PARTIAL_INDEXES
from tests.damage import overwrite_events
from tests.maintenance.raw import is_sqlite, run_sql

NUMBERS = {"main": 1, "child": 2, "grandchild": 3}  # of the agents in the tables


class Damage:
    """A store with a session of some shape, and ways to damage it with SQL."""

    def __init__(self, url):
        self.store = backstory.open(url)
        self.url = url
        self.main = self.store.start("main")
        self.main.extend([("user", str(n), {"n": n}) for n in range(1, 5)])
        self.main.mark("x")
        self.main.user("dead")
        self.main.rewind("x")
        self.child = self.main.fork("child", at=5)
        self.child.extend(
            [("user", "a", None), ("rewind", None, {"target_message_id": 5}), ("user", "b", None)]
        )
        self.grandchild = self.child.fork("grandchild")
        self.grandchild.jump(2)
        assert self.store.verify() == []

    def run(self, sql):
        run_sql(self.url, sql)

    def position(self, agent, seq):
        """The column with the position of an event, as a condition and as an assignment."""
        if is_sqlite(self.url):
            return f"id = {(NUMBERS[agent] << 32) + seq}"
        return f"seq = {seq}"

    def digest(self, seq):
        """The digest of one of main's events, as SQL."""
        hexadecimal = self.main.digest(seq)
        return f"x'{hexadecimal}'" if is_sqlite(self.url) else f"'\\x{hexadecimal}'"

    def event(self, agent, seq):
        """A condition that finds one event on either backend."""
        return f"agent = {NUMBERS[agent]} AND seq = {seq}"


@pytest.fixture
def damage(durable_url):
    damage = Damage(durable_url)
    yield damage
    damage.store.close()


@pytest.mark.parametrize(
    ("sql", "agent", "position", "severity", "words"),
    [
        (
            "UPDATE events SET base = 1 WHERE {main 7}",
            "main",
            7,
            "error",
            "its base is 1, but the rules make it 5",
        ),
        (
            "UPDATE events SET base = NULL WHERE {main 7}",
            "main",
            7,
            "error",
            "its base is None, but",
        ),
        (
            "UPDATE events SET base = 1 WHERE {main 3}",
            "main",
            3,
            "error",
            "its base is 1, but the rules make it None",
        ),
        (
            "UPDATE events SET base = 4 WHERE {child 7}",
            "child",
            7,
            "error",
            "its base is 4, but the rules make it 5",
        ),
        (
            "DELETE FROM events WHERE {main 3}",
            "main",
            4,
            "error",
            "positions 3 to 3 before it are missing",
        ),
        (
            "UPDATE events SET data = '{broken' WHERE {main 2}",
            "main",
            2,
            "error",
            "its data is not a JSON object",
        ),
        (
            "UPDATE events SET data = '[1]' WHERE {main 2}",
            "main",
            2,
            "error",
            "its data is not a JSON object",
        ),
        (
            "UPDATE events SET kind = 'telepathy' WHERE {main 2}",
            "main",
            2,
            "warning",
            "unknown kind 'telepathy'",
        ),
        (
            "UPDATE events SET kind = 'user' WHERE {main 5}",
            "main",
            7,
            "error",
            "its base is 5, but the rules make it None",
        ),
        (
            "UPDATE events SET created_at = created_at - 30000000 WHERE {main 2}",
            "main",
            2,
            "error",
            "microseconds before that of the previous event",
        ),
        (
            "UPDATE agents SET spawned = {true}, born_seq = 4 WHERE no = 2",
            "child",
            None,
            "error",
            "its birth is recorded at 4",
        ),
        (
            "UPDATE agents SET born_seq = -77 WHERE no = 2",
            "child",
            None,
            "error",
            "birth is recorded at -77",
        ),
        (
            "UPDATE agents SET created_at = created_at - 30000000 WHERE no = 2",
            "child",
            None,
            "error",
            "recorded before the event",
        ),
        (
            "UPDATE agents SET created_at = 5 WHERE no = 2",
            "child",
            None,
            "warning",
            "created before the event",
        ),
        ("UPDATE agents SET parent = 9 WHERE no = 2", "child", None, "error", "parent"),
        ("UPDATE agents SET parent = 3 WHERE no = 2", "child", None, "error", "runs in a circle"),
        (
            "UPDATE agents SET parent = 1 WHERE no = 3",
            "grandchild",
            None,
            "error",
            "its parent does not own",
        ),
        (
            "UPDATE agents SET parent = NULL WHERE no = 2",
            "child",
            None,
            "error",
            "it has no parent, but inherits",
        ),
        (
            "UPDATE agents SET fork_seq = 6 WHERE no = 2",
            "child",
            6,
            "error",
            "at or below the fork position 6",
        ),
    ],
)
def test_damage_is_found_at_its_position(damage, sql, agent, position, severity, words):
    for place in ("main 2", "main 3", "main 5", "main 7", "child 7"):
        sql = sql.replace(f"{{{place}}}", damage.event(*place.split()))
    damage.run(sql.replace("{true}", "1" if is_sqlite(damage.url) else "true"))
    found = damage.store.verify()
    expected = (getattr(damage, agent).id, position, severity)
    there = [finding for finding in found if finding[:3] == expected]
    assert any(words in finding.problem for finding in there), found
    assert all(f.remedy for f in found)


def test_a_time_that_runs_backwards_by_a_microsecond_is_found(damage):
    damage.run("UPDATE events SET created_at = created_at - 1 WHERE agent = 1 AND seq = 4")
    found = [f for f in damage.store.verify() if f.agent_id == damage.main.id]
    assert {finding.position for finding in found} == {4}
    assert "its time is 1 microseconds before" in found[0].problem
    assert "does not fit its digest" in found[1].problem


def test_a_store_that_is_being_written_is_sound(damage):
    stop = threading.Event()

    def write():
        while not stop.is_set():
            damage.main.user("more")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            assert damage.store.verify() == []
    finally:
        stop.set()
        writer.join()


def test_an_ancestry_deeper_than_python_recurses_is_verified():
    with backstory.open(":memory:") as store:
        agent = store.start()
        agent.mark("x")
        for _ in range(1_100):
            agent.user("a")
            agent = agent.fork()
        agent.rewind("x")
        assert store.verify() == []
        assert len(agent.context().messages) == 2


def test_a_damaged_file_is_a_finding(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").extend([("user", "x" * 500, None)] * 200)
    overwrite_events(path)
    with backstory.open(path) as store:
        found = store.verify()
    assert found
    assert all(f.severity == "error" for f in found)


@pytest.mark.parametrize("index", PARTIAL_INDEXES)
def test_surplus_entries_of_an_index_are_found(tmp_path, index):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.ensure("ticket-1")
        agent.describe(title="with a title")
        agent.user("with a key", key="k")
        agent.mark("m")
        agent.note("n")
        agent.jump(1)
    # Under another condition, SQLite leaves the entries of the rows that are removed.
    _, condition = PARTIAL_INDEXES[index]
    replace_in_schema(path, index, f"WHERE {condition}", "WHERE 0")
    run_sql(str(path), "DELETE FROM events WHERE id > 0")
    run_sql(str(path), "UPDATE agents SET key = NULL, about = NULL")
    replace_in_schema(path, index, "WHERE 0", f"WHERE {condition}")
    with backstory.open(path) as store:
        problems = [finding.problem for finding in store.verify()]
    assert f"the index {index} has entries of events or agents that do not exist" in problems


def replace_in_schema(path, index, old, new):
    """Replace a part of the statement that creates an index, and leave its entries as they are."""
    with closing(apsw.Connection(str(path))) as db:
        db.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
        change = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ?"
        db.execute(change, (old, new, index))


def test_a_missing_end_of_a_log_is_found(damage):
    damage.run(f"DELETE FROM events WHERE {damage.event('child', 8)}")
    found = {(f.agent_id, f.position) for f in damage.store.verify()}
    assert (damage.grandchild.id, None) in found or (damage.child.id, 7) in found


def test_events_of_no_agent_are_found(damage):
    if is_sqlite(damage.url):
        damage.run("INSERT INTO events (id, kind, created_at) VALUES (77 << 32 | 1, 'user', 1)")
    else:
        columns = "place, created_at, seq, base, kind, digest"
        damage.run(
            f"INSERT INTO events (agent, {columns}) SELECT 77, {columns} FROM events LIMIT 1"
        )
    [finding] = damage.store.verify()
    assert "1 events belong to agents that do not exist" in finding.problem


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE agents SET parent = 9 WHERE no = 2",
        "UPDATE agents SET parent = 3 WHERE no = 2",
        "UPDATE agents SET parent = 2 WHERE no = 2",
        "UPDATE events SET base = 7 WHERE {child 7}",
        "UPDATE events SET base = 9 WHERE {grandchild 9}",
    ],
)
def test_a_missing_parent_or_a_circle_is_corrupt_and_never_an_endless_loop(damage, sql):
    for place in ("child 7", "grandchild 9"):
        sql = sql.replace(f"{{{place}}}", damage.event(*place.split()))
    damage.run(sql)
    agent = damage.store.agent(damage.grandchild.id)
    with pytest.raises(backstory.Corrupt, match=rf"'grandchild' \({agent.id}\) breaks off"):
        agent.context(at=9 if "base = 9" in sql else 8)
    if "agents" in sql:
        with pytest.raises(backstory.Corrupt):
            agent.events()
        with pytest.raises(backstory.Corrupt):
            agent.erase([1], why="asked")


@pytest.mark.parametrize("read", [backstory.Agent.context, backstory.Agent.conversation])
def test_a_context_with_a_missing_event_is_corrupt(damage, read):
    damage.run(f"DELETE FROM events WHERE {damage.event('main', 3)}")
    with pytest.raises(backstory.Corrupt, match="events are missing from the log of agent 'main'"):
        read(damage.main)


@pytest.mark.parametrize("position", [3, 7])
def test_the_digest_at_a_missing_event_is_corrupt(damage, position):
    fork = damage.main.fork("fork", at=7)
    damage.run(f"DELETE FROM events WHERE {damage.event('main', position)}")
    with pytest.raises(backstory.Corrupt, match=f"event {position} is missing from .* 'fork'"):
        fork.digest(position)


def test_a_store_with_a_missing_head_cannot_be_sealed(damage):
    fork = damage.main.fork("fork", at=3)
    damage.run(f"DELETE FROM events WHERE {damage.event('main', 3)}")
    with pytest.raises(backstory.Corrupt, match=f"event 3 .* 'fork' \\({fork.id}\\)"):
        damage.store.seal()


def test_a_context_with_broken_and_unknown_events_has_all_others(damage, caplog):
    damage.run(f"UPDATE events SET kind = 'telepathy' WHERE {damage.event('main', 2)}")
    damage.run(f"UPDATE events SET data = '{{broken' WHERE {damage.event('main', 3)}")
    messages = damage.main.context().messages
    assert [(e.seq, e.data) for e in messages[:2]] == [(1, {"n": 1}), (3, None)]
    damage.main.context()
    [line] = [record.getMessage() for record in caplog.records]
    assert damage.main.id in line
    assert "position 2: unknown kind 'telepathy'" in line


CHANGES = {
    "a byte of content": "UPDATE events SET content = '2!' WHERE {main2}",
    "content that is gone": "UPDATE events SET content = NULL WHERE {main2}",
    "data": "UPDATE events SET data = '{{\"n\":3}}' WHERE {main2}",
    "the spelling of data": "UPDATE events SET data = '{{\"n\": 2}}' WHERE {main2}",
    "a kind": "UPDATE events SET kind = 'assistant' WHERE {main2}",
    "a time": "UPDATE events SET created_at = created_at + 1 WHERE {main2}",
    "a key": "UPDATE events SET key = 'k' WHERE {main2}",
    "a base": "UPDATE events SET base = 4 WHERE {jump}",
    "a digest": "UPDATE events SET digest = {digest3} WHERE {main2}",
    "the first row removed": "DELETE FROM events WHERE {main1}",
    "a row in the middle removed": "DELETE FROM events WHERE {main2}",
    "a fork position": "UPDATE agents SET fork_seq = 4, born_seq = 4 WHERE no = 2",
    "an agent removed": "DELETE FROM agents WHERE no = 2",
    "a circle": "UPDATE agents SET parent = 3 WHERE no = 2",
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_by_sql_is_found(damage, change):
    conditions = {
        "main1": damage.event("main", 1),
        "main2": damage.event("main", 2),
        "digest3": damage.digest(3),
        "jump": damage.event("grandchild", 9),
    }
    damage.run(CHANGES[change].format(**conditions))
    assert damage.store.verify() != []


def test_two_rows_exchanged_are_found(damage):
    """Complete rows, each with its digest, as if they had been written the other way round."""
    two, three, aside = (damage.position("main", seq) for seq in (2, 3, 900))
    for before, after in ((two, aside), (three, two), (aside, three)):
        damage.run(f"UPDATE events SET {after} WHERE agent = 1 AND {before}")
    assert [event.content for event in damage.main.events([2, 3])] == ["3", "2"]
    found = {
        finding.position for finding in damage.store.verify() if finding.agent_id == damage.main.id
    }
    assert {2, 3} <= found


def test_a_seal_finds_a_removed_agent(damage):
    seal = damage.store.seal()
    damage.run("DELETE FROM events WHERE agent = 3")
    damage.run("DELETE FROM agents WHERE no = 3")
    assert damage.store.verify() == []  # nothing in the store knows of it any more
    [finding] = damage.store.verify(seal=seal)
    assert finding.agent_id == damage.grandchild.id


def test_a_moved_fork_without_own_events_is_found(damage):
    idle = damage.main.fork("idle", at=5)
    seal = damage.store.seal()
    damage.run("UPDATE agents SET fork_seq = 4 WHERE name = 'idle'")
    assert {finding.agent_id for finding in damage.store.verify()} == {idle.id}
    assert {finding.agent_id for finding in damage.store.verify(seal=seal)} == {idle.id}


def test_a_row_that_was_added_is_found(damage):
    columns = "kind, content, data, created_at, key, base, digest"
    if is_sqlite(damage.url):
        added = f"INSERT INTO events (id, {columns}) SELECT id + 1, {columns} FROM events WHERE "
    else:
        copied = f"SELECT place, agent, seq + 1, {columns} FROM events WHERE "
        added = f"INSERT INTO events (place, agent, seq, {columns}) {copied}"
    damage.run(added + damage.event("main", 7))
    assert damage.store.verify() != []


def test_a_seal_finds_removed_newest_rows(damage):
    seal = damage.store.seal()
    assert damage.store.verify(seal=seal) == []
    damage.main.user("later")
    assert damage.store.verify(seal=seal) == []
    for seq in (8, 7):
        damage.run(f"DELETE FROM events WHERE {damage.event('main', seq)}")
    if not is_sqlite(damage.url):
        damage.run("UPDATE agents SET head = 6 WHERE no = 1")
    [finding] = [
        f for f in damage.store.verify(seal=seal) if "the seal was made at position 7" in f.problem
    ]
    assert finding.agent_id == damage.main.id


def test_a_seal_of_another_store_or_a_changed_one_is_refused(damage):
    seal = damage.store.seal()
    with backstory.open(":memory:") as other:
        other.start("main").user("hi")
        with pytest.raises(backstory.Invalid, match="seal of another store"):
            other.verify(seal=seal)
    changed = {**seal, "agents": {damage.main.id: {"head": 1, "digest": "00" * 16}}}
    for bad in (changed, {}, {"format": "poem"}, {**seal, "version": 1}, {**seal, "version": 3}):
        with pytest.raises(backstory.Invalid, match="seal"):
            damage.store.verify(seal=bad)


def test_an_agent_that_is_deleted_meanwhile_is_not_reported(store, monkeypatch):
    for name in ("first", "second", "third"):
        store.start(name).extend([("user", str(n), None) for n in range(3)])
    backend, read_rows = store._backend, store._backend.read_rows

    def delete_and_read(agent, after, limit):
        if any(one.name == "third" for one in store.agents()):
            store.delete("third")
        return read_rows(agent, after, limit)

    monkeypatch.setattr(backend, "read_rows", delete_and_read)
    assert store.verify() == []


def test_an_index_that_another_process_has_merged_is_not_reported(tmp_path):
    """FTS5's own check believes what its connection has read before: "corruption found reading blob"."""
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        for number in range(20):
            agent.user(f"word {number}")
            store.search("word", wait=True)
        with closing(apsw.Connection(str(path))) as other:
            other.execute("INSERT INTO search_3 (search_3) VALUES ('optimize')")
        assert store.verify() == []


def test_the_folds_of_one_session_at_a_time_are_in_memory(store, monkeypatch):
    in_memory, counts = WeakSet(), []

    class CountedFold(checker.Fold):
        def __init__(self, **options):
            super().__init__(**options)
            in_memory.add(self)
            counts.append(len(in_memory))

    monkeypatch.setattr(checker, "Fold", CountedFold)
    for _ in range(20):
        root = store.start()
        root.user("x")
        root.fork().fork()
    assert store.verify() == []
    assert len(counts) == 60
    assert max(counts) <= 4


def test_a_seal_ends_at_an_ancestry_that_is_a_circle(damage):
    seal = damage.store.seal()
    damage.run("UPDATE agents SET parent = 3, fork_seq = 99 WHERE no = 2")
    damage.run("UPDATE agents SET fork_seq = 99 WHERE no = 3")
    assert damage.store.verify(seal=seal) != []


@pytest.fixture
def answered(store):
    """A store with an answer whose request has a digest."""
    agent = store.start("main")
    agent.user("hello")
    request = {"sha256": "0" * 64, "at": 1, "format": "openai-chat"}
    agent.append("assistant", "hi", {"request": request})
    return store


def test_a_changed_digest_in_the_arguments_of_a_call_is_found(store):
    agent = store.start("main")
    call = agent.tool_call("chk", {"sha256": "a1" * 32})
    changed = call.data_json.replace("a1", "b2")
    with store._backend.begin(agents=[agent._record]) as transaction:
        transaction.rewrite_data(agent._record, 1, changed)
    [finding] = store.verify()
    assert "does not fit its digest" in finding.problem


def test_an_empty_sha256_in_the_arguments_of_a_call_is_not_an_erased_request(store):
    store.start("main").tool_call("chk", {"sha256": ""})
    assert store.verify(requests=True) == []


@pytest.mark.parametrize("error", [backstory.Busy("x"), backstory.ConnectionLost("x")])
def test_a_failed_read_of_a_request_is_not_a_finding(answered, monkeypatch, error):
    monkeypatch.setattr(answered._backend, "walk", fail_with(error))
    with pytest.raises(type(error)):
        answered.verify(requests=True)


def test_the_requests_of_an_agent_that_is_deleted_meanwhile_are_skipped(answered, monkeypatch):
    monkeypatch.setattr(answered._backend, "walk", fail_with(backstory.AgentNotFound("x")))
    assert answered.verify(requests=True) == []


def fail_with(error):
    def fail(*_):
        raise error

    return fail
