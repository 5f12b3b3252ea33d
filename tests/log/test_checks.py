"""Checks of new events, keys, names and descriptions."""

import enum
import json
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import backstory
from backstory import Event, Invalid, InvalidEvent
from backstory.log.arguments import (
    LARGEST_ABOUT,
    change_about,
    check_key,
    check_keys,
    check_limit,
    check_moment,
    check_name,
    check_note_name,
    check_note_names,
    check_own_note_name,
    check_prefix,
    check_reason,
    read_title_and_tags,
)
from backstory.log.checks import DEEPEST, check_draft, check_drafts, check_not_blank
from backstory.log.events import LAST_POSITION, Draft
from backstory.log.kinds import KINDS
from backstory.log.problems import find_event_problems


class Word(enum.StrEnum):
    USER = "user"


class Number(enum.IntEnum):
    ONE = 1


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"x": value}
    return value


# New events


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_accepted(kind):
    assert check_draft(kind, "text", {"id": "c", "name": "n"}).kind == kind


@pytest.mark.parametrize("kind", ["", "User", "telepathy", None, 3, b"user", ["user"]])
def test_unknown_kind_is_refused_and_the_known_ones_are_named(kind):
    with pytest.raises(InvalidEvent, match=r"unknown kind .*: use one of system, user"):
        check_draft(kind, "text")


@pytest.mark.parametrize("content", [1, b"bytes", ["x"], {"text": "x"}, True])
def test_content_that_is_not_a_string_is_refused(content):
    with pytest.raises(InvalidEvent, match="must be a string, not"):
        check_draft("user", content)


@pytest.mark.parametrize("kind", ["system", "user", "assistant", "tool_result", "note"])
def test_message_without_content_is_refused(kind):
    with pytest.raises(InvalidEvent, match="has no content"):
        check_draft(kind, None)


@pytest.mark.parametrize("kind", ["mark", "clear", "rewind", "jump", "tool_call"])
def test_other_kinds_need_no_content(kind):
    assert check_draft(kind, None, {"id": "c", "name": "n"}).content is None


@pytest.mark.parametrize("text", ["a\ud800", "\udfff", "ab\0c"])
def test_text_that_a_database_cannot_store_is_refused(text):
    with pytest.raises(InvalidEvent, match=r"lone surrogate at character \d|NUL"):
        check_draft("user", text)


@pytest.mark.parametrize("text", ["", " ", "äöü 漢字 🙂 \x01\x1f\r\n", "\ufeff", "\\u0000"])
def test_all_other_text_is_stored_unchanged(text):
    assert check_draft("user", text).content == text


def test_members_of_a_string_enum_become_plain_strings():
    draft = check_draft(Word.USER, Word.USER, None, Word.USER)
    assert draft == Draft("user", "user", None, "user")
    assert {type(draft.kind), type(draft.content), type(draft.key)} == {str}


@pytest.mark.parametrize("data", ["{}", [], 1, True, (1,), {1, 2}])
def test_data_that_is_not_an_object_is_refused(data):
    with pytest.raises(InvalidEvent, match=r"must be a dict or None"):
        check_draft("user", "x", data)


@pytest.mark.parametrize(
    "data",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": object()},
        {"x": b""},
        {"x": {1}},
        {b"x": 1},
        nested(100_000),
    ],
    ids=["nan", "inf", "object", "bytes", "set", "bytes key", "too deep"],
)
def test_data_that_is_not_json_is_refused(data):
    with pytest.raises(InvalidEvent, match="is not JSON"):
        check_draft("user", "x", data)


@pytest.mark.parametrize("data", [{1: "x"}, {"x": (1, 2)}, {None: 1}, {"x": [{True: 1}]}])
def test_data_that_would_be_read_back_changed_is_refused(data):
    with pytest.raises(InvalidEvent, match="would not be read back unchanged"):
        check_draft("user", "x", data)


def test_data_may_be_nested_100_levels_deep():
    assert check_draft("user", "x", nested(DEEPEST)).to_event(1).data == nested(DEEPEST)
    assert check_draft("user", "x", {"rows": [[1, {"b": 2}]] * 200}).data_json
    for data in (nested(DEEPEST + 1), {"x": [nested(DEEPEST)]}):
        with pytest.raises(InvalidEvent, match="nested more than 100 levels deep: flatten it"):
            check_draft("user", "x", data)


def test_lone_surrogate_in_data_is_refused():
    with pytest.raises(InvalidEvent, match="lone surrogate"):
        check_draft("user", "x", {"deep": ["\ud800"]})


def test_nul_in_data_is_stored_because_json_escapes_it():
    assert check_draft("user", "x", {"raw": "a\0b"}).to_event(1).data == {"raw": "a\0b"}


