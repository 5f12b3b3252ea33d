"""The whole request: model, tools and parameters around the messages, in each format."""

import pytest

from backstory.log.settings import Settings
from backstory.wire import FORMATS, dump
from backstory.wire.formats import get_format

GLOB = {
    "name": "glob",
    "description": "Find files.",
    "parameters": {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "required": ["pattern"],
    },
}
SET = Settings(
    model="m-1",
    tools=(GLOB,),
    params={
        "max_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": "END",
        "tool_choice": {"name": "glob"},
    },
)


def body(settings, format, model=None):
    messages = [("system", "Be careful.", None), ("user", "Hi.", None)]
    return get_format(format).add_settings(dump(messages, format).body, settings, model)


def test_openai():
    whole, repairs = body(SET, "openai")
    assert repairs == []
    assert whole["model"] == "m-1"
    assert whole["tools"] == [{"type": "function", "function": GLOB}]
    assert (whole["max_tokens"], whole["temperature"], whole["top_p"], whole["stop"]) == (
        99,
        0.5,
        0.9,
        "END",
    )
    assert whole["tool_choice"] == {"type": "function", "function": {"name": "glob"}}


@pytest.mark.parametrize(
    "model", ["gpt-5", "gpt-5-mini-2025-08-07", "o3", "o4-mini", "openai/gpt-5"]
)
def test_reasoning_models_of_openai_count_their_thoughts_too(model):
    whole, _ = body(SET, "openai", model)
    assert "max_tokens" not in whole
    assert whole["max_completion_tokens"] == 99


def test_responses_cannot_stop_at_a_text_and_says_so():
    whole, repairs = body(SET, "openai-responses")
    assert whole["tools"] == [{"type": "function", **GLOB}]
    assert whole["max_output_tokens"] == 99
    assert whole["tool_choice"] == {"type": "function", "name": "glob"}
    assert [(repair.rule, "stop" in repair.why) for repair in repairs] == [("parameter", True)]


def test_anthropic():
    whole, repairs = body(SET, "anthropic")
    assert repairs == []
    assert whole["tools"] == [
        {"name": "glob", "description": "Find files.", "input_schema": GLOB["parameters"]}
    ]
    assert (whole["max_tokens"], whole["stop_sequences"]) == (99, ["END"])
    assert whole["tool_choice"] == {"type": "tool", "name": "glob"}


def test_anthropic_always_gets_a_limit_because_it_refuses_a_request_without_one():
    whole, _ = body(Settings(), "anthropic")
    assert whole["max_tokens"] > 0


def test_gemini():
    whole, repairs = body(SET, "gemini")
    assert repairs == []
    assert whole["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "glob",
                    "description": "Find files.",
                    "parametersJsonSchema": GLOB["parameters"],
                }
            ]
        }
    ]
    assert whole["generationConfig"] == {
        "maxOutputTokens": 99,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["END"],
    }
    assert whole["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["glob"]}
    }


def test_bedrock():
    whole, repairs = body(SET, "bedrock")
    assert repairs == []
    assert whole["modelId"] == "m-1"
    spec = {
        "name": "glob",
        "description": "Find files.",
        "inputSchema": {"json": GLOB["parameters"]},
    }
    assert whole["toolConfig"] == {
        "tools": [{"toolSpec": spec}],
        "toolChoice": {"tool": {"name": "glob"}},
    }
    assert whole["inferenceConfig"] == {
        "maxTokens": 99,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["END"],
    }


def test_bedrock_cannot_forbid_tools_and_says_so():
    whole, repairs = body(SET._replace(params={"tool_choice": "none"}), "bedrock")
    assert "toolChoice" not in whole["toolConfig"]
    assert [repair.rule for repair in repairs] == ["parameter"]


@pytest.mark.parametrize("format", FORMATS)
def test_without_settings_the_messages_stand_alone(format):
    whole, repairs = body(Settings(), format)
    whole.pop("max_tokens", None)
    assert whole == dump([("system", "Be careful.", None), ("user", "Hi.", None)], format).body
    assert repairs == []


@pytest.mark.parametrize("format", FORMATS)
def test_an_unknown_choice_of_tools_is_reported(format):
    whole, repairs = body(SET._replace(params={"tool_choice": 7}), format)
    assert "tool_choice" not in whole
    assert [repair.rule for repair in repairs] == ["parameter"]


def test_parameters_of_one_format_go_to_that_format_as_they_are():
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    settings = Settings(params={"anthropic": thinking, "gemini": {"generationConfig": {"seed": 7}}})
    assert body(settings, "anthropic")[0]["thinking"] == thinking["thinking"]
    assert "thinking" not in body(settings, "openai")[0]
    both = settings._replace(params={**settings.params, "temperature": 1})
    assert body(both, "gemini")[0]["generationConfig"] == {"seed": 7, "temperature": 1}


def test_a_tool_of_one_provider_goes_there_and_is_reported_elsewhere():
    search = {
        "name": "web_search",
        "native": {"format": "anthropic", "wire": {"type": "web_search_20250305"}},
    }
    settings = Settings(tools=(search, GLOB))
    assert body(settings, "anthropic")[0]["tools"][0] == {"type": "web_search_20250305"}
    whole, repairs = body(settings, "openai")
    assert len(whole["tools"]) == 1
    assert [repair.rule for repair in repairs] == ["tools"]
    either = search | {"parameters": {"type": "object"}}
    whole, repairs = body(Settings(tools=(either,)), "openai")
    assert whole["tools"][0]["function"]["name"] == "web_search"
    assert repairs == []
