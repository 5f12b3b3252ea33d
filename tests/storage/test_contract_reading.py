"""What every backend does for pages and lists: outlines, and the marks of a session."""

import itertools

import pytest

import backstory


def outlined(agent, after=0):
    return [(row.seq, row.kind, row.size, row.base) for row in agent.outline(after)]


def test_an_outline_has_kind_size_time_and_base_of_every_event(agent):
    agent.user("héllo")
    agent.mark("x")
    agent.assistant("dead")
    agent.rewind("x")
    agent.clear()
    target = len(agent.events([4])[0].data_json)
    assert outlined(agent) == [
        (1, "user", 6, None),
        (2, "mark", len('{"label":"x"}'), None),
        (3, "assistant", 4, None),
        (4, "rewind", target, 2),
        (5, "clear", 0, 0),
    ]
    assert [row.created_at for row in agent.outline()] == [
        event.created_at for event in agent.events()
    ]


def test_an_outline_goes_through_the_forks_of_a_lineage(agent):
    agent.extend([("user", "a"), ("user", "b"), ("user", "not the fork's")])
    fork = agent.fork(at=2)
    fork.clear()
    grandchild = fork.fork()
    grandchild.user("c")
    assert outlined(grandchild) == [
        (1, "user", 1, None),
        (2, "user", 1, None),
        (3, "clear", 0, 0),
        (4, "user", 1, None),
    ]


def test_an_outline_can_be_read_from_a_position_on(agent):
    agent.extend([("user", "a"), ("mark", None, {"label": "x"}), ("user", "b")])
    assert [row.seq for row in agent.outline(1)] == [2, 3]
    assert [row.seq for row in agent.outline("x")] == [3]
    assert agent.outline(3) == []
    assert [row.seq for row in agent.outline(until=2)] == [1, 2]
    assert [row.seq for row in agent.outline(1, "x")] == [2]
    for beyond in ((4,), (0, 4)):
        with pytest.raises(backstory.PositionNotFound):
            agent.outline(*beyond)


def test_events_of_some_kinds_are_read_in_order_dead_or_alive(agent):
    agent.user("a", data={"x": 1})
    agent.mark("here")
    agent.tool_result(agent.tool_call("glob", {}, id="c"), "much text")
    fork = agent.fork(at=3)
    fork.mark()
    fork.note("n", {"y": 2})
    fork.clear()
    assert fork.events(kinds=["mark", "tool_call"]) == fork.events([2, 3, 4])
    assert fork.events(kinds=["mark"], after=2, until=3) == []
    assert fork.events(kinds=["system"]) == []


def test_the_marks_of_a_session_are_those_of_all_its_agents_dead_or_alive(store, agent):
    agent.mark("a")
    agent.user("x")
    agent.mark()
    agent.clear()
    fork = agent.fork("fork", at=2)
    fork.mark("b")
    agent.spawn("no marks")
    store.start("other").mark("not this session's")
    found = [(owner, mark.seq, mark.label) for owner, mark in store.marks(agent.id)]
    assert found == [(agent, 1, "a"), (agent, 3, None), (fork, 3, "b")]
    assert store.marks("fork") == store.marks(agent.session)
    with pytest.raises(backstory.AgentNotFound):
        store.marks("missing")


def test_a_mark_that_a_deleted_agent_left_to_a_fork_is_listed_with_the_fork(store, agent):
    agent.mark("left to two")
    agent.mark("left to one")
    first, second = agent.fork("first", at=1), agent.fork("second")
    grandchild = second.fork("grandchild")
    agent.mark("gone")
    store.delete(agent)
    store.delete(second)
    found = [(holder, mark.seq, mark.label) for holder, mark in store.marks("first")]
    assert found == [(first, 1, "left to two"), (grandchild, 2, "left to one")]


# --- all agents at once ---


