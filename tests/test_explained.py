"""Reading a history part by part, and knowing what a move would do before it is made."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backstory
from backstory.present.history import find_live_ranges

steps = st.lists(
    st.tuples(
        st.sampled_from(["user", "mark", "rewind", "clear", "jump", "undo", "fork", "inert"]),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=20,
)


def told(agent, moves):
    for move, number in moves:
        try:
            match move:
                case "user":
                    agent.user(str(number))
                case "jump":
                    agent.jump(min(number, agent.head))
                case "fork":
                    agent = agent.fork(at=min(number, agent.head))
                case "inert":
                    agent.append("rewind", None, {"target_message_id": 999})
                case _:
                    getattr(agent, move)()
        except backstory.NotFound:
            continue
    return agent


@given(steps, st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=80)
def test_explained_is_explain_for_each_event_of_a_part(moves, after, at):
    with backstory.open(":memory:") as store:
        agent = told(store.start(), moves)
        at, after = min(at, agent.head), min(after, agent.head)
        found = agent.explain(after=min(after, at), at=at)
        assert [event for event, _ in found] == agent.events(after=min(after, at), until=at)
        assert [why for _, why in found] == [agent.explain(event.seq, at=at) for event, _ in found]


@given(steps)
@settings(max_examples=60)
def test_the_live_ranges_hold_the_context(moves):
    with backstory.open(":memory:") as store:
        agent = told(store.start(), moves)
        live = [
            event
            for low, high in find_live_ranges(agent, agent.head)
            for event, why in agent.explain(after=low - 1, until=high)
            if why.live
        ]
        assert live == agent.context().messages


def test_explained_on_every_store(store):
    agent = store.start()
    agent.mark("x")
    agent.extend([("user", str(n), None) for n in range(5)])
    agent.rewind("x")
    child = agent.fork(at=4)
    child.user("own")
    assert [(event.seq, why.status, why.by) for event, why in agent.explain(after=4)] == [
        (5, "rewound", 7),
        (6, "rewound", 7),
        (7, "live", None),
    ]
    assert [(event.content, why.status) for event, why in child.explain(after=3, until=5)] == [
        ("2", "live"),
        ("own", "live"),
    ]
    assert [why.status for _, why in agent.explain(at=4)] == ["live"] * 4
    assert find_live_ranges(agent, agent.head) == [(1, 1), (7, 7)]
    with pytest.raises(backstory.PositionNotFound):
        agent.explain(until=99)


@pytest.mark.parametrize("move", ["clear", "rewind", "jump", "undo"])
@given(steps)
@settings(max_examples=30)
def test_a_preview_equals_the_effect_of_the_move(move, moves):
    with backstory.open(":memory:") as store:
        agent = told(store.start(), moves)
        to = agent.head // 2 if move == "jump" else None
        try:
            preview = agent.preview(move, to)
        except backstory.NotFound:
            with pytest.raises(backstory.NotFound):
                getattr(agent, move)()
            return
        head, before = agent.head, agent.context().messages
        event = getattr(agent, move)(*([to] if move == "jump" else []))
        assert agent.head == head + 1  # the preview wrote nothing
        after = [one for one in agent.context().messages if one.seq != event.seq]
        assert [one for one in before if one not in preview.leaves] == [
            one for one in after if one not in preview.returns
        ]
        assert not set(preview.leaves) & set(after)
        assert set(preview.returns) <= set(after) - set(before)


def test_a_preview_of_nothing_known(agent):
    with pytest.raises(backstory.Invalid, match="'dance' is not a move"):
        agent.preview("dance")


def test_an_interim_result_is_explained_by_the_newer_one(store):
    agent = store.start()
    agent.user("Delete it.")
    call = agent.tool_call("delete", {}, id="1")
    interim = agent.tool_result(call, "waits for approval")
    agent.user("approved")
    newest = agent.tool_result(call, "deleted")
    assert agent.explain(interim.seq).reason.endswith("a newer result of the call '1' counts")
    assert agent.explain(newest.seq).reason.endswith("is in the context")
