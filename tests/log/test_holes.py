"""Holes: a form that repeats its event says so instead, and comes back as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.wire.holes import HOLE, filled, holed, with_filled

TEXT = "A text that is long enough to be worth a hole, at least forty characters."
ARGUMENTS = {"path": "a/very/long/path/to/some/file.py", "mode": "r"}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from([TEXT, json.dumps(ARGUMENTS)]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_what_the_event_says_itself_becomes_a_hole():
    form = {"type": "message", "content": [{"type": "output_text", "text": TEXT}], "id": "m1"}
    assert holed(form, content=TEXT) == {
        "type": "message",
        "content": [{"type": "output_text", "text": {HOLE: "content"}}],
        "id": "m1",
    }
    call = {"type": "function_call", "arguments": ARGUMENTS}
    assert holed(call, arguments=ARGUMENTS) == {
        "type": "function_call",
        "arguments": {HOLE: "arguments"},
    }
    assert holed({"blocks": [form]}, native=[form]) == {"blocks": {HOLE: "native"}}


def test_what_is_short_or_not_quite_the_same_stays():
    assert holed({"text": "short"}, content="short") == {"text": "short"}
    turned = dict(reversed(ARGUMENTS.items()))
    assert list(holed(turned, arguments=ARGUMENTS)) == ["mode", "path"]
    floats = [1.0] * 20
    assert holed([1] * 20, native=floats) == [1] * 20


@given(VALUES)
def test_filling_gives_back_the_form_with_the_order_of_its_keys(form):
    if HOLE in json.dumps(form):
        return
    text = json.dumps(ARGUMENTS)
    there = holed(form, content=TEXT, arguments=text)
    assert json.dumps(filled(there, content=TEXT, arguments=text)) == json.dumps(form)


def test_a_hole_for_the_text_of_arguments_is_filled_with_their_compact_json():
    assert filled([{HOLE: "arguments_text"}], arguments={"x": [1]}) == ['{"x":[1]}']


def test_the_data_of_an_event_is_filled_in_its_native_form_and_its_item():
    wire = [{"type": "text", "text": {HOLE: "content"}}, {"input": {HOLE: "arguments"}}]
    data = {
        "id": "c",
        "name": "read",
        "arguments": ARGUMENTS,
        "native": {"provider": "anthropic", "wire": wire},
        "item": {"of": "x", "form": {"content": {HOLE: "native"}, HOLE: "content"}},
    }
    found = with_filled(data, TEXT)
    whole = [{"type": "text", "text": TEXT}, {"input": ARGUMENTS}]
    assert found["native"] == {"provider": "anthropic", "wire": whole}
    assert found["item"] == {"of": "x", "form": {"content": whole, HOLE: "content"}}
    assert data["native"]["wire"] is wire  # nothing was changed in place


@pytest.mark.parametrize(
    "odd", [{"native": 3}, {"native": {}}, {"item": "x"}, {"item": {"part": True}}, {}]
)
def test_data_without_forms_is_left_as_it_is(odd):
    assert with_filled(odd, TEXT) == odd