def test_the_key_erased_is_reserved():
    with pytest.raises(InvalidEvent, match="reserved for events that were erased"):
        check_draft("user", "x", {"erased": {}})


def test_integers_of_any_size_are_stored():
    draft = check_draft("note", "n", {"large": 2**70, "small": Number.ONE})
    assert json.loads(draft.data_json) == {"large": 2**70, "small": 1}


TEXTS = st.text(max_size=20) | st.sampled_from(["\ud800", "\0", "\r\n", "“é”", Word.USER])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)
DATA = st.dictionaries(st.sampled_from(["id", "name", "arguments", "erased", "meta"]), VALUES)


@given(
    st.sampled_from([*KINDS, Word.USER, "unknown", None]),
    st.none() | TEXTS | st.integers() | st.binary(max_size=3),
    st.none() | VALUES | DATA,
    st.none() | TEXTS | st.just("k" * 1_001) | st.integers(),
)
@example("user", "text", {"a": 2**70}, None)
@example("user", "text", {1: 2}, None)
def test_event_is_refused_or_read_back_unchanged(kind, content, data, key):
    try:
        event = check_draft(kind, content, data, key).to_event(1)
    except Invalid:
        return
    assert (event.kind, event.content, event.data, event.key) == (kind, content, data, key)
    assert list(find_event_problems(*event[1:])) == []


@pytest.mark.parametrize("arguments", ["{broken", "", None, [1], 3, {"a": {"b": [1.5, None, "ü"]}}])
def test_arguments_of_a_tool_call_may_be_any_json(arguments):
    draft = check_draft("tool_call", None, {"id": "c", "name": "n", "arguments": arguments})
    assert draft.to_event(1).data["arguments"] == arguments


@pytest.mark.parametrize(
    ("kind", "content", "data", "is_refused"),
    [
        ("user", " ", None, True),
        ("system", "", None, True),
        ("user", " ", {"x": 1}, False),
        ("user", "hi", None, False),
        ("user", None, None, False),  # check_draft refuses it with a better message
        ("assistant", " ", None, False),
    ],
)
def test_text_that_people_type_must_not_be_blank(kind, content, data, is_refused):
    if not is_refused:
        check_not_blank(kind, content, data)
        return
    with pytest.raises(InvalidEvent, match="is empty: nothing was written"):
        check_not_blank(kind, content, data)


# Batches


def test_batch_of_tuples_and_events_becomes_drafts():
    batch = [
        ("user", "a"),
        ["user", "b", {"n": 1}, "k"],
        Event(7, "assistant", "c", None, 5, "other"),
    ]
    assert check_drafts(batch) == [
        Draft("user", "a"),
        Draft("user", "b", '{"n":1}', "k"),
        Draft("assistant", "c", None, "other"),
    ]


@pytest.mark.parametrize("odd", [(), ("user", "a", None, None, "surplus"), "user", None])
def test_error_in_a_batch_names_the_index(odd):
    with pytest.raises(InvalidEvent, match="nothing was written: event 1 of the batch"):
        check_drafts([("user", "a"), odd])


def test_batch_must_be_iterable():
    with pytest.raises(Invalid, match="5 is not a batch"):
        check_drafts(5)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ('{"b":1,"a":[1.0,"\\u0000ü"]}', None),
        ('{"b": 1, "a": 2}', '{"b":1,"a":2}'),
        ('{"a":1e2}', '{"a":100.0}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        (f'{{"a":{2**70}}}', None),
    ],
)
def test_data_of_an_event_of_another_log_is_stored_as_compact_json(text, stored):
    [draft] = check_drafts([Event.of(3, "user", "words", text)])
    assert draft.data_json == (stored or text)


@pytest.mark.parametrize(
    "text",
    ['{"erased":{"content":"","data":""}}', '{"a":' + "[" * 101 + "]" * 101 + "}", '{"native":1}'],
)
def test_event_of_another_log_is_checked_like_any_other(text):
    with pytest.raises(InvalidEvent, match="event 0 of the batch"):
        check_drafts([Event.of(1, "user", "words", text)])


FORGED = [
    Draft("bogus", "a"),
    Draft("user", "a", '{"a":'),
    Draft("user", "a", '{"erased":{"at":1}}'),
    Draft("user", "a\0b"),
    Draft("user", "a", None, "k" * 5_000),
    Draft("tool_call"),
]


