"""Following an agent or a store gives every event once and in order, whoever writes."""

import math
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import apsw
import psycopg
import pytest

import backstory
from backstory.storage.postgres.watch import WatchState
from backstory.storage.sqlite import watch as sqlite_watch
from tests.processes import PATIENCE, wait_until
from tests.threads import in_threads

WRITER = """
import sys, backstory
url, agent, count = sys.argv[1:]
with backstory.open(url) as store:
    agent = store.agent(agent)
    for n in range(int(count)):
        agent.user(f"{sys.argv[0]} {n}")
        if n % 10 == 0:
            agent.fork().user("a branch")
"""

APPEND_LATE = """
    SELECT before FROM backstory.append_many(
        backstory.place_of(%s), 1, NULL, NULL, '{user}', '{late}', '{NULL}', '{NULL}', '{NULL}',
        '{salt}', '{tail}')"""

WAITING_APPENDS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def process(url, agent, count):
    return subprocess.Popen([sys.executable, "-c", WRITER, url, agent.id, str(count)])


def contents(events):
    return [event.content for event in events]


def take(follower, count):
    return [next(follower) for _ in range(count)]


def test_a_follower_yields_what_is_written_after_it_began(agent):
    agent.user("before")
    with agent.follow(timeout=PATIENCE) as follower:
        agent.user("a")
        agent.extend([("user", "b"), ("assistant", "c")])
        assert contents(take(follower, 3)) == ["a", "b", "c"]


def test_a_follower_begins_after_a_position_a_label_or_a_time(agent):
    agent.extend([("user", "a"), ("mark", None, {"label": "here"}), ("user", "b")])
    assert contents(agent.follow(after=0, timeout=0)) == ["a", None, "b"]
    assert contents(agent.follow(after="here", timeout=0)) == ["b"]
    assert contents(agent.follow(after=agent.events([1])[0].created_at, timeout=0)) == []
    with pytest.raises(backstory.PositionNotFound):
        agent.follow(after=4)


def test_a_fork_is_followed_from_what_it_inherits_on(agent):
    agent.extend([("user", "a"), ("user", "b"), ("user", "dead to the fork")])
    fork = agent.fork(at=2)
    fork.user("c")
    assert contents(fork.follow(after=0, timeout=0)) == ["a", "b", "c"]


def test_what_does_not_fit_into_one_page_comes_in_order_too(agent, monkeypatch):
    monkeypatch.setattr("backstory.storage.follow.FOLLOWED_AT_ONCE", 3)
    agent.extend([("user", str(n)) for n in range(10)])
    assert contents(agent.follow(after=0, timeout=0)) == [str(n) for n in range(10)]


def test_a_follower_ends_when_nothing_came_for_its_timeout(agent):
    assert list(agent.follow(timeout=0)) == []
    assert list(agent.follow(timeout=0.01)) == []
    for wrong in (-1, "soon"):
        with pytest.raises(backstory.Invalid):
            agent.follow(timeout=wrong)


@pytest.mark.parametrize("end", ["follower", "store"])
def test_closing_the_follower_or_the_store_ends_a_wait(url, end):
    store = backstory.open(url)
    follower = store.start("main").follow()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(list(follower)))
    thread.start()
    {"follower": follower, "store": store}[end].close()
    thread.join(PATIENCE)
    assert seen == [[]]
    store.close()


def test_a_closed_store_is_not_followed(durable_url):
    store = backstory.open(durable_url)
    agent = store.start("main")
    store.close()
    for follow in (agent.follow, store.follow):
        with pytest.raises(backstory.StorageError, match="is closed"):
            follow()


def test_a_store_is_followed_with_all_its_agents_and_new_ones(store, agent):
    agent.user("before")
    with store.follow(timeout=PATIENCE) as follower:
        agent.user("a")
        child = agent.fork("child")
        child.user("b")
        other = store.start("other", system="c")
        found = take(follower, 3)
    assert [(owner, event.content) for owner, event in found] == [
        (agent, "a"),
        (child, "b"),
        (other, "c"),
    ]


def test_a_store_is_followed_from_the_positions_that_were_seen(store, agent):
    agent.extend([("user", "a"), ("user", "b")])
    fork = agent.fork("fork")
    fork.user("c")
    seen = store.follow({agent.id: 1}, timeout=0)
    assert [(owner.name, event.content) for owner, event in seen] == [("main", "b"), ("fork", "c")]


def test_events_of_one_agent_keep_their_order_though_their_times_decrease(store, agent):
    with store.follow(timeout=PATIENCE) as follower:
        with store.intake() as intake:
            intake.extend(agent, [("user", "a", None, None, datetime.now(UTC) + timedelta(300))])
            intake.extend(agent, [("user", "b"), ("user", "c")])
        found = take(follower, 3)
    assert [event.content for _, event in found] == ["a", "b", "c"]


def test_an_import_with_old_times_is_followed_too(store, agent, new_url):
    lines = []
    with backstory.open(new_url("memory")) as other:
        other.start("elsewhere", system="old")
        other.export_to(type("Lines", (), {"write": lines.append})())
    with store.follow(timeout=PATIENCE) as follower:
        store.import_from("".join(lines).splitlines())
        owner, event = next(follower)
    assert (owner.name, event.content) == ("elsewhere", "old")


