"""Settings: notes that replace one another field by field, and what is refused as one."""

import pytest

from backstory.errors import Invalid
from backstory.log.settings import Settings, settings_of

GLOB = {"name": "glob", "description": "Find files.", "parameters": {"type": "object"}}


def test_each_field_replaces_the_one_before():
    notes = [{"model": "a", "tools": [GLOB]}, {"params": {"temperature": 1}}, {"model": "b"}, None]
    assert settings_of(notes) == Settings("b", (GLOB,), {"temperature": 1})


def test_a_field_can_be_taken_back():
    assert (
        settings_of([{"model": "a", "tools": [GLOB]}, {"model": None, "tools": []}]) == Settings()
    )


def test_only_what_changes_is_written():
    now = Settings("a", (GLOB,), {"temperature": 1})
    assert now.changed(model="a", tools=[dict(GLOB)], params={"temperature": 1}) == {}
    assert now.changed(model="b", tools=[GLOB]) == {"model": "b"}
    assert now.changed(tools=[]) == {"tools": []}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"model": ""}, "a model's name"),
        ({"model": 3}, "a model's name"),
        ({"tools": "glob"}, "a list of tools"),
        ({"tools": GLOB}, "a list of tools"),
        ({"tools": ["glob"]}, "a tool must be an object"),
        ({"tools": [{"description": "x"}]}, "needs a name"),
        ({"tools": [GLOB, GLOB]}, "two tools are named 'glob'"),
        ({"tools": [GLOB | {"input_schema": {}}]}, "a tool has no 'input_schema'"),
        ({"tools": [GLOB | {"parameters": "{}"}]}, "the parameters of the tool 'glob'"),
        ({"params": [1]}, "params must be an object"),
        ({"temperature": 1}, "'temperature' is not a setting"),
    ],
    ids=str,
)
def test_what_is_not_a_setting_is_refused(wanted, said):
    with pytest.raises(Invalid, match=said):
        Settings().changed(**wanted)


def test_a_log_from_elsewhere_with_broken_settings_is_read_as_far_as_it_makes_sense():
    assert settings_of(
        [{"model": "a"}, {"model": 7, "tools": "x", "params": {"top_p": 1}}]
    ) == Settings("a", (), {"top_p": 1})
