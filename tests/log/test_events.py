"""The check at the door, and what an event is."""

import copy
import pickle
from datetime import UTC, datetime

import pytest

from backstory import Event, Invalid, InvalidEvent
from backstory.log.drafts import Draft, draft, drafts
from backstory.log.events import checked_key, from_rows
from backstory.log.kinds import KINDS


def test_data_and_time_come_from_the_row():
    at = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
    event = Event.of(7, "mark", None, {"label": "x"}, at)
    assert (event.seq, event.kind, event.content, event.data, event.created_at) == (
        7,
        "mark",
        None,
        {"label": "x"},
        at,
    )
    assert event.label == "x"


def test_changing_the_data_of_an_event_changes_nothing():
    event = Event.of(1, "user", "hi", {"native": {}})
    event.data["native"]["x"] = 1
    assert event.data == {"native": {}}


def test_an_event_survives_copying_and_pickling():
    event = Event.of(1, "user", "hi", {"a": [1]}, datetime(2026, 1, 1, tzinfo=UTC))
    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.deepcopy(event) == event
    assert type(copy.copy(event)) is Event


def test_an_event_shows_what_it_is():
    assert "kind='user', content='hi', data=None" in repr(Event.of(1, "user", "hi"))


@pytest.mark.parametrize(
    "data", [None, {}, {"label": 3}, {"label": None}, "{broken", '["label"]', "[" * 100_000]
)
def test_a_mark_without_a_usable_label_is_a_mark_without_a_label(data):
    assert Event.of(1, "mark", None, data).label is None


def test_only_marks_have_labels():
    assert Event.of(1, "user", "hi", {"label": "x"}).label is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_passes_the_door(kind):
    assert draft(kind, "text", {"id": "c", "name": "n"}).kind == kind


@pytest.mark.parametrize("kind", ["", "User", "telepathy", None, 3, b"user", ["user"]])
def test_an_unknown_kind_is_refused_and_the_known_ones_are_named(kind):
    with pytest.raises(InvalidEvent, match=r"unknown kind .*: use one of system, user"):
        draft(kind, "text")


@pytest.mark.parametrize("content", [1, b"bytes", ["x"], {"text": "x"}, True])
def test_content_that_is_no_string_is_refused(content):
    with pytest.raises(InvalidEvent, match="must be a string, not"):
        draft("user", content)


@pytest.mark.parametrize("kind", ["system", "user", "assistant", "tool_result"])
def test_a_message_without_content_is_refused(kind):
    with pytest.raises(InvalidEvent, match="has no content"):
        draft(kind, None)


@pytest.mark.parametrize("kind", ["mark", "clear", "rewind", "jump", "tool_call"])
def test_what_says_nothing_needs_no_content(kind):
    assert draft(kind, None, {"id": "c", "name": "n"}).content is None


@pytest.mark.parametrize("text", ["a\ud800", "\udfff", "ab\0c"])
def test_text_that_a_database_cannot_hold_is_refused(text):
    with pytest.raises(InvalidEvent, match=r"lone surrogate at character \d|NUL"):
        draft("user", text)


@pytest.mark.parametrize("text", ["", " ", "äöü 漢字 🙂 \x01\x1f\r\n", "\ufeff", "\\u0000"])
def test_all_other_text_passes_as_it_is(text):
    assert draft("user", text).content == text


@pytest.mark.parametrize("data", ["{}", [], 1, True, (1,), {1, 2}])
def test_data_that_is_no_object_is_refused(data):
    with pytest.raises(InvalidEvent, match=r"must be a dict or None"):
        draft("user", "x", data)


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"x": value}
    return value


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
def test_data_that_json_cannot_say_is_refused(data):
    with pytest.raises(InvalidEvent, match="is not JSON"):
        draft("user", "x", data)


@pytest.mark.parametrize("data", [{1: "x"}, {"x": (1, 2)}, {None: 1}, {"x": [{True: 1}]}])
def test_data_that_would_come_back_changed_is_refused(data):
    with pytest.raises(InvalidEvent, match="would not be read back unchanged"):
        draft("user", "x", data)


def test_data_nested_deeper_than_a_reader_may_follow_is_refused():
    assert draft("user", "x", nested(100)).at(1).data == nested(100)
    for data in (nested(101), {"x": [nested(100)]}):
        with pytest.raises(InvalidEvent, match="nested more than 100 levels deep: flatten it"):
            draft("user", "x", data)


def test_a_lone_surrogate_in_data_is_refused():
    with pytest.raises(InvalidEvent, match="lone surrogate"):
        draft("user", "x", {"deep": ["\ud800"]})


def test_nul_in_data_is_kept_because_json_escapes_it():
    written = draft("user", "x", {"raw": "a\0b"})
    assert written.at(1).data == {"raw": "a\0b"}


@pytest.mark.parametrize("arguments", ["{broken", "", None, [1], 3, {"a": {"b": [1.5, None, "ü"]}}])
def test_the_arguments_of_a_tool_call_are_kept_as_they_came(arguments):
    written = draft("tool_call", None, {"id": "c", "name": "n", "arguments": arguments})
    assert written.at(1).data["arguments"] == arguments


def test_an_event_is_no_tuple_to_anyone_who_compares_it():
    event = Event.of(1, "user", "hi")
    assert event == Event.of(1, "user", "hi")
    assert event != Event.of(2, "user", "hi")
    assert event != (1, "user", "hi", None, 0, None)
    assert (1, "user", "hi", None, 0, None) != event  # noqa: SIM300
    assert not event == (1, "user", "hi", None, 0, None)  # noqa: SIM201


def test_rows_become_events():
    [event] = from_rows([(3, "user", "hi", None, 5, "k")])
    assert (event.seq, event.kind, event.content, event.key) == (3, "user", "hi", "k")


def test_a_draft_says_what_an_event_says_whatever_the_order_of_its_data():
    drafted = draft("user", "hi", {"a": 1, "b": 2})
    assert drafted.says(Event.of(1, "user", "hi", '{"b": 2, "a": 1}'))
    assert not drafted.says(Event.of(1, "user", "hi", {"a": 1}))
    assert not drafted.says(Event.of(1, "user", "ho", {"a": 1, "b": 2}))


@pytest.mark.parametrize("key", ["", "x" * 1_001, 3, None, "a\0b"])
def test_a_key_that_cannot_be_one_is_refused(key):
    with pytest.raises(Invalid):
        checked_key(key)
    assert checked_key("k" * 1_000) == "k" * 1_000


def test_much_data_that_is_not_deep_is_taken():
    assert draft("user", "a", {"rows": [[1, {"b": 2}] for _ in range(200)]}).data_json


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"b":1,"a":[1.0,"\\u0000ü"]}', None),
        ('{"b": 1, "a": 2}', '{"b":1,"a":2}'),
        ('{"a":1e2}', '{"a":100.0}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        (f'{{"a":{2**70}}}', None),
    ],
)
def test_an_event_of_another_log_keeps_the_text_of_its_data_if_it_is_compact(text, kept):
    [made] = drafts([Event.of(3, "user", "words", text, key="k")])
    assert made == Draft("user", "words", kept or text, "k")


@pytest.mark.parametrize(
    "text",
    ['{"erased":{"content":"","data":""}}', '{"a":' + "[" * 101 + "]" * 101 + "}", '{"native":1}'],
)
def test_an_event_of_another_log_is_checked_as_any_other(text):
    with pytest.raises(InvalidEvent, match="event 0 of the batch"):
        drafts([Event.of(1, "user", "words", text)])
