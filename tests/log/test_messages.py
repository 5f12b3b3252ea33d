"""Canonical messages: the allow-list, the older shapes, and the check of new messages."""

import json
import pickle
from unittest.mock import ANY

import pytest

from backstory import Event, Invalid, InvalidEvent
from backstory.log.arguments import describe_author
from backstory.log.checks import check_message
from backstory.log.kinds import CONTROL_KINDS, KINDS, MESSAGE_KINDS
from backstory.log.messages import (
    Message,
    ToolCall,
    ToolResult,
    build_call_data,
    describe_call,
    find_open_calls,
    find_unanswered,
    read_call,
    read_result,
    to_message,
)
from backstory.wire import to_bytes

CALL = {"id": "c", "name": "glob", "arguments": {"pattern": "*.py"}}


@pytest.mark.parametrize("kind", ["user", "system", "assistant"])
def test_message_of_a_text_has_no_data(kind):
    assert to_message(Event.of(1, kind, "hi", {"mood": "good"})) == Message(kind, "hi", None)


@pytest.mark.parametrize("kind", ["user", "system", "assistant"])
def test_message_of_a_text_keeps_the_native_form(kind):
    native = {"provider": "anthropic", "wire": "hi"}
    message = to_message(Event.of(1, kind, "hi", {"mood": "good", "native": native}))
    assert message == Message(kind, "hi", {"native": native})


@pytest.mark.parametrize("kind", ["tool_call", "tool_result"])
def test_tool_message_keeps_content_and_data(kind):
    assert to_message(Event.of(1, kind, "text", CALL | {"extra": 1})) == Message(
        kind, "text", CALL | {"extra": 1}
    )


@pytest.mark.parametrize("kind", ["clear", "mark", "rewind", "jump"])
def test_control_events_have_no_message(kind):
    assert to_message(Event.of(1, kind, None, {"target_message_id": 0})) is None


def test_unknown_kind_is_refused_by_name():
    with pytest.raises(InvalidEvent, match=r"event 7.*'thought'"):
        to_message(Event.of(7, "thought", "hm"))


def test_every_kind_is_a_message_or_a_control_kind():
    assert {kind for kind, rule in KINDS.items() if rule.is_message} == MESSAGE_KINDS
    assert {kind for kind, rule in KINDS.items() if not rule.is_message} == CONTROL_KINDS


def test_messages_are_immutable_and_equal_by_value():
    message = Message("user", "hi", None, seq=3)
    assert message == Message("user", "hi")
    assert hash(message) == hash(Message("user", "hi"))
    assert message != Message("user", "ho")
    assert message != Message("assistant", "hi")
    assert message != Message("user", "hi", {"native": {}})
    assert message != ("user", "hi", None)
    assert message == ANY  # an object of another class may decide
    assert (message.kind, message.content, message.data, message.seq) == ("user", "hi", None, 3)
    assert repr(message) == "Message('user', 'hi', None)"
    with pytest.raises(AttributeError):
        message.content = "ho"
    with pytest.raises(AttributeError):
        del message.content
    copy = pickle.loads(pickle.dumps(message))
    assert (copy, copy.seq) == (message, 3)


@pytest.mark.parametrize(
    "data",
    [
        CALL,
        {
            "id": "c",
            "type": "function",
            "function": {"name": "glob", "arguments": {"pattern": "*.py"}},
        },
        {"tool_call_id": "c", "tool_name": "glob", "tool_args": {"pattern": "*.py"}},
    ],
)
def test_call_is_read_in_all_three_shapes(data):
    assert read_call(data) == ToolCall("c", "glob", {"pattern": "*.py"})
    check_message("tool_call", None, data)


