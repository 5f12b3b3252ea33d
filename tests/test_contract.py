"""What every backend promises, through the public face: one suite for all of them."""

import time
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from tests import plain
from tests.threads import in_threads

TEXTS = [
    "",
    " ",
    "plain",
    "äöü 漢字 🙂",
    "two\nlines\r\n\ttab",
    "\x01\x7f\u2028\ufeff",
    "'; DROP TABLE events; --",
    "x" * 300_000,
]
DATA = [None, {}, {"a": [1, 2.5, None, True, {"b": "ü"}]}, {"n": 2**60, "e": 1e-300, "nul": "a\0b"}]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_content_and_data_come_back_exactly_as_they_went_in(agent, text):
    written = [agent.append("user", text, data) for data in DATA]
    assert [(read.content, read.data) for read in agent.events()] == [(text, data) for data in DATA]
    assert agent.events() == written


def test_the_readme_of_the_engine(store):
    agent = store.start("main", system="Be careful.")
    agent.user("Which Python files are here?")
    call = agent.tool_call("glob", {"pattern": "*.py"})
    assert call.data == {"id": call.data["id"], "name": "glob", "arguments": {"pattern": "*.py"}}
    result = agent.tool_result(call, "a.py\nb.py")
    assert result.data == {"id": call.data["id"], "name": "glob"}
    agent.assistant("Two: a.py and b.py.")
    assert agent.mark("two files").label == "two files"
    agent.user("Delete b.py.")
    assert agent.rewind("two files").data == {"target_message_id": 6}
    assert plain.positions(agent.context().messages) == [1, 2, 3, 4, 5, 6, 8]
    agent.undo()
    assert plain.positions(agent.context().messages) == [1, 2, 3, 4, 5, 6, 7, 9]
    agent.undo()
    assert plain.positions(agent.context().messages) == [1, 2, 3, 4, 5, 6, 8, 10]
    agent.jump(3)
    agent.clear()
    assert agent.context().messages == []
    child = agent.fork("try pathlib", at=5)
    assert (child.parent, child.fork_seq, child.head, child.session) == (agent.id, 5, 5, agent.session)
    assert agent.fork(at="two files") if agent.marks() else True
    helper = agent.spawn("reviewer")
    assert (helper.parent, helper.fork_seq, helper.head, helper.born_seq) == (agent.id, 0, 0, agent.head)
    assert (helper.spawned, child.spawned) == (True, False)
    assert agent.append("user", "hi", None, expected=agent.head).seq == 13
    assert [e.seq for e in agent.extend([("user", "hi", None), ("assistant", "ho", None)])] == [14, 15]
    assert plain.positions(agent.events()) == list(range(1, 16))
    assert plain.positions(agent.events(after=3, until=7)) == [4, 5, 6, 7]
    assert agent.explain(6).status == "cleared"
    assert store.agent("main") == agent
    assert store.verify() == []


def test_a_tool_result_may_name_the_call_by_its_id_and_say_that_it_failed(agent):
    agent.tool_call("glob", "{broken", id="c1")
    result = agent.tool_result("c1", "no such folder", error=True)
    assert result.data == {"id": "c1", "error": True}
    assert agent.events()[0].data["arguments"] == "{broken"


def test_messages_may_carry_data(agent):
    for write in (agent.system, agent.user, agent.assistant):
        assert write("x", data={"model": "m"}).data == {"model": "m"}


def test_the_events_of_one_log_may_be_written_to_another(store, agent):
    agent.extend([("user", "a", {"x": 1}), ("mark", None, {"label": "m"})])
    other = store.start("other")
    assert [event[1:4] for event in other.extend(agent.events())] == [event[1:4] for event in agent.events()]


def test_a_tool_result_for_something_that_is_no_call_is_refused(agent):
    with pytest.raises(backstory.InvalidEvent, match="None is no tool call"):
        agent.tool_result(None, "x")
    with pytest.raises(backstory.InvalidEvent, match=r"event 1 \(user\) is no tool call"):
        agent.tool_result(agent.user("hi"), "x")
    assert agent.head == 1


def test_a_batch_is_all_or_nothing(agent):
    with pytest.raises(backstory.InvalidEvent, match="event 2 of the batch: unknown kind 'telepathy'"):
        agent.extend([("user", "a", None), ("user", "b"), ("telepathy", "c", None)])
    for odd in (("user", "a", None, "surplus"), (), {"kind": "user"}, "user", None):
        with pytest.raises(backstory.InvalidEvent, match=r"event 0 of the batch: .*\(kind, content, data\)"):
            agent.extend([odd])
    assert agent.events() == []
    assert agent.extend([]) == []


