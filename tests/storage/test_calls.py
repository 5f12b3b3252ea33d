"""What costs what, in calls of the backend: the table in ARCHITECTURE.md."""

from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from backstory.storage.memory.backend import MemoryBackend
from backstory.store import Store


class Recorder:
    """Passes every call on to a real backend, and remembers its name."""

    def __init__(self, real, calls):
        self._real, self._calls = real, calls

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            self._calls.append(name)
            return found(*args, **kwargs)

        return call

    @contextmanager
    def exclusive(self, *agents):
        with self._real.exclusive(*agents) as rows:
            yield Recorder(rows, self._calls)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def agent(calls):
    store = Store(Recorder(MemoryBackend(), calls))
    agent = store.start("main", system="Be careful.")
    agent.user("a")
    agent.mark("here")
    agent.user("b")
    agent.rewind("here")
    calls.clear()
    return agent


LATER = datetime(2100, 1, 1, tzinfo=UTC)

COSTS = {
    "outline": (lambda agent: agent.outline(), ["lineage", "outline"]),
    "append": (lambda agent: agent.user("c"), ["append"]),
    "extend": (lambda agent: agent.extend([("user", "c"), ("user", "d")]), ["append"]),
    "mark": (lambda agent: agent.mark("there"), ["append"]),
    "an event with a key": (
        lambda agent: agent.append("user", "c", key="k"),
        ["lineage", "keyed", "head", "append"],
    ),
    "compact": (lambda agent: agent.compact("Short."), ["walk", "read", "walk", "read", "append"]),
    "tail": (lambda agent: agent.tail(2), ["walk", "read"]),
    "clear": (lambda agent: agent.clear(), ["append"]),
    "rewind": (lambda agent: agent.rewind("here"), ["walk", "marks", "append"]),
    "jump": (lambda agent: agent.jump(2), ["walk", "append"]),
    "undo": (lambda agent: agent.undo(), ["walk", "read", "append"]),
    "redo": (
        lambda agent: (agent.undo(), agent.redo()),
        ["walk", "read", "append", "walk", "lineage", "read", "append"],
    ),
    "fork": (lambda agent: agent.fork("child"), ["lineage", "create"]),
    "spawn": (lambda agent: agent.spawn("child"), ["head", "create"]),
    "context": (lambda agent: agent.context(), ["walk", "read"]),
    "conversation": (lambda agent: agent.conversation(), ["walk", "read_columns"]),
    "context at a position": (lambda agent: agent.context(2), ["walk", "read"]),
    "context at a time": (lambda agent: agent.context(LATER), ["position_at", "walk", "read"]),
    "context at a label": (lambda agent: agent.context("here"), ["walk", "marks", "walk", "read"]),
    "marks": (lambda agent: agent.marks(), ["walk", "marks"]),
}


@pytest.mark.parametrize("what", COSTS)
def test_a_call_costs_what_the_table_says(agent, calls, what):
    do, costs = COSTS[what]
    do(agent)
    assert calls == costs


STORE_COSTS = {
    "a page of agents": (lambda store: store.agents(limit=2), ["agents"]),
    "marks of a session": (
        lambda store: store.marks("session 7"),
        ["agents", "session_marks", "agents"],  # the first finds the session
    ),
    "the last notes": (lambda store: store.last_notes("seen"), ["agents", "newest_notes"]),
    "stats": (lambda store: store.stats(), ["censuses", "agents", "irregular", "size"]),
}


@pytest.mark.parametrize("what", STORE_COSTS)
def test_a_call_on_a_whole_store_costs_what_the_table_says_however_many_agents_there_are(
    calls, what
):
    store = Store(Recorder(MemoryBackend(), calls))
    for number in range(20):
        agent = store.start(f"session {number}")
        agent.mark("here")
        agent.note("seen", {})
    calls.clear()
    do, costs = STORE_COSTS[what]
    do(store)
    assert calls == costs


def test_a_label_is_resolved_once(agent, calls):
    agent.explain(2, at="here")
    assert calls.count("marks") == 1
    calls.clear()
    agent.explained(at="here")
    assert calls.count("marks") == 1


@pytest.mark.parametrize("order", ["born", "updated"])
@pytest.mark.parametrize("count", [3, 30])
def test_a_page_of_sessions_is_two_listings_however_many_they_are(calls, order, count):
    store = Store(Recorder(MemoryBackend(), calls))
    for number in range(40):
        store.start(f"session {number}").fork("child")
    calls.clear()
    page = store.sessions(order=order, limit=count)
    assert [(session.agents, session.events) for session in page] == [(2, 0)] * count
    assert calls == ["agents", "agents"]
