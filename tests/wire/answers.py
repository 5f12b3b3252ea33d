"""What providers answer, small and in our own words: each answer whole, and as the events of a stream.

Beside each stand the events that it is loaded as, and its form in the next request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Body = dict[str, Any]


class Case(NamedTuple):
    """One answer in all its shapes."""

    format: str
    name: str
    whole: Body
    stream: list[Body]
    events: list[tuple[str, str | None, Any]]
    form: Any  # what stands in the next request


def _openai(message: Body, *deltas: Body, form: Body, events: list[Any], name: str) -> Case:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
    }
    whole = {
        "model": "m-1",
        "choices": [{"message": {"role": "assistant"} | message}],
        "usage": usage,
    }
    chunks: list[Body] = [{"model": "m-1", "choices": [{"delta": delta}]} for delta in deltas]
    last = {"model": "m-1", "choices": [], "usage": usage}
    return Case("openai", name, whole, [*chunks, last], events, form)


def _call(id: str, arguments: str) -> Body:
    return {"id": id, "type": "function", "function": {"name": "glob", "arguments": arguments}}


_REASONED = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm, hm."}
_DETAILS = [{"type": "reasoning.encrypted", "data": "c2Vh", "index": 0, "format": "x"}]
_CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [_call("1", '{"a": 1}'), _call("2", "{}")],
}
_USAGE = {"model": "m-1", "usage": {"input": 9, "output": 4, "cached": 6}}

OPENAI = [
    _openai(
        {"content": "Yes.", "reasoning_content": "Hm, hm.", "refusal": None},
        {"role": "assistant", "content": "", "reasoning_content": "Hm, "},
        {"reasoning_content": "hm."},
        {"content": "Y", "reasoning_content": None},
        {"content": "es."},
        form=_REASONED,
        events=[
            (
                "assistant",
                "Yes.",
                {"native": {"provider": "openai", "model": "m-1", "wire": _REASONED}} | _USAGE,
            )
        ],
        name="reasoning in a field of its own",
    ),
    _openai(
        {"content": "Yes.", "reasoning_details": _DETAILS},
        {"content": "Yes.", "reasoning_details": [_DETAILS[0] | {"data": "c2"}]},
        {"reasoning_details": [_DETAILS[0] | {"data": "Vh"}]},
        form={"role": "assistant", "content": "Yes.", "reasoning_details": _DETAILS},
        events=[
            (
                "assistant",
                "Yes.",
                {
                    "native": {
                        "provider": "openai",
                        "model": "m-1",
                        "wire": {
                            "role": "assistant",
                            "content": "Yes.",
                            "reasoning_details": _DETAILS,
                        },
                    }
                }
                | _USAGE,
            )
        ],
        name="sealed reasoning in numbered pieces",
    ),
    _openai(
        {"content": None, "tool_calls": _CALLED["tool_calls"]},
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "glob", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
        {"tool_calls": [{"index": 1, "id": "2", "function": {"name": "glob", "arguments": "{}"}}]},
        form=_CALLED,
        events=[
            (
                "tool_call",
                None,
                {
                    "id": "1",
                    "name": "glob",
                    "arguments": {"a": 1},
                    "native": {"provider": "openai", "model": "m-1", "wire": _CALLED},
                }
                | _USAGE,
            ),
            ("tool_call", None, {"id": "2", "name": "glob", "arguments": {}}),
        ],
        name="two calls, the first in pieces",
    ),
]


_REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vh"}
_MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
}
_DONE = {
    "model": "m-1",
    "output": [_REASONING, _MESSAGE],
    "usage": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 6}},
}
RESPONSES = [
    Case(
        "openai-responses",
        "sealed reasoning before a message",
        _DONE,
        [
            {"type": "response.created", "response": {"model": "m-1", "output": []}},
            {"type": "response.output_item.done", "output_index": 1, "item": _MESSAGE},
            {"type": "response.output_item.done", "output_index": 0, "item": _REASONING},
            {
                "type": "response.completed",
                "response": _DONE
                | {"output": [_REASONING | {"encrypted_content": "YW5ldw=="}, _MESSAGE]},
            },
        ],
        [
            (
                "assistant",
                "Yes.",
                {
                    "native": {
                        "provider": "openai-responses",
                        "model": "m-1",
                        "wire": [_REASONING, _MESSAGE],
                    },
                }
                | _USAGE,
            )
        ],
        [_REASONING, _MESSAGE],
    )
]


_THINKING = {"type": "thinking", "thinking": "Hm, hm.", "signature": "c2ln"}
_CITED = {
    "type": "text",
    "text": "Yes.",
    "citations": [{"type": "char_location", "cited_text": "x"}],
}
_USE = {"type": "tool_use", "id": "toolu_1", "name": "glob", "input": {"a": 1}}
_BLOCKS = [_THINKING, _CITED, _USE]
_KEPT = {"model": "m-1", "usage": {"input": 9, "output": 4, "cached": 6, "cache_written": 1}}
_START = {"input_tokens": 2, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 1}


def _block(index: int, block: Body, *deltas: Body) -> list[Body]:
    begun = {"type": "content_block_start", "index": index, "content_block": block}
    further = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [begun, *further, {"type": "content_block_stop", "index": index}]


ANTHROPIC = [
    Case(
        "anthropic",
        "thinking, cited text and a call",
        {"model": "m-1", "content": _BLOCKS, "usage": _START | {"output_tokens": 4}},
        [
            {"type": "message_start", "message": {"model": "m-1", "content": [], "usage": _START}},
            *_block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "Hm, "},
                {"type": "thinking_delta", "thinking": "hm."},
                {"type": "signature_delta", "signature": "c2ln"},
            ),
            *_block(
                1,
                {"type": "text", "text": "", "citations": None},
                {"type": "citations_delta", "citation": _CITED["citations"][0]},
                {"type": "text_delta", "text": "Yes."},
                {"type": "a kind that comes later", "text": "?"},
            ),
            *_block(
                2,
                _USE | {"input": {}},
                {"type": "input_json_delta", "partial_json": '{"a"'},
                {"type": "input_json_delta", "partial_json": ": 1}"},
            ),
            {"type": "ping"},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "container": None},
                "usage": {"output_tokens": 4},
            },
            {"type": "message_stop"},
        ],
        [
            (
                "assistant",
                "Yes.",
                {"native": {"provider": "anthropic", "model": "m-1", "wire": _BLOCKS}} | _KEPT,
            ),
            ("tool_call", None, {"id": "toolu_1", "name": "glob", "arguments": {"a": 1}}),
        ],
        _BLOCKS,
    )
]


_PARTS: list[Body] = [
    {"text": "Hm.", "thought": True},
    {"text": "Yes."},
    {"functionCall": {"name": "glob", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
]
_COST = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 1,
    "cachedContentTokenCount": 6,
}
GEMINI = [
    Case(
        "gemini",
        "a thought, words and a signed call",
        {
            "modelVersion": "m-1",
            "candidates": [{"content": {"role": "model", "parts": _PARTS}}],
            "usageMetadata": _COST,
        },
        [
            {
                "modelVersion": "m-1",
                "candidates": [{"content": {"role": "model", "parts": _PARTS[:1]}}],
            },
            {"candidates": [{"content": {"parts": _PARTS[1:]}}], "usageMetadata": _COST},
            {"candidates": [{"finishReason": "STOP", "content": {"parts": [{}]}}]},
        ],
        [
            (
                "assistant",
                "Yes.",
                {"native": {"provider": "gemini", "model": "m-1", "wire": _PARTS}} | _USAGE,
            ),
            ("tool_call", None, {"id": "call_1", "name": "glob", "arguments": {"a": 1}}),
        ],
        _PARTS,
    )
]


_CONVERSE: list[Body] = [
    {"reasoningContent": {"reasoningText": {"text": "Hm, hm.", "signature": "c2ln"}}},
    {"text": "Yes."},
    {"toolUse": {"toolUseId": "t-1", "name": "glob", "input": {"a": 1}}},
]
_SPENT = {
    "inputTokens": 2,
    "outputTokens": 4,
    "cacheReadInputTokens": 6,
    "cacheWriteInputTokens": 1,
}
_SERVED: list[Body] = [
    {"reasoningContent": {"redactedContent": "c2Vh"}},
    {
        "toolUse": {
            "toolUseId": "t-2",
            "name": "nova_grounding",
            "input": {},
            "type": "server_tool_use",
        }
    },
    {"toolResult": {"toolUseId": "t-2", "content": [{"text": "x"}], "type": "nova_result"}},
    {"citationsContent": {"content": [{"text": "Yes."}], "citations": [{"title": "x"}]}},
]


def _started(index: int, start: Body) -> Body:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def _delta(index: int, delta: Body) -> Body:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def _converse(
    name: str, blocks: list[Body], answer: list[Body], stream: list[Body], rest: list[Any]
) -> Case:
    native = {"provider": "bedrock", "model": "m-1", "wire": blocks}
    return Case(
        "bedrock",
        name,
        {"output": {"message": {"role": "assistant", "content": answer}}, "usage": _SPENT},
        [
            {"messageStart": {"role": "assistant"}},
            *stream,
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": _SPENT}},
        ],
        [("assistant", "Yes.", {"native": native} | _KEPT), *rest],
        blocks,
    )


BEDROCK = [
    _converse(
        "reasoning, words and a call",
        _CONVERSE,
        [*_CONVERSE[:2], {"toolUse": _CONVERSE[2]["toolUse"] | {"type": "tool_use"}}],
        [
            _delta(0, {"reasoningContent": {"text": "Hm, "}}),
            _delta(0, {"reasoningContent": {"text": "hm."}}),
            _delta(0, {"reasoningContent": {"signature": "c2ln"}}),
            _delta(1, {"text": "Y"}),
            _delta(1, {"text": "es."}),
            _started(2, {"toolUse": {"toolUseId": "t-1", "name": "glob"}}),
            _delta(2, {"toolUse": {"input": '{"a":'}}),
            _delta(2, {"toolUse": {"input": " 1}"}}),
        ],
        [("tool_call", None, {"id": "t-1", "name": "glob", "arguments": {"a": 1}})],
    ),
    _converse(
        "a tool of the service, and cited words",
        _SERVED,
        _SERVED,
        [
            _delta(0, {"reasoningContent": {"redactedContent": "c2Vh"}}),
            _started(1, {"toolUse": _SERVED[1]["toolUse"] | {"input": None}}),
            _started(2, {"toolResult": {"toolUseId": "t-2", "type": "nova_result"}}),
            _delta(2, {"toolResult": [{"text": "x"}]}),
            _delta(3, {"text": "Yes."}),
            _delta(3, {"citation": {"title": "x"}}),
        ],
        [],
    ),
]
ANSWERS = [*OPENAI, *RESPONSES, *ANTHROPIC, *GEMINI, *BEDROCK]
