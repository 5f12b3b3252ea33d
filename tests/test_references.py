"""References: what people type for an agent and a moment of it."""

from datetime import UTC, datetime, timedelta

import pytest

import backstory


@pytest.fixture
def agent(store):
    agent = store.start("main")
    agent.user("one")
    agent.mark("x")
    agent.user("two")
    return agent


def at(store, ref):
    found = store.resolve(ref)
    return found.agent.name, found.at


def test_every_form_of_a_reference_is_resolved(store, agent):
    child = agent.fork("child", at=2)
    child.user("three")
    assert at(store, "main") == ("main", None)
    assert at(store, "main@") == ("main", None)
    assert at(store, "main@2") == ("main", 2)
    assert at(store, "main@0") == ("main", 0)
    assert at(store, "main@-1") == ("main", 2)
    assert at(store, "main@-0") == ("main", 3)
    assert at(store, "main@x") == ("main", 2)
    assert at(store, "main/child@3") == ("child", 3)
    assert at(store, f"{child.id[:23]}@1") == ("child", 1)
    assert at(store, "child@x") == ("child", 2)
    assert store.resolve("main@x").label == "x"


def test_the_latest_agent_is_the_one_that_was_written_to_last(store, agent):
    other = store.start("other")
    other.user("newer")
    assert at(store, "@") == at(store, "") == ("other", None)
    agent.user("newest")
    assert at(store, "@-1") == ("main", 3)
    assert store.resolve().agent == agent


def test_a_label_may_look_like_anything_but_a_number(store, agent):
    for label in ("a@b", "a/b", "2026-10-01", "-x", "x y"):
        mark = agent.mark(label)
        assert at(store, f"main@{label}") == ("main", mark.seq)
    agent.mark("2")
    assert at(store, "main@2") == ("main", 2)


def test_the_newest_of_equal_labels(store, agent):
    agent.mark("x")
    assert at(store, "main@x") == ("main", 4)


def test_a_moment(store, agent):
    then = agent.events()[1].created_at
    newest = max(event.seq for event in agent.events() if event.created_at <= then)
    assert at(store, f"main@{then.isoformat()}") == ("main", newest)
    early = (then - timedelta(days=1)).astimezone(UTC).isoformat()
    assert at(store, f"main@{early}") == ("main", 0)
    assert at(store, f"main@{datetime.now().isoformat()}") == ("main", 3)  # local time


def test_what_is_not_there(store, agent):
    with pytest.raises(backstory.AgentNotFound, match="did you mean 'main'"):
        store.resolve("mian")
    with pytest.raises(backstory.MarkNotFound, match=r"no mark 'y': its marks are 'x'"):
        store.resolve("main@y")
    for ref in ("main@4", "main@-4", "main@99999999999999999999"):
        with pytest.raises(backstory.PositionNotFound, match="from 0 to 3"):
            store.resolve(ref)


def test_an_empty_store_has_no_latest_agent(store):
    with pytest.raises(backstory.AgentNotFound, match="no agent in"):
        store.resolve()


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_position_of_5000_digits_is_not_there(store, agent, sign):
    with pytest.raises(backstory.PositionNotFound, match=f"no position {sign}9+…: .* from 0 to"):
        store.resolve(f"main@{sign}{'9' * 5_000}")


def test_what_is_before_the_beginning_is_named_as_it_was_written(store):
    agent = store.start("main")
    agent.user("hello")
    with pytest.raises(
        backstory.PositionNotFound, match="no position -5: its lineage goes from 0 to 1"
    ):
        store.resolve("main@-5")
    assert store.resolve("main@-1").at == 0
