"""Appends to a PostgreSQL store: which statement runs, who is notified, what Ctrl-C leaves."""

import os
import signal
import threading

import psycopg
import pytest

import backstory
from backstory.storage.ids import parse_place
from backstory.storage.postgres import server
from backstory.storage.postgres.transaction import PostgresTransaction
from tests.databases import with_parameter
from tests.processes import wait_until

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'WITH updated'"


@pytest.fixture
def direct(new_database):
    """A store on one server, and a connection of the test's own to it."""
    address = new_database(plain=True)
    with backstory.open(address) as store, psycopg.connect(address, autocommit=True) as db:
        yield store, db


def borrow_connection(store):
    """Return the connection that the next call will use."""
    with store._backend._pool.borrow() as db:
        return db


@pytest.fixture
def executed(monkeypatch):
    """The statements that psycopg ran, as names."""
    names = {
        PostgresTransaction.APPEND_IN_QUEUE: "append one",
        PostgresTransaction.APPEND_MANY: "append many",
    }
    seen = []
    execute = psycopg.Cursor.execute

    def execute_and_record(cursor, sql, *args, **kwargs):
        if sql in names:
            seen.append(names[sql])
        return execute(cursor, sql, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute_and_record)
    return seen


def test_one_event_is_a_plain_statement_and_a_batch_is_a_function(direct, executed):
    agent = direct[0].start()
    agent.user("a")
    agent.extend([("user", "b"), ("user", "c")])
    assert executed == ["append one", "append many"]
    assert direct[0].verify() == []


def test_the_statement_is_prepared_unless_the_address_forbids_it(new_database):
    address = new_database(plain=True)
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE statement ~ 'INSERT INTO'"
    for choice, count in (("on", 1), ("off", 0)):
        with backstory.open(with_parameter(address, f"prepare={choice}")) as store:
            agent = store.start()
            for _ in range(server.PREPARE_AFTER + 1):
                agent.user("a")
            assert borrow_connection(store).execute(prepared).fetchall() == [(count,)]
            assert store.verify() == []


def test_an_append_with_a_known_head_and_a_new_key_is_one_statement(direct, executed):
    agent = direct[0].start()
    event = agent.append("user", "a", key="k", expected=0)
    assert executed == ["append one"]
    assert agent.append("user", "a", key="k", expected=0) == event
    with pytest.raises(backstory.KeyTaken, match="position 1 has the key 'k'"):
        agent.append("user", "b", key="k", expected=1)
    assert agent.head == 1


def test_an_append_works_after_a_rollback_removed_the_prepared_statements(direct):
    store, _ = direct
    agent = store.start()
    agent.user("a")
    for _ in range(3):
        with pytest.raises(backstory.NotFound):
            agent.rewind("no such mark")
        agent.user("b")
    assert agent.head == 4


def test_more_than_a_socket_takes_at_once(direct):
    agent = direct[0].start()
    text = "ä" * 4_000_000
    agent.user(text)
    assert agent.events()[0].content == text


