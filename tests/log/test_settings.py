"""Settings: notes that replace one another field by field, and the values that are refused."""

import pytest

from backstory.errors import Invalid
from backstory.log.settings import Settings, list_usable_fields, read_settings

GLOB = {"name": "glob", "description": "Find files.", "parameters": {"type": "object"}}


def test_each_field_replaces_the_previous_one():
    notes = [{"model": "a", "tools": [GLOB]}, {"params": {"temperature": 1}}, {"model": "b"}, None]
    assert read_settings(notes) == Settings("b", (GLOB,), {"temperature": 1})


def test_field_can_be_reset():
    assert (
        read_settings([{"model": "a", "tools": [GLOB]}, {"model": None, "tools": []}]) == Settings()
    )


def test_only_changes_are_written():
    now = Settings("a", (GLOB,), {"temperature": 1})
    assert now.find_changes(model="a", tools=[dict(GLOB)], params={"temperature": 1}) == {}
    assert now.find_changes(model="b", tools=[GLOB]) == {"model": "b"}
    assert now.find_changes(tools=[]) == {"tools": []}
    assert now.find_changes(params={"temperature": True}) == {"params": {"temperature": True}}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"model": ""}, "a model's name"),
        ({"model": 3}, "a model's name"),
        ({"tools": "glob"}, "a list of tools"),
        ({"tools": GLOB}, "a list of tools"),
        ({"tools": ["glob"]}, "a tool must be an object"),
        ({"tools": [{"description": "x"}]}, "needs a name"),
        ({"tools": [GLOB, GLOB]}, "two tools are named 'glob'"),
        ({"tools": [GLOB | {"input_schema": {}}]}, "a tool does not take 'input_schema'"),
        ({"tools": [GLOB | {"parameters": "{}"}]}, "the parameters of the tool 'glob'"),
        ({"params": [1]}, "params must be an object"),
        ({"params": ["ab"]}, "params must be an object"),
        ({"params": {1: 2}}, "params must be an object"),
        ({"params": {"top_p": float("nan")}}, "cannot be written as JSON"),
        ({"temperature": 1}, "'temperature' is not a setting"),
    ],
    ids=str,
)
def test_invalid_setting_is_refused(wanted, words):
    with pytest.raises(Invalid, match=words):
        Settings().find_changes(**wanted)


def test_invalid_fields_of_a_note_are_skipped():
    assert list_usable_fields(None) == set()
    assert read_settings(
        [{"model": "a"}, {"model": 7, "tools": "x", "params": {"top_p": 1}}]
    ) == Settings("a", (), {"top_p": 1})
