"""Events, whose data is JSON text, and messages, whose data is parsed, give the same request."""

import pytest

from backstory.log.events import Event
from backstory.log.messages import Message
from backstory.wire import FORMATS, dump, to_bytes

USER = ("user", "u", None)
CALL = ("tool_call", None, {"id": "1", "name": "f", "arguments": {}})
RESULT = ("tool_result", "out", {"id": "1", "name": "f"})
DEEP = '{"id":"1","name":"f","arguments":{"x":' + "[" * 120 + "]" * 120 + "}}"


def call(**changes):
    return "tool_call", None, CALL[2] | changes


def events(history):
    return [Event.of(seq, *event) for seq, event in enumerate(history, 1)]


UNUSUAL = {
    "nothing": [],
    "blank text": [USER, ("user", " ", None)],
    "empty text": [("user", "", None)],
    "no text": [("user", None, None)],
    "text that is no text": [("user", 5, None)],
    "half of a surrogate pair": [("user", "\ud800", None)],
    "an unknown kind": [("thought", "hm", None)],
    "a mark": [USER, ("mark", None, None)],
    "text with data": [("user", "u", {"native": {}})],
    "a call with words in it": [USER, ("tool_call", "hm", CALL[2]), RESULT],
    "a call with words, and words that are none": [
        ("user", None, None),
        ("tool_call", "hm", CALL[2]),
        RESULT,
    ],
    "an open call at the end": [USER, CALL],
    "an open call before text": [USER, CALL, ("assistant", "a", None), RESULT],
    "an open call before a user": [USER, CALL, USER],
    "an open call before another step": [
        USER,
        CALL,
        call(id="2"),
        RESULT,
        call(id="3"),
        ("tool_result", "x", {"id": "2"}),
    ],
    "a result of no call": [USER, RESULT],
    "a second result": [USER, CALL, RESULT, RESULT],
    "results in another order": [
        USER,
        CALL,
        call(id="2"),
        ("tool_result", "x", {"id": "2"}),
        RESULT,
    ],
    "one answer around a result": [
        USER,
        call(answer="m"),
        RESULT,
        call(id="2", answer="m"),
        ("tool_result", "x", {"id": "2"}),
    ],
    "two answers without anything between": [
        USER,
        call(answer="m"),
        call(id="2", answer="n"),
        RESULT,
        ("tool_result", "x", {"id": "2"}),
    ],
    "a blank result": [USER, CALL, ("tool_result", " ", {"id": "1"})],
    "a result without data": [USER, CALL, ("tool_result", "x", None)],
    "a result of an old shape": [USER, CALL, ("tool_result", "x", {"tool_call_id": "1"})],
    "a result with native content": [USER, CALL, ("tool_result", "x", {"id": "1", "native": {}})],
    "a result whose name is no text": [USER, CALL, ("tool_result", "x", {"id": "1", "name": 5})],
    "an id twice": [USER, CALL, RESULT, CALL, RESULT],
    "a long id": [USER, call(id="x" * 41), ("tool_result", "x", {"id": "x" * 41})],
    "a blank id": [USER, call(id=" "), ("tool_result", "x", {"id": " "})],
    "an empty id": [USER, call(id=""), ("tool_result", "x", {"id": ""})],
    "an id that is a number": [USER, call(id=1), ("tool_result", "x", {"id": 1})],
    "an illegal name": [USER, call(name="a.b"), RESULT],
    "a name that is a number": [USER, call(name=5), RESULT],
    "arguments that are text but not an object": [USER, call(arguments="[1]"), RESULT],
    "arguments that are text with a long number": [
        USER,
        call(arguments='{"n": 123456789012345678901}'),
        RESULT,
    ],
    "arguments that are a list": [USER, call(arguments=[1]), RESULT],
    "no arguments": [USER, ("tool_call", None, {"id": "1", "name": "f"}), RESULT],
    "more than a call": [USER, call(native={}), RESULT],
    "a call with text": [USER, ("tool_call", "text", CALL[2]), RESULT],
    "a call without data": [USER, ("tool_call", None, None), RESULT],
    "data that is no JSON": [USER, ("tool_call", None, "{broken"), RESULT],
    "data that is no object": [USER, ("tool_call", None, "[1]"), RESULT],
    "deep data": [USER, ("tool_call", None, DEEP), RESULT],
    "a number beyond 64 bits": [USER, call(arguments={"n": 2**70}), RESULT],
    "a number beyond all bits": [
        USER,
        ("tool_call", None, '{"id":"1","name":"f","arguments":{"n":1e999}}'),
        RESULT,
    ],
    "a result that says it was interrupted": [
        USER,
        CALL,
        ("tool_result", "interrupted: no result was recorded", {"id": "1", "error": True}),
    ],
    "an error that is a word": [USER, CALL, ("tool_result", "x", {"id": "1", "error": "yes"})],
}


