"""What every backend answers when two contexts are compared."""

import pytest

import backstory
from backstory.log.diff import compare
from backstory.log.kinds import MESSAGE_KINDS


def spoken(agent, at=None):
    return [event for event in agent.context(at).messages if event.kind in MESSAGE_KINDS]


def ops(found):
    return [(change.op, (change.left or change.right).seq) for change in found.changes]


@pytest.fixture
def family(agent):
    """An agent that rewound, a fork of it, and a fork of that."""
    agent.extend([("user", f"message {n}") for n in range(5)])
    agent.mark("x")
    agent.user("left behind")
    child = agent.fork("child")
    agent.rewind("x")
    agent.user("what the parent went on with")
    child.user("and the child")
    grandchild = child.fork("grandchild", at=3)
    grandchild.user("something else")
    return agent, child, grandchild


def test_a_diff_of_contexts_with_a_shared_part_equals_a_diff_of_all_messages(family):
    for left in family:
        for right in family:
            found = left.diff(right)
            whole = compare(spoken(left), spoken(right))
            assert (found.common, found.only_left, found.only_right) == (
                whole.common,
                whole.only_left,
                whole.only_right,
            )
            assert [change[:3] for change in found.changes] == [
                change[:3] for change in whole.changes
            ]


def test_what_is_shared_by_a_fork_is_not_read(family, monkeypatch):
    parent, child, _ = family
    read, read_events = [], parent._backend.read_events

    def record_events(*args):
        events = read_events(*args)
        read.extend(events)
        return events

    monkeypatch.setattr(parent._backend, "read_events", record_events)
    assert parent.diff(child).common == 5
    assert min(event.seq for event in read) > 5


def test_a_diff_names_the_move_that_removed_a_message(family):
    parent, child, _ = family
    found = parent.diff(child)
    assert ops(found) == [("removed", 9), ("added", 7), ("added", 8)]
    assert [change.why and change.why[1:3] for change in found.changes] == [
        None,
        ("rewound", 8),
        None,
    ]


def test_a_diff_names_the_compaction(agent):
    agent.extend([("user", "one"), ("assistant", "two"), ("user", "three")])
    written = agent.compact("In short.", keep=1)
    found = agent.diff(at=3)
    assert (found.common, ops(found)) == (
        1,
        [("removed", 1), ("added", written[1].seq), ("removed", 2)],
    )
    assert [change.why and (change.why.status, change.why.by) for change in found.changes] == [
        ("compacted", 4),
        None,
        ("compacted", 4),
    ]


def test_a_diff_comes_in_pages(family):
    parent, child, _ = family
    pages, after = [], None
    while not pages or pages[-1].more:
        pages.append(parent.diff(child, after=after, limit=1))
        after = pages[-1].changes[-1]
    assert [change for page in pages for change in page.changes] == parent.diff(child).changes
    assert len(pages) == 3


def test_agents_of_two_sessions_have_no_fork_in_common(store, agent):
    other = store.start("other")
    for one in (agent, other):
        one.extend([("user", "same"), ("user", one.name)])
    agent.clear()
    assert agent.diff(other).common == 0
    assert [change.why for change in agent.diff(other).changes] == [None, None]
    agent.undo()
    assert agent.diff(other).common == 1


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
def test_a_page_has_at_least_one_change(agent, limit):
    with pytest.raises(backstory.Invalid, match="is not a number of changes"):
        agent.diff(limit=limit)


def test_agents_of_two_stores_are_not_compared(agent):
    with (
        backstory.open(":memory:") as elsewhere,
        pytest.raises(backstory.Invalid, match="belongs to another store"),
    ):
        agent.diff(elsewhere.start("main"))
