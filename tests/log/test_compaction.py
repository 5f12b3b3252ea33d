"""Compaction: what is kept, what is said again, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event
from backstory.errors import Invalid, NotFound
from backstory.log.compaction import compaction, first_kept


def log(text):
    """Events from letters: s u a for messages, t1 and r1 for a call and its result, n for a settings note."""
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


def written(text, keep):
    """The kinds that a compaction writes, a copy with the position it was made from."""
    events = log(text)
    found = compaction(events, "In short.", keep=keep, head=len(events), tokens=7)
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
def test_what_is_written(text, keep, wanted):
    assert written(text, keep) == wanted


def test_the_summary_says_what_it_stands_for():
    events = log("s u1 a1 u2 a2")
    [summary] = [
        e for e in compaction(events, "In short.", keep=1, head=5, tokens=7) if e[0] == "user"
    ]
    assert summary == (
        "user",
        "In short.",
        {"compacted": {"from": 2, "to": 5, "events": 3, "tokens": 7}},
    )


def test_a_copy_of_a_copy_names_the_original_and_keeps_its_data():
    [event] = [Event.of(9, "assistant", "yes", {"copy_of": 4, "native": {"format": "openai"}})]
    before = Event.of(8, "user", "sure?")
    *_, copy = compaction(
        [Event.of(7, "user", "hm"), before, event], "In short.", keep=1, head=9, tokens=0
    )
    assert copy == ("assistant", "yes", {"copy_of": 4, "native": {"format": "openai"}})


def test_the_settings_in_force_are_copied_and_those_they_replaced_are_not():
    found = compaction(log("nm-1 u1 nm-2 a1"), "In short.", keep=0, head=4, tokens=0)
    assert [data for kind, _, data in found if kind == "note"] == [{"model": "m-2", "copy_of": 3}]


def test_a_setting_that_cannot_be_used_replaces_none():
    broken = Event.of(3, "note", "backstory.settings", {"model": 7, "params": {"top_p": 0.5}})
    found = compaction([*log("nm-1 u1"), broken], "In short.", keep=0, head=3, tokens=0)
    assert [data["copy_of"] for kind, _, data in found if kind == "note"] == [1, 3]


@pytest.mark.parametrize("text", ["u1 a1", "s nm-1 u1 a1"])
def test_the_clear_says_where_the_summary_is(text):
    head = len(log(text))
    found = compaction(log(text), "In short.", keep=1, head=head, tokens=0)
    [place] = [at for at, (_, content, _) in enumerate(found, head + 1) if content == "In short."]
    assert found[0] == ("clear", None, {"summary": place})


@pytest.mark.parametrize("text", ["", "s", "nm-1 s"])
def test_an_empty_context_cannot_be_compacted(text):
    with pytest.raises(NotFound, match="nothing to compact"):
        written(text, 0)


def test_where_all_messages_are_kept_the_summary_stands_before_them():
    found = compaction(log("s u1 a1"), "In short.", keep=5, head=3, tokens=0)
    assert [kind for kind, _, _ in found] == ["clear", "system", "user", "user", "assistant"]
    assert found[2][2] == {"compacted": {"from": 2, "to": 3, "events": 0, "tokens": 0}}


@pytest.mark.parametrize("bad", [-1, True, "3", None])
def test_keep_is_a_number(bad):
    with pytest.raises(Invalid, match="is not a number of messages"):
        compaction(log("u1 a1"), "In short.", keep=bad, head=2, tokens=0)


@pytest.mark.parametrize("bad", ["", "  \n", None])
def test_a_summary_says_something(bad):
    with pytest.raises(Invalid, match="the summary is empty"):
        compaction(log("u1 a1"), bad, keep=0, head=2, tokens=0)


@given(
    st.lists(st.sampled_from(["u", "a", "t1", "t2", "r1", "r2"]), max_size=12), st.integers(0, 14)
)
def test_no_result_is_kept_without_a_call_that_was_there(words, keep):
    spoken = log(" ".join(words))
    place = first_kept(spoken, keep)
    kept = spoken[place:]
    assert len(kept) >= min(keep, len(spoken))
    for index, event in enumerate(spoken):
        if event.kind == "tool_result" and event in kept:
            called = [
                i
                for i, e in enumerate(spoken[:index])
                if e.kind == "tool_call" and e.data["id"] == event.data["id"]
            ]
            assert not called or called[-1] >= place
