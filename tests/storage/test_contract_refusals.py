"""What every backend refuses: one clear error that says what to do, and nothing is changed."""

import io

import pytest

import backstory
from backstory import Invalid, KeyTaken, NotFound, PositionNotFound
from backstory.log.arguments import LONGEST_KEY

LONG = "k" * (LONGEST_KEY + 1)

REFUSED = {
    "a session's key that is too long": (Invalid, lambda store, agent: store.ensure(LONG)),
    "a new session's key that is too long": (Invalid, lambda store, agent: store.start(key=LONG)),
    "a fork's key that is too long": (Invalid, lambda store, agent: agent.fork(key=LONG)),
    "an event's key that is too long": (
        Invalid,
        lambda store, agent: agent.append("user", "x", key=LONG),
    ),
    "a note's key that is too long": (Invalid, lambda store, agent: agent.note("n", key=LONG)),
    "a key that another agent has": (KeyTaken, lambda store, agent: agent.fork(key="taken")),
    "a key with other content": (
        KeyTaken,
        lambda store, agent: agent.append("user", "other", key="k"),
    ),
    "a key with other data": (
        KeyTaken,
        lambda store, agent: agent.append("user", "x", {"a": 1}, key="k"),
    ),
    "a key with other content, in a batch": (
        KeyTaken,
        lambda store, agent: agent.extend([("user", "fine"), ("user", "other", None, "k")]),
    ),
    "a note with a name of ours": (Invalid, lambda store, agent: agent.note("backstory.mine")),
    "params that are not JSON": (
        Invalid,
        lambda store, agent: agent.settings(params={"x": object()}),
    ),
    "params that are not a number": (
        Invalid,
        lambda store, agent: agent.settings(params={"x": float("nan")}),
    ),
    "tools that are not JSON": (
        Invalid,
        lambda store, agent: agent.settings(tools=[{"name": "a", "parameters": {"enum": {1, 2}}}]),
    ),
    "an unknown setting": (Invalid, lambda store, agent: agent.settings(temperature=1)),
    "compacting an empty context": (
        NotFound,
        lambda store, agent: store.agent("empty").compact("In short."),
    ),
    "erasing what is not there": (
        PositionNotFound,
        lambda store, agent: agent.erase([99], why="asked"),
    ),
    "erasing some that are there": (
        PositionNotFound,
        lambda store, agent: agent.erase([1, 99], why="asked"),
    ),
    "erasing position 0": (PositionNotFound, lambda store, agent: agent.erase([0], why="asked")),
    "erasing without a reason": (Invalid, lambda store, agent: agent.erase([1], why=" ")),
    "deleting what is not there": (NotFound, lambda store, agent: store.delete("missing")),
    "deleting a number": (Invalid, lambda store, agent: store.delete(5)),
    "expiring without a time": (Invalid, lambda store, agent: store.expire(None, "", False)),
    "expiring before a text": (
        Invalid,
        lambda store, agent: store.expire("yesterday", dry_run=False),
    ),
    "a title with a NUL": (Invalid, lambda store, agent: agent.describe(title="a\0b")),
    "a NUL deep in the details": (Invalid, lambda store, agent: agent.describe(x=[{"y\0": "\\"}])),
    "a note without a name": (Invalid, lambda store, agent: agent.note(" ")),
    "notes whose name is a number": (Invalid, lambda store, agent: agent.notes(5)),
    "a last note with a NUL in its name": (Invalid, lambda store, agent: agent.last_notes(["\0"])),
    "last notes whose name is a number": (Invalid, lambda store, agent: store.last_notes(5)),
    "a prefix that is a number": (Invalid, lambda store, agent: store.agents(prefix=5)),
    "a prefix with a NUL": (Invalid, lambda store, agent: store.sessions(prefix="\0")),
    "sessions since a text": (Invalid, lambda store, agent: store.sessions(since="2026-01-01")),
    "agents after a number": (Invalid, lambda store, agent: store.agents(after=5)),
    "reading a number": (Invalid, lambda store, agent: agent.events(5)),
    "erasing a number": (Invalid, lambda store, agent: agent.erase(5, why="asked")),
    "following after a number": (Invalid, lambda store, agent: store.follow(after=5)),
    "a search for no results": (Invalid, lambda store, agent: store.search("x", limit=0)),
    "a seal that is none": (Invalid, lambda store, agent: store.verify(seal={"agents": 7})),
}


def everything(store):
    file = io.StringIO()
    store.export_to(file)
    return [line for line in file.getvalue().splitlines() if '"exported_at"' not in line]


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_nothing_is_changed(store, agent, name):
    error, call = REFUSED[name]
    agent.append("user", "x", key="k")
    agent.spawn("taken", key="taken")
    agent.spawn("empty")
    before = everything(store)
    with pytest.raises(error) as raised:
        call(store, agent)
    assert everything(store) == before
    assert raised.value.remedy is not None, raised.value.message
    assert len(raised.value.message.splitlines()) == 1


def test_the_seal_of_another_store_is_refused(store, agent):
    agent.user("x")
    with backstory.open(":memory:") as elsewhere:
        elsewhere.start("main").user("x")
        with pytest.raises(Invalid, match="the seal of another store") as raised:
            store.verify(seal=elsewhere.seal())
    assert raised.value.remedy is not None
