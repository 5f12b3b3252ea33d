"""What every backend records about removals."""

import io
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from backstory.storage.positions import write_positions

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def agent(store):
    agent = store.ensure("secret-key", name="secret-name", system="Be careful.")
    agent.extend([("user", f"secret text {number}", None, f"k{number}") for number in range(2, 8)])
    agent.describe(title="secret-title")
    return agent


def describe(record):
    """Return a record without its id and its time."""
    return record[2:]


def test_nothing_was_removed_from_a_new_store(store, agent):
    assert store.removals() == []


def test_an_erasure_is_recorded_with_its_positions_its_author_and_its_reason(store, agent):
    before = datetime.now(UTC)
    agent.erase([2, 7, 5, 6], why="on request", by="ada")
    [record] = store.removals()
    assert describe(record) == (
        "erase",
        agent.session,
        agent.id,
        "2,5-7",
        4,
        "ada",
        "on request",
    )
    assert abs(record.removed_at - before) < timedelta(hours=1)
    assert record.removed_at.tzinfo is UTC


def test_each_owner_of_erased_events_has_a_record(store, agent):
    fork = agent.fork("other")
    fork.user("more")
    fork.erase([3, 8], why="on request")
    records = {record.agent_id: describe(record) for record in store.removals()}
    assert records == {
        agent.id: ("erase", agent.session, agent.id, "3", 1, None, "on request"),
        fork.id: ("erase", agent.session, fork.id, "8", 1, None, "on request"),
    }


def test_copies_that_are_erased_are_recorded(store, agent):
    events = agent.compact("In short.", keep=1)
    agent.erase([7], why="on request")
    [record] = store.removals()
    assert record.positions == f"7,{events[-1].seq}"
    assert record.events == 2


def test_an_event_is_recorded_when_it_is_erased_for_the_first_time_only(store, agent):
    agent.erase([2], why="on request")
    agent.erase([2], why="again")
    assert [record.positions for record in store.removals()] == ["2"]
    agent.erase([2, 3], why="both")
    assert [record.positions for record in store.removals()] == ["2", "3"]


def test_each_deleted_agent_is_recorded_with_the_number_of_its_events(store, agent):
    child = agent.spawn("child")
    child.user("hello")
    store.delete(agent, below=True, by="ada")
    records = {record.agent_id: describe(record) for record in store.removals()}
    assert records == {
        agent.id: ("delete", agent.session, agent.id, None, 7, "ada", None),
        child.id: ("delete", agent.session, child.id, None, 1, "ada", None),
    }
    assert store.agents() == []


def test_events_that_a_fork_still_needed_are_recorded_when_they_go(store, agent):
    fork = agent.fork("other", at=3)
    fork.user("more")
    first = store.delete(agent)
    assert [(one.agent_id, one.events) for one in store.removals()] == [(agent.id, 4)]
    second = store.delete(fork)
    records = store.removals()
    assert sorted(one.events for one in records[1:]) == [1, 3]
    assert sum(one.events for one in records) == first.events + second.events == 8


def test_an_expired_session_is_recorded(store, agent):
    store.expire(LATER, dry_run=False, by="the cleaner")
    [record] = store.removals()
    assert describe(record) == ("expire", agent.session, agent.id, None, 7, "the cleaner", None)


def test_dead_events_that_expire_are_recorded(store, agent):
    agent.jump(3)
    agent.user("new")
    store.expire(LATER, dry_run=False, dead=True, by="the cleaner")
    [record] = store.removals()
    assert describe(record) == ("expire", agent.session, agent.id, "4-7", 4, "the cleaner", None)


def remove_all(store, agent, *, dry_run):
    agent.erase([2], why="on request", dry_run=dry_run)
    agent.jump(3)
    store.expire(LATER, dry_run=dry_run, dead=True)
    store.expire(LATER, dry_run=dry_run, prefix="secret")
    if dry_run:  # otherwise it has expired
        store.delete(agent, below=True, dry_run=True)


def test_a_dry_run_is_not_recorded(store, agent):
    remove_all(store, agent, dry_run=True)
    assert store.removals() == []


def test_a_removal_that_removes_nothing_is_not_recorded(store, agent):
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    agent.erase([], why="on request")
    store.expire(long_ago, dry_run=False)
    store.expire(long_ago, dry_run=False, dead=True)
    store.expire(LATER, dry_run=False, dead=True)
    assert store.removals() == []