UNUSUAL_IN_TURNS = {
    "the model begins": [("assistant", "a", None), USER],
    "a call begins": [CALL, RESULT],
    "two answers in a row": [USER, ("assistant", "a", None), ("assistant", "b", None), USER],
    "system text inside": [USER, ("system", "s", None), USER],
    "system text alone": [("system", "s", None)],
}


USUAL = {
    "a conversation": [("system", "s", None), USER, ("assistant", "a", None), USER],
    "text of all kinds of letters": [("user", "Größe 🎈", None)],
    "texts that end as if another one followed": [
        ("user", 'one ",', None),
        ("assistant", '",', None),
        ("user", ',"', None),
        ("assistant", 'x\\",', None),
    ],
    "the model's last word": [USER, ("assistant", "a", None)],
    "a step": [USER, ("assistant", "a", None), CALL, RESULT, ("assistant", "b", None), USER],
    "parallel calls": [
        USER,
        CALL,
        call(id="2"),
        RESULT,
        ("tool_result", "x", {"id": "2", "error": False}),
    ],
    "steps in a row": [USER, CALL, RESULT, call(id="2"), ("tool_result", "x", {"id": "2"})],
    "results and words in one turn": [USER, CALL, RESULT, USER, ("user", "v", None)],
    "data of another writer": [
        USER,
        ("tool_call", None, '{"name": "f", "arguments": {"n": 1e22}, "id": "1"}'),
        RESULT,
    ],
    "arguments that are text": [USER, call(arguments='{"n": 1.0, "m":  2}'), RESULT],
    "many small arguments": [USER, call(arguments={str(n): [n] for n in range(40)}), RESULT],
    "answers that are named": [
        USER,
        ("assistant", "a", {"answer": "m"}),
        call(answer="m"),
        RESULT,
        call(id="2", answer="n"),
        ("tool_result", "x", {"id": "2"}),
    ],
    "an answer with its usage": [
        USER,
        ("assistant", "a", {"model": "m", "usage": {"input": 5}}),
        USER,
    ],
    "a call with its usage": [USER, call(model="m", usage={"input": 5}), RESULT],
    "a result with the whole of it": [
        USER,
        CALL,
        ("tool_result", "x", {"id": "1", "whole": "xxx"}),
    ],
    "a result that is an error": [USER, CALL, ("tool_result", "x", {"id": "1", "error": True})],
}


USUAL_WITHOUT_TURNS = {
    "two answers in a row": [("assistant", "a", None), ("assistant", "b", None), CALL, RESULT],
    "system text inside": [USER, ("system", "s", None), ("assistant", "a", None)],
    "an id that JSON has to escape": [
        USER,
        call(id='"\\'),
        ("tool_result", "x", {"id": '"\\', "name": "f"}),
    ],
}


HISTORIES = {**UNUSUAL, **UNUSUAL_IN_TURNS, **USUAL, **USUAL_WITHOUT_TURNS}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_events_and_messages_give_the_same_request(history, format):
    found = events(history)
    messages = [Message(event.kind, event.content, event.data, seq=event.seq) for event in found]
    assert dump(found, format) == dump(messages, format)
    assert to_bytes(found, format) == to_bytes(messages, format)
