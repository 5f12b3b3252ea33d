"""No call waits longer than the timeout of its store. The upper bounds are generous: without a limit
these calls would wait for a minute or for ever."""

import os
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import apsw
import pytest

import backstory
from backstory.storage.postgres import migrations
from backstory.storage.sqlite import backend as sqlite_backend
from tests.silent_proxy import SilentProxy

SHORT = 0.5
LONG = 20.0  # far less than what the calls would take without a limit


def run_in_thread(call):
    """Return the error of a call that is made in a thread, and fail if it does not end."""
    errors = []

    def run():
        try:
            call()
        except backstory.Error as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()
    return errors[0] if errors else None


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "60", None])
def test_a_timeout_is_a_positive_number(timeout):
    with pytest.raises(backstory.Invalid, match="is not a number of seconds"):
        backstory.open(":memory:", timeout=timeout)


# --- PostgreSQL ---

CALLS = {
    "an append": lambda store, agent: agent.user("more"),
    "a batch": lambda store, agent: agent.extend([("user", "a"), ("user", "b")]),
    "a keyed append": lambda store, agent: agent.append("user", "more", key="k"),
    "a rewind": lambda store, agent: agent.rewind("here"),
    "a context": lambda store, agent: agent.context(),
    "a listing": lambda store, agent: store.agents(),
    "a new session": lambda store, agent: store.start("other"),
    "a fork": lambda store, agent: agent.fork(),
    "a search": lambda store, agent: store.search("there"),
    "an erasure": lambda store, agent: agent.erase([1], why="asked"),
    "a deletion": lambda store, agent: store.delete(agent),
    "a check": lambda store, agent: store.verify(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_has_gone_silent_loses_the_connection(empty_database, call):
    with SilentProxy(empty_database()) as proxy:
        with backstory.open(proxy.url, timeout=SHORT) as store:
            agent = store.start("main")
            agent.user("there")
            agent.mark("here")
            proxy.go_silent()
            error = run_in_thread(lambda: call(store, agent))
            # A second connection may have been needed: then nothing was sent.
            assert isinstance(error, backstory.ConnectionLost | backstory.Busy)
            proxy.go_on()


def test_an_append_to_a_silent_server_may_have_been_written(empty_database):
    with SilentProxy(empty_database()) as proxy:
        with backstory.open(proxy.url, timeout=SHORT) as store:
            agent = store.start("main")
            proxy.go_silent()
            error = run_in_thread(lambda: agent.user("more"))
            assert isinstance(error, backstory.ConnectionLost)
            assert "no answer within 0.5 seconds: what was under way may or may not" in str(error)
            proxy.go_on()
            agent.append("user", "after the partition")
            assert agent.events()[-1].content == "after the partition"


def test_a_follower_of_a_silent_server_ends_with_its_time(empty_database):
    url = empty_database()
    backstory.open(url).close()  # creating the tables may take longer
    with SilentProxy(url) as proxy:
        with backstory.open(proxy.url, timeout=SHORT) as store:
            agent = store.start("main")
            with agent.follow(timeout=SHORT) as follower:
                proxy.go_silent()
                assert run_in_thread(lambda: list(follower)) is None
                proxy.go_on()


def test_a_server_that_does_not_accept_anybody_cannot_be_opened(empty_database):
    with SilentProxy(empty_database()) as proxy:
        proxy.go_silent()
        error = run_in_thread(lambda: backstory.open(proxy.url, timeout=SHORT))
        assert isinstance(error, backstory.CannotOpen)


def test_a_server_that_falls_silent_while_the_tables_are_created_cannot_be_opened(
    empty_database, monkeypatch
):
    change_tables = migrations.change_tables
    with SilentProxy(empty_database()) as proxy:

        def fall_silent(db, url):
            proxy.go_silent()
            change_tables(db, url)

        monkeypatch.setattr(migrations, "change_tables", fall_silent)
        error = run_in_thread(lambda: backstory.open(proxy.url, timeout=SHORT))
        assert isinstance(error, backstory.StorageError)
        proxy.go_on()


def test_a_client_that_vanishes_within_a_move_does_not_keep_the_agent_locked(empty_database):
    url = empty_database()
    with SilentProxy(url) as proxy:
        with backstory.open(proxy.url, timeout=2) as vanishing, backstory.open(url) as store:
            agent = vanishing.start("main")
            other = store.agent("main")
            record = agent._record
            write = partial(other.user, "from another client")
            writer = threading.Thread(target=write, daemon=True)
            with suppress(backstory.StorageError):
                with vanishing._backend.begin(agents=[record]):
                    proxy.go_silent()  # the server does not learn that the client is gone
                    writer.start()
                    writer.join(LONG)
                    is_locked = writer.is_alive()
            assert not is_locked
            proxy.go_on()
            assert [event.content for event in other.events()] == ["from another client"]


# --- SQLite ---


@contextmanager
def locked_file(path):
    """Let another connection have the write lock, as a stopped process would."""
    db = apsw.Connection(str(path))
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.close()


def test_many_threads_behind_a_stopped_writer_wait_for_one_timeout(tmp_path):
    path = tmp_path / "history.db"
    threads = 12
    seconds = []
    with backstory.open(path, timeout=1) as store:
        agents = [store.start() for _ in range(threads)]

        def write(agent):
            begun = time.monotonic()
            with pytest.raises(backstory.Busy, match="writing for 1 seconds"):
                agent.user("held up")
            seconds.append(time.monotonic() - begun)

        with locked_file(path):
            writers = [threading.Thread(target=write, args=(agent,)) for agent in agents]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
        assert len(seconds) == threads
        assert max(seconds) < threads / 2  # one after the other, the last would need `threads`
        agents[0].user("now")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_behind_a_stopped_writer_waits_for_one_timeout(tmp_path):
    path = tmp_path / "history.db"
    threads = 12
    with backstory.open(path, timeout=1) as store:
        agents = [store.start() for _ in range(threads)]
        with locked_file(path):
            writers = [
                threading.Thread(
                    target=run_in_thread, args=(lambda one=agent: one.user("held up"),)
                )
                for agent in agents
            ]
            for writer in writers:
                writer.start()
            begun = time.monotonic()
            child = os.fork()
            if not child:
                os._exit(0)
            seconds = time.monotonic() - begun
            os.waitpid(child, 0)
            for writer in writers:
                writer.join()
        assert seconds < threads / 2


@pytest.mark.parametrize("url", ["history.db", ":memory:"])
def test_a_transaction_of_another_thread_is_not_waited_for_without_end(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with backstory.open(url, timeout=0.1) as store:
        agent = store.start()
        with store._backend.begin():
            for call in (agent.user, agent.fork):
                error = run_in_thread(partial(call, "held up"))
                assert isinstance(error, backstory.Busy)
        agent.user("now")


def record_deadlines(store, monkeypatch):
    """Return a list to which each transaction adds the deadline that it was given."""
    deadlines = []
    begin = store._backend.begin

    def begin_and_record(**options):
        deadlines.append(options.get("deadline"))
        return begin(**options)

    monkeypatch.setattr(store._backend, "begin", begin_and_record)
    return deadlines


def test_an_append_that_looks_for_a_repeat_has_one_deadline(store, monkeypatch):
    agent = store.start("main")
    agent.user("one", expected=0, key="k")
    deadlines = record_deadlines(store, monkeypatch)
    computed = []
    compute = store._backend.compute_deadline

    def compute_and_record():
        computed.append(compute())
        return computed[-1]

    monkeypatch.setattr(store._backend, "compute_deadline", compute_and_record)
    agent.user("one", expected=0, key="k")
    assert deadlines == computed[:1]


def test_a_removal_waits_for_readers_until_its_own_deadline_only(tmp_path, monkeypatch):
    with backstory.open(tmp_path / "history.db", timeout=1) as store:
        attempts = []
        now = time.monotonic
        monkeypatch.setattr(sqlite_backend, "empty_wal", lambda db, path: attempts.append(db))

        def remove_until_the_deadline():
            with store._backend.begin() as transaction:
                transaction.record_removals([])
                monkeypatch.setattr(time, "monotonic", lambda: now() + 1)

        with pytest.raises(backstory.TextRemains):
            remove_until_the_deadline()
        assert len(attempts) == 1


def test_an_erasure_beside_an_idle_reader_does_not_stop_writers(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as store, backstory.open(path) as other:
        agent = store.start("main")
        agent.user("secret")
        reader = apsw.Connection(str(path))
        rows = reader.execute("SELECT content FROM events")
        next(rows)  # its read transaction stays open
        attempts = []
        original = sqlite_backend.SqliteBackend._try_to_empty

        def try_and_write(backend):
            is_empty = original(backend)
            # Between two attempts, a writer that does not wait gets the lock.
            writer = apsw.Connection(str(path))
            writer.execute("BEGIN IMMEDIATE; COMMIT")
            writer.close()
            attempts.append(other.agent("main").user("meanwhile").seq)
            if len(attempts) == 3:
                reader.close()
            return is_empty

        monkeypatch.setattr(sqlite_backend.SqliteBackend, "_try_to_empty", try_and_write)
        agent.erase([1], why="asked")
        assert len(attempts) >= 3
        assert b"secret" not in path.read_bytes()


def test_a_log_that_has_grown_shrinks_again(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        reader = apsw.Connection(str(path))
        rows = reader.execute("SELECT * FROM agents")
        next(rows)  # an open read transaction keeps the log from being overwritten
        agent.extend([("user", "x" * 1_000_000)] * 8)
        assert os.path.getsize(f"{path}-wal") > 8_000_000
        reader.close()
        for _ in range(3):
            agent.user("more")
        assert os.path.getsize(f"{path}-wal") < 8_000_000