def test_a_large_batch_is_one_batch(agent):
    agent.user("before")
    written = agent.extend(("user", str(n), None) for n in range(12_345))
    assert [written[0].seq, written[-1].seq, agent.head] == [2, 12_346, 12_346]
    assert agent.events(after=1) == written
    assert len({event.created_at for event in written}) == 1


# --- expected= ---


def test_expected_at_the_head_writes_and_elsewhere_is_a_conflict_with_the_real_head(agent):
    agent.extend([("user", "a", None), ("user", "b", None)])
    for wrong in (0, 1, 3, 2**31 - 1):
        with pytest.raises(backstory.Conflict, match="at position 2") as conflict:
            agent.append("user", "c", expected=wrong)
        assert conflict.value.head == 2
    assert agent.append("user", "c", expected=2).seq == 3


def test_repeating_an_append_after_a_lost_answer_writes_nothing(agent):
    batch = [
        ("user", "a", {"x": 1}),
        ("mark", None, {"label": "m"}),
        ("rewind", None, {"target_message_id": 2}),
    ]
    first = agent.extend(batch, expected=0)
    agent.user("somebody else goes on")
    assert agent.extend(batch, expected=0) == first
    assert agent.head == 4
    for other in ([*batch[:2], ("user", "b", None)], [*batch, ("user", "b", None)], [("user", "a", None)]):
        with pytest.raises(backstory.Conflict):
            agent.extend(other, expected=0)
    assert agent.head == 4


def test_a_repeat_that_reaches_below_the_fork_is_a_conflict(agent):
    agent.user("a")
    child = agent.fork()
    with pytest.raises(backstory.Conflict):
        child.append("user", "a", expected=0)


@pytest.mark.parametrize("expected", [-1, "1", True, 1.0, 2**40])
def test_an_expected_that_is_no_position_is_refused(agent, expected):
    with pytest.raises(backstory.Invalid, match="is no position"):
        agent.append("user", "a", expected=expected)


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
    time.sleep(0.002)
    moment = datetime.now(UTC)
    time.sleep(0.002)
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
        time.sleep(0.002)
        moments.append(datetime.now(UTC))
        time.sleep(0.002)

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


def test_a_clock_that_runs_backwards_is_held_in_the_agent_and_in_its_forks(agent, monkeypatch):
    clock = iter([5_000, 4_000, 3_000, 2_000, 6_000])
    monkeypatch.setattr("backstory.log.now", lambda: next(clock) + 2 * 10**15)
    monkeypatch.setattr("backstory.agent.now", lambda: 10**15)
    agent.user("a")
    agent.user("b")
    child = agent.fork()
    child.user("c")
    child.user("d")
    child.user("e")
    times = [event.created_at for event in child.events()]
    assert times == sorted(times)
    assert [(t - times[0]).microseconds for t in times] == [0, 0, 0, 0, 1_000]
    assert child.context(at=times[0]).at == 4


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
            backstory.PositionNotFound, match=rf"no position {position}: its lineage goes from [01] to 2"
        ):
            call()
    assert agent.head == 2


@pytest.mark.parametrize("position", [True, 1.5, b"1", [1]])
def test_something_that_is_no_position(agent, position):
    with pytest.raises(backstory.Invalid, match="is no position"):
        agent.context(at=position)
    with pytest.raises(backstory.Invalid):
        agent.rewind(position)


def test_a_jump_needs_somewhere_to_go_and_a_single_event_its_position(agent):
    assert agent.user("a") == agent.event(1)
    with pytest.raises(backstory.Invalid, match="jump needs somewhere to go"):
        agent.jump(None)
    for odd in ("m", True, None):
        with pytest.raises(backstory.Invalid, match="is no position: pass a whole number"):
            agent.explain(odd)
    with pytest.raises(backstory.PositionNotFound):
        agent.event(2)


def test_explain_zero_and_the_future_are_not_there(agent):
    agent.user("a")
    agent.user("b")
    with pytest.raises(backstory.PositionNotFound):
        agent.explain(0)
    with pytest.raises(backstory.PositionNotFound, match="comes after position 1"):
        agent.explain(2, at=1)
    assert agent.explain(1, at=1).live


def test_explain_names_what_took_an_event_away(agent):
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


