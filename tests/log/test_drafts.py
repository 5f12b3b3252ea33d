"""Batches: tuples and events become checked events, and an error names the place."""

import json

import pytest

import backstory
from backstory import Event, InvalidEvent
from backstory.log.drafts import Draft, call_data, draft, drafts
from backstory.log.events import Stored, stored_rows
from backstory.log.messages import check_says_something
from backstory.wire import to_bytes


def test_tuples_and_events_of_another_log_become_drafts():
    given = [
        ("user", "a"),
        ("user", "b", {"n": 1}, "k"),
        Event.of(7, "assistant", "c", key="other"),
    ]
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
    ("kind", "data", "refused"),
    [("user", None, True), ("user", {"x": 1}, False), ("assistant", None, False)],
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


FORGED = [
    Draft("bogus", "a", None),
    Draft("user", "a", '{"a":'),
    Draft("user", "a", '{"erased":{"at":1}}'),
    Draft("user", "a\0b", None),
    Draft("user", "\ud800", None),
    Draft("user", "a", None, "k" * 5_000),
    Draft("tool_call", None, None),
    Draft("jump", None, '{"target_message_id":"x"}'),
    draft("user", "a")._replace(kind="bogus"),
]


@pytest.mark.parametrize("forged", FORGED)
def test_nobody_can_vouch_for_an_event(forged):
    with backstory.open(":memory:") as store:
        agent = store.ensure("k")
        with pytest.raises(backstory.Invalid):
            agent.extend([("user", "before"), forged])
        with store.intake() as intake, pytest.raises(backstory.Invalid):
            intake.extend(intake.agent("k"), [("user", "before"), forged])
        assert agent.events() == []
