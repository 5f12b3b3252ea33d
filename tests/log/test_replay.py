"""The fold against the naive replay, its cost in calls, and the explanations of events."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event, InvalidEvent, replay
from backstory.log.replay import Fold, explain, select_shown
from tests import plain

KINDS = (
    "user",
    "user",
    "tool_call",
    "mark",
    "mark",
    "rewind",
    "rewind",
    "rewind",
    "jump",
    "clear",
    "unknown",
)


@st.composite
def logs(draw):
    """Any sequence of events. Most rewinds and jumps have a target that exists."""
    events = []
    for seq in range(1, draw(st.integers(0, 40)) + 1):
        kind = draw(st.sampled_from(KINDS))
        data = None
        if kind in ("rewind", "jump"):
            marks = [event.seq for event in events if event.kind == "mark"] or [1]
            any_target = st.sampled_from(marks) | st.integers(-1, seq + 1)
            data = {"target_message_id": draw(any_target | st.sampled_from([None, True]))}
        events.append(Event.of(seq, kind, "x", data))
    return events


def feed_all(fold, events):
    for event in events:
        fold.feed(event)
    return fold


@given(logs())
def test_fold_has_the_naive_context_at_every_position(events):
    fold = feed_all(Fold(), events)
    for position, context in plain.contexts(events).items():
        assert fold.find_context(position).list_events() == context


@given(logs())
def test_replay_returns_the_naive_context_at_the_head(events):
    context = replay(events)
    assert context.messages == plain.contexts(events)[len(events)]
    assert context.marks == [event for event in context.messages if event.kind == "mark"]
    assert context.at == len(events)


@given(logs(), st.data())
def test_fold_can_continue_another_fold_at_any_position(events, data):
    cut = data.draw(st.integers(0, len(events)))
    parent = feed_all(Fold(), events[:cut])
    child = feed_all(Fold(after=cut, inherits=parent), events[cut:])
    for position, context in plain.contexts(events).items():
        assert child.find_context(position).list_events() == context


@given(logs(), st.data())
def test_fold_without_earlier_events_decides_the_same_bases(events, data):
    cut = data.draw(st.integers(0, len(events)))
    contexts = plain.contexts(events)
    stacks = {}
    for position in range(cut + 1):
        stacks[position] = {event.seq for event in contexts[position] if event.kind == "mark"}
    complete = feed_all(Fold(), events[:cut])
    later = Fold(after=cut, stacks=stacks)
    for event in events[cut:]:
        assert later.feed(event) == complete.feed(event)


def find_paths(events):
    """Return the positions that led to context(n), for every position n: naively."""
    contexts = plain.contexts(events)
    paths = {0: []}
    for event in events:
        if event.kind == "clear":
            base = 0
        elif event.kind in ("rewind", "jump") and event in contexts[event.seq]:
            base = event.data["target_message_id"]
        else:
            base = event.seq - 1
        paths[event.seq] = [*paths[base], event.seq]
    return paths


@given(logs())
def test_explain_agrees_with_the_naive_replay_about_every_event(events):
    head = len(events)
    contexts, path = plain.contexts(events), find_paths(events)[head]
    for event in events:
        gap = None if event.seq in path else min(p for p in path if p > event.seq)
        was_shown = event in contexts[event.seq]
        left_by = None if gap is None else events[gap - 1]
        explanation = explain(event, was_shown, left_by)
        assert explanation.seq == event.seq
        assert explanation.live == (event in contexts[head])
        assert (explanation.status == "inert") == (not was_shown and event.kind != "clear")
        assert (explanation.status == "clear") == (event.kind == "clear" and gap is None)
        if explanation.status != "inert":
            assert explanation.by == gap
        if left_by is not None:
            assert left_by in plain.moves(events)[head]


def test_contexts_are_equal_by_value():
    context = replay([Event.of(1, "user", "a")])
    assert context == replay([Event.of(1, "user", "a")])
    assert repr(context) == "<Context of 1 events at 1>"


def test_missing_positions_of_a_slice_cannot_be_targets():
    events = [
        Event.of(41, "user", "a"),
        Event.of(42, "mark"),
        Event.of(43, "jump", None, {"target_message_id": 7}),
        Event.of(44, "user", "b"),
        Event.of(45, "rewind", None, {"target_message_id": 42}),
    ]
    assert plain.positions(replay(events).messages) == [41, 42, 45]


def test_positions_must_increase():
    with pytest.raises(InvalidEvent, match="position 1 follows position 1: sort the events"):
        replay([Event.of(1, "user", "a"), Event.of(1, "user", "b")])


def count_calls(work):
    """Return how many Python function calls some work takes: a cost without a clock."""
    calls = 0

    def profile(frame, what, arg):
        nonlocal calls
        calls += what == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def long_log(messages, marks):
    step = messages // marks
    seq = 0
    for mark in range(1, marks + 1):
        for _ in range(step):
            yield Event.of(seq := seq + 1, "user", "x")
        yield Event.of(seq := seq + 1, "mark", None, {"label": str(mark)})


def test_cost_of_a_replay_grows_with_the_length_of_the_log():
    small, large = list(long_log(2_000, 200)), list(long_log(200_000, 20_000))
    assert count_calls(lambda: replay(large)) <= 101 * count_calls(lambda: replay(small))


def test_cost_of_repeated_rewinds_grows_with_their_number():
    def log(rounds):
        yield Event.of(1, "mark")
        for n in range(rounds):
            yield Event.of(2 + 3 * n, "user", "x")
            yield Event.of(3 + 3 * n, "mark")
            yield Event.of(4 + 3 * n, "rewind", None, {"target_message_id": 1})

    small, large = list(log(300)), list(log(3_000))
    assert count_calls(lambda: replay(large)) <= 10.1 * count_calls(lambda: replay(small))


def test_long_linked_list_is_freed_without_recursion():
    fold = feed_all(Fold(), long_log(300_000, 3))
    del fold


def test_select_shown_leaves_out_clears_inert_events_and_unknown_kinds():
    live = [
        Event.of(1, "clear"),
        Event.of(2, "user", "x"),
        Event.of(3, "rewind"),
        Event.of(4, "telepathy"),
        Event.of(5, "jump"),
    ]
    assert select_shown(live, {1, 5}) == [live[1], live[4]]
    assert select_shown(live[1:2], set()) == live[1:2]


@pytest.mark.parametrize(
    ("kind", "left_by", "status", "words"),
    [
        ("user", None, "live", "event 2 (user) is in the context"),
        ("user", ("clear", None), "cleared", "left behind by the clear at 5"),
        ("user", ("clear", {"summary": 7}), "compacted", "by 5; the summary is at 7"),
        ("user", ("clear", {"summary": "7"}), "cleared", "clear at 5"),
        ("user", ("rewind", {"summary": 7}), "rewound", "left behind by the rewind at 5"),
        ("mark", ("jump", None), "jumped", "left behind by the jump at 5"),
        ("rewind", None, "live", "is in the context"),
        ("telepathy", ("clear", None), "inert", "it has no effect"),
        ("clear", None, "clear", "empties the context"),
        ("clear", ("jump", None), "jumped", "left behind by the jump at 5"),
    ],
)
def test_explanation_names_the_event_that_took_another_one_out(kind, left_by, status, words):
    mover = None if left_by is None else Event.of(5, left_by[0], None, left_by[1])
    explanation = explain(Event.of(2, kind, "x"), True, mover)
    assert explanation.status == status
    assert words in explanation.reason


def test_an_invalid_rewind_is_explained_as_inert():
    explanation = explain(Event.of(2, "rewind"), False, None)
    assert (explanation.status, explanation.by, explanation.live) == ("inert", None, False)
