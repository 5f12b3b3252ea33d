"""The same contract, read: forks, moments, positions, marks and names, on every backend."""

import time
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from tests.processes import wait_until


def a_moment_between():
    """A time after everything that was written, and before everything that will be."""
    begun = datetime.now(UTC)
    moment = wait_until(lambda: (now := datetime.now(UTC)) > begun and now)
    wait_until(lambda: datetime.now(UTC) > moment)
    return moment


# --- forks and lineages ---


def test_the_parent_of_a_fork_is_the_owner_of_the_position(agent):
    agent.extend([("user", str(n), None) for n in range(1, 6)])
    child = agent.fork("child", at=3)
    child.user("own")
    assert child.fork(at=2).parent == agent.id
    assert child.fork(at=3).parent == agent.id
    assert child.fork(at=4).parent == child.id
    assert child.fork(at=0).parent == agent.id
    empty = agent.fork("empty")
    assert empty.fork().parent == agent.id


def test_a_fork_continues_its_parents_numbering_and_is_blind_to_its_future(agent):
    agent.extend([("user", "a", None), ("user", "b", None)])
    child = agent.fork()
    agent.user("parent goes on")
    assert child.user("child goes on").seq == 3
    assert [e.content for e in child.events()] == ["a", "b", "child goes on"]
    assert [e.content for e in agent.events()] == ["a", "b", "parent goes on"]


def test_a_fork_at_a_label_a_moment_and_before_everything(agent):
    agent.user("a")
    agent.mark("here")
    moment = a_moment_between()
    agent.user("b")
    assert agent.fork(at="here").head == 2
    assert agent.fork(at=moment).head == 2
    assert agent.fork(at=0).context().messages == []


def test_a_spawned_agent_starts_at_one_and_sees_nothing(agent):
    agent.extend([("user", "a", None), ("user", "b", None)])
    helper = agent.spawn()
    assert helper.context().messages == []
    assert helper.user("mine").seq == 1
    grandchild = helper.fork()
    assert [e.content for e in grandchild.events()] == ["mine"]


# --- time ---


def test_reading_as_of_a_time_across_forks(agent):
    moments = []

    def step(action):
        action()
        moments.append(a_moment_between())

    before = datetime.now(UTC) - timedelta(seconds=1)
    step(lambda: agent.user("a"))
    step(lambda: agent.user("b"))
    child = agent.fork()
    step(lambda: child.user("c"))
    step(agent.clear)
    grandchild = child.fork()
    step(lambda: grandchild.user("d"))

    def seen(who, moment):
        return "".join(e.content for e in who.context(at=moment).messages)

    assert seen(agent, before) == seen(child, before) == ""
    assert [seen(agent, m) for m in moments] == ["a", "ab", "ab", "", ""]
    assert [seen(child, m) for m in moments] == ["a", "ab", "abc", "abc", "abc"]
    assert [seen(grandchild, m) for m in moments] == ["a", "ab", "abc", "abc", "abcd"]


def test_a_time_without_a_zone_is_refused(agent):
    with pytest.raises(backstory.Invalid, match="pass an aware datetime"):
        agent.context(at=datetime(2026, 1, 1))


# --- positions, marks, names ---


@pytest.mark.parametrize("position", [-1, 3, 2**31, 2**70])
def test_a_position_that_is_not_in_the_lineage(agent, position):
    agent.extend([("user", "a", None), ("user", "b", None)])
    for call in (
        lambda: agent.context(at=position),
        lambda: agent.fork(at=position),
        lambda: agent.jump(position),
        lambda: agent.events(until=position),
        lambda: agent.events(after=position),
        lambda: agent.explain(position),
        lambda: agent.marks(at=position),
    ):
        with pytest.raises(
            backstory.PositionNotFound,
            match=rf"no position {position}: its lineage goes from [01] to 2",
        ):
            call()
    assert agent.head == 2


def test_a_position_of_an_empty_agent_is_refused(store):
    with pytest.raises(
        backstory.PositionNotFound, match=r"'main' has no position 1: it has no events yet$"
    ):
        store.start("main").explain(1)


