"""Data of events with long strings is read exactly, and broken data is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory import Event
from backstory.wire import FORMATS, dump

LONG = "JVBERi0x" * 2_000
STRINGS = st.sampled_from(
    [
        "",
        "a",
        '"',
        "\\",
        '\\"',
        "\\\\",
        "\0",
        "\0000",
        "é",
        "a\nb",
        LONG,
        LONG + "é",
        LONG + '"',
        LONG + "\\",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    STRINGS | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(STRINGS, VALUES, max_size=4))
def test_data_with_long_strings_says_what_json_says(data):
    given = {"id": "1", "name": "f", "arguments": data}
    call = Event.of(1, "tool_call", None, json.dumps(given, ensure_ascii=False))
    body, _ = dump([Event.of(0, "user", "x"), call], "anthropic")
    assert body["messages"][1]["content"][0]["input"] == data


@pytest.mark.parametrize("end", ['"', '"]', "", '\\"}', '"}}}'])
def test_data_that_ends_in_a_long_string_is_no_data_and_no_error(end):
    text = '{"native": {"provider": "openai", "wire": "' + LONG + end
    body, repairs = dump([Event.of(1, "user", "x", text)], "openai")
    assert body == {"messages": [{"role": "user", "content": "x"}]}
    assert [repair.rule for repair in repairs] == ["data"]


@pytest.mark.parametrize(
    "wire", ["[" * 5_000_000 + "]" * 5_000_000, '{"a":' * 999 + "1" + "}" * 999, "[NaN", "["]
)
@pytest.mark.parametrize("format", FORMATS)
def test_native_content_that_cannot_be_read_is_left_out_and_told(format, wire):
    text = '{"native": {"provider": "' + format + '", "wire": ' + wire + "}}"
    body, repairs = dump([Event.of(1, "user", "Hello.", text)], format)
    assert body == dump([Event.of(1, "user", "Hello.")], format).body
    assert [repair.at for repair in repairs][:1] == [1]


def test_an_image_goes_back_as_it_was():
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LONG}"}}
    words = {"type": "text", "text": 'He said "\\".\n'}
    message = {"role": "user", "content": [words, part, part]}
    native = {"provider": "openai", "model": "m", "wire": message}
    body, repairs = dump(
        [Event.of(1, "user", words["text"], {"native": native})], "openai", model="m"
    )
    assert (body, repairs) == ({"messages": [message]}, [])
