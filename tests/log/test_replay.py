"""The fold: the law on random logs, its cost, and what explain says of single events."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event, InvalidEvent, replay
from backstory.log.replay import Fold, explain, gap_at, shown
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
    """Any sequence of events, most rewinds and jumps aimed at something that exists."""
    events = []
    for seq in range(1, draw(st.integers(0, 40)) + 1):
        kind = draw(st.sampled_from(KINDS))
        data = None
        if kind in ("rewind", "jump"):
            marks = [e.seq for e in events if e.kind == "mark"] or [1]
            target = draw(
                st.sampled_from(marks) | st.integers(-1, seq + 1) | st.just(None) | st.just(True)
            )
            data = {"target_message_id": target}
        events.append(Event.of(seq, kind, "x", data))
    return events


@given(logs())
def test_the_fold_keeps_the_law_at_every_position(events):
    fold = Fold()
    for event in events:
        fold.feed(event)
    for position, context in plain.contexts(events).items():
        assert fold.at(position).events() == context


@given(logs())
def test_replay_is_the_fold_at_the_head_and_its_marks_are_those_that_show(events):
    context = replay(events)
    assert context.messages == plain.contexts(events)[len(events)]
    assert context.marks == [e for e in context.messages if e.kind == "mark"]
    assert context.at == len(events)


@given(logs(), st.data())
def test_a_fold_may_start_from_any_position_of_another(events, data):
    cut = data.draw(st.integers(0, len(events)))
    parent = Fold()
    for event in events[:cut]:
        parent.feed(event)
    child = Fold(after=cut, inherits=parent)
    for event in events[cut:]:
        child.feed(event)
    assert child.at(len(events)).events() == plain.contexts(events)[len(events)]


def test_a_context_is_equal_to_contexts_only_and_says_how_large_it_is():
    context = replay([Event.of(1, "user", "a")])
    assert context == replay([Event.of(1, "user", "a")])
    assert context != (context.messages, context.at)
    assert repr(context) == "<Context of 1 events at 1>"


def test_a_slice_of_a_log_is_a_log_whose_missing_positions_cannot_be_targets():
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
    """How many Python function calls some work takes: a cost without a clock."""
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


def test_200_000_messages_and_20_000_marks_cost_a_hundred_times_what_a_hundredth_costs():
    """Amortised growth: counted in calls, not in seconds."""
    small, large = list(long_log(2_000, 200)), list(long_log(200_000, 20_000))
    assert count_calls(lambda: replay(large)) <= 101 * count_calls(lambda: replay(small))


def test_going_back_again_and_again_costs_the_marks_it_drops_and_no_more():
    def log(rounds):
        yield Event.of(1, "mark")
        for n in range(rounds):
            yield Event.of(2 + 3 * n, "user", "x")
            yield Event.of(3 + 3 * n, "mark")
            yield Event.of(4 + 3 * n, "rewind", None, {"target_message_id": 1})

    small, large = list(log(300)), list(log(3_000))
    assert count_calls(lambda: replay(large)) <= 10.1 * count_calls(lambda: replay(small))


def test_a_long_chain_can_be_thrown_away_again():
    fold = Fold()
    for event in long_log(300_000, 3):
        fold.feed(event)
    del fold


def test_shown_leaves_out_clears_inert_events_and_unknown_kinds():
    live = [
        Event.of(1, "clear"),
        Event.of(2, "user", "x"),
        Event.of(3, "rewind"),
        Event.of(4, "telepathy"),
        Event.of(5, "jump"),
    ]
    assert shown(live, {1, 5}) == [live[1], live[4]]
    assert shown(live[1:2], {}) == live[1:2]


@pytest.mark.parametrize(
    ("event", "valid", "left_by", "status", "words"),
    [
        (Event.of(2, "user", "x"), False, None, "live", "event 2 (user) is in the context"),
        (
            Event.of(2, "user", "x"),
            False,
            Event.of(5, "clear"),
            "cleared",
            "left behind by the clear at 5",
        ),
        (
            Event.of(2, "user", "x"),
            False,
            Event.of(5, "clear", None, {"summary": 7}),
            "compacted",
            "compacted by 5; the summary is at 7",
        ),
        (
            Event.of(2, "user", "x"),
            False,
            Event.of(5, "clear", None, {"summary": "7"}),
            "cleared",
            "clear at 5",
        ),
        (
            Event.of(2, "user", "x"),
            False,
            Event.of(5, "rewind"),
            "rewound",
            "left behind by the rewind at 5",
        ),
        (Event.of(2, "mark"), False, Event.of(5, "jump"), "jumped", "left behind by the jump at 5"),
        (Event.of(2, "rewind"), True, None, "live", "is in the context"),
        (Event.of(2, "rewind"), False, None, "inert", "it has no effect"),
        (Event.of(2, "telepathy"), False, Event.of(5, "clear"), "inert", "it has no effect"),
        (Event.of(2, "clear"), True, None, "clear", "empties the context"),
        (Event.of(2, "clear"), True, Event.of(5, "jump"), "jumped", "left behind by the jump at 5"),
    ],
)
def test_explain_says_why(event, valid, left_by, status, words):
    explanation = explain(event, valid, left_by)
    assert explanation.status == status
    assert explanation.by == (left_by.seq if left_by and status != "inert" else None)
    assert explanation.live is (status == "live")
    assert words in explanation.reason


def test_a_position_between_live_ranges_was_left_by_the_start_of_the_next_one():
    ranges = [(1, 3), (7, 8), (10, 12)]
    assert [gap_at(seq, ranges) for seq in range(1, 13)] == [None] * 3 + [7] * 3 + [None] * 2 + [
        10
    ] + [None] * 3
    with pytest.raises(ValueError, match="above the live ranges"):
        gap_at(13, ranges)
