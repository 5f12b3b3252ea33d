"""What services were recorded to take and to refuse beyond the tables of all: smallest of their kind.

Written in our own words after recorded exchanges. Each row: a name, the format, the body, and how the request
was made (the model, whether items are stored, whether it is another server that speaks OpenAI's language).
"""

from __future__ import annotations

from typing import Any

from tests.wire.accepted import PIXEL
from tests.wire.refused import (
    ASK,
    HI,
    SAYS,
    THOUGHT,
    asks,
    call,
    chat,
    gemini,
    got,
    model,
    output,
    responses,
    told,
    user,
    want,
)
from tests.wire.refused_blocks import (
    BYE,
    TEXT,
    anthropic,
    bedrock,
    result,
    says,
    tool_result,
    tool_use,
    use,
)
from tests.wire.refused_blocks import user as blocks

Row = tuple[str, str, Any, dict[str, Any]]

WHITE = {"type": "text", "text": "\n\n"}
THINKING = {"type": "thinking", "thinking": "", "signature": "EqQB"}
RUN = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SYSTEM = {"role": "system", "content": "be brief"}
OTHERS: dict[str, Any] = {"compatible": True}
STORED: dict[str, Any] = {"stored": True}
NAMED = {**THOUGHT, "id": "rs_1"}
KEPT = {"type": "reasoning", "id": "rs_1", "summary": []}
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "{}"}
SIGNED = {**want(), "thoughtSignature": "CiQB"}
CALLED = {
    "toolUse": {"toolUseId": "s", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}
}
RAN = {"toolResult": {"toolUseId": "s", "content": [{"json": {}}], "type": "nova_grounding_result"}}

