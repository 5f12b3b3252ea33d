"""What a stored agent or event may be: each rule, with what breaks it and nothing else."""

import pytest

from backstory.log.events import LATEST
from backstory.log.validity import is_id, is_kind, is_time, wrong_agent, wrong_event

ID = "0192f0c1-2345-7abc-8def-0123456789ab"
OTHER = "0192f0c1-2345-7abc-8def-ffffffffffff"
SOUND = {"kind": "user", "content": "hi", "data_json": '{"a": 1}', "created_us": 1, "key": "k"}
ROOT = {"id": ID, "session": ID, "parent": None, "created_us": 1, "key": None, "about": None}


def test_what_is_sound_has_nothing_wrong_with_it():
    assert list(wrong_event(**SOUND)) == []
    assert (
        list(
            wrong_event(
                **SOUND | {"kind": "clear", "content": None, "data_json": None, "key": None}
            )
        )
        == []
    )
    assert list(wrong_event(**SOUND | {"kind": "tool_call", "content": None})) == []
    assert list(wrong_agent(**ROOT)) == []
    assert list(wrong_agent(**ROOT | {"id": OTHER, "parent": ID, "key": "k"})) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"kind": "\x1b[2J"}, "its kind is not a word"),
        ({"kind": 3}, "its kind is not a word"),
        ({"content": None}, "the message has no content"),
        ({"kind": "tool_call", "content": None, "data_json": None}, "the tool call has no data"),
        ({"content": 3}, "must be text"),
        ({"content": "a\0b"}, "must be text"),
        ({"data_json": "\ud800"}, "must be text"),
        ({"key": ""}, "its key does not have"),
        ({"key": "k" * 1001}, "its key does not have"),
        ({"created_us": 2**62}, "its time is not between"),
        ({"created_us": -1}, "its time is not between"),
        ({"created_us": 1.5}, "its time is not between"),
        ({"data_json": '{"erased": 3}'}, "eras"),
    ],
)
def test_each_rule_of_an_event_is_said_in_a_sentence(changed, says):
    [found] = wrong_event(**SOUND | changed)
    assert says in found


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"id": "x", "session": "x"}, "'x' is not an id"),
        ({"id": OTHER, "parent": "../up"}, "'../up' is not an id"),
        ({"parent": OTHER}, "only the root"),
        ({"id": OTHER}, "only the root"),
        ({"created_us": LATEST + 1}, "its time is not between"),
        ({"key": ""}, "its key does not have"),
        ({"key": "\ud800"}, "its key does not have"),
        ({"key": 3}, "its key does not have"),
        ({"about": 3}, "is not a text"),
        ({"about": "3"}, "is not a JSON object"),
        ({"about": '{"tags": 3}'}, "tags must be a list"),
    ],
)
def test_each_rule_of_an_agent_is_said_in_a_sentence(changed, says):
    assert any(says in found for found in wrong_agent(**ROOT | changed))


def test_kinds_ids_and_times():
    assert is_kind("tool_call")
    assert not is_kind("Tool")
    assert is_id(ID)
    assert not is_id(ID.upper())
    assert is_time(0)
    assert is_time(LATEST)
    assert not is_time(True)