def test_the_last_notes_of_all_agents_are_the_live_ones(store, agent):
    agent.note("state", {"n": 1})
    agent.user("x")
    fork = agent.fork("inherits")
    moved = agent.fork("moved")
    moved.note("state", {"n": 2})
    moved.jump(2)
    own = agent.fork("own")
    own.note("state", {"n": 3})
    cleared = store.start("cleared", key="k/1")
    cleared.note("state", {"n": 4})
    cleared.clear()
    kept = store.start("kept", key="k/2")
    kept.clear()
    kept.note("state", {"n": 5})
    kept.note("other", {"n": 6})
    found = {holder.name: note.data["n"] for holder, note in store.last_notes("state")}
    assert found == {"main": 1, "inherits": 1, "moved": 1, "own": 3, "kept": 5}
    assert [(one, note.data["n"]) for one, note in store.last_notes("state", prefix="k/")] == [
        (kept, 5)
    ]
    assert found[fork.name] == fork.last_notes(["state"])["state"].data["n"]


def test_sessions_by_last_write_are_ordered_by_their_latest_agents(store):
    roots = [store.start(f"s{n}", key=f"k/{n}") for n in range(4)]
    for root in roots:
        root.user("x")
    roots[1].spawn("sub").user("the latest of all")
    roots[0].user("older than that of its fork")
    roots[0].fork("fork").user("y")
    expected = ["s0", "s1", "s3", "s2"]
    assert [session.name for session in store.sessions(order="updated")] == expected
    seen, last = [], None
    while page := store.sessions(order="updated", limit=1, after=last):
        [last] = page
        seen.append(last.name)
    assert seen == expected
    assert [one.name for one in store.sessions(order="updated", prefix="k/2")] == ["s2"]
    since = store.agent("sub").events()[0].created_at
    assert [one.name for one in store.sessions(order="updated", since=since)] == ["s0", "s1"]


def test_a_session_that_is_written_to_while_sessions_are_listed_is_not_left_out(store, monkeypatch):
    root = store.start("busy")
    root.user("x")
    for n in range(5):
        store.start(f"other{n}").user("x")
    root.fork("fork").user("the latest")
    backend = store._backend
    list_agents = backend.list_agents

    def write_after_listing(query):
        found = list_agents(query)
        if query.sessions is None:
            root.user("meanwhile")
        return found

    monkeypatch.setattr(backend, "list_agents", write_after_listing)
    assert [one.name for one in store.sessions(order="updated", limit=2)] == ["busy", "other4"]


def test_the_agent_that_was_written_to_last_is_meant_by_an_at_sign(store, agent):
    other = store.start("other")
    assert store.resolve("@").agent == other
    agent.user("x")
    assert store.resolve("@").agent == agent


def test_positions_are_read_in_order_and_each_once_through_all_forks(agent):
    agent.extend([("user", str(n)) for n in range(1, 6)])
    fork = agent.fork(at=4)
    fork.extend([("user", "five"), ("user", "six")])
    grandchild = fork.fork()
    grandchild.user("seven")
    wanted = ([7, 2, 5, 4, 2], range(1, 8), range(7, 0, -3), [6], [])
    for positions in wanted:
        read = [event.seq for event in grandchild.events(positions)]
        assert read == sorted(set(positions))
    assert [event.content for event in grandchild.events([5, 7])] == ["five", "seven"]


def test_positions_that_follow_each_other_are_read_as_one_range(agent, monkeypatch):
    agent.extend([("user", str(n)) for n in range(9)])
    backend, asked = agent._backend, []
    read_events = backend.read_events

    def record_ranges(record, pieces, *where):
        asked.append([(piece.low, piece.high) for piece in pieces])
        return read_events(record, pieces, *where)

    monkeypatch.setattr(backend, "read_events", record_ranges)
    agent.events([1, 2, 3, 7, 8])
    assert asked == [[(1, 3), (7, 8)]]


@pytest.mark.parametrize("call", ["events", "erase"])
def test_a_range_of_positions_beyond_the_log_is_refused_at_its_first_position_there(agent, call):
    agent.extend([("user", "a"), ("user", "b")])
    seen = []

    def endless():
        for position in itertools.count(1):
            seen.append(position)
            assert position < 10
            yield position

    for positions in (range(1, 10**12), endless()):
        with pytest.raises(backstory.PositionNotFound, match="has no position 3"):
            agent.events(positions) if call == "events" else agent.erase(positions, why="asked")
    assert seen == [1, 2, 3]
    assert [event.content for event in agent.events()] == ["a", "b"]
