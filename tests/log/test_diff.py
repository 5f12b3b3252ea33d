"""The comparison of two contexts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event
from backstory.errors import Invalid
from backstory.log.diff import MOST_MESSAGES, MOST_WORDS, Change, compare


def events(*texts):
    return [Event.of(seq, "user", text) for seq, text in enumerate(texts, 1)]


def ops(left, right):
    found = compare(events(*left), events(*right))
    return found.common, [change.op for change in found.changes]


def test_equal_messages_are_counted():
    assert ops("abc", "abc") == (3, [])
    assert ops("", "") == (0, [])


def test_messages_of_one_side_are_added_or_removed():
    assert ops("ab", "abc") == (2, ["added"])
    assert ops("abc", "ab") == (2, ["removed"])
    assert ops("axb", "ayb") == (2, ["removed", "added"])
    assert ops("xab", "ab") == (2, ["removed"])
    assert ops(["a", "x", "b", "c"], ["a", "b", "y", "c"]) == (3, ["removed", "added"])


def test_similar_message_is_changed_word_by_word():
    found = compare(events("rename a.py to app.py now"), events("rename a.py to main.py now"))
    [change] = found.changes
    assert change.op == "changed"
    assert change.words == (
        ("=", "rename a.py to "),
        ("-", "app"),
        ("+", "main"),
        ("=", ".py now"),
    )


def test_words_may_only_be_added_or_removed():
    [change] = compare(events("one two"), events("one two three")).changes
    assert change.words == (("=", "one two"), ("+", " three"))
    [change] = compare(events("one two three"), events("one two")).changes
    assert change.words == (("=", "one two"), ("-", " three"))


def test_messages_of_different_kinds_are_different():
    left, right = [Event.of(1, "user", "same text")], [Event.of(1, "assistant", "same text")]
    assert [change.op for change in compare(left, right).changes] == ["removed", "added"]


def test_positions_do_not_matter():
    assert compare([Event.of(1, "user", "x")], [Event.of(9, "user", "x")]) == (1, [], 0, 0, False)


def test_data_matters():
    left, right = ([Event.of(1, "tool_call", None, {"id": id, "name": "f"})] for id in ("a", "b"))
    assert [change.op for change in compare(left, right).changes] == ["changed"]


def test_very_long_contexts_and_texts_are_compared():
    many = [f"message {n}" for n in range(MOST_MESSAGES + 10)]
    common, changes = ops(["first", *many, "last"], ["first", *many[:-1], "other", "last"])
    assert common == MOST_MESSAGES + 11
    assert len(changes) == 2
    assert ops(many, [f"other {n}" for n in range(MOST_MESSAGES + 10)])[0] == 0
    long = "line of words\n" * MOST_WORDS
    [change] = compare(events(long + "a"), events(long + "b")).changes
    assert change.words[-2:] == (("-", "a"), ("+", "b"))


@given(
    st.lists(st.sampled_from(["a b c", "a b d", "x", "y"])),
    st.lists(st.sampled_from(["a b c", "x", "z"])),
)
def test_words_of_a_change_contain_both_texts(left, right):
    found = compare(events(*left), events(*right))
    mine = sum(1 for change in found.changes if change.left)
    theirs = sum(1 for change in found.changes if change.right)
    assert (found.common + mine, found.common + theirs) == (len(left), len(right))
    for change in found.changes:
        if change.op == "changed":
            assert "".join(text for op, text in change.words if op != "+") == change.left.content
            assert "".join(text for op, text in change.words if op != "-") == change.right.content


def test_copy_is_equal_to_its_original():
    copy = Event.of(9, "user", "x", {"copy_of": 1})
    assert compare([Event.of(1, "user", "x")], [copy]).changes == []
    named = Event.of(9, "user", "x", {"copy_of": 1, "name": "Ann"})
    assert [change.op for change in compare([Event.of(1, "user", "x")], [named]).changes] == [
        "changed"
    ]


@given(
    st.lists(st.sampled_from(["a", "b", "one two three", "one two four"]), max_size=8),
    st.lists(st.sampled_from(["a", "b", "one two three", "one two four"]), max_size=8),
    st.integers(1, 3),
)
def test_pages_of_a_comparison_contain_all_changes(left, right, limit):
    complete = compare(events(*left), events(*right))
    changes, more = [], True
    while more:
        after = changes[-1] if changes else None
        page = compare(events(*left), events(*right), after=after, limit=limit)
        assert page._replace(changes=[], more=False) == complete._replace(changes=[])
        changes, more = changes + page.changes, page.more
        assert len(changes) <= len(complete.changes)
    assert changes == complete.changes
    assert complete.common + complete.only_left == len(left)
    assert complete.common + complete.only_right == len(right)


def test_page_after_an_unknown_change_is_refused():
    with pytest.raises(Invalid, match="no such difference"):
        compare(events("a"), events("b"), after=Change(Event.of(7, "user", "a"), None))


def test_usage_and_native_form_do_not_matter():
    one = Event.of(
        1, "assistant", "Yes.", {"model": "a", "request": {"ms": 1}, "usage": {"input": 1}}
    )
    other = Event.of(
        1, "assistant", "Yes.", {"model": "b", "request": {"ms": 2}, "native": {"wire": []}}
    )
    assert compare([one], [other]).changes == []
    call = {"id": "c", "name": "f", "arguments": {"x": 1}}
    with_usage = Event.of(2, "tool_call", None, {**call, "usage": {"input": 1}})
    same = Event.of(2, "tool_call", None, call)
    different = Event.of(2, "tool_call", None, {**call, "arguments": {"x": 2}})
    assert compare([with_usage], [same]).changes == []
    assert [change.op for change in compare([with_usage], [different]).changes] == ["changed"]
