"""Long strings in an event's data are cut out before it is parsed: what it says stays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory import Event
from backstory.wire import dump
from backstory.wire.rows import rows

LONG = "JVBERi0x" * 2_000
STRINGS = st.sampled_from(
    ["", "a", '"', "\\", '\\"', "\\\\", "\0", "\0000", "é", "a\nb", LONG, LONG + "é", LONG + '"', LONG + "\\"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    STRINGS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(STRINGS, VALUES, max_size=4))
def test_data_with_long_strings_says_what_json_says(data):
    text = json.dumps(data, ensure_ascii=False)
    [(_, _, _, found)] = rows([Event.of(1, "tool_result", "x", text)], tell)
    assert found == json.loads(text)


@pytest.mark.parametrize("end", ['"', '"]', "", '\\"}', '"}}}'])
def test_data_that_ends_in_a_long_string_is_no_data_and_no_error(end):
    text = '{"native": {"provider": "openai", "wire": "' + LONG + end
    [(_, _, said, found)] = rows([Event.of(1, "user", "x", text)], tell)
    assert (said, found) == ("x", None)


def test_an_image_goes_back_as_it_was():
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LONG}"}}
    words = {"type": "text", "text": 'He said "\\".\n'}
    message = {"role": "user", "content": [words, part, part]}
    native = {"provider": "openai", "model": "m", "wire": message}
    body, repairs = dump([Event.of(1, "user", words["text"], {"native": native})], "openai", model="m")
    assert (body, repairs) == ({"messages": [message]}, [])


def tell(rule: str, at: int | None, why: str) -> None:
    raise AssertionError(why)
