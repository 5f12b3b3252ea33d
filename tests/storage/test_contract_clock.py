"""What every backend does with a clock that is or was wrong."""

import io
import random
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import backstory
from backstory import Event
from backstory.log.times import to_datetime
from backstory.storage.memory import MemoryReader
from backstory.storage.postgres.rows import PostgresReader
from backstory.storage.sqlite.rows import SqliteReader
from tests.conftest import BACKENDS

FUTURE = datetime(2096, 1, 1, tzinfo=UTC)
NOW = 1_800_000_000_000_000
MINUTE = 60_000_000
DAY = 1_440 * MINUTE


@pytest.fixture
def set_clock(store, url, monkeypatch):
    """Sets the clock that gives events their times: the machine's or, on PostgreSQL, the server's."""

    def set_clock(now_us):
        for reader in (MemoryReader, SqliteReader, PostgresReader):
            monkeypatch.setattr(reader, "read_clock", lambda self: now_us)
        if url.startswith("postgresql"):
            with psycopg.connect(url, autocommit=True) as db:
                db.execute(
                    "CREATE OR REPLACE FUNCTION backstory.read_clock() RETURNS bigint"
                    f" LANGUAGE sql STABLE AS 'SELECT {now_us}::bigint'"
                )

    return set_clock


def write_in_future(store, agent, text="from the future"):
    with store.intake() as intake:
        intake.extend(agent, [Event.of(0, "user", text, created_at=FUTURE)])


def read_times(agent):
    return [event.created_us for event in agent.events()]


def find_positions(agent, *moments_us):
    return [agent.context(at=to_datetime(moment)).at for moment in moments_us]


