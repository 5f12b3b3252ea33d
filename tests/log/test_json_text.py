"""JSON that gives back what it was made of, or is refused."""

import json
from collections import UserString
from datetime import UTC, datetime
from enum import IntEnum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstory.log.drafts import draft
from backstory.log.json_text import compact_object, exact_copy, exact_json, parsed_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_what_is_written_is_parsed_as_the_same_value(value):
    text = exact_json(value)
    assert text is None or repr(json.loads(text)) == repr(value)


@given(values)
@example(float("nan"))
@example("\ud800")
@example((1, 2))
def test_a_copy_is_what_its_json_says(value):
    text = exact_json(value)
    assert repr(exact_copy(value)) == repr(None if text is None else (text, json.loads(text)))


@given(values)
def test_what_a_parser_gave_is_written_as_it_was_or_not_at_all(value):
    given = {"value": json.loads(json.dumps(value))}
    assert parsed_json(given, 100) == exact_json(given)


@pytest.mark.parametrize("inner", [{"b": 1}, [1]])
def test_what_a_parser_gave_is_not_written_if_it_is_nested_too_deep(inner):
    assert parsed_json({"a": inner}, 1) == exact_json({"a": inner})
    assert parsed_json({"a": inner}, 0) is None
    assert parsed_json({"a": [inner]}, 1) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,"é"]}', {"a": [1, "é"]}),
        ('{"a": 1}', None),  # it would be written without the space
        ('{"a":1,"a":2}', None),
        ("[1]", None),
        ('{"a":', None),
        ('{"a":"\ud800"}', None),
    ],
)
def test_an_object_is_taken_from_a_text_that_would_be_written_just_like_it(text, value):
    assert compact_object(text) == value


class Word(str):
    pass


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**64,
        "\ud800",
        (1, 2),
        {1: 2},
        {"at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"word": Word("a")},
        UserString("a"),
        b"a",
    ],
    ids=repr,
)
def test_what_would_not_come_back_as_it_is_is_refused(value):
    assert exact_json({"value": value}) is None


def test_whole_numbers_of_any_size_are_kept():
    written = draft("note", "n", {"large": 2**70, "small": Number.ONE})
    assert json.loads(written.data_json or "") == {"large": 2**70, "small": 1}
