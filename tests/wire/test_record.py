"""What SDKs return, recorded: whose it is, what it says, and what was asked."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import backstory
from backstory.wire.answers import request_digest

OPENAI = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "ls", "arguments": '{"path": "."}'},
                    }
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3},
    },
}
RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-5",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "m_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "f",
            "call_id": "c1",
            "name": "ls",
            "arguments": '{"path": "."}',
        },
    ],
    "usage": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}},
}
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 6, "cache_read_input_tokens": 3, "output_tokens": 4},
}
GEMINI = {
    "modelVersion": "gemini-x",
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Let me look."},
                    {"functionCall": {"name": "ls", "args": {"path": "."}}},
                ],
            }
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 9,
        "candidatesTokenCount": 4,
        "cachedContentTokenCount": 3,
    },
}
BEDROCK = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"text": "Let me look."},
                {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "."}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 6, "outputTokens": 4, "cacheReadInputTokens": 3, "totalTokens": 13},
}
ANSWERS = {
    "openai": OPENAI,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
}


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.user("Which files are here?")
        yield agent


@pytest.mark.parametrize("format", ANSWERS)
def test_an_answer_of_each_provider_is_recognised_and_written(agent, format):
    answer = ANSWERS[format]
    said, call = agent.record(answer)
    assert (said.kind, said.content) == ("assistant", "Let me look.")
    assert (call.kind, call.data["name"], call.data["arguments"]) == (
        "tool_call",
        "ls",
        {"path": "."},
    )
    usage = answer.get("usage") or answer["usageMetadata"]
    asked = said.data["request"]
    assert (asked["format"], asked["at"], asked["usage"]) == (format, 1, usage)
    assert said.data["usage"] == {"input": 9, "output": 4, "cached": 3}
    agent.tool_result(call, "a.py")
    body, repairs = agent.conversation().dump(format, model=asked.get("model"))
    assert repairs == []
    assert "Let me look." in json.dumps(body)


@pytest.mark.parametrize("format", ANSWERS)
def test_an_object_of_an_sdk_is_as_good_as_a_dict(agent, format):
    model = SimpleNamespace(model_dump=lambda **options: ANSWERS[format])
    assert [event.kind for event in agent.record(model)] == ["assistant", "tool_call"]


def test_the_request_that_led_to_it_is_kept_by_its_digest(agent):
    body = agent.conversation().request("openai", model="gpt-4o")
    said, _ = agent.record(OPENAI, model="gpt-4o", request=body)
    assert said.data["request"]["sha256"] == request_digest(body)
    assert said.data["request"]["model"] == "gpt-4o"


@pytest.mark.parametrize("format", ANSWERS)
def test_a_request_is_verified_if_its_answer_names_a_version_of_the_model(format):
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.settings(model="an-alias")
        agent.user("Which files are here?")
        body = agent.conversation().request(format)
        agent.record(ANSWERS[format], request=body)
        assert store.verify(requests=True) == []


def test_the_digest_does_not_depend_on_the_order_of_keys_or_on_blobs():
    one, two = {"a": 1, "b": [{"c": b"x", "d": None}]}, {"b": [{"d": None, "c": "eA=="}], "a": 1}
    assert request_digest(one) == request_digest(two)
    assert request_digest({"a": [1, 2]}) != request_digest({"a": [2, 1]})


def test_a_stream_is_recognised_by_its_first_event(agent):
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    ]
    [event] = agent.record(chunks)
    assert event.content == "Hello"
    assert event.data["request"]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2}


@pytest.mark.parametrize("odd", [{}, [], "text", None, 3, {"output": 3}])
def test_what_nobody_knows_is_refused_and_nothing_is_written(agent, odd):
    with pytest.raises(backstory.Invalid):
        agent.record(odd)
    assert agent.head == 1


def test_of_two_answers_behind_one_head_the_second_is_refused(agent):
    agent.record(GEMINI, expected=1)
    with pytest.raises(backstory.Conflict):
        agent.record(BEDROCK, expected=1)


FACTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai": (
        {
            "id": "chatcmpl-1",
            "model": "m",
            "service_tier": "flex",
            "choices": [
                {"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
            ],
        },
        {"id": "chatcmpl-1", "stop": "stop", "tier": "flex"},
    ),
    "openai-responses": (
        {
            "id": "resp_1",
            "model": "m",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "store": True,
            "service_tier": "priority",
            "prompt_cache_diagnostics": {"type": "cache_hit"},
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "hi"}],
                },
            ],
        },
        {
            "id": "resp_1",
            "stop": "max_output_tokens",
            "stored": True,
            "tier": "priority",
            "diagnostics": {"type": "cache_hit"},
        },
    ),
    "anthropic": (
        {
            "id": "msg_1",
            "type": "message",
            "model": "m",
            "content": [{"type": "text", "text": "hi"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1, "service_tier": "batch"},
            "diagnostics": {"cache_miss_reason": {"type": "tools_changed"}},
        },
        {
            "id": "msg_1",
            "stop": "end_turn",
            "tier": "batch",
            "diagnostics": {"cache_miss_reason": {"type": "tools_changed"}},
        },
    ),
    "gemini": (
        {
            "responseId": "r1",
            "modelVersion": "m",
            "candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "hi"}]}}],
            "usageMetadata": {"promptTokenCount": 1, "trafficType": "ON_DEMAND"},
        },
        {"id": "r1", "stop": "STOP", "tier": "ON_DEMAND"},
    ),
    "bedrock": (
        {
            "ResponseMetadata": {"RequestId": "b1"},
            "output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}},
            "stopReason": "end_turn",
            "serviceTier": {"type": "flex"},
        },
        {"id": "b1", "stop": "end_turn", "tier": "flex"},
    ),
}
SAID = {"role": "assistant", "content": "hi"}
STREAMS = {
    "openai": [
        {"id": "chatcmpl-1", "service_tier": "flex", "choices": [{"delta": {"content": "hi"}}]},
        {"id": "chatcmpl-1", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    ],
    "openai-responses": [
        {"type": "response.output_item.done", "item": FACTS["openai-responses"][0]["output"][0]},
        {"type": "response.incomplete", "response": FACTS["openai-responses"][0]},
    ],
    "anthropic": [
        {"type": "message_start", "message": FACTS["anthropic"][0] | {"stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    ],
    "gemini": [
        {"responseId": "r1", "candidates": [{"content": {"parts": [{"text": "h"}]}}]},
        FACTS["gemini"][0] | {"candidates": [{"finishReason": "STOP", "content": {"parts": []}}]},
    ],
    "bedrock": [
        {"contentBlockDelta": {"delta": {"text": "hi"}, "contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {}, "serviceTier": {"type": "flex"}}},
    ],
}


@pytest.mark.parametrize("format", FACTS)
def test_an_answer_keeps_its_id_its_stop_reason_and_its_diagnostics(agent, format):
    answer, facts = FACTS[format]
    first = agent.record(answer)[0]
    assert first.data["response"] == facts


@pytest.mark.parametrize("format", STREAMS)
def test_a_streamed_answer_keeps_the_same_facts(agent, format):
    first = agent.record(STREAMS[format], format=format, model="m")[0]
    facts = FACTS[format][1]
    if format == "bedrock":  # the id is in the response of HTTP, which is not part of the stream
        facts = {key: value for key, value in facts.items() if key != "id"}
    assert first.data["response"] == facts


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 7, "choices": [{"finish_reason": None, "message": SAID}]},
        {"choices": [{"message": SAID}], "service_tier": None},
    ],
)
def test_facts_that_a_server_did_not_give_are_not_there(agent, answer):
    assert "response" not in agent.record(answer)[0].data