@pytest.mark.parametrize("position", [True, 1.5, b"1", [1]])
def test_something_that_is_no_position(agent, position):
    with pytest.raises(backstory.Invalid, match="is not a position"):
        agent.context(at=position)
    with pytest.raises(backstory.Invalid):
        agent.rewind(position)


def test_a_jump_needs_somewhere_to_go_and_a_single_event_its_position(agent):
    assert agent.user("a") == agent.events([1])[0]
    with pytest.raises(backstory.Invalid, match="jump needs a target"):
        agent.jump(None)
    for odd in ("m", True, 1.5):
        with pytest.raises(
            backstory.Invalid, match=rf"^{odd!r} is not a position: pass whole numbers$"
        ):
            agent.explain(odd)
    with pytest.raises(backstory.PositionNotFound):
        agent.events([2])


def test_explain_zero_and_the_future_are_not_there(agent):
    agent.user("a")
    agent.user("b")
    with pytest.raises(backstory.PositionNotFound):
        agent.explain(0)
    with pytest.raises(
        backstory.PositionNotFound, match="comes after position 1: pass at=2 or later"
    ):
        agent.explain(2, at=1)
    assert agent.explain(1, at=1).live


def test_explain_names_the_move_that_removed_an_event(agent):
    agent.user("a")
    agent.mark("x")
    agent.user("b")
    agent.rewind("x")
    agent.append("rewind", None, {})
    assert [(e.status, e.by) for e in map(agent.explain, range(1, 6))] == [
        ("live", None), ("live", None), ("rewound", 4), ("live", None), ("inert", None),
    ]  # fmt: skip
    agent.jump(1)
    agent.clear()
    assert [(e.status, e.by) for e in map(agent.explain, (1, 3, 6, 7))] == [
        ("cleared", 7), ("cleared", 7), ("cleared", 7), ("clear", None),
    ]  # fmt: skip
    agent.undo()
    assert [(e.status, e.by) for e in map(agent.explain, (1, 2, 3, 6))] == [
        ("live", None), ("jumped", 6), ("jumped", 6), ("live", None),
    ]  # fmt: skip


def test_a_rewind_to_a_position_without_a_mark_suggests_a_jump(agent):
    with pytest.raises(backstory.MarkNotFound, match=r"no mark 1: mark\(\) sets"):
        agent.rewind(1)  # there is no such position either
    agent.user("one")
    with pytest.raises(backstory.MarkNotFound, match=r"no mark 1: jump\(1\) goes to a position"):
        agent.rewind(1)


def test_a_mark_that_is_not_on_the_stack_is_named_with_those_that_are(agent):
    with pytest.raises(backstory.MarkNotFound, match=r"has no mark: mark\(\) sets"):
        agent.rewind()
    agent.mark("here")
    agent.mark()
    with pytest.raises(
        backstory.MarkNotFound,
        match=r"no mark 'there' \(did you mean 'here'\?\): its marks are 'here' at 1, 2",
    ):
        agent.rewind("there")
    with pytest.raises(backstory.MarkNotFound, match="no mark 7"):
        agent.rewind(7)
    with pytest.raises(backstory.MarkNotFound):
        agent.context(at="there")
    assert agent.head == 2
    assert agent.rewind(1).data == {"target_message_id": 1}


def test_an_error_names_a_mark_that_is_no_longer_on_the_stack(agent):
    agent.mark("here")
    agent.clear()
    for which in ("here", 1):
        with pytest.raises(
            backstory.MarkNotFound, match=r"set at position 1 and left behind; jump\(1\)"
        ):
            agent.rewind(which)
    agent.jump(1)
    assert agent.marks()[0].label == "here"


def test_a_label_that_is_no_string_is_refused(agent):
    with pytest.raises(backstory.InvalidEvent, match="label must be a string"):
        agent.mark(3)