TAKEN: list[Row] = [
    ("no content beside calls", "openai", chat(HI, asks("a", content=[]), told("a")), {}),
    (
        "result without an id",
        "openai",
        chat(HI, asks("a"), {"role": "tool", "content": "1"}),
        OTHERS,
    ),
    ("no system text", "gemini", gemini(ASK) | {"systemInstruction": None}, {}),
    ("empty system text", "anthropic", anthropic(HI) | {"system": ""}, {}),
    ("no content", "openai-responses", responses(HI, {"role": "assistant", "content": []}), {}),
    ("results of references", "openai-responses", responses({"id": "fc_1"}, output("a")), STORED),
    (
        "server tool behind a call",
        "anthropic",
        anthropic(HI, says(use(), RUN), blocks(result())),
        {},
    ),
    ("blank beside calls", "openai", chat(HI, asks("a", content=""), told("a")), {}),
    ("blank text", "openai", chat({"role": "user", "content": ""}), {}),
    (
        "custom tool",
        "openai",
        chat(
            {
                **asks(),
                "tool_calls": [
                    {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}
                ],
            },
            told("a"),
        ),
        {},
    ),
    (
        "function of old",
        "openai",
        chat(
            HI,
            {"role": "assistant", "content": None, "function_call": {"name": "f"}},
            {"role": "function", "name": "f", "content": "1"},
        ),
        {},
    ),
    (
        "thinking part",
        "openai",
        chat(
            HI,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": [TEXT]}, TEXT]},
            HI,
        ),
        OTHERS,
    ),
    (
        "document",
        "openai",
        chat({"role": "user", "content": [{"type": "document_url", "document_url": "x"}]}),
        OTHERS,
    ),
    (
        "bare image",
        "openai",
        chat(
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": "https://example.org/a.png"}],
            }
        ),
        OTHERS,
    ),
    ("no content beside calls", "openai", chat(HI, asks("a", content=[]), told("a")), OTHERS),
    (
        "no calls",
        "openai",
        chat(HI, {"role": "assistant", "content": "x", "tool_calls": []}, HI),
        OTHERS,
    ),
    ("long id", "openai", chat(HI, asks("a" * 60), told("a" * 60)), OTHERS),
    ("empty id", "openai", chat(HI, asks(""), told("")), OTHERS),
    ("blank instructions", "openai-responses", responses(HI, instructions=""), {}),
    ("blank message", "openai-responses", responses({"role": "user", "content": ""}), {}),
    (
        "ids of what is there",
        "openai-responses",
        responses(HI, {**call(), "id": "fc_1"}, output()),
        {},
    ),
    ("sealed reasoning with its id", "openai-responses", responses(HI, NAMED, SAYS), {}),
    ("reasoning twice", "openai-responses", responses(HI, THOUGHT, THOUGHT, SAYS), {}),
    ("reasoning before a server's tool", "openai-responses", responses(HI, NAMED, MCP, SAYS), {}),
    (
        "custom tool",
        "openai-responses",
        responses(
            {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "a", "output": "1"},
        ),
        {},
    ),
    (
        "a server's items",
        "openai-responses",
        responses(
            HI,
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "tool_search_call", "call_id": "t", "arguments": {}},
            output("t"),
        ),
        {},
    ),
    (
        "what xAI ran",
        "openai-responses",
        responses(
            HI,
            {"type": "custom_tool_call", "call_id": "xs_call_1", "name": "f", "input": "x"},
            {"type": "x_search_call", "call_id": "", "name": "f", "arguments": "{}"},
            SAYS,
        ),
        OTHERS,
    ),
    (
        "stored reasoning",
        "openai-responses",
        responses(HI, KEPT, {**call(), "id": "fc_1"}, output()),
        STORED,
    ),
    ("a reference", "openai-responses", responses(HI, {"id": "msg_1"}), STORED),
    (
        "the rest is kept",
        "openai-responses",
        responses(output(), previous_response_id="resp_1"),
        STORED,
    ),
    ("reasoning of another server", "openai-responses", responses(HI, KEPT, SAYS), OTHERS),
    ("neighbours", "anthropic", anthropic(HI, HI, BYE, says(use()), blocks(result())), {}),
    ("assistant first", "anthropic", anthropic(BYE, HI), {}),
    ("prefill", "anthropic", anthropic(HI, BYE), {"model": "claude-haiku-4-5-20251001"}),
    ("paused", "anthropic", anthropic(HI, says(TEXT, RUN)), {"model": "claude-opus-5"}),
    (
        "a server's tool",
        "anthropic",
        anthropic(HI, says(THINKING, RUN, FOUND, THINKING, TEXT), HI),
        {},
    ),
    ("white text beside others", "anthropic", anthropic(HI, says(WHITE, THINKING, TEXT), HI), {}),
    ("system later", "anthropic", anthropic(HI, SYSTEM), {"model": "claude-opus-4-8"}),
    (
        "upload",
        "anthropic",
        anthropic(blocks(TEXT, {"type": "container_upload", "file_id": "file_1"})),
        {},
    ),
    (
        "tool reference",
        "anthropic",
        anthropic(
            HI, says(use()), blocks(result("a", [{"type": "tool_reference", "tool_name": "f"}]))
        ),
        {},
    ),
    (
        "id in two steps",
        "anthropic",
        anthropic(HI, says(use()), blocks(result()), says(use()), blocks(result())),
        {},
    ),
    (
        "compaction",
        "anthropic",
        anthropic(HI, says({"type": "compaction", "content": "x"}), HI),
        {},
    ),
    (
        "the other spelling",
        "gemini",
        gemini(
            user({"inline_data": {"mime_type": "image/png", "data": PIXEL}}),
            model({"function_call": {"name": "f"}}),
            user({"function_response": {"name": "f"}}),
            system_instruction={"parts": {"text": "x"}},
        ),
        {},
    ),
    ("neighbours", "gemini", gemini(ASK, model(SIGNED, want()), user(got()), user(got()), ASK), {}),
    (
        "calls in two contents",
        "gemini",
        gemini(ASK, model(SIGNED), model(want("g")), user(got(), got("g"))),
        {},
    ),
    ("empty text", "gemini", gemini(user({"text": ""})), {}),
    (
        "only a signature",
        "gemini",
        gemini(ASK, model({"thought": True, "thoughtSignature": "CiQB"}, {"text": "x"}), ASK),
        {},
    ),
    (
        "a server's tool",
        "gemini",
        gemini(ASK, model({"toolCall": {"id": "t"}}, {"toolResponse": {"id": "t"}}), ASK),
        {},
    ),
    ("no role", "gemini", gemini({"parts": [{"text": "x"}]}), {}),
    (
        "role function",
        "gemini",
        gemini(ASK, model(want()), {"role": "function", "parts": [got()]}),
        {},
    ),
    ("white text beside others", "bedrock", bedrock(blocks({"text": "x"}, {"text": "\n"})), {}),
    (
        "citations",
        "bedrock",
        bedrock(ASKED := blocks({"text": "x"}), says({"citationsContent": {}}), ASKED),
        {},
    ),
    (
        "no output",
        "bedrock",
        bedrock(ASKED, says(tool_use()), blocks({"toolResult": {"toolUseId": "a", "content": []}})),
        {},
    ),
    ("guarded", "bedrock", bedrock(blocks({"guardContent": {"text": {"text": "x"}}})), {}),
    (
        "a cached tool",
        "bedrock",
        bedrock(ASKED, toolConfig={"tools": [{"cachePoint": {"type": "default"}}]}),
        {},
    ),
    ("a server's tool", "bedrock", bedrock(ASKED, says(CALLED, RAN, {"text": "x"}), ASKED), {}),
    (
        "assistant first",
        "bedrock",
        bedrock(says({"text": "x"}), ASKED),
        {"model": "us.anthropic.claude-sonnet-4-5"},
    ),
    (
        "prefill",
        "bedrock",
        bedrock(ASKED, says({"text": "{"})),
        {"model": "us.amazon.nova-2-lite-v1:0"},
    ),
]

