"""SQLite: the end of a log is looked up only if it may not be where the last append left it."""

import pytest

import backstory
from backstory.storage.sqlite.backend import SqliteBackend
from backstory.storage.sqlite.rows import SqliteRows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def chained(store):
    """The log is whole: positions without gaps, and digests that fit."""
    return store.verify() == []


def test_an_append_behind_the_last_one_looks_nothing_up(path, monkeypatch):
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteRows, "_newest", None)
            agent.user("two")
            agent.extend([("assistant", "three"), ("user", "four")])
            agent.append("user", "five", expected=4)
        with pytest.raises(backstory.Conflict):
            agent.append("user", "x", expected=1)
        assert [event.content for event in agent.events()] == [
            "one",
            "two",
            "three",
            "four",
            "five",
        ]
        assert chained(store)


def test_what_others_wrote_in_between_is_seen(path):
    with backstory.open(path) as store, backstory.open(path) as other:
        agent = store.start("main")
        for number in range(5):
            agent.user(f"mine {number}")
            other.agent("main").user(f"theirs {number}")
        agent.user("mine")
        assert agent.head == 11
        assert chained(store)


def test_another_agent_of_the_same_store_is_looked_up(path):
    with backstory.open(path) as store:
        one, two = store.start("one"), store.start("two")
        for number in range(3):
            one.user(f"one {number}")
            two.extend([("user", f"two {number}"), ("assistant", "yes")])
        assert (one.head, two.head) == (3, 6)
        assert chained(store)


@pytest.mark.parametrize("who", ["the same store", "another one"])
def test_an_agent_that_was_deleted_in_between_takes_no_more_events(path, who):
    with backstory.open(path) as store, backstory.open(path) as second:
        agent = store.start("main")
        agent.user("one")
        (store if who == "the same store" else second).delete("main")
        with pytest.raises(backstory.AgentNotFound):
            agent.user("two")
        assert chained(store)


def test_other_ways_to_write_are_seen(path):
    with backstory.open(path) as store:
        agent, other = store.start("main"), store.start("other")
        agent.user("one")
        agent.append("user", "two", key="k")
        agent.user("three")
        store.write([(agent, [("user", "four")]), (other, [("user", "x")]), (agent.fork("f"), [])])
        agent.user("five")
        agent.jump(2)
        agent.user("seven")
        agent.erase([7], why="a test")
        agent.user("eight")
        agent.compact("all of it")
        agent.user("last")
        assert agent.head == len(agent.events())
        assert chained(store)


def test_an_append_that_was_not_committed_leaves_nothing(path, monkeypatch):
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteBackend, "_commit", None)
            with pytest.raises(TypeError):
                agent.user("lost")
        agent.user("two")
        assert [event.content for event in agent.events()] == ["one", "two"]
        assert chained(store)


def test_a_log_that_was_shortened_by_another_connection_is_seen(path):
    """As by a restored backup: the newest event is gone, and the next one takes its place."""
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        agent.user("two")
        with store._backend._connection() as db:  # so that it is not the one that wrote
            other = type(db)(str(path))
            other.execute("DELETE FROM events WHERE id & 4294967295 = 2")
            other.close()
        agent.user("two again")
        assert [event.content for event in agent.events()] == ["one", "two again"]
        assert chained(store)
