"""Problems of values that were not checked as new ones."""

import pytest

from backstory.log.events import to_json
from backstory.log.problems import (
    find_agent_problems,
    find_event_problems,
    is_id,
    is_kind,
    is_storable,
    is_time,
)
from backstory.log.times import LATEST_US

ID = "0192f0c1-2345-7abc-8def-0123456789ab"
OTHER = "0192f0c1-2345-7abc-8def-ffffffffffff"
EVENT = {"kind": "user", "content": "hi", "data_json": '{"a": 1}', "created_us": 1, "key": "k"}
ERASURE = {"at": "now", "why": "a name", "content": "0" * 64, "data": "0" * 64}
ROOT = {"id": ID, "session": ID, "parent": None, "created_us": 1, "key": None, "about": None}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"kind": "clear", "content": None, "data_json": None, "key": None},
        {"kind": "tool_call", "content": None},
        {"kind": "telepathy", "content": None},
        {"data_json": '{"said": "erased"}'},
        {"content": "", "data_json": to_json({"erased": ERASURE})},
    ],
)
def test_sound_event_has_no_problems(change):
    assert list(find_event_problems(**EVENT | change)) == []


@pytest.mark.parametrize(
    "change", [{}, {"id": OTHER, "parent": ID, "key": "k"}, {"about": '{"title": "Plan"}'}]
)
def test_sound_agent_has_no_problems(change):
    assert list(find_agent_problems(**ROOT | change)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "\x1b[2J"}, "its kind is not a word"),
        ({"kind": 3}, "its kind is not a word"),
        ({"kind": ["user"], "content": None}, "its kind is not a word"),
        ({"content": None}, "its content is missing"),
        ({"kind": "note", "content": None}, "its content is missing"),
        ({"kind": "tool_call", "content": None, "data_json": None}, "its data is missing"),
        ({"kind": "tool_call", "data_json": None}, "its data is missing"),
        ({"kind": "tool_result", "data_json": None}, "its data is missing"),
        ({"content": 3}, "its content is not text"),
        ({"content": "a\0b"}, "its content contains a NUL"),
        ({"data_json": "\ud800"}, "its data contains a lone surrogate"),
        ({"key": ""}, "its key does not have"),
        ({"key": "k" * 1001}, "its key does not have"),
        ({"created_us": 2**62}, "its time is not between"),
        ({"created_us": -1}, "its time is not between"),
        ({"created_us": 1.5}, "its time is not between"),
        ({"data_json": '{"erased": 3}'}, "its erasure record is incomplete"),
    ],
)
def test_each_problem_of_an_event_is_described(change, words):
    [problem] = find_event_problems(**EVENT | change)
    assert words in problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "x", "session": "x"}, "'x' is not an id"),
        ({"id": OTHER, "parent": "../up"}, "'../up' is not an id"),
        ({"parent": OTHER}, "only the root"),
        ({"id": OTHER}, "only the root"),
        ({"created_us": LATEST_US + 1}, "its time is not between"),
        ({"key": ""}, "its key does not have"),
        ({"key": "\ud800"}, "its key does not have"),
        ({"key": 3}, "its key does not have"),
        ({"about": 3}, "its details are not text"),
        ({"about": "3"}, "its details are not a JSON object"),
        ({"about": '{"tags": 3}'}, "tags must be a list"),
    ],
)
def test_each_problem_of_an_agent_is_described(change, words):
    problems = list(find_agent_problems(**ROOT | change))
    assert any(words in problem for problem in problems)


def test_kinds_ids_times_and_texts_are_recognized():
    assert is_kind("tool_call")
    assert not is_kind("Tool")
    assert is_id(ID)
    assert not is_id(ID.upper())
    assert is_time(0)
    assert is_time(LATEST_US)
    assert not is_time(True)
    assert is_storable("ü")
    assert not is_storable("\ud800")
    assert not is_storable(b"")