def test_records_contain_nothing_of_what_was_removed(store, agent):
    remove_all(store, agent, dry_run=False)
    assert store.agents() == []
    records = store.removals()
    assert [record.action for record in records] == ["erase", "expire", "expire"]
    assert "secret" not in repr(records)
    assert "k2" not in repr(records)


def test_removals_are_listed_in_the_order_of_their_times(store):
    ids = []
    for number in range(5):
        agent = store.start(f"agent {number}")
        ids.append(agent.id)
        store.delete(agent)
    records = store.removals()
    times = [record.removed_us for record in records]
    assert times == sorted(times)
    assert {record.agent_id for record in records} == set(ids)
    assert len({record.id for record in records}) == 5


REMOVALS = {
    "delete": lambda store, agent: store.delete(agent),
    "erase": lambda store, agent: agent.erase([2], why="on request"),
    "expire": lambda store, agent: store.expire(LATER, dry_run=False),
    "expire dead": lambda store, agent: store.expire(LATER, dry_run=False, dead=True),
}


@pytest.fixture
def event(agent):
    """An event that each of REMOVALS removes."""
    agent.jump(1)
    return agent.events([2])[0]


@pytest.mark.parametrize("name", REMOVALS)
def test_a_removal_that_fails_is_not_recorded(store, agent, event, monkeypatch, name):
    begin = store._backend.begin

    @contextmanager
    def begin_and_fail(**locks):
        with begin(**locks) as transaction:
            yield transaction
            assert transaction.list_removals() != []
            raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(store._backend, "begin", begin_and_fail)
        with pytest.raises(ZeroDivisionError):
            REMOVALS[name](store, agent)
    assert store.removals() == []
    assert agent.events([2])[0] == event


@pytest.mark.parametrize("name", REMOVALS)
def test_nothing_is_removed_if_it_cannot_be_recorded(store, agent, event, monkeypatch, name):
    begin = store._backend.begin

    def fail(records):
        raise ZeroDivisionError

    @contextmanager
    def begin_without_records(**locks):
        with begin(**locks) as transaction:
            transaction.record_removals = fail
            yield transaction

    with monkeypatch.context() as patched:
        patched.setattr(store._backend, "begin", begin_without_records)
        with pytest.raises(ZeroDivisionError):
            REMOVALS[name](store, agent)
    assert store.removals() == []
    assert agent.events([2])[0] == event


@pytest.mark.parametrize("by", [7, "a\0b", "\ud800"])
def test_an_author_that_is_not_a_name_is_refused_before_anything_is_removed(store, agent, by):
    for remove in (
        lambda: agent.erase([2], why="on request", by=by),
        lambda: store.delete(agent, by=by),
        lambda: store.expire(LATER, dry_run=False, by=by),
        lambda: store.expire(LATER, dry_run=False, dead=True, by=by),
    ):
        with pytest.raises(backstory.Invalid):
            remove()
    assert agent.events([2])[0].content == "secret text 2"
    assert store.removals() == []


def test_an_export_does_not_contain_removals(store, agent):
    agent.erase([2], why="on request", by="Lovelace")
    file = io.StringIO()
    store.export_to(file)
    assert "Lovelace" not in file.getvalue()
    with backstory.open(":memory:") as other:
        other.import_from(file.getvalue().splitlines())
        assert other.agent("secret-name").events([2])[0].data["erased"]["why"] == "on request"
        assert other.removals() == []


def test_a_store_that_can_only_be_read_lists_its_removals(tmp_path):
    with backstory.open(tmp_path / "a.db") as store:
        store.delete(store.start("main"), by="ada")
    with backstory.open(tmp_path / "a.db", read_only=True) as store:
        assert [record.by for record in store.removals()] == ["ada"]


def test_a_copy_of_an_sqlite_file_contains_its_removals(tmp_path):
    with backstory.open(tmp_path / "a.db") as store:
        store.delete(store.start("main"), by="ada")
        store.backup(tmp_path / "b.db")
    with backstory.open(tmp_path / "b.db") as copy:
        assert [record.by for record in copy.removals()] == ["ada"]


@pytest.mark.parametrize(
    ("positions", "text"),
    [([], ""), ([3], "3"), ([7, 6, 5, 2], "2,5-7"), ([1, 2, 4, 5, 9], "1-2,4-5,9")],
)
def test_positions_are_written_as_ranges(positions, text):
    assert write_positions(positions) == text
