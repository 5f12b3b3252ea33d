"""Native forms that did not survive, and broken streams: reported and not sent; only `Invalid` is raised."""

from __future__ import annotations

from typing import Any

import pytest

from backstory.errors import Invalid
from backstory.wire import dump, load_answer
from tests.wire.rules import violations

CALL = {"id": "c1", "name": "glob", "arguments": {}}
ASKED = {"id": "c1", "type": "function", "function": {"name": "glob", "arguments": "{}"}}
SEAL = "c2VhbGVk"

# Kind, text, data beside the form, format, the form.
FORMS: dict[str, tuple[str, str | None, dict[str, Any], str, Any]] = {
    "a name and nothing said": (
        "user",
        "",
        {},
        "openai",
        {"role": "user", "name": "ann", "content": None},
    ),
    "a call's type that is a number": (
        *("tool_call", None, CALL, "openai"),
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": 7, "function": {"name": "glob"}}],
        },
    ),
    "a call whose id is null": (
        *("tool_call", None, CALL, "openai"),
        {"role": "assistant", "tool_calls": [{**ASKED, "id": None}]},
    ),
    "a call whose id is empty, beside reasoning": (
        *("tool_call", None, CALL, "openai"),
        {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [{**ASKED, "id": ""}]},
    ),
    "calls that are a number": (
        *("tool_call", None, CALL, "openai"),
        {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": 7},
    ),
    "arguments that are an empty text": (
        *("tool_call", None, CALL, "gemini"),
        [{"functionCall": {"name": "glob", "args": ""}, "thoughtSignature": SEAL}],
    ),
    "a response that is false": (
        *("tool_result", "", CALL, "gemini"),
        [{"functionResponse": {"name": "glob", "response": False}}],
    ),
    "parts of a response that are a number": (
        *("tool_result", "", CALL, "gemini"),
        [{"functionResponse": {"name": "glob", "response": {}, "parts": 7}}],
    ),
    "a signature that is an object": (
        *("assistant", "Yes.", {}, "gemini"),
        [{"text": "Yes.", "thoughtSignature": {}}],
    ),
    "a thought of nothing": (
        "assistant",
        "Yes.",
        {},
        "gemini",
        [{"thought": True}, {"text": "Yes."}],
    ),
    "an error flag that is a text": (
        *("tool_result", "no", CALL, "anthropic"),
        [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": "yes"}],
    ),
    "an image in a file without an id": (
        *("user", "Look.", {}, "anthropic"),
        [
            {"type": "text", "text": "Look."},
            {"type": "image", "source": {"type": "file", "file_id": None}},
        ],
    ),
    "an image in a file whose id is blank": (
        *("user", "Look.", {}, "anthropic"),
        [
            {"type": "text", "text": "Look."},
            {"type": "image", "source": {"type": "file", "file_id": " "}},
        ],
    ),
    "an empty message beside another": (
        *("assistant", "Yes.", {}, "openai-responses"),
        [{"role": "assistant", "content": []}, {"role": "assistant", "content": "Yes."}],
    ),
    "a call without an id": (
        *("tool_call", None, CALL, "openai-responses"),
        [{"type": "function_call", "call_id": None, "name": "glob", "arguments": "{}"}],
    ),
    "an output that is an empty array": (
        *("tool_result", "", CALL, "openai-responses"),
        [{"type": "function_call_output", "call_id": "c1", "output": []}],
    ),
    "an image from nowhere": (
        *("user", "Look.", {}, "bedrock"),
        [{"text": "Look."}, {"image": {"format": "png", "source": {"": None}}}],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_broken_form_is_reported_and_not_sent(name):
    kind, text, about, format, wire = FORMS[name]
    event = (kind, text, {**about, "native": {"provider": format, "model": "m", "wire": wire}})
    before = [("user", "Go.", None)] if kind != "user" else []
    before += [("tool_call", None, CALL)] if kind == "tool_result" else []
    after = [("tool_result", "done", {"id": "c1"})] if kind == "tool_call" else []
    body, repairs = dump([*before, event, *after, ("user", "And?", None)], format, model="m")
    assert violations(body, format, strict=False, model="m") == []
    assert any(
        repair.at == len(before) and repair.rule in ("native", "blank") for repair in repairs
    )


def test_a_name_alone_says_nothing_elsewhere_either():
    _, text, _, format, wire = FORMS["a name and nothing said"]
    event = ("user", text, {"native": {"provider": format, "wire": wire}})
    body, repairs = dump([("user", "Hello.", None), event], "anthropic")
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}]
    assert [repair.rule for repair in repairs] == ["blank"]


@pytest.mark.parametrize(
    ("format", "events"),
    [
        ("openai", [{"choices": [{"delta": "text"}]}]),
        ("openai", [{"choices": 7}]),
        ("openai-responses", [{"type": "response.output_item.done"}]),
        ("anthropic", ["text"]),
        ("anthropic", [{"type": "content_block_delta", "index": 3, "delta": {}}]),
        ("gemini", [{"candidates": [{"content": {"parts": 7}}]}]),
        ("bedrock", [{"contentBlockDelta": {"delta": {"text": 7}, "contentBlockIndex": 0}}]),
    ],
)
def test_a_broken_stream_is_refused_with_its_format(format, events):
    with pytest.raises(Invalid, match=f"not the events of a stream of the format {format}$"):
        load_answer(events, format)
