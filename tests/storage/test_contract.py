"""What every backend promises, through the public face: one suite for all of them."""

from functools import partial

import pytest

import backstory
from backstory.storage.ids import new_id
from tests import databases, plain
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
    agent.redo()
    assert plain.positions(agent.context().messages) == [1, 2, 3, 4, 5, 6, 8, 10]
    assert agent.fork(at="two files").fork_seq == 6
    agent.jump(3)
    agent.clear()
    assert agent.context().messages == []
    child = agent.fork("try pathlib", at=5)
    assert (child.parent, child.fork_seq, child.head, child.session) == (
        agent.id,
        5,
        5,
        agent.session,
    )
    with pytest.raises(backstory.MarkNotFound, match="left behind"):
        agent.fork(at="two files")
    helper = agent.spawn("reviewer")
    assert (helper.parent, helper.fork_seq, helper.head, helper.born_seq) == (
        agent.id,
        0,
        0,
        agent.head,
    )
    assert (helper.spawned, child.spawned) == (True, False)
    assert agent.append("user", "hi", None, expected=agent.head).seq == 13
    assert [e.seq for e in agent.extend([("user", "hi", None), ("assistant", "ho", None)])] == [
        14,
        15,
    ]
    assert plain.positions(agent.events()) == list(range(1, 16))
    assert plain.positions(agent.events(after=3, until=7)) == [4, 5, 6, 7]
    assert agent.explain(6).status == "cleared"
    assert store.agent("main") == agent
    assert store.verify() == []


def test_a_tool_result_takes_a_call_id_and_an_error_flag(agent):
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
    assert [event[1:4] for event in other.extend(agent.events())] == [
        event[1:4] for event in agent.events()
    ]


def test_a_tool_result_for_something_that_is_no_call_is_refused(agent):
    with pytest.raises(backstory.InvalidEvent, match="None is not a tool call"):
        agent.tool_result(None, "x")
    with pytest.raises(backstory.InvalidEvent, match=r"event 1 \(user\) is not a tool call"):
        agent.tool_result(agent.user("hi"), "x")
    assert agent.head == 1


def test_a_batch_is_all_or_nothing(agent):
    with pytest.raises(
        backstory.InvalidEvent, match="event 2 of the batch: unknown kind 'telepathy'"
    ):
        agent.extend([("user", "a", None), ("user", "b"), ("telepathy", "c", None)])
    for odd in (("user", "a", None, None, "surplus"), (), {"kind": "user"}, "user", None):
        with pytest.raises(
            backstory.InvalidEvent, match=r"event 0 of the batch: .*\(kind, content, data\)"
        ):
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
    for other in (
        [*batch[:2], ("user", "b", None)],
        [*batch, ("user", "b", None)],
        [("user", "a", None)],
    ):
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
    with pytest.raises(backstory.Invalid, match="is not a position"):
        agent.append("user", "a", expected=expected)


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


def test_generated_names_never_clash(agent, monkeypatch):
    ids = iter([new_id(agent.session).replace("-", "")[:13] + end for end in ("aaa", "aaa", "bbb")])

    def chosen(session):
        start, end = (part := next(ids))[:13], part[13:]
        return f"{start[:8]}-{start[8:12]}-7{end}-8{end}-{session[-12:]}"

    monkeypatch.setattr("backstory.agent.new_id", chosen)
    assert [agent.fork().name for _ in range(2)] == ["fork-aaaaaa", "fork-bbbbbb"]


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_blank_message_is_refused_by_user_and_system(store, agent, text):
    replace = partial(agent.system, replace=True)
    for write in (agent.user, agent.system, replace, lambda text: store.start("x", system=text)):
        with pytest.raises(backstory.InvalidEvent, match="message is empty: nothing was written"):
            write(text)
    assert (agent.head, len(store.agents())) == (0, 1)


def test_append_accepts_a_blank_message(agent):
    call = agent.tool_call("look")
    written = [
        agent.assistant(""),
        agent.tool_result(call, ""),
        agent.user("", data={"native": {"openai": {"content": []}}}),
        *agent.extend([("user", ""), ("system", "")]),
    ]
    assert agent.context().messages == [call, *written]
    assert [event.content for event in written] == [""] * 5


def test_forks_made_at_once_are_all_made(store, agent):
    agent.user("a")
    made = in_threads(lambda nth: [agent.fork().id for _ in range(8)], 4)
    assert len(set().union(*made)) == 32
    assert len({agent.id for agent in store.agents()}) == 33


def test_a_store_that_is_not_on_a_cluster_is_not_distributed(store):
    if databases.CITUS and store.url.startswith("postgresql"):
        pytest.skip("this one is")
    with pytest.raises(backstory.Invalid) as refused:
        store.distribute()
    assert "Citus extension" in f"{refused.value} {refused.value.remedy}"
    assert store.start("main").user("still works").seq == 1
