"""The whole request: model, tools and parameters around the messages, in each format."""

import re

import pytest

import backstory
from backstory.log.messages import Message
from backstory.log.settings import Settings
from backstory.wire import FORMATS, dump
from backstory.wire.conversation import Conversation
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


# --- parameters ---

OWN = {
    "openai": {"response_format": {"type": "json_object"}, "seed": 7, "parallel_tool_calls": False},
    "openai-responses": {"text": {"verbosity": "low"}, "parallel_tool_calls": False},
    "anthropic": {"service_tier": "auto", "thinking": {"type": "adaptive"}},
    "gemini": {"safetySettings": [{"category": "c", "threshold": "t"}]},
    "bedrock": {"guardrailConfig": {"guardrailIdentifier": "g"}},
}


@pytest.mark.parametrize("format", OWN)
def test_a_providers_own_parameters_reach_it(format):
    whole, repairs = body(Settings(params=OWN[format]), format)
    assert {name: whole.get(name) for name in OWN[format]} == OWN[format]
    assert repairs == []


@pytest.mark.parametrize("name", ["responseMimeType", "response_mime_type"])
def test_gemini_has_its_own_parameters_in_an_object_under_either_name(name):
    params = {name: "application/json", "max_tokens": 9, "seed": 7}
    whole, repairs = body(Settings(params=params), "gemini")
    config = {"responseMimeType": "application/json", "maxOutputTokens": 9, "seed": 7}
    assert (whole["generationConfig"], repairs) == (config, [])


def test_a_parameter_of_another_provider_is_left_out_and_reported():
    params = {"response_format": {"type": "json_object"}}
    whole, [repair] = body(Settings(params=params), "anthropic")
    assert "response_format" not in whole
    assert (repair.rule, "response_format" in repair.why) == ("parameter", True)


@pytest.mark.parametrize("names", [("output_config", "effort"), ("effort", "output_config")])
def test_own_and_canonical_parameters_share_an_object(names):
    values = {"output_config": {"format": {"type": "json_schema"}}, "effort": "low"}
    params = {name: values[name] for name in names}
    whole, _ = body(Settings(params=params), "anthropic")
    assert whole["output_config"] == {"format": {"type": "json_schema"}, "effort": "low"}
    assert values["output_config"] == {"format": {"type": "json_schema"}}


@pytest.mark.parametrize(
    ("name", "closest"),
    [("temprature", "temperature"), ("respone_format", "response_format"), ("seeds", "seed")],
)
def test_settings_refuse_a_misspelt_parameter_and_name_the_closest(name, closest):
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        with pytest.raises(backstory.Invalid, match=f"{name}.*{closest}"):
            agent.settings(params={name: 1})
        assert agent.head == 0


def test_settings_accept_what_any_format_knows_and_everything_below_a_formats_name():
    params = {"temperature": 1, "seed": 7, "top_k": 3, "openai": {"min_p": 0.1}}
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.settings(params=params)
        assert agent.conversation().settings.params == params


# Fields of a request that are no parameters: what other settings set, and how an SDK is called.
NO_PARAMETERS = {
    "openai": {"messages", "model", "tools", "functions", "function_call", "stream_options"},
    "openai-responses": {"input", "instructions", "model", "tools", "stream_options"},
    "anthropic": {"messages", "model", "system", "tools", "betas"},
    "gemini": {
        "system_instruction",
        "tools",
        "tool_config",
        "http_options",
        "should_return_http_response",
        "automatic_function_calling",
        "automatic_continuation",
        "continuation_token",
        # In a request, these two have other names.
        "generation_output_config",
        "model_selection_config",
    },
    "bedrock": {"messages", "modelId", "system", "toolConfig"},
}
# Only older models of Anthropic have top_k. generationConfig is an object in a request; in the SDK's config,
# its fields stand beside the others.
NOT_IN_SDKS = {
    "anthropic": {"top_k"},
    "gemini": {"generation_config"},
}
# An installed SDK may be some releases newer or older than our lists.
FEW = 3


def fields_of_sdk(format):
    match format:
        case "openai":
            from openai.types.chat.completion_create_params import CompletionCreateParamsBase

            return set(CompletionCreateParamsBase.__annotations__)
        case "openai-responses":
            from openai.types.responses.response_create_params import ResponseCreateParamsBase

            return set(ResponseCreateParamsBase.__annotations__)
        case "anthropic":
            from anthropic.types.beta.message_create_params import MessageCreateParamsBase

            return set(MessageCreateParamsBase.__annotations__)
        case "gemini":
            from google.genai.types import GenerateContentConfig

            return set(GenerateContentConfig.model_fields)
        case _:
            from tests.wire.sdk_types import converse_fields

            return converse_fields()


@pytest.mark.parametrize("format", FORMATS)
def test_own_parameters_are_the_fields_of_the_sdks_types(format):
    written = get_format(format)
    own = {to_snake(name) if format == "gemini" else name for name in written.own_parameters}
    canonical = {path.split(".")[0] for path in written.parameters.values()} | {"tool_choice"}
    if format == "gemini":
        canonical = {to_snake(path.split(".")[1]) for path in written.parameters.values()}
    known = fields_of_sdk(format) - NO_PARAMETERS[format]
    assert len(known - own - canonical) <= FEW
    assert len(own - known - NOT_IN_SDKS.get(format, set())) <= FEW


def to_snake(name):
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def test_repairs_names_the_parameters_that_a_format_cannot_express():
    settings = Settings(params={"response_format": {"type": "text"}})
    conversation = Conversation([Message("user", "Hi.")], settings)
    assert conversation.repairs("openai") == []
    assert [repair.rule for repair in conversation.repairs("anthropic")] == ["parameter"]
