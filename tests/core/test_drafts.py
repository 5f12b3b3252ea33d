"""Batches: tuples and events become checked events, and an error names the place."""

import json

import pytest

from backstory import Event, InvalidEvent
from backstory.core.drafts import call_data, drafts
from backstory.core.events import Stored, draft, stored_rows
from backstory.core.messages import check_says_something
from backstory.wire import to_bytes


def test_tuples_and_events_of_another_log_become_drafts():
    given = [("user", "a"), ("user", "b", {"n": 1}, "k"), Event.of(7, "assistant", "c", key="other")]
    assert [(one.kind, one.content, one.key) for one in drafts(given)] == [
        ("user", "a", None),
        ("user", "b", "k"),
        ("assistant", "c", "other"),
    ]


@pytest.mark.parametrize("odd", [(), ("user", "a", None, None, "surplus"), "user", None])
def test_what_is_not_an_event_is_named_by_its_place(odd):
    with pytest.raises(InvalidEvent, match="event 1 of the batch"):
        drafts([("user", "a"), odd])


def test_a_draft_says_what_an_event_says_whatever_the_order_of_its_data():
    one = draft("user", "a", {"x": 1, "y": 2}, "k")
    assert one.says(Event.of(3, "user", "a", {"y": 2, "x": 1}, key="k"))
    assert not one.says(Event.of(3, "user", "a", {"y": 2}, key="k"))
    assert not one.says(Event.of(3, "user", "a", {"x": 1, "y": 2}))


def test_a_stored_row_is_an_events_columns_its_base_and_its_digest():
    event = Event.of(3, "user", "a", key="k")
    row = Stored.of(event, 2, b"d")
    assert (row.event, row.base, row.digest) == (event, 2, b"d")
    assert stored_rows([tuple(row)]) == [row]


@pytest.mark.parametrize(
    ("kind", "data", "refused"), [("user", None, True), ("user", {"x": 1}, False), ("assistant", None, False)]
)
def test_what_people_say_is_not_blank(kind, data, refused):
    if not refused:
        check_says_something(kind, " ", data)
        return
    with pytest.raises(InvalidEvent, match="is empty: nothing was written"):
        check_says_something(kind, " ", data)


def test_arguments_are_kept_as_an_object_that_gives_back_the_text():
    assert call_data("c", "f", '{"a":1}') == {"id": "c", "name": "f", "arguments": {"a": 1}}
    assert call_data("c", "f", '{"a": 1}') == {
        "id": "c",
        "name": "f",
        "arguments": {"a": 1},
        "arguments_text": '{"a": 1}',
    }
    for text in ("{broken", "[1]", "", '{"a":NaN}'):
        assert call_data("c", "f", text) == {"id": "c", "name": "f", "arguments": text}
    assert call_data("c", "f", {"a": 1})["arguments"] == {"a": 1}


def test_the_model_gets_back_the_arguments_as_it_wrote_them():
    given = '{"path" : ".", "n":1.0}'
    for format in ("openai", "openai-responses"):
        events = [
            Event.of(1, "user", "hi"),
            Event.of(2, "tool_call", None, call_data("c1", "ls", given)),
            Event.of(3, "tool_result", "x", {"id": "c1", "name": "ls"}),
        ]
        assert json.dumps(given).encode() in to_bytes(events, format)


def test_an_event_that_was_checked_before_is_taken_as_it_is():
    made = draft("tool_result", "42", {"id": "c"}, text='{"id":"c","more":[]}')
    assert drafts([made])[0] is made
    assert made.data == {"id": "c", "more": []}


def test_a_tuple_like_a_checked_event_is_not_one():
    with pytest.raises(InvalidEvent, match="must be a dict"):
        drafts([tuple(draft("user", "a", {"a": 1}))])
