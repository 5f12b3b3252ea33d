"""The cost of a call, in calls of the backend: the table in ARCHITECTURE.md."""

from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from backstory.storage.memory import MemoryBackend
from backstory.store import Store


class Recorder:
    """Passes every call on to a real backend, and remembers its name."""

    def __init__(self, real, calls):
        self._real, self._calls = real, calls

    def __getattr__(self, name):
        method = getattr(self._real, name)
        if not callable(method):
            return method

        def call(*args, **kwargs):
            self._calls.append(name)
            return method(*args, **kwargs)

        return call

    def compute_deadline(self):
        return self._real.compute_deadline()  # does not ask the store

    @contextmanager
    def begin(self, **locks):
        self._calls.append("begin")
        with self._real.begin(**locks) as rows:
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
    agent.append("user", "b", key="b")
    agent.rewind("here")
    calls.clear()
    return agent


LATER = datetime(2100, 1, 1, tzinfo=UTC)
JUMP = ("jump", None, {"target_message_id": 2}, "j")
COMPACT_COSTS = ["begin", "read_head", "read_lineage", "read_events", "read_head", "append"]
UNDO_COSTS = ["begin", "walk", "read_events", "append"]

REDO_COSTS = ["begin", "walk", "read_lineage", "read_events", "append"]
# What left the context of an undo, and what came back.
CHANGES = ["walk", "walk", "read_events", "read_events"]

COSTS = {
    "outline": (lambda agent: agent.outline(), ["read_lineage", "read_outline"]),
    "append": (lambda agent: agent.user("c"), ["append"]),
    "extend": (lambda agent: agent.extend([("user", "c"), ("user", "d")]), ["append"]),
    "mark": (lambda agent: agent.mark("there"), ["append"]),
    "an event with a key": (
        lambda agent: agent.append("user", "c", key="k"),
        ["begin", "read_lineage", "find_keys", "append"],
    ),
    "an event with a key that exists": (
        lambda agent: agent.append("user", "b", key="b"),
        ["begin", "read_lineage", "find_keys", "read_events", "walk"],
    ),
    "keys and jumps after an expected head": (
        lambda agent: agent.extend([("user", "c", None, "k"), JUMP], expected=5),
        ["append"],
    ),
    "compact": (
        lambda agent: agent.compact("Short."),
        ["walk", "read_events", *COMPACT_COSTS],
    ),
    "the newest messages": (lambda agent: agent.messages(limit=2), ["walk", "read_events"]),
    "clear": (lambda agent: agent.clear(), ["append"]),
    "rewind": (lambda agent: agent.rewind("here"), ["begin", "walk", "read_events", "append"]),
    "jump": (lambda agent: agent.jump(2), ["begin", "walk", "append"]),
    "jump with a key": (
        lambda agent: agent.jump(2, key="k"),
        ["begin", "read_lineage", "find_keys", "walk", "append"],
    ),
    "once in the context": (
        lambda agent: agent.user("b", key="b", once="context"),
        ["begin", "read_lineage", "walk", "find_keys", "find_keys", "append"],
    ),
    "undo": (lambda agent: agent.undo(), [*UNDO_COSTS, *CHANGES]),
    "redo": (
        lambda agent: (agent.undo(), agent.redo()),
        [*UNDO_COSTS, *CHANGES, *REDO_COSTS, *CHANGES],
    ),
    "fork": (lambda agent: agent.fork("child"), ["read_lineage", "create_agent"]),
    "spawn": (lambda agent: agent.spawn("child"), ["read_head", "create_agent"]),
    "context": (lambda agent: agent.context(), ["walk", "read_events"]),
    "conversation": (lambda agent: agent.conversation(), ["walk", "read_events"]),
    "messages and notes": (
        lambda agent: agent.messages(notes=["a"], last=["b", "c"]),
        ["walk", "read_events"],
    ),
    "context at a position": (lambda agent: agent.context(2), ["walk", "read_events"]),
    "context at a time": (
        lambda agent: agent.context(LATER),
        ["find_position_at_time", "walk", "read_events"],
    ),
    "context at a label": (
        lambda agent: agent.context("here"),
        ["walk", "read_events", "walk", "read_events"],
    ),
    "marks": (lambda agent: agent.marks(), ["walk", "read_events"]),
}


@pytest.mark.parametrize("what", COSTS)
def test_a_call_costs_what_the_table_says(agent, calls, what):
    act, costs = COSTS[what]
    act(agent)
    assert calls == costs


FORK_COSTS = {
    "an event with a key": (
        lambda fork: fork.append("user", "c", key="k", expected=5),
        ["begin", "read_lineage", "find_keys", "append"],
    ),
    "a jump after an expected head": (
        lambda fork: fork.extend([JUMP[:3]], expected=5),
        ["append"],
    ),
    "events": (lambda fork: fork.events(), ["read_lineage", "read_events"]),
}


@pytest.mark.parametrize("what", FORK_COSTS)
def test_a_call_of_a_fork_costs_what_the_table_says(agent, calls, what):
    fork = agent.fork("child")
    calls.clear()
    act, costs = FORK_COSTS[what]
    act(fork)
    assert calls == costs


STORE_COSTS = {
    "a page of agents": (lambda store: store.agents(limit=2), ["list_agents"]),
    "marks of a session": (
        lambda store: store.marks("session 7"),
        ["list_agents", "read_owned", "list_agents"],  # the first finds the session
    ),
    "the last notes": (
        lambda store: store.last_notes("seen"),
        ["read_owned", "read_owned", "list_agents"],
    ),
    "stats": (
        lambda store: store.stats(),
        ["list_agents", "read_owned", "count_events", "measure_size"],
    ),
}


@pytest.mark.parametrize("what", STORE_COSTS)
def test_a_call_of_a_store_costs_the_same_however_many_agents_there_are(calls, what):
    store = Store(Recorder(MemoryBackend(), calls))
    for number in range(20):
        agent = store.start(f"session {number}")
        agent.mark("here")
        agent.note("seen", {})
    calls.clear()
    act, costs = STORE_COSTS[what]
    act(store)
    assert calls == costs


def test_a_label_is_resolved_once(agent, calls):
    agent.explain(2, at="here")
    with_label = len(calls)
    calls.clear()
    agent.explain(2, at=3)
    assert with_label - len(calls) == 2  # a walk and a read of the marks


@pytest.mark.parametrize("order", ["born", "updated"])
@pytest.mark.parametrize("count", [3, 30])
def test_a_page_of_sessions_is_two_listings_however_many_they_are(calls, order, count):
    store = Store(Recorder(MemoryBackend(), calls))
    for number in range(40):
        store.start(f"session {number}").fork("child")
    calls.clear()
    page = store.sessions(order=order, limit=count)
    assert [(session.agents, session.events) for session in page] == [(2, 0)] * count
    assert calls == ["list_agents", "list_agents"]


def test_an_erasure_reads_only_its_own_rows_while_the_session_is_locked(agent, calls):
    agent.extend([("user", "more"), ("assistant", "more")] * 100)
    calls.clear()
    agent.erase([2], why="a password")
    locked = calls[calls.index("begin") :]
    reads = [name for name in locked if name.startswith(("read_", "list_"))]
    assert reads == ["list_agents", "read_rows", "read_clock", "read_clock"]