LONELY = "was provided without its required following item."
PREFILL = "does not support assistant message prefill"

STILL_REFUSED: list[tuple[str, str, Any, dict[str, Any], str]] = [
    (
        "foreign part",
        "openai",
        chat({"role": "user", "content": [{"type": "document_url"}]}),
        {},
        "document_url",
    ),
    ("long id", "openai", chat(HI, asks("a" * 60), told("a" * 60)), {}, "string too long"),
    (
        "interleaved calls",
        "openai",
        chat(HI, asks("a"), asks("b"), told("a"), told("b")),
        OTHERS,
        "must be followed",
    ),
    (
        "named reasoning, nameless message",
        "openai-responses",
        responses(HI, NAMED, SAYS),
        STORED,
        LONELY,
    ),
    ("reasoning at the end", "openai-responses", responses(HI, THOUGHT), {}, LONELY),
    (
        "a reference to nothing",
        "openai-responses",
        responses(HI, {"id": "msg_1"}),
        {},
        "item_reference",
    ),
    ("stored nowhere", "openai-responses", responses(HI, KEPT, SAYS), {}, "not found"),
    (
        "custom call cut from its output",
        "openai-responses",
        responses({"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"}),
        {},
        "No tool output found",
    ),
    (
        "custom call without input",
        "openai-responses",
        responses({"type": "custom_tool_call", "call_id": "a", "name": "f"}, output()),
        {},
        "valid string",
    ),
    ("prefill", "anthropic", anthropic(HI, BYE), {"model": "claude-opus-4-6"}, PREFILL),
    (
        "system later",
        "anthropic",
        anthropic(HI, SYSTEM),
        {"model": "claude-sonnet-5"},
        "role 'system'",
    ),
    (
        "system first",
        "anthropic",
        anthropic(SYSTEM, HI),
        {"model": "claude-opus-4-8"},
        "top-level 'system'",
    ),
    (
        "system image",
        "anthropic",
        anthropic(HI, {"role": "system", "content": [{"type": "image"}]}),
        {"model": "claude-opus-4-8"},
        "Input tag 'image'",
    ),
    ("white text alone", "anthropic", anthropic(blocks(WHITE)), {}, "non-whitespace"),
    (
        "empty text beside others",
        "anthropic",
        anthropic(blocks({"type": "text", "text": ""}, TEXT)),
        {},
        "non-empty",
    ),
    (
        "text after the call",
        "anthropic",
        anthropic(HI, says(use(), TEXT), blocks(result())),
        {},
        "immediately after",
    ),
    (
        "id twice in one turn",
        "anthropic",
        anthropic(HI, says(use()), says(use()), blocks(result())),
        {},
        "unique",
    ),
    (
        "counts",
        "gemini",
        gemini(ASK, model(want(), want()), user(got()), ASK),
        {},
        "number of function response",
    ),
    ("text is no text", "gemini", gemini(user({"text": 7})), {}, "TYPE_STRING"),
    ("empty part", "gemini", gemini(user({})), {}, "required oneof field"),
    ("white text alone", "bedrock", bedrock(blocks({"text": " "})), {}, "is blank"),
    (
        "prefill",
        "bedrock",
        bedrock(ASKED, says({"text": "{"})),
        {"model": "claude-sonnet-5"},
        PREFILL,
    ),
    (
        "result without its call",
        "bedrock",
        bedrock(blocks(tool_result())),
        {},
        "exceeds the number",
    ),
    (
        "call without its result",
        "bedrock",
        bedrock(ASKED, says(tool_use()), ASKED),
        {},
        "Expected toolResult",
    ),
]
