"""Compaction: the messages that stay, the events that are repeated, and the refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event
from backstory.errors import Invalid, NotFound
from backstory.log.compaction import (
    build_compaction,
    build_expansion,
    build_provider_compaction,
    find_start,
)
from backstory.log.events import to_json


def log(text):
    """Return events from letters: s u a for messages, t1 and r1 for a call and its result, n for a
    settings note."""
    events = []
    for seq, word in enumerate(text.split(), 1):
        match word[0]:
            case "t":
                events.append(
                    Event.of(seq, "tool_call", None, {"id": word[1:], "name": "x", "arguments": {}})
                )
            case "r":
                events.append(Event.of(seq, "tool_result", "out", {"id": word[1:]}))
            case "n":
                events.append(Event.of(seq, "note", "backstory.settings", {"model": word[1:]}))
            case letter:
                kind = {"s": "system", "u": "user", "a": "assistant"}[letter]
                events.append(Event.of(seq, kind, word))
    return events


def build_events(*args, **kwargs):
    return build_compaction(*args, **kwargs).events


def compact(text, keep):
    """Return the kinds that a compaction writes, a copy with the position of its original."""
    events = log(text)
    found = build_events(events, "In short.", keep=keep, head=len(events), tokens=7)
    return " ".join(f"{kind}{(data or {}).get('copy_of', '')}" for kind, _, data in found)


@pytest.mark.parametrize(
    ("text", "keep", "wanted"),
    [
        ("s u1 a1 u2 a2", 0, "clear system1 user"),
        ("s u1 a1 u2 a2", 1, "clear system1 user assistant5"),
        ("s u1 a1 u2 a2", 2, "clear system1 user user4 assistant5"),
        ("u1 a1 u2 t1 r1 a2", 1, "clear user assistant6"),
        ("u1 a1 u2 t1 r1 a2", 2, "clear user tool_call4 tool_result5 assistant6"),
        (
            "u1 a1 t1 t2 r1 r2 a2",
            2,
            "clear user assistant2 tool_call3 tool_call4 tool_result5 tool_result6 assistant7",
        ),
        ("u1 t1 u2 r1 a2", 2, "clear user tool_call2 user3 tool_result4 assistant5"),
        ("nm-1 u1 a1 nm-2 u2", 1, "clear note4 user user5"),
    ],
)
def test_compaction_keeps_complete_answers_and_pairs_of_calls_and_results(text, keep, wanted):
    assert compact(text, keep) == wanted


def test_summary_describes_what_it_replaces():
    events = log("s u1 a1 u2 a2")
    [summary] = [
        e for e in build_events(events, "In short.", keep=1, head=5, tokens=7) if e[0] == "user"
    ]
    assert summary == (
        "user",
        "In short.",
        {"compacted": {"from": 2, "to": 5, "events": 3, "tokens": 7}},
    )


def test_copy_of_a_copy_names_the_original_and_keeps_its_data():
    [event] = [Event.of(9, "assistant", "yes", {"copy_of": 4, "native": {"format": "openai"}})]
    before = Event.of(8, "user", "sure?")
    *_, copy = build_events(
        [Event.of(7, "user", "hm"), before, event], "In short.", keep=1, head=9, tokens=0
    )
    assert copy == ("assistant", "yes", {"copy_of": 4, "native": {"format": "openai"}})


def test_copied_positions_are_those_in_the_context():
    events = [
        *log("s u1 nm-1"),
        Event.of(4, "user", "hm", {"copy_of": 2}),
        Event.of(5, "user", "x"),
    ]
    compaction = build_compaction(events, "In short.", keep=2, head=5, tokens=0)
    assert compaction.copied == [1, 3, 4, 5]


def test_only_settings_in_force_are_copied():
    found = build_events(log("nm-1 u1 nm-2 a1"), "In short.", keep=0, head=4, tokens=0)
    assert [data for kind, _, data in found if kind == "note"] == [{"model": "m-2", "copy_of": 3}]


def test_invalid_setting_replaces_no_other():
    broken = Event.of(3, "note", "backstory.settings", {"model": 7, "params": {"top_p": 0.5}})
    found = build_events([*log("nm-1 u1"), broken], "In short.", keep=0, head=3, tokens=0)
    assert [data["copy_of"] for kind, _, data in found if kind == "note"] == [1, 3]


@pytest.mark.parametrize("text", ["u1 a1", "s nm-1 u1 a1"])
def test_clear_names_the_position_of_the_summary(text):
    head = len(log(text))
    found = build_events(log(text), "In short.", keep=1, head=head, tokens=0)
    [place] = [at for at, (_, content, _) in enumerate(found, head + 1) if content == "In short."]
    assert found[0] == ("clear", None, {"summary": place})


@pytest.mark.parametrize("text", ["", "s", "nm-1 s"])
def test_context_without_messages_cannot_be_compacted(text):
    with pytest.raises(NotFound, match="nothing to compact"):
        compact(text, 0)


def test_summary_comes_first_if_all_messages_stay():
    found = build_events(log("s u1 a1"), "In short.", keep=5, head=3, tokens=0)
    assert [kind for kind, _, _ in found] == ["clear", "system", "user", "user", "assistant"]
    assert found[2][2] == {"compacted": {"from": 2, "to": 3, "events": 0, "tokens": 0}}


@pytest.mark.parametrize("bad", [-1, True, "3", None])
def test_keep_must_be_a_number(bad):
    with pytest.raises(Invalid, match="is not a number of messages"):
        build_events(log("u1 a1"), "In short.", keep=bad, head=2, tokens=0)


@pytest.mark.parametrize("bad", ["", "  \n", None])
def test_summary_must_not_be_blank(bad):
    with pytest.raises(Invalid, match="the summary is empty"):
        build_events(log("u1 a1"), bad, keep=0, head=2, tokens=0)


@given(
    st.lists(st.sampled_from(["u", "a", "t1", "t2", "r1", "r2"]), max_size=12), st.integers(0, 14)
)
def test_result_is_never_separated_from_its_call(words, keep):
    messages = log(" ".join(words))
    start = find_start(messages, keep)
    assert len(messages) - start >= min(keep, len(messages))
    calls = {}
    for index, event in enumerate(messages):
        if event.kind == "tool_call":
            calls[event.data["id"]] = index
        elif event.kind == "tool_result" and index >= start:
            assert calls.get(event.data["id"], start) >= start


def test_erased_call_is_copied_as_its_stand_in_and_an_erased_message_is_left_out():
    erased = {"erased": {"at": "now", "why": "a name", "content": "0" * 64, "data": "0" * 64}}
    events = [
        Event.of(1, "user", "", to_json(erased)),
        Event.of(2, "tool_call", None, to_json(erased | {"id": "c", "name": "f"})),
        Event.of(3, "tool_result", "", to_json(erased | {"id": "c", "copy_of": 1})),
    ]
    *_, call, result = build_events(events, "In short.", keep=2, head=3, tokens=0)
    arguments = {"erased": "(erased)"}
    assert call[2] == {"id": "c", "name": "f", "arguments": arguments, "copy_of": 2}
    assert result == ("tool_result", "(erased)", {"id": "c", "copy_of": 1})
    assert len(build_events(events, "In short.", keep=3, head=3, tokens=0)) == 4


@pytest.mark.parametrize("target", [None, "3", 0, 2, 9])
def test_summary_whose_earlier_head_is_damaged_cannot_be_expanded(target):
    summary = Event.of(2, "user", "In short.", {"compacted": {"to": target}})
    with pytest.raises(NotFound, match="nothing to expand"):
        build_expansion([summary], {})


def test_message_that_a_provider_keeps_is_a_copy_of_the_newest_equal_one():
    context = [Event.of(seq, "user", text) for seq, text in enumerate(("yes", "no", "yes"), 1)]
    kept = [("user", "no", None), ("user", "yes", None)]
    answer = [("assistant", "In short.", None)]
    found = build_provider_compaction(context, answer, kept, head=3, tokens=7)
    copies = [data for kind, _, data in found.events if kind == "user"]
    assert copies == [{"copy_of": 2}, {"copy_of": 3}]
    assert found.events[-1][2]["compacted"]["events"] == 1