def test_the_opening_of_an_agent_is_not_undone(agent):
    agent.extend([("clear",), ("system", "Be brief."), ("user", "hi")])
    for undo in (agent.undo, lambda: agent.preview("undo")):
        with pytest.raises(backstory.NotFound, match="nothing to undo"):
            undo()
    assert [event.kind for event in agent.context().messages] == ["system", "user"]
    agent.clear()
    agent.undo()
    assert [event.kind for event in agent.context().messages] == ["system", "user", "jump"]


def test_the_opening_of_a_parent_is_not_undone_in_its_fork(agent):
    agent.extend([("clear",), ("system", "Be brief.")])
    child = agent.fork()
    child.user("hi")
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        child.undo()


def test_undo_without_a_move_is_refused(agent):
    agent.user("a")
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo()


def test_names_are_unique_within_a_session_and_only_there(store):
    first, second = store.start("main"), store.start("main")
    first.fork("try")
    second.fork("try")
    with pytest.raises(backstory.NameTaken, match="already has an agent named 'try'"):
        first.spawn("try")
    with pytest.raises(backstory.NameTaken):
        first.rename("try")
    first.rename("main")
    first.rename("first")
    assert store.agent("first").name == first.name == "first"
    assert len(store.agents()) == 4


@pytest.mark.parametrize("name", ["", " ", " x", "a/b", "a@3", "a\nb", "x" * 201, 3, None])
def test_a_name_that_could_not_be_referred_to_is_refused(store, name):
    with pytest.raises(backstory.Invalid, match="name"):
        store.start(name)
    assert store.agents() == []


def test_an_agent_is_found_by_id_prefix_name_and_session(store):
    one = store.start("one")
    two = store.start("two")
    for session in (one, two):
        session.fork("try")
        session.spawn("odd")
    assert store.agent(one.id) == store.agent("one") == store.agent(one.id[:-2]) == one
    assert store.agent("one/try").session == store.agent(f"{one.id}/try").session == one.id
    assert store.agent(two.id.upper()) == two
    two.fork(one.id)
    assert store.agent(one.id) == one
    with pytest.raises(backstory.Ambiguous, match="'try' fits 2 agents: use one of") as error:
        store.agent("try")
    assert error.value.matches == (f"{one.id}/try", f"{two.id}/try")
    with pytest.raises(backstory.Ambiguous):
        store.agent(one.id[:4])


@pytest.mark.parametrize(
    "ref",
    ["", "twoo", "one/two", "nothing/try", "0000", "zzzz", "01-9", "%", "_", None, 3, "/", "x/"],
)
def test_an_agent_that_is_not_there(store, ref):
    store.start("two")
    with pytest.raises(backstory.AgentNotFound) as error:
        store.agent(ref)
    if ref == "twoo":
        assert "did you mean 'two'?" in str(error.value)


def test_listings_of_sessions_and_agents_have_their_fields(store):
    main = store.start("main", system="s")
    child = main.fork("child")
    child.user("a")
    other = store.start("other")
    [first, second] = store.sessions()
    assert (first.id, first.name, first.agents, first.events) == (main.id, "main", 2, 2)
    assert (second.id, second.name, second.agents, second.events) == (other.id, "other", 1, 0)
    assert main.created_at <= first.created_at <= child.created_at <= first.updated_at
    assert [agent.name for agent in store.agents()] == ["main", "child", "other"]
    [main_, child_] = store.agents(session=main.id)
    assert (main_.listed_head, child_.listed_head, child_.parent) == (1, 2, main.id)
    assert store.agents(session="main") == store.agents(session="child") == [main, child]
    with pytest.raises(backstory.AgentNotFound):
        store.agents(session="nobody")


def test_ids_are_time_ordered(store):
    ids = []
    for n in range(5):
        ids.append(store.start(f"a{n}").id)
        ended = time.time() + 0.001  # an id counts milliseconds
        wait_until(lambda ended=ended: time.time() > ended)
    assert ids == sorted(ids)
    assert all(id[14] == "7" and id[19] in "89ab" for id in ids)