def test_what_is_written_now_is_found_without_looking_at_all_agents(store, agent, monkeypatch):
    monkeypatch.setattr(
        "backstory.storage.follow.REST", math.inf
    )  # all are looked at once, and never again
    with store.follow(timeout=PATIENCE) as follower:
        agent.user("a")
        assert next(follower)[1].content == "a"
        fork = agent.fork("empty fork")
        agent.user("b")
        fork.user("c")
        store.start("new").user("d")
        assert [event.content for _, event in take(follower, 3)] == ["b", "c", "d"]


def test_what_came_in_with_old_times_is_found_before_the_follower_ends(store, monkeypatch):
    monkeypatch.setattr("backstory.storage.follow.REST", math.inf)
    follower = store.follow(timeout=0.2)
    store.start("main").user("a")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    with store.intake() as intake:
        old = intake.agent("old", created_at=long_ago)
        intake.extend(old, [backstory.Event.of(0, "user", "b", created_at=long_ago)])
    assert sorted(event.content for _, event in follower) == ["a", "b"]


def test_threads_that_write_are_followed_without_gap_or_double(store, agent):
    with agent.follow(timeout=PATIENCE) as follower, store.follow(timeout=PATIENCE) as everything:
        in_threads(lambda nth: [agent.user(f"{nth} {n}") for n in range(20)], 4)
        assert [event.seq for event in take(follower, 80)] == list(range(1, 81))
        assert [event.seq for _, event in take(everything, 80)] == list(range(1, 81))


