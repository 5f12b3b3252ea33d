"""Holes: placeholders for values that an event already contains. Requests are sent without them."""

import pytest

from backstory import Event
from backstory.wire import dump, to_bytes
from backstory.wire.conversation import Conversation
from backstory.wire.holes import HOLE, fill_data, fill_holes

TEXT = "A text with a smile \U0001f642 that is long enough to be worth a hole in its form."
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
PARTS = [{"type": "output_text", "text": TEXT}]
MESSAGE = {"type": "message", "id": "m1", "role": "assistant", "content": PARTS}
GIVEN = '{"path":  "a.py"}'
CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "read", "arguments": GIVEN}


def native(form):
    return {"native": {"provider": "openai-responses", "model": "gpt-5", "wire": [form]}}


def events(with_holes):
    message = (
        {"content": [{"type": "output_text", "text": {HOLE: "content"}}]} if with_holes else {}
    )
    call = {"arguments": {HOLE: "arguments"}} if with_holes else {}
    data = {"id": "c1", "name": "read", "arguments": CALL["arguments"]}
    return [
        Event.of(1, "user", "hi"),
        Event.of(2, "assistant", "", native(REASONING)),
        Event.of(3, "assistant", TEXT, native({**MESSAGE, **message})),
        Event.of(4, "tool_call", None, data | native({**CALL, **call})),
        Event.of(5, "tool_result", "text", {"id": "c1", "name": "read"}),
    ]


@pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic", "gemini", "bedrock"])
def test_holes_are_filled_before_a_form_is_used(format):
    options = {"model": "gpt-5", "stored": True}
    assert to_bytes(events(True), format, **options) == to_bytes(events(False), format, **options)
    messages = list(Conversation(events(True)))
    assert dump(messages, format, **options) == dump(events(False), format, **options)


def test_reasoning_words_and_calls_of_one_answer_go_back_as_they_were():
    body, repairs = dump(events(True), "openai-responses", model="gpt-5", stored=True)
    assert body["input"][1:4] == [REASONING, MESSAGE, CALL]
    assert repairs == []


def test_messages_of_a_conversation_have_no_holes_and_no_bookkeeping():
    kept = {"item": {"of": "x"}, "usage": {"in": 1}, "request": {}}
    data = {"id": "c1", "name": "read", "arguments": {}, **kept}
    call, message = Conversation([Event.of(1, "tool_call", None, data), events(True)[2]])
    assert call.data == {"id": "c1", "name": "read", "arguments": {}}
    assert message.data == native(MESSAGE)


def test_thinking_stays_with_the_words_behind_it():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    form = {"provider": "anthropic", "model": "claude-x"}
    log = [
        Event.of(1, "user", "hi"),
        Event.of(2, "assistant", "", {"native": form | {"wire": [thinking]}}),
        Event.of(
            3, "assistant", "ho", {"native": form | {"wire": [{"type": "text", "text": "ho"}]}}
        ),
        Event.of(4, "user", "on"),
    ]
    body, repairs = dump(log, "anthropic", model="claude-x")
    assert body["messages"][1]["content"] == [thinking, {"type": "text", "text": "ho"}]
    assert len(body["messages"]) == 3
    assert repairs == []


LONG_TEXT = "A text that is long enough to be worth a hole, at least forty characters."
ARGUMENTS = {"path": "a/very/long/path/to/some/file.py", "mode": "r"}


def test_a_hole_for_the_text_of_arguments_is_filled_with_their_compact_json():
    assert fill_holes([{HOLE: "arguments_text"}], {"arguments": {"x": [1]}}) == ['{"x":[1]}']


def test_the_data_of_an_event_is_filled_in_its_native_form_and_its_item():
    wire = [{"type": "text", "text": {HOLE: "content"}}, {"input": {HOLE: "arguments"}}]
    data = {
        "id": "c",
        "name": "read",
        "arguments": ARGUMENTS,
        "native": {"provider": "anthropic", "wire": wire},
        "item": {"of": "x", "form": {"content": {HOLE: "native"}, HOLE: "content"}},
    }
    found = fill_data(data, LONG_TEXT)
    whole = [{"type": "text", "text": LONG_TEXT}, {"input": ARGUMENTS}]
    assert found["native"] == {"provider": "anthropic", "wire": whole}
    assert found["item"] == {"of": "x", "form": {"content": whole, HOLE: "content"}}
    assert data["native"]["wire"] is wire  # nothing was changed in place


@pytest.mark.parametrize(
    "odd", [{"native": 3}, {"native": {}}, {"item": "x"}, {"item": {"part": True}}, {}]
)
def test_data_without_forms_is_left_as_it_is(odd):
    assert fill_data(odd, LONG_TEXT) == odd
