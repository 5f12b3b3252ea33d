"""Removals and creations at the same moment. Clients are stopped between their statements, so every
race happens in each run."""

import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

import backstory
from backstory.storage.postgres import server
from backstory.storage.postgres.transaction import PostgresTransaction
from backstory.storage.postgres.writer import PostgresWriter
from backstory.storage.protocol import NewAgent
from tests.storage.held import act_before


def delete_and_restart(store, agent):
    """Delete an agent, and write another conversation under its key."""
    store.delete(agent)
    new = store.ensure("user:1")
    new.user("new one")
    new.user("new two")


# --- an agent is deleted while another one is created from it, on every backend ---


@pytest.fixture
def other(store):
    return store.start("other")  # older than the agent that is deleted, which has the last number


@pytest.fixture
def keyed(store, other):
    agent = store.ensure("user:1")
    agent.user("one")
    agent.user("two")
    return agent


def create_spawn(agent):
    return agent.spawn("child")


def create_fork(agent):
    return agent.fork("child", at=1)


def create_fork_at_beginning(agent):
    return agent.fork("child", at=0)


CREATIONS = [create_spawn, create_fork, create_fork_at_beginning]


def test_a_spawn_returns_no_other_agent_that_gets_its_key_meanwhile(
    store, url, other, keyed, monkeypatch
):
    """As found by the scheduler: seed 3093 on SQLite."""

    def replace_agent():
        store.delete(keyed)
        store.ensure("sub")

    act_before(store, monkeypatch, "create_agent", replace_agent)
    with pytest.raises((backstory.AgentNotFound, backstory.KeyTaken)):
        keyed.spawn(key="sub")


@pytest.mark.parametrize("create", CREATIONS)
def test_an_agent_that_is_deleted_meanwhile_gets_no_child(store, other, keyed, monkeypatch, create):
    act_before(store, monkeypatch, "create_agent", lambda: store.delete(keyed))
    with pytest.raises(backstory.AgentNotFound):
        create(keyed)
    assert store.verify() == []
    store.delete(other)
    assert store.agents() == []


@pytest.mark.parametrize("create", CREATIONS)
def test_a_deleted_agent_whose_row_is_needed_gets_no_child(
    store, other, keyed, monkeypatch, create
):
    heir = keyed.fork("heir")
    act_before(store, monkeypatch, "create_agent", lambda: store.delete(keyed))
    with pytest.raises(backstory.AgentNotFound):
        create(keyed)
    assert store.agents() == [other, heir]
    assert store.verify() == []


@pytest.mark.parametrize("create", CREATIONS)
def test_a_child_is_not_created_from_the_next_agent_with_the_key(
    store, other, keyed, monkeypatch, create
):
    act_before(store, monkeypatch, "create_agent", lambda: delete_and_restart(store, keyed))
    with pytest.raises(backstory.AgentNotFound):
        create(keyed)
    [_, new] = store.agents()
    assert [event.content for event in new.events()] == ["new one", "new two"]


def test_an_old_handle_finds_nothing_of_the_next_agent_with_the_key(store, keyed):
    delete_and_restart(store, keyed)
    for use in (keyed.context, keyed.events, lambda: keyed.user("late"), lambda: keyed.head):
        with pytest.raises(backstory.AgentNotFound):
            use()
    with pytest.raises(backstory.AgentNotFound):
        keyed.erase([1], why="mistake")


def test_no_number_is_given_twice(store):
    numbers = []
    for _ in range(3):
        agent = store.ensure("user:1")
        child = agent.spawn("child")
        for record in store._backend.list_agents():
            numbers.append((record.session, record.pk))
        store.delete(child)
        store.delete(agent)
    assert len(set(numbers)) == 6


# --- PostgreSQL: clients that wait for locks ---


class Client(threading.Thread):
    """Runs a function in a thread, and remembers its result or error."""

    def __init__(self, act):
        super().__init__(daemon=True)
        self._act = act
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self._act()
        except backstory.Error as error:
            self.error = error

    def finish(self):
        """Wait for the end."""
        self.join(60)
        assert not self.is_alive()


WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


class Race:
    """A PostgreSQL store with a root, and clients that wait for its locks."""

    def __init__(self, url):
        self.url = url
        self.store = backstory.open(url)
        self.root = self.store.start("root")
        self.root.user("my password is hunter2")
        self.other_store = backstory.open(url)
        self.clients = []

    def start(self, act):
        """Start a client, and return when it has ended or waits for a lock."""
        waiting = self.count_waiting()
        client = Client(act)
        self.clients.append(client)
        while client.is_alive() and self.count_waiting() == waiting:
            time.sleep(0.005)
        return client

    def count_waiting(self):
        """Return how many clients wait for a lock."""
        with psycopg.connect(self.url) as db:
            return db.execute(WAITING).fetchone()[0]

    @contextmanager
    def hold_root(self):
        """Keep the root's row locked, as an append does."""
        with psycopg.connect(self.url) as db:
            db.execute("SELECT 1 FROM backstory.agents FOR NO KEY UPDATE")
            yield
        for client in self.clients:
            client.finish()

    def read_texts(self):
        """Return all contents in the database."""
        with psycopg.connect(self.url) as db:
            rows = db.execute("SELECT content FROM backstory.events").fetchall()
        return [content for (content,) in rows]

    def close(self):
        self.store.close()
        self.other_store.close()