@pytest.mark.parametrize(
    ("content", "data", "result"),
    [
        ("out", {"id": "c"}, ToolResult("c", "out", False)),
        ("out", {"id": "c", "name": "glob", "error": True}, ToolResult("c", "out", True)),
        ("out", {"id": "c", "error": "no"}, ToolResult("c", "out", False)),
        ("out", {"tool_call_id": "c", "error": "false"}, ToolResult("c", "out", False)),
        ("out", {"id": "c", "output": "other"}, ToolResult("c", "out", False)),
        (
            "out",
            {"tool_call_id": "c", "name": "glob", "output": "old", "success": True},
            ToolResult("c", "old", False),
        ),
        (
            "out",
            {"tool_call_id": "c", "output": {"no": "text"}, "success": False},
            ToolResult("c", "out", True),
        ),
        ("out", {"tool_call_id": "c"}, ToolResult("c", "out", False)),
        ("out", None, ToolResult(None, "out", False)),
    ],
)
def test_result_is_read_in_both_shapes(content, data, result):
    assert read_result(content, data) == result


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        ("tool_call", None, "the id of this tool_call event is None"),
        ("tool_call", [], "the id of this tool_call event is None"),
        ("tool_call", {"name": "glob"}, "its id"),
        ("tool_call", {"id": "", "name": "glob"}, "the id of .* is ''"),
        ("tool_call", {"id": " ", "name": "glob"}, "its id"),
        ("tool_call", {"id": 5, "name": "glob"}, "the id of .* is 5"),
        ("tool_call", {"id": "c"}, "its name"),
        ("tool_call", {"id": "c", "name": ""}, "its name"),
        ("tool_call", {"id": "c", "function": {"arguments": "{}"}}, "its name"),
        ("tool_result", None, "the id of this tool_result event is None"),
        ("tool_result", {"name": "glob"}, "its id"),
        ("user", {"native": "text"}, "native"),
    ],
)
def test_message_that_no_wire_format_can_represent_is_refused(kind, data, problem):
    with pytest.raises(InvalidEvent, match=problem):
        check_message(kind, "text", data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("user", None),
        ("user", {"native": {"provider": "x"}}),
        ("tool_result", {"id": "c"}),
        ("tool_result", {"tool_call_id": "c"}),
        ("mark", {"label": "x"}),
        ("mark", {"native": "whatever"}),
        ("tool_call", {"id": "c", "name": "glob", "arguments": "{broken"}),
    ],
)
def test_message_that_wire_formats_can_represent_is_accepted(kind, data):
    check_message(kind, "text", data)


# Parts of an event's data


def test_arguments_of_a_call_become_an_object_and_their_text_stays_beside_it():
    call = {"id": "c", "name": "f"}
    assert build_call_data("c", "f", '{"a":1}') == call | {"arguments": {"a": 1}}
    spaced = call | {"arguments": {"a": 1}, "arguments_text": '{"a": 1}'}
    assert build_call_data("c", "f", '{"a": 1}') == spaced
    for text in ("{broken", "[1]", "", '{"a":NaN}'):
        assert build_call_data("c", "f", text) == call | {"arguments": text}
    assert build_call_data("c", "f", {"a": 1}) == call | {"arguments": {"a": 1}}


@pytest.mark.parametrize("format", ["openai", "openai-responses"])
def test_model_receives_the_arguments_as_it_wrote_them(format):
    arguments = '{"path" : ".", "n":1.0}'
    events = [
        Event.of(1, "user", "hi"),
        Event.of(2, "tool_call", None, build_call_data("c1", "ls", arguments)),
        Event.of(3, "tool_result", "x", {"id": "c1", "name": "ls"}),
    ]
    assert json.dumps(arguments).encode() in to_bytes(events, format)


def test_author_is_a_string():
    assert describe_author(None) == {}
    assert describe_author("me") == {"by": "me"}
    with pytest.raises(Invalid, match="by=5 is not a name"):
        describe_author(5)


def test_result_names_the_call_that_it_answers():
    call = Event.of(3, "tool_call", None, {"id": "c", "name": "f", "arguments": {}})
    assert describe_call(call) == {"id": "c", "name": "f"}
    assert describe_call(Event.of(3, "tool_call", None, {"id": "c"})) == {"id": "c"}
    for odd in ("c", Event.of(3, "user", "hi", {"id": "c"}), Event.of(3, "tool_call")):
        with pytest.raises(InvalidEvent, match="pass the call's event or its id"):
            describe_call(odd)


@pytest.mark.parametrize(
    ("log", "open_calls", "unanswered"),
    [
        ("", "", ""),
        ("user", "", "user"),
        ("user assistant", "", ""),
        ("user system", "", "user"),
        ("user call:1", "call:1", ""),
        ("user call:1 call:2 result:1", "call:2", "result:1"),
        ("user call:1 result:1", "", "result:1"),
        ("user call:1 user", "call:1", "user"),
        ("user call:1 result:1 call:1", "call:1", ""),  # the id again, for a new call
        ("user assistant user user", "", "user user"),
        ("result:9", "", "result:9"),
    ],
)
def test_open_calls_and_unanswered_messages(log, open_calls, unanswered):
    messages = [build_step(seq, step) for seq, step in enumerate(log.split(), 1)]
    steps = dict(zip([message.seq for message in messages], log.split(), strict=True))
    assert [steps[call.seq] for call in find_open_calls(messages)] == open_calls.split()
    assert [steps[found.seq] for found in find_unanswered(messages)] == unanswered.split()


def build_step(seq, step):
    kind, _, id = step.partition(":")
    if kind == "call":
        return Event.of(seq, "tool_call", None, {"id": id, "name": "f", "arguments": {}})
    if kind == "result":
        return Event.of(seq, "tool_result", "done", {"id": id})
    return Event.of(seq, kind, "text", None)
