"""The exact JSON of a framework's message in the data of an event."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.items import (
    ItemPart,
    fill_native_item,
    read_item,
    read_item_part,
    shorten_item,
    write_item,
)

texts = st.text(st.characters(exclude_categories=()), max_size=60)  # surrogates and NUL included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def store_item(item, content, data):
    return {**data, "item": {"of": "mine", "json": shorten_item(write_item(item), content, data)}}


@given(values, texts, values, st.lists(values, max_size=3))
def test_every_item_comes_back_whatever_the_event_has(item, content, arguments, blocks):
    data = {"arguments": arguments, "native": {"wire": [*blocks, {"data": content}]}}
    whole = {"item": item, "content": content, "arguments": arguments, "blocks": blocks}
    stored = store_item(whole, content, data)
    assert json.dumps(read_item(content, stored)) == json.dumps(whole)


@pytest.mark.parametrize("item", [10**30, -(2**64), float("nan"), 1e400, "\ud800", "\0\x01\x03"])
def test_what_orjson_cannot_read_exactly_comes_back(item):
    stored = store_item({"v": item}, None, {})
    assert json.dumps(read_item(None, stored)) == json.dumps({"v": item})


def test_long_repetitions_are_stored_once():
    text = "a long text " * 20
    blocks = [{"type": "image", "data": "QUJD" * 40}]
    data = {"arguments": {"path": text}, "native": {"wire": blocks}}
    item = {"said": text, "called": {"path": text}, "shown": blocks}
    stored = store_item(item, text, data)
    assert len(stored["item"]["json"]) < 100
    assert read_item(text, stored) == item


def test_the_item_is_the_native_form_if_the_form_says_so():
    item = {"role": "user", "content": "hi"}
    data = store_item(item, "hi", {"native": {"provider": "p", "wire": "item"}})
    assert fill_native_item(data, "hi")["native"] == {"provider": "p", "wire": [item]}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"native": "text"},
        {"native": {"wire": [1]}},
        {"native": {"wire": "item"}},
        {"native": {"wire": "item"}, "item": {"of": "x"}},
        {"native": {"wire": "item"}, "item": {"of": "x", "json": "{"}},
    ],
)
def test_other_and_damaged_data_stays_as_it_is(data):
    assert fill_native_item(data, None) == data


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"item": {"of": "mine", "part": 2}}, ItemPart(rest=2)),
        ({"item": {"of": "mine", "json": "{}", "events": 3}}, ItemPart(total=3)),
        ({"item": {"of": "mine", "part": True}}, ItemPart()),
        ({"item": {"of": "mine", "json": "{}"}}, ItemPart()),
        ({"item": "text"}, ItemPart()),
        ({}, ItemPart()),
    ],
)
def test_an_event_says_which_part_of_an_item_it_is(data, part):
    assert read_item_part(data) == part