def test_a_server_that_is_lost_during_an_append_is_a_lost_connection(direct):
    store, db = direct
    agent = store.start()
    agent.user("a")
    pid = borrow_connection(store).info.backend_pid
    with psycopg.connect(db.info.dsn) as other, InThread(lambda: agent.user("b")) as outcome:
        other.execute("SELECT 1 FROM backstory.agents FOR UPDATE")
        outcome.start()
        wait_until(lambda: db.execute(WAITING).fetchall() == [(1,)])
        db.execute("SELECT pg_terminate_backend(%s)", (pid,))
    assert isinstance(outcome.error, backstory.ConnectionLost)
    assert agent.user("c").seq == 2


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")
def test_ctrl_c_during_a_wait_for_a_lock_writes_nothing_and_leaves_the_connection_usable(direct):
    store, db = direct
    agent = store.start()
    agent.user("a")
    connection = borrow_connection(store)
    with psycopg.connect(db.info.dsn) as other:
        other.execute("SELECT 1 FROM backstory.agents FOR UPDATE")

        def interrupt():
            wait_until(lambda: db.execute(WAITING).fetchall() == [(1,)])
            os.kill(os.getpid(), signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            agent.user("never")
        interrupter.join()
    assert agent.user("b").seq == 2
    assert borrow_connection(store) is connection


def test_another_encoding_of_the_client_does_not_matter(empty_database):
    address = with_parameter(empty_database(), "client_encoding=latin1")
    with backstory.open(address) as store:
        agent = store.start()
        agent.user("好 ä")
        agent.extend([("user", "好"), ("user", "ä")])
        assert [event.content for event in agent.events()] == ["好 ä", "好", "ä"]
        assert not store.verify()


def test_an_agent_is_locked_while_a_move_is_judged(direct):
    store, db = direct
    agent = store.start()
    with (
        store._backend.begin(agents=[agent._record]),
        pytest.raises(psycopg.errors.LockNotAvailable),
    ):
        db.execute("SELECT 1 FROM backstory.agents FOR NO KEY UPDATE NOWAIT")


FUNCTIONS = (
    "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'backstory'::regnamespace"
)


def test_every_function_that_is_gone_is_noticed_by_verify(direct):
    store, db = direct
    gone = [signature for (signature,) in db.execute(FUNCTIONS).fetchall()]
    for signature in gone:
        db.execute(f"DROP FUNCTION {signature}")
    names = {signature.removeprefix("backstory.").partition("(")[0] for signature in gone}
    assert {finding.problem for finding in store.verify()} == {
        f"the function {name} is missing" for name in names
    }


def test_a_connection_whose_settings_were_dropped_is_refused(new_database, monkeypatch):
    """As a pooler does it that does not know them."""
    address = new_database()
    monkeypatch.setattr(
        "backstory.storage.postgres.server.build_conninfo", lambda place, **_: place
    )
    with pytest.raises(backstory.CannotOpen, match="settings of the connection were dropped"):
        backstory.open(address)
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {db.info.dbname} SET search_path = pg_catalog, pg_temp")
    with pytest.raises(backstory.CannotOpen, match="default_transaction_read_only is 'off'"):
        backstory.open(address, read_only=True)
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(
            f"ALTER DATABASE {db.info.dbname} SET default_transaction_isolation = serializable"
        )
    with pytest.raises(
        backstory.CannotOpen, match="SET default_transaction_isolation = 'read committed'"
    ):
        backstory.open(address)


class InThread:
    """Work that is done in a thread, and how it ended."""

    def __init__(self, work):
        self.error = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self.start = self._thread.start

    def _run(self):
        try:
            self._work()
        except Exception as error:
            self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._thread.join(30)


WAITS_FOR = """
    SELECT l.locktype FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE NOT l.granted AND a.datname = current_database() AND a.query ~ %s"""


def test_a_jump_comes_after_the_appends_under_way_and_before_those_that_come_later(direct):
    """The lock of a row is not granted in the order of requests: without another, a jump can be overtaken again and
    again."""
    store, db = direct
    agent = store.start()
    agent.extend([("user", "a"), ("user", "b")])
    place, no = parse_place(agent.session), agent._record.pk

    def waits_for(query):
        return db.execute(WAITS_FOR, (query,)).fetchall()

    jump, late = (
        threading.Thread(target=lambda: agent.jump(1)),
        threading.Thread(target=agent.user, args="c"),
    )
    with psycopg.connect(store._backend._conninfo) as under_way:  # as an append does
        under_way.execute(
            "SELECT pg_advisory_xact_lock_shared(%s::bigint | (%s::bigint << 48))", (place, no)
        )
        under_way.execute("UPDATE backstory.agents SET about = NULL")
        jump.start()
        wait_until(lambda: waits_for("FOR NO KEY UPDATE"))
        late.start()
        assert wait_until(lambda: waits_for("WITH updated")) == [("advisory",)]
    for thread in (jump, late):
        thread.join()
    assert [event.kind for event in agent.events()] == ["user", "user", "jump", "user"]


INDEXED_COLUMNS = """
    SELECT a.attname FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = 'backstory.agents'::regclass"""


def test_an_append_writes_no_index_of_the_agents_while_a_minute_lasts(direct):
    """PostgreSQL writes a row without its indexes (HOT) if no indexed column changes, and if the
    page has room."""
    store, db = direct
    agent = store.start()
    before = db.execute("SELECT * FROM backstory.agents").fetchone()
    agent.user("hello")
    cursor = db.execute("SELECT * FROM backstory.agents")
    after = cursor.fetchone()
    columns = [column.name for column in cursor.description]
    changed = {name for name, old, new in zip(columns, before, after, strict=True) if old != new}
    indexed = {name for (name,) in db.execute(INDEXED_COLUMNS).fetchall()}
    assert changed & indexed <= {"touched"}
    minutes = "SELECT touched = updated_at / 60000000 FROM backstory.agents"
    assert db.execute(minutes).fetchone() == (True,)
    options = "SELECT reloptions FROM pg_class WHERE oid = 'backstory.agents'::regclass"
    assert db.execute(options).fetchone() == (["fillfactor=80"],)