WRITES = {
    "an event": lambda agent: agent.user("hi"),
    "a batch": lambda agent: agent.extend([("user", "hi"), ("user", "there")]),
    "an event with a key": lambda agent: agent.user("hi", key="k"),
    "a jump": lambda agent: agent.jump(1),
    "a compaction": lambda agent: agent.compact("In short."),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_time_in_the_future_is_not_carried_forward(store, agent, set_clock, what):
    set_clock(NOW)
    agent.user("a")
    set_clock(NOW + 10 * MINUTE)
    agent.user("wrong")
    set_clock(NOW + MINUTE)
    WRITES[what](agent)
    set_clock(NOW + 2 * MINUTE)
    agent.user("b")
    _, wrong, *later, last = read_times(agent)
    assert wrong == NOW + 10 * MINUTE
    assert set(later) == {NOW + MINUTE}
    assert last == NOW + 2 * MINUTE
    assert store.agents()[0].updated_at == to_datetime(last)


def test_a_time_less_than_a_minute_ahead_is_carried_forward(agent, set_clock):
    set_clock(NOW + MINUTE)
    agent.user("a")
    set_clock(NOW)
    agent.user("b")
    agent.extend([("user", "c"), ("user", "d")])
    fork = agent.fork()
    fork.user("e")
    assert set(read_times(fork)) == {NOW + MINUTE}
    assert find_positions(fork, NOW, NOW + MINUTE) == [0, 5]


def test_a_write_to_several_agents_has_one_true_time(store, agent, set_clock):
    set_clock(NOW)
    write_in_future(store, agent)
    other = store.start("other")
    batches = store.write([(agent, [("user", "a")]), (other, [("user", "b")])])
    assert {event.created_us for [event] in batches} == {NOW}


def test_the_store_gives_the_time_of_its_own_clock(store, set_clock):
    set_clock(NOW)
    agent = store.start("main", system="Be careful.")
    agent.user("a")
    fork = agent.fork()
    assert read_times(fork) == [NOW, NOW]
    assert agent.created_at == fork.created_at == to_datetime(NOW)


def test_reads_as_of_now_see_events_after_a_wrong_time(store, agent):
    agent.user("a")
    write_in_future(store, agent)
    agent.user("b")
    fork = agent.fork()
    fork.user("c")
    moment = datetime.now(UTC) + timedelta(seconds=1)
    assert agent.context(at=moment).at == 3
    assert fork.context(at=moment).at == 4
    assert agent.context(at=agent.events([1])[0].created_at).at == 1
    assert fork.context(at=agent.events([1])[0].created_at).at == 1
    assert agent.context(at=FUTURE).at == 3
    assert agent.context(at=datetime(2020, 1, 1, tzinfo=UTC)).at == 0


def test_an_agent_that_was_created_in_the_future(store):
    with store.intake() as intake:
        agent = intake.agent("k", created_at=FUTURE)
    agent.user("a")
    agent.user("b")
    moment = datetime.now(UTC) + timedelta(seconds=1)
    assert agent.context(at=moment).at == 2
    assert agent.events([1])[0].created_at < moment
    assert [finding.severity for finding in store.verify()] == ["warning"]


def test_a_fork_of_an_event_in_the_future_has_the_true_time(store, agent):
    write_in_future(store, agent)
    fork = agent.fork()
    fork.user("a")
    moment = datetime.now(UTC) + timedelta(seconds=1)
    assert fork.created_at < moment
    assert fork.context(at=moment).at == 2
    assert all(finding.severity == "warning" for finding in store.verify())


def find_plainly(store, agent, events, moment):
    """Return the newest event of the lineage that is old enough, or the fork position of an agent
    that existed already and has none of its own."""
    for part in reversed(agent.lineage()):
        for event in reversed(events[part.first - 1 : part.last]):
            if event.created_at <= moment:
                return event.seq
        if store.agent(part.agent_id).created_at <= moment:
            return part.first - 1
    return 0


def test_positions_by_time_equal_a_plain_search(store, agent, set_clock):
    choose = random.Random(7)
    true_us = NOW
    for number in range(60):
        true_us += choose.randrange(0, 3 * MINUTE)
        set_clock(true_us + choose.choice([0, 0, 0, 0, MINUTE // 2, 2 * MINUTE, 30 * MINUTE]))
        if number % 20 == 19:
            agent = agent.fork()
        else:
            agent.extend([("user", "x")] * choose.randrange(1, 3))
    events = agent.events()
    for time_us in {event.created_us for event in events}:
        for moment in map(to_datetime, (time_us - 1, time_us, time_us + 1)):
            assert agent.context(at=moment).at == find_plainly(store, agent, events, moment)


def test_a_session_with_a_wrong_time_expires(store):
    agent = store.ensure("old")
    write_in_future(store, agent)
    agent.user("b")
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert [gone.key for gone in store.expire(before=later, dry_run=False).agents] == ["old"]


def expire_before(store, moment_us, *, dead=False):
    return store.expire(to_datetime(moment_us), dry_run=False, dead=dead)


def write_by_intake(store):
    agent = store.ensure("old")
    write_in_future(store, agent)
    return agent


def create_in_future(store):
    with store.intake() as intake:
        return intake.agent("old", created_at=FUTURE)


@pytest.mark.parametrize("write", [write_by_intake, create_in_future])
def test_a_session_whose_last_time_is_in_the_future_expires(store, set_clock, write):
    """Nobody knows when it was written: not after the expiry that notices it."""
    set_clock(NOW)
    agent = write(store)
    fork = agent.fork()
    write_in_future(store, fork)
    assert store.expire(to_datetime(NOW - DAY)).agents == ()
    assert expire_before(store, NOW - DAY).agents == ()
    set_clock(NOW + 30 * DAY)
    assert expire_before(store, NOW).agents == ()
    removed = expire_before(store, NOW + DAY).agents
    assert {gone.id for gone in removed} == {agent.id, fork.id}


def test_an_expiry_leaves_believable_times_alone(store, agent, set_clock):
    set_clock(NOW)
    agent.user("a")
    head = agent.head
    set_clock(NOW - MINUTE)  # a little behind the clock that wrote it
    expire_before(store, NOW - DAY)
    assert agent.head == head


def test_an_expiry_of_everything_corrects_times_in_the_future_and_then_takes_them(store, set_clock):
    set_clock(NOW)
    write_by_intake(store)
    assert expire_before(store, NOW + MINUTE).agents == ()
    assert len(expire_before(store, NOW + MINUTE).agents) == 1


def test_a_late_clock_lets_no_session_expire_that_was_written_since(store, set_clock):
    set_clock(NOW)
    store.ensure("new").user("written today")
    set_clock(NOW - 40 * DAY)
    assert expire_before(store, NOW - 30 * DAY).agents == ()


def test_dead_events_of_a_late_clock_are_as_new_as_those_before_them(store, agent, set_clock):
    set_clock(NOW)
    agent.user("a")
    set_clock(NOW - 40 * DAY)
    agent.user("b")
    agent.clear()
    set_clock(NOW)
    assert expire_before(store, NOW - 30 * DAY, dead=True).erased == 0


def test_dead_events_of_a_wrong_time_expire_by_that_of_the_next(store, agent, set_clock):
    set_clock(NOW)
    agent.user("a")
    write_in_future(store, agent, "b")
    agent.clear()
    set_clock(NOW + 30 * DAY)
    agent.user("c")
    agent.clear()
    assert expire_before(store, NOW + DAY, dead=True).erased == 2
    assert [event.content for event in agent.events(kinds=["user"])] == ["", "", "c"]


def write_by_a_late_clock(agent, set_clock):
    """Write an event, and then one by a clock that is a month behind."""
    set_clock(NOW + 30 * DAY)
    agent.user("a")
    agent.clear()
    set_clock(NOW)
    agent.user("b")
    set_clock(NOW + 31 * DAY)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_clock_that_was_late_makes_no_session_expire(store, agent, set_clock, dry_run):
    write_by_a_late_clock(agent, set_clock)
    moment = to_datetime(NOW + 20 * DAY)
    assert store.expire(moment, dry_run=dry_run).agents == ()
    assert len(store.expire(to_datetime(NOW + 31 * DAY), dry_run=dry_run).agents) == 1


def test_a_clock_that_was_late_makes_no_dead_event_expire(store, agent, set_clock):
    write_by_a_late_clock(agent, set_clock)
    assert expire_before(store, NOW + 20 * DAY, dead=True).erased == 0


def test_an_expiry_by_a_late_clock_writes_nothing(store, set_clock):
    """If most sessions are in the future, it is the present clock that is wrong."""
    set_clock(NOW + 30 * DAY)
    agents = [store.start(f"s{number}", system="x") for number in range(11)]
    set_clock(NOW)
    expire_before(store, NOW - DAY)
    assert {agent.head for agent in agents} == {1}


def test_verify_reports_events_of_a_wrong_clock(store, agent, set_clock):
    agent.user("a")
    assert store.verify() == []
    write_in_future(store, agent)
    [finding] = store.verify()
    assert finding[:4] == (agent.id, 2, "warning", "its time is in the future")
    agent.user("b")
    assert store.verify() == [finding]
    set_clock(4 * 10**15)  # in 2096, the event is in the past
    [finding] = store.verify()
    assert finding[:4] == (agent.id, 2, "warning", "its time is after that of the next event")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_store_with_a_wrong_time_is_exported_and_imported(backend, new_url):
    store = backstory.open(":memory:")
    agent = store.start("main")
    agent.user("a")
    write_in_future(store, agent)
    agent.user("b")
    exported = io.StringIO()
    store.export_to(exported)
    exported.seek(0)
    moment = datetime.now(UTC) + timedelta(seconds=1)
    with backstory.open(new_url(backend)) as other:
        other.import_from(exported)
        copy = other.agent(agent.id)
        assert copy.events() == agent.events()
        assert copy.context(at=moment).at == 3
        assert {finding.severity for finding in other.verify()} == {"warning"}


def test_followers_find_events_by_the_clock_of_the_store(store, agent, set_clock):
    set_clock(NOW)  # years before or after that of the machine
    with store.follow(timeout=0) as follower:
        agent.user("a")
        assert [event.content for _, event in follower] == ["a"]


def test_times_never_drop_in_an_agent_and_its_forks(agent, set_clock):
    for time_us in (5_000, 4_000):
        set_clock(NOW + time_us)
        agent.user("a")
    child = agent.fork()
    for time_us in (3_000, 2_000, 6_000):
        set_clock(NOW + time_us)
        child.user("b")
    times = read_times(child)
    assert [time_us - NOW for time_us in times] == [5_000, 5_000, 5_000, 5_000, 6_000]
    assert find_positions(child, times[0]) == [4]
