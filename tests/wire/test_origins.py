"""Which events each message of a request says."""

import pytest

from backstory.log.events import Event
from backstory.wire import FORMATS
from backstory.wire.conversation import conversation_of

TOLD = [
    Event.of(1, "system", "Be careful."),
    Event.of(2, "user", "Look."),
    Event.of(3, "user", "Look twice."),
    Event.of(4, "assistant", "I do."),
    Event.of(5, "tool_call", None, {"id": "a", "name": "read", "arguments": {}}),
    Event.of(6, "tool_call", None, {"id": "b", "name": "read", "arguments": {}}),
    Event.of(7, "tool_result", "one", {"id": "a"}),
    Event.of(8, "tool_result", "two", {"id": "b"}),
    Event.of(9, "assistant", "Done."),
]
SAID = {
    "openai": [[1], [2], [3], [4, 5, 6], [7], [8], [9]],
    "openai-responses": [[2], [3], [4, 5, 6], [4, 5, 6], [4, 5, 6], [7], [8], [9]],
    "anthropic": [[2, 3], [4, 5, 6], [7, 8], [9], []],
    "gemini": [[2, 3], [4, 5, 6], [7, 8], [9], []],
    "bedrock": [[2, 3], [4, 5, 6], [7, 8], [9], []],
}


@pytest.mark.parametrize("format", FORMATS)
def test_each_message_of_a_request_names_the_events_that_it_says(format):
    conversation = conversation_of(TOLD)
    body = conversation.to(format)
    messages = next(body[key] for key in ("messages", "input", "contents") if key in body)
    assert conversation.origins(format) == SAID[format]
    assert len(messages) == len(SAID[format])


def test_a_text_that_is_the_whole_input_names_its_event():
    assert conversation_of([Event.of(4, "user", "Hello")]).origins("openai-responses") == [[4]]


@pytest.mark.parametrize("format", FORMATS)
def test_origins_take_the_options_of_the_request(format):
    conversation = conversation_of(TOLD[1:4])
    assert conversation.origins(format, pause=True)[-1] == [4]