@pytest.fixture
def race(new_database):
    race = Race(new_database(plain=True))
    yield race
    race.close()


def pause_before(monkeypatch, statement, act):
    """Do something the first time that a transaction is about to run a statement."""
    real = PostgresTransaction._run

    def run(self, sql, *args, **kwargs):
        if sql == statement:
            monkeypatch.setattr(PostgresTransaction, "_run", real)
            act()
        return real(self, sql, *args, **kwargs)

    monkeypatch.setattr(PostgresTransaction, "_run", run)


def test_a_child_created_while_a_deletion_waits_leaves_no_text(race, monkeypatch):
    with race.hold_root():
        deletion = race.start(lambda: race.other_store.delete(race.root.id, below=True))
        creation = race.start(lambda: race.root.spawn("child"))

        def append():
            if creation.result is not None:
                creation.result.user("SECRET")

        pause_before(monkeypatch, PostgresTransaction.DELETE_AGENT, append)
    assert deletion.error is None
    assert isinstance(creation.error, backstory.AgentNotFound)
    assert race.read_texts() == []
    assert race.store.verify() == []


def test_a_fork_created_while_an_erasure_waits_keeps_no_copy(race, monkeypatch):
    eraser = race.other_store.agent(race.root.id)
    with race.hold_root():
        race.start(lambda: eraser.erase([1], why="password"))
        creation = race.start(lambda: race.root.fork("fork"))

        def compact():
            if creation.result is not None:
                creation.result.compact("a summary", keep=1)

        pause_before(monkeypatch, PostgresTransaction.ERASE, compact)
    assert creation.result.context().messages[0].content == ""
    assert "my password is hunter2" not in race.read_texts()
    assert race.store.verify() == []


def test_a_compaction_that_waited_for_an_erasure_copies_no_text(race, monkeypatch):
    fork = race.root.fork("fork")
    fork.user("hello")
    clients = []

    def compact():
        clients.append(race.start(lambda: fork.compact("a summary", keep=2)))

    pause_before(monkeypatch, PostgresTransaction.ERASE, compact)
    race.other_store.agent(race.root.id).erase([1], why="password")
    [compaction] = clients
    compaction.finish()
    assert compaction.error is None
    assert "my password is hunter2" not in race.read_texts()


def test_a_spawn_waits_for_a_deletion(race, monkeypatch):
    clients = []

    def create():
        clients.append(race.start(lambda: race.root.spawn("child")))

    pause_before(monkeypatch, PostgresTransaction.DELETE_AGENT, create)
    race.other_store.delete(race.root.id)
    [creation] = clients
    creation.finish()
    assert isinstance(creation.error, backstory.AgentNotFound)
    assert race.store.agents() == []


LARGE = "a text that is too large for an array"


def write_to_two(store, root):
    """Write to two agents, which locks both of them without their turns."""
    other = store.start("other")
    store.write([(root, [("user", LARGE)]), (other, [("user", "hi")])])


def write_several_batches(store, root):
    root.extend([("user", "hi"), ("user", LARGE)])


@pytest.mark.parametrize("write", [write_to_two, write_several_batches])
def test_an_event_too_large_for_an_array_does_not_wait_in_the_queue(race, monkeypatch, write):
    """A move is first in the queue, and waits for the row that the write has locked."""
    monkeypatch.setattr(server, "LARGEST_BATCH", len(LARGE) - 1)
    real = PostgresWriter._run_append
    clients = []

    def run_append(self, sql, params, agent):
        if params.get("content") == LARGE:
            clients.append(race.start(lambda: race.other_store.agent(race.root.id).jump(1)))
        return real(self, sql, params, agent)

    monkeypatch.setattr(PostgresWriter, "_run_append", run_append)
    write(race.store, race.root)
    [move] = clients
    move.finish()
    assert move.error is None
    assert race.root.events([race.root.head - 1])[0].content == LARGE
    assert move.result.seq == race.root.head


class RecordedLocks(PostgresTransaction):
    """Records the locks that it would take."""

    def __init__(self):
        super().__init__(None)
        self.locks = []

    def _run(self, sql, params=None, shape=tuple):
        level = {self.LOCK_PLACE: "place", self.LOCK_ALL_AGENTS: "agents"}.get(sql, "agent")
        self.locks.append((level, params["place"], params.get("session", params.get("no"))))
        return [(0,)]


def build_record(number, id, session):
    new = NewAgent(id=id, session=session, name=f"agent {number}")
    return new.to_record(number, None, 0)


def test_locks_are_taken_in_the_order_of_the_protocol():
    first, second = (f"00000000-0000-7000-8000-00000000000{place}" for place in (2, 1))
    agents = [
        build_record(1, "c", second),
        build_record(2, "b", first),
        build_record(3, "a", second),
    ]
    transaction = RecordedLocks()
    transaction.lock([first, second], agents)
    assert transaction.locks == [
        ("place", 1, None),
        ("place", 2, None),
        ("agents", 1, second),
        ("agents", 2, first),
        ("agent", 1, 3),
        ("agent", 1, 1),
        ("agent", 2, 2),
    ]
