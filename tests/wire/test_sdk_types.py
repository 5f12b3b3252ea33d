"""The real SDKs' types take the good bodies and catch errors at any depth, in lazy lists as well."""

import copy
import re
from typing import Any

import pytest

from tests.wire.accepted import ACCEPTED, CASES
from tests.wire.sdk_types import check

IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}


@pytest.mark.parametrize(("format", "name"), CASES)
def test_a_good_body_fits_the_types(format, name):
    before = copy.deepcopy(ACCEPTED[format][name])
    check(ACCEPTED[format][name], format)
    assert ACCEPTED[format][name] == before


def chat(content, **more):
    return {"messages": [{"role": "user", "content": content, **more}]}


def calls(call):
    return {"messages": [{"role": "assistant", "tool_calls": [call]}]}


def said(*items):
    return {"input": list(items)}


def gemini(part):
    return {"contents": [{"role": "user", "parts": [part]}]}


def bedrock(block, **more):
    return {"messages": [{"role": "user", "content": [block]}], **more}


FUNCTION = {"name": "f", "arguments": "{}"}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
RESULT = {"type": "tool_result", "tool_use_id": "a"}

MISFITS = [
    ("openai", [], "body: expected an object"),
    ("openai", {}, "body: ['messages'] missing"),
    ("openai", {"messages": [], "system": "x"}, "body: ['system'] unknown"),
    ("openai", {"messages": "x"}, "messages: expected a list"),
    ("openai", chat("x", extra=1), "messages[0]: "),
    ("openai", chat(7), "messages[0]: "),
    ("openai", chat([{"type": "text", "text": 7}]), "messages[0].content[0]: "),
    ("openai", chat([{"type": "text", "text": "x", "extra": 1}]), "messages[0].content[0]: "),
    (
        "openai",
        calls({"id": "a", "type": "function", "function": {**FUNCTION, "arguments": {}}}),
        "tool_calls[0]",
    ),
    (
        "openai",
        calls({"id": "a", "type": "function", "function": {**FUNCTION, "extra": 1}}),
        "tool_calls[0]",
    ),
    ("openai", calls({"type": "function", "function": FUNCTION}), "messages[0].tool_calls[0]: "),
    (
        "openai",
        {"messages": [{"role": "assistant", "tool_calls": ""}]},
        "messages[0].tool_calls: '' is not",
    ),
    (
        "openai",
        {"messages": [{"role": "assistant", "tool_calls": {}}]},
        "messages[0].tool_calls: {} is not",
    ),
    ("openai", {"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id"),
    ("openai-responses", said({**CALL, "extra": 1}), "input[0]: "),
    ("openai-responses", said({**CALL, "arguments": {}}), "input[0]: "),
    ("openai-responses", said({"type": "reasoning", "encrypted_content": "x"}), "input[0]: "),
    (
        "openai-responses",
        said({"type": "reasoning", "summary": [{"text": "x"}]}),
        "input[0].summary[0]: ",
    ),
    ("openai-responses", said({"role": "user", "content": [{"type": "input_text"}]}), "input[0]: "),
    (
        "openai-responses",
        said({"role": "assistant", "content": [{"type": "output_text", "text": 7}]}),
        "input[0].content[0]: ",
    ),
    ("openai-responses", {"input": [], "instructions": 7}, "instructions: "),
    (
        "anthropic",
        chat([{"type": "text", "text": "x", "extra": 1}]),
        "only the SDK's response model TextBlock",
    ),
    ("anthropic", chat([{"type": "text", "text": 7}]), "messages[0].content[0]: "),
    (
        "anthropic",
        chat([{**RESULT, "content": [{"type": "text"}]}]),
        "messages[0].content[0].content[0]: ",
    ),
    (
        "anthropic",
        chat([{**RESULT, "content": [{**IMAGE, "extra": 1}]}]),
        "messages[0].content[0].content[0]: ",
    ),
    (
        "anthropic",
        chat([{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]),
        "content[0]: ",
    ),
    (
        "anthropic",
        chat([{**IMAGE, "source": {**IMAGE["source"], "media_type": "image/bmp"}}]),
        "content[0]: ",
    ),
    ("anthropic", {"messages": [{"role": "system", "content": "x"}]}, "messages[0]: "),
    (
        "anthropic",
        {"messages": [], "system": [{"type": "text", "text": "x", "extra": 1}]},
        "system: ",
    ),
    ("gemini", gemini({"text": 7}), "contents[0]: parts.0.text"),
    ("gemini", gemini({"text": "x", "extra": 1}), "contents[0]: parts.0.extra"),
    ("gemini", gemini({"function_call": {"name": "f", "args": {}}}), "contents[0].parts[0]: "),
    (
        "gemini",
        gemini({"functionCall": {"name": "f", "args": "{}"}}),
        "contents[0]: parts.0.functionCall.args",
    ),
    ("gemini", gemini({"inlineData": {"mimeType": "image/png", "data": "?"}}), "inlineData.data"),
    ("gemini", gemini({"inlineData": {"mimeType": "image/png", "data": b"x"}}), "contents[0]: "),
    ("gemini", {"contents": [], "systemInstruction": "x"}, "systemInstruction: "),
    ("bedrock", bedrock({"text": 7}), "messages[0].content[0].text"),
    ("bedrock", bedrock({"type": "text", "text": "x"}), "messages[0].content[0]"),
    (
        "bedrock",
        bedrock({"toolResult": {"toolUseId": "a"}}),
        'parameter in messages[0].content[0].toolResult: "content"',
    ),
    ("bedrock", bedrock({"toolResult": {"toolUseId": "", "content": []}}), "toolResult.toolUseId"),
    ("bedrock", bedrock({"text": "x"}, toolConfig={"tools": []}), "toolConfig.tools"),
    ("bedrock", bedrock({"text": "x"}, system="x"), "system"),
]


@pytest.mark.parametrize(("format", "body", "path"), MISFITS)
def test_a_misfit_is_found_and_its_path_named(format, body, path):
    with pytest.raises(ValueError, match=re.escape(path)):
        check(body, format)