def test_other_processes_are_followed_without_gap_or_double(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        with (
            agent.follow(timeout=PATIENCE) as follower,
            store.follow(timeout=PATIENCE) as everything,
        ):
            writers = [process(durable_url, agent, 20) for _ in range(2)]
            assert [event.seq for event in take(follower, 40)] == list(range(1, 41))
            found = take(everything, 44)
        assert [writer.wait(PATIENCE) for writer in writers] == [0, 0]
        assert [event.seq for owner, event in found if owner == agent] == list(range(1, 41))
        assert sum(owner != agent for owner, _ in found) == 4


def test_two_stores_of_one_process_on_one_file_tell_each_other_at_once(new_url, monkeypatch):
    monkeypatch.setattr(sqlite_watch, "CHECK_INTERVAL", PATIENCE)  # nobody looks at the file
    url = new_url("sqlite")
    with backstory.open(url) as mine, backstory.open(url) as yours:
        agent = mine.start("main")
        follower = agent.follow(timeout=PATIENCE / 2)
        found = []
        thread = threading.Thread(target=lambda: found.append(next(follower)))
        thread.start()
        yours.agent("main").user("hello")
        thread.join(PATIENCE)
        assert contents(found) == ["hello"]


def test_a_follower_continues_after_an_error_of_sqlite(new_url):
    def fail(*_):
        follower._watch._db.exec_trace = None
        failed.set()
        raise apsw.BusyError("database is locked")

    failed = threading.Event()
    with backstory.open(new_url("sqlite")) as store:
        agent = store.start("main")
        follower = agent.follow(timeout=PATIENCE)
        follower._watch._db.exec_trace = fail
        found = []
        thread = threading.Thread(target=lambda: found.append(next(follower)))
        thread.start()
        assert failed.wait(PATIENCE)
        agent.user("hello")
        thread.join(PATIENCE)
        assert contents(found) == ["hello"]


def test_an_idle_follower_asks_sqlite_at_most_twenty_times_a_second(new_url, monkeypatch):
    """Counted on a clock of its own: each look at the file takes as long as it says."""
    clock = [0.0]
    monkeypatch.setattr(sqlite_watch.time, "monotonic", lambda: clock[0])
    with backstory.open(new_url("sqlite")) as store:
        watch = store._backend.watch()
        statements = []
        watch._db.exec_trace = lambda *asked: statements.append(asked[1]) or True

        def pass_time(seconds):
            clock[0] += seconds
            return False

        monkeypatch.setattr(watch, "wait_for_signal", pass_time)
        watch.wait(10.0)
        watch.close()
    assert 1 <= len(statements) <= 10 / 0.05


def test_a_follower_continues_in_a_child_process(new_url):
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    with backstory.open(new_url("sqlite")) as store:
        agent = store.start("main")
        follower = agent.follow(timeout=PATIENCE)
        child = os.fork()
        if not child:
            os._exit(0 if next(follower).content == "hello" else 1)
        agent.user("hello")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert next(follower).content == "hello"


def test_a_follower_in_which_a_thread_waits_continues_in_a_child_process(durable_url):
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        follower = agent.follow(timeout=PATIENCE)
        found = []
        thread = threading.Thread(target=lambda: found.append(next(follower)))
        thread.start()
        wait_until(lambda: follower._waiting.locked())
        child = os.fork()
        if not child:
            signal.alarm(60)  # otherwise it would wait for ever
            os._exit(0 if contents(take(follower, 1)) == ["hello"] else 1)
        agent.user("hello")
        thread.join(PATIENCE)
        assert contents(found) == ["hello"]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- PostgreSQL ---


def test_a_server_that_went_away_is_followed_again_where_it_was_left(new_url):
    url = new_url("postgres")
    with backstory.open(url) as store, backstory.open(url) as other:
        agent = store.start("main")
        with agent.follow(timeout=PATIENCE) as follower:
            agent.user("a")
            assert next(follower).content == "a"
            with psycopg.connect(url, autocommit=True) as db:
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            assert other.agent("main").head == 1  # the pool finds out, and connects again
            other.agent("main").extend([("user", "b"), ("user", "c")])
            assert contents(take(follower, 2)) == ["b", "c"]


def take_notifications(listener, url):
    """Return the payloads that were sent so far: notifications arrive in the order of the commits."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("NOTIFY backstory, 'end'")
    payloads = []
    for notification in listener.notifies(timeout=PATIENCE):
        if notification.payload == "end":
            return payloads
        payloads.append(notification.payload)
    pytest.fail("the last notification did not arrive")


def test_nobody_is_notified_while_nobody_follows(new_url):
    url = new_url("postgres")
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as listener:
        agent = store.start("main")
        listener.execute("LISTEN backstory")
        agent.user("a")
        assert take_notifications(listener, url) == []
        agent.follow(timeout=0).close()
        take_notifications(listener, url)  # the follower's own test
        agent.user("b")
        assert take_notifications(listener, url) == []
        with agent.follow():
            take_notifications(listener, url)
            agent.user("c")
            assert take_notifications(listener, url) == [""]


def test_an_idle_follower_of_postgresql_sends_nothing_between_keep_alives(new_database):
    url = new_database(plain=True)  # on a cluster, followers poll
    with backstory.open(url) as store:
        agent = store.start("main")
        follower = agent.follow(timeout=PATIENCE)
        agent.user("a")
        next(follower)
        watch = follower._watch
        while watch._state is not WatchState.NOTIFIED:
            watch.wait(PATIENCE)
        pid = watch._db.info.backend_pid
        with psycopg.connect(url, autocommit=True) as db:
            asked = "SELECT query_start FROM pg_stat_activity WHERE pid = %s"
            before = db.execute(asked, (pid,)).fetchall()
            watch.wait(1.0)
            assert db.execute(asked, (pid,)).fetchall() == before
        follower.close()


def test_a_user_who_may_not_write_follows_by_polling(new_database):
    url = new_database()
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        agent = store.start("main")
        name = f"reader_{os.getpid()}"
        db.execute(
            f"CREATE ROLE {name} LOGIN PASSWORD 'r'; GRANT USAGE ON SCHEMA backstory TO {name}"
        )
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA backstory TO {name}")
        stack = ExitStack()
        try:
            place = urlsplit(url)
            theirs = place._replace(netloc=f"{name}:r@{place.netloc.rpartition('@')[2]}").geturl()
            reader = stack.enter_context(backstory.open(theirs))
            follower = stack.enter_context(reader.agent(agent.id).follow(timeout=PATIENCE))
            agent.user("a")
            agent.user("b")
            assert contents(take(follower, 2)) == ["a", "b"]
            assert follower._watch._refresh_at == math.inf  # it could not register
        finally:
            stack.close()
            db.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_transaction_that_did_not_see_the_follower_is_waited_for(new_url):
    url = new_url("postgres")
    with backstory.open(url) as store, psycopg.connect(url) as slow:
        agent = store.start("main")
        slow.execute(APPEND_LATE, (agent.session,))
        with agent.follow(timeout=PATIENCE) as follower:
            watch = follower._watch
            while watch._state is WatchState.POLLING:
                watch.wait(PATIENCE)
            slow.commit()
            assert next(follower).content == "late"


def test_an_append_that_waits_since_before_the_follower_was_there_is_waited_for(new_database):
    """It looks for followers as of its beginning, and gets its transaction id after its wait."""
    url = new_database(plain=True)
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        agent = store.start("main")
        late = threading.Thread(target=agent.user, args=("late",))
        with store._backend.begin(agents=[agent._record]):
            late.start()
            wait_until(lambda: db.execute(WAITING_APPENDS).fetchall() == [(1,)])
            follower = agent.follow(timeout=PATIENCE)
            watch = follower._watch
            while watch._state is WatchState.POLLING:
                watch.wait(PATIENCE)
            watch.wait(PATIENCE)
            assert watch._state is WatchState.WAITING_FOR_WRITERS
        with follower:
            assert next(follower).content == "late"
            while watch._state is not WatchState.NOTIFIED:
                watch.wait(PATIENCE)
        late.join()


def test_the_file_of_a_store_is_not_kept_open_by_a_closed_follower(new_url):
    with backstory.open(new_url("sqlite")) as store:
        follower = store.start("main").follow()
        db = follower._watch._db
        follower.close()
        with pytest.raises(apsw.ConnectionClosedError):
            db.execute("SELECT 1")