def test_a_mark_that_is_not_on_the_stack_is_named_with_those_that_are(agent):
    with pytest.raises(
        backstory.MarkNotFound, match=r"no mark on the mark stack .*: there is none, mark\(\) sets"
    ):
        agent.rewind()
    agent.mark("here")
    agent.mark()
    with pytest.raises(backstory.MarkNotFound, match=r"no mark 'there' .*: there are 'here' at 1, 2"):
        agent.rewind("there")
    with pytest.raises(backstory.MarkNotFound, match="no mark 7"):
        agent.rewind(7)
    with pytest.raises(backstory.MarkNotFound):
        agent.context(at="there")
    assert agent.head == 2
    assert agent.rewind(1).data == {"target_message_id": 1}


def test_a_mark_that_was_left_behind_is_said_to_be_there(agent):
    agent.mark("here")
    agent.clear()
    for which in ("here", 1):
        with pytest.raises(
            backstory.MarkNotFound, match=r"position 1 is one, but it was left behind: jump\(1\)"
        ):
            agent.rewind(which)
    agent.jump(1)
    assert agent.marks()[0].label == "here"


def test_a_label_that_is_no_string_is_refused(agent):
    with pytest.raises(backstory.InvalidEvent, match="label must be a string"):
        agent.mark(3)


def test_nothing_to_undo_is_said(agent):
    agent.user("a")
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo()


def test_names_are_unique_within_a_session_and_only_there(store):
    first, second = store.start("main"), store.start("main")
    first.fork("try")
    second.fork("try")
    with pytest.raises(backstory.NameTaken, match="an agent named 'try' already"):
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
    with pytest.raises(backstory.Ambiguous, match="'try' fits 2 agents, say which") as error:
        store.agent("try")
    assert error.value.matches == (f"{one.id}/try", f"{two.id}/try")
    with pytest.raises(backstory.Ambiguous):
        store.agent(one.id[:4])


@pytest.mark.parametrize(
    "ref", ["", "twoo", "one/two", "nothing/try", "0000", "zzzz", "01-9", "%", "_", None, 3, "/", "x/"]
)
def test_an_agent_that_is_not_there(store, ref):
    store.start("two")
    with pytest.raises(backstory.AgentNotFound) as error:
        store.agent(ref)
    if ref == "twoo":
        assert "did you mean 'two'?" in str(error.value)


def test_sessions_and_agents_are_listed_with_what_people_want_to_know(store):
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
    assert (main_.record.head, child_.record.head, child_.parent) == (1, 2, main.id)
    assert store.agents(session="main") == store.agents(session="child") == [main, child]
    with pytest.raises(backstory.AgentNotFound):
        store.agents(session="nobody")


def test_ids_are_time_ordered(store):
    ids = []
    for n in range(5):
        ids.append(store.start(f"a{n}").id)
        time.sleep(0.002)
    assert ids == sorted(ids)
    assert all(id[14] == "7" and id[19] in "89ab" for id in ids)


# --- living on ---


def test_everything_is_there_after_opening_again(durable_url):
    with backstory.open(durable_url) as store:
        agent = store.start("main", system="s")
        agent.mark("x")
        agent.user("dead")
        agent.rewind("x")
        agent.fork("child").user("c")
        before = [(a.name, a.events(), a.context()) for a in store.agents()]
    with backstory.open(durable_url) as store:
        assert [(a.name, a.events(), a.context()) for a in store.agents()] == before
        assert store.verify() == []


def test_a_closed_store_says_so(durable_url):
    store = backstory.open(durable_url)
    agent = store.start()
    store.close()
    store.close()
    with pytest.raises(backstory.StorageError, match="is closed: open it again"):
        agent.user("a")


def test_threads_share_a_store_and_lose_nothing(store, agent):
    own = [agent.fork(f"own-{n}") for n in range(4)]

    def work(nth):
        for n in range(25):
            agent.append("user", f"{nth}-{n}")
            own[nth].extend([("user", "a", None), ("mark", None, None)])
            own[nth].rewind()
            agent.context()

    in_threads(work, 4)
    assert agent.head == 100
    for nth in range(4):
        mine = [e.content for e in agent.events() if e.content.startswith(f"{nth}-")]
        assert mine == [f"{nth}-{n}" for n in range(25)]
    assert store.verify() == []


def test_threads_that_go_back_at_once_all_get_back(store, agent):
    agent.mark("x")

    def work(nth):
        for _ in range(10):
            agent.user("a")
            agent.rewind("x")
            agent.undo()

    in_threads(work, 4)
    assert agent.head == 1 + 4 * 10 * 3
    assert store.verify() == []


def test_forks_made_at_once_are_all_made(store, agent):
    agent.user("a")
    made = in_threads(lambda nth: [agent.fork().id for _ in range(8)], 4)
    assert len(set().union(*made)) == 32
    assert len({agent.id for agent in store.agents()}) == 33
