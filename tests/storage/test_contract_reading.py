"""What every backend does for pages and lists: outlines, and the marks of a session."""

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
    target = len(agent.event(4).data_json)
    assert outlined(agent) == [
        (1, "user", 6, None),
        (2, "mark", len('{"label":"x"}'), None),
        (3, "assistant", 4, None),
        (4, "rewind", target, 2),
        (5, "clear", 0, 0),
    ]
    assert [row.created_at for row in agent.outline()] == [event.created_at for event in agent.events()]


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
    with pytest.raises(backstory.PositionNotFound):
        agent.outline(4)


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