@pytest.mark.parametrize("forged", FORGED)
def test_draft_that_a_caller_made_is_refused(forged):
    with backstory.open(":memory:") as store:
        agent = store.ensure("k")
        with pytest.raises(Invalid):
            agent.extend([("user", "before"), forged])
        with store.intake() as intake, pytest.raises(Invalid):
            intake.extend(intake.agent("k"), [("user", "before"), forged])
        assert agent.events() == []


# Keys, names, times and limits


@pytest.mark.parametrize("key", ["", "x" * 1_001, 3, None, "a\0b"])
def test_key_must_be_a_text_of_1_to_1000_characters(key):
    with pytest.raises(Invalid):
        check_key(key)
    assert check_key("k" * 1_000) == "k" * 1_000


def test_keys_and_note_names_must_be_lists():
    assert check_keys(["a", "b"]) == check_note_names(["a", "b"]) == ["a", "b"]
    for odd in ("ab", 3, None):
        with pytest.raises(Invalid, match="is not a list of keys"):
            check_keys(odd)
        with pytest.raises(Invalid, match="is not a list of names"):
            check_note_names(odd)


def test_prefix_of_keys_may_be_empty():
    assert check_prefix("") == ""
    assert check_prefix("a:") == "a:"
    with pytest.raises(Invalid):
        check_prefix(None)


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a@b", "a\nb", "x" * 201, 3, None])
def test_agent_name_must_fit_into_a_reference(name):
    with pytest.raises(Invalid, match=r"cannot be a name|must be a string"):
        check_name(name)


def test_agent_name_is_returned_as_a_plain_string():
    assert type(check_name(Word.USER)) is str
    assert check_name("x" * 200) == "x" * 200


def test_note_names_of_the_library_are_reserved():
    assert check_note_name("backstory.label") == "backstory.label"
    assert check_own_note_name("todo") == "todo"
    with pytest.raises(Invalid, match="are the library's own"):
        check_own_note_name("backstory.label")
    for odd in ("", " ", 3, None, "a\0"):
        with pytest.raises(Invalid):
            check_own_note_name(odd)


def test_time_must_be_an_aware_datetime():
    assert check_moment(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000_000
    with pytest.raises(Invalid, match="has no time zone"):
        check_moment(datetime(2026, 1, 1))
    with pytest.raises(Invalid, match="is not a time"):
        check_moment("2026-01-01")


def test_limit_is_a_positive_integer_or_none():
    assert check_limit(None, "events") is None
    assert check_limit(3, "events") == 3
    assert check_limit(10**30, "events") == LAST_POSITION == 2**31 - 1  # a PostgreSQL integer
    for odd in (0, -1, True, 1.0, "3"):
        with pytest.raises(Invalid, match="is not a number of events"):
            check_limit(odd, "events")


@pytest.mark.parametrize("why", ["", "  ", None, "x" * 1_001, "a\0b"])
def test_erasure_needs_a_reason(why):
    with pytest.raises(Invalid, match="reason"):
        check_reason(why)
    assert check_reason("a name") == "a name"


# The details of an agent


def test_details_are_changed_key_by_key():
    text = change_about(None, {"title": "Plan", "tags": ["a"], "folder": "/src"})
    assert json.loads(text) == {"title": "Plan", "tags": ["a"], "folder": "/src"}
    text = change_about(text, {"title": "Other", "tags": None})
    assert json.loads(text) == {"title": "Other", "folder": "/src"}
    assert change_about(text, {"title": None, "folder": None}) is None


@pytest.mark.parametrize(
    ("about", "title", "tags"),
    [
        (None, None, ()),
        ('{"title":"Plan","tags":["a",7,"b"],"folder":"/src"}', "Plan", ("a", "b")),
        ('{"title":7,"tags":"ab"}', None, ()),  # as only another program would write it
    ],
)
def test_title_and_tags_are_read_as_far_as_they_are_usable(about, title, tags):
    assert read_title_and_tags(about) == (title, tags)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"title": " "}, "a title must be a non-empty string"),
        ({"title": 3}, "a title must be"),
        ({"tags": "a"}, "tags must be a list"),
        ({"tags": ["a", ""]}, "tags must be a list"),
        ({"x": object()}, "must be JSON"),
        ({"x": float("nan")}, "must be JSON"),
        ({"x": "\ud800"}, "must be JSON"),
        ({"x": "a\0b"}, "has a NUL character"),
        ({"x": "y" * LARGEST_ABOUT}, "may take 65,536 bytes"),
    ],
)
def test_details_that_a_store_cannot_contain_are_refused(change, words):
    with pytest.raises(Invalid, match=words):
        change_about(None, change)


def test_a_backslash_before_u0000_is_not_a_nul():
    assert json.loads(change_about(None, {"x": "\\u0000"})) == {"x": "\\u0000"}
