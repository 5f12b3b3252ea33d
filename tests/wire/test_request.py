"""The whole request: model, tools and parameters around the messages, in each format."""

import copy
import re

import pytest

import backstory
from backstory.log.messages import Message
from backstory.log.settings import Settings
from backstory.wire import FORMATS, dump, load_answer
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


def test_a_tool_choice_without_tools_is_reported_if_a_tool_has_to_be_called():
    for choice, count in (("auto", 0), ("none", 0), ("required", 1), ({"name": "glob"}, 1)):
        whole, repairs = body(Settings(params={"tool_choice": choice}), "openai")
        assert "tool_choice" not in whole
        assert [repair.rule for repair in repairs] == ["parameter"] * count


def test_a_tool_choice_counts_the_tools_that_the_request_has():
    search = {"name": "search", "native": {"format": "anthropic", "wire": {"name": "search"}}}
    settings = Settings("m", (search,), {"max_tokens": 9, "tool_choice": "required"})
    whole, repairs = body(settings, "openai")
    assert "tool_choice" not in whole
    assert [repair.rule for repair in repairs] == ["tools", "parameter"]
    whole, repairs = body(settings, "anthropic")
    assert (whole["tool_choice"], repairs) == ({"type": "any"}, [])


def test_a_tool_choice_stays_if_the_tools_are_fields_of_the_format():
    own = {"tools": [{"name": "search", "type": "search_1"}]}
    params = {"max_tokens": 9, "tool_choice": {"name": "search"}, "anthropic": own}
    whole, repairs = body(Settings("m", params=params), "anthropic")
    assert whole["tool_choice"] == {"type": "tool", "name": "search"}
    assert (whole["tools"], repairs) == (own["tools"], [])


# --- names of tools ---

TOO_LONG = {
    "openai": 65,
    "openai-responses": 65,
    "anthropic": 129,
    "gemini": 65,
    "bedrock": 65,
}
ILLEGAL = ("wetter für Köln", "get/time")


def list_names(request, format):
    """Return the names of the tools, of the chosen tool, and of the calls in a request."""
    match format:
        case "openai":
            calls = [
                call for message in request["messages"] for call in message.get("tool_calls", ())
            ]
            tools = [tool["function"]["name"] for tool in request["tools"]]
            chosen = request["tool_choice"]["function"]["name"]
            return tools, chosen, [call["function"]["name"] for call in calls]
        case "openai-responses":
            calls = [item["name"] for item in request["input"] if "name" in item]
            tools = [tool["name"] for tool in request["tools"]]
            return tools, request["tool_choice"]["name"], calls
        case "anthropic":
            tools = [tool["name"] for tool in request["tools"]]
            chosen = request["tool_choice"]["name"]
            return tools, chosen, [block["name"] for block in request["messages"][1]["content"]]
        case "gemini":
            functions = request["tools"][0]["functionDeclarations"]
            [chosen] = request["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]
            calls = [part["functionCall"]["name"] for part in request["contents"][1]["parts"]]
            return [function["name"] for function in functions], chosen, calls
    config = request["toolConfig"]
    tools = [tool["toolSpec"]["name"] for tool in config["tools"]]
    blocks = request["messages"][1]["content"]
    chosen = config["toolChoice"]["tool"]["name"]
    return tools, chosen, [block["toolUse"]["name"] for block in blocks]


@pytest.mark.parametrize("format", FORMATS)
def test_a_tool_has_one_legal_name_in_its_definition_its_choice_and_its_calls(format):
    for name in (*ILLEGAL, "n" * TOO_LONG[format]):
        tool = {"name": name, "parameters": {"type": "object"}}
        settings = Settings("m", (tool, GLOB), {"tool_choice": {"name": name}})
        call = ("tool_call", None, {"id": "c1", "name": name, "arguments": {}})
        events = [
            Message("user", "Hi."),
            Message(*call),
            Message("tool_result", "ok", {"id": "c1"}),
        ]
        conversation = Conversation(events, settings)
        tools, chosen, calls = list_names(conversation.request(format), format)
        pattern = get_format(format).tool_names
        assert pattern.fullmatch(tools[0]), name
        assert (tools[1], [chosen], calls) == ("glob", tools[:1], tools[:1])
        rules = [repair.rule for repair in conversation.repairs(format)]
        assert rules.count("name") == 2


@pytest.mark.parametrize("format", FORMATS)
def test_the_longest_name_that_a_service_takes_stays(format):
    name = "n" * (TOO_LONG[format] - 1)
    settings = SET._replace(tools=({"name": name},), params={})
    conversation = Conversation([Message("user", "Hi.")], settings)
    assert conversation.repairs(format) == []


def test_a_name_that_one_service_refuses_stays_for_another():
    settings = SET._replace(tools=({"name": "time.now"},), params={})
    assert body(settings, "gemini")[1] == []
    assert [repair.rule for repair in body(settings, "openai")[1]] == ["name"]


# --- Bedrock's stubs ---


def test_a_tool_that_is_gone_keeps_its_stub_beside_the_tools_of_the_request():
    events = [Message("user", "Hi.")]
    for id, name in (("c1", "glob"), ("c2", "grep")):
        events.append(Message("tool_call", None, {"id": id, "name": name, "arguments": {}}))
        events.append(Message("tool_result", "ok", {"id": id}))
    request = Conversation(events, SET._replace(params={})).request("bedrock")
    [glob, grep] = request["toolConfig"]["tools"]
    assert glob["toolSpec"]["inputSchema"] == {"json": GLOB["parameters"]}
    assert grep == {"toolSpec": {"name": "grep", "inputSchema": {"json": {"type": "object"}}}}
    without = Conversation(events).request("bedrock")
    assert [tool["toolSpec"]["name"] for tool in without["toolConfig"]["tools"]] == ["glob", "grep"]


# --- whose objects these are ---


def change_everything(value):
    """Change each object and list within a value."""
    if isinstance(value, dict):
        for item in list(value.values()):
            change_everything(item)
        value["changed"] = True
    elif isinstance(value, list):
        for item in value:
            change_everything(item)
        value.append("changed")


@pytest.mark.parametrize("format", FORMATS)
def test_who_changes_a_request_changes_no_later_one(format):
    search = {"name": "search", "native": {"format": format, "wire": {"type": "s", "list": [{}]}}}
    bare = {"name": "bare"}
    own = {"metadata": {"user": {"id": "u"}}, "stop_sequences": ["END"]}
    params = {**SET.params, "stop": ["END"], "metadata": {"user": "u"}, format: own}
    settings = Settings("m", (GLOB, search, bare), params)
    events = [Message("system", "Be brief."), Message("user", "Hi.")]
    conversation = Conversation(events, settings)
    first = conversation.request(format, cache="auto")
    before = copy.deepcopy(first)
    change_everything(first)
    assert conversation.request(format, cache="auto") == before
    assert Conversation(events, settings).request(format, cache="auto") == before


# --- values of parameters ---


def hi(settings):
    return Conversation([Message("user", "Hi.")], settings)


WRONG_VALUES = {
    "max_tokens": ["10", 0, True],
    "temperature": ["hot", True],
    "top_p": [[]],
    "stop": [5, [1]],
    "effort": [3],
    "thinking": ["much"],
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_settings_refuse_a_value_of_another_type(name):
    agent = backstory.open(":memory:").start()
    for value in WRONG_VALUES[name]:
        with pytest.raises(backstory.Invalid, match=name):
            agent.settings(params={name: value})
    assert agent.head == 0


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_value_of_another_type_in_an_older_log_is_left_out_and_reported(name, format):
    for value in WRONG_VALUES[name]:
        conversation = hi(Settings(params={name: value}))
        [repair] = conversation.repairs(format)
        assert (repair.rule, name in repair.why) == ("parameter", True)


@pytest.mark.parametrize("format", FORMATS)
def test_a_parameter_that_is_none_is_absent(format):
    params = {"max_tokens": None, "temperature": 1, format: {"temperature": None}}
    with_none = hi(Settings(params=params))
    without = hi(Settings(params={"temperature": 1}))
    assert with_none.request(format) == without.request(format)


@pytest.mark.parametrize(
    ("format", "field"),
    [
        ("openai", "messages"),
        ("openai-responses", "input"),
        ("anthropic", "system"),
        ("gemini", "contents"),
        ("bedrock", "messages"),
    ],
)
def test_no_parameter_replaces_the_conversation(format, field):
    agent = backstory.open(":memory:").start()
    params = {format: {field: []}}
    with pytest.raises(backstory.Invalid, match="replace the conversation"):
        agent.settings(params=params)
    conversation = hi(Settings(params=params))
    assert [repair.rule for repair in conversation.repairs(format)] == ["parameter"]
    assert conversation.request(format) == hi(Settings()).request(format)


def test_a_field_on_the_way_to_a_parameter_that_is_no_object_is_reported():
    for format, params in (
        ("gemini", {"generationConfig": "x", "temperature": 1}),
        ("openai-responses", {"reasoning": "x", "effort": "low"}),
    ):
        conversation = hi(Settings(params=params))
        assert [repair.rule for repair in conversation.repairs(format)] == ["parameter"]


@pytest.mark.parametrize("nonsense", [0, "x", [1], {"tools": 5}, {"tools": [1]}])
@pytest.mark.parametrize("field", ["tools", "toolConfig", "generationConfig"])
@pytest.mark.parametrize("format", FORMATS)
def test_own_fields_that_make_no_sense_are_left_to_the_service(format, field, nonsense):
    agent = backstory.open(":memory:").start("main")
    agent.user("Which files?")
    agent.tool_call("glob", {}, id="call_1")
    agent.settings(model="claude-x", tools=[GLOB], params={format: {field: nonsense}})

    body = agent.conversation().request(format, cache="auto")

    assert field in body


@pytest.mark.parametrize("format", FORMATS)
def test_a_choice_of_a_tool_that_is_not_there_is_left_out_and_reported(format):
    settings = Settings(tools=({"name": "look"},), params={"tool_choice": {"name": "nope"}})
    conversation = hi(settings)
    [repair] = conversation.repairs(format)
    assert "no tool 'nope'" in repair.why
    assert "nope" not in repr(conversation.request(format))


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_text_before_a_form_with_thinking_goes_behind_the_thinking(provider):
    thinking = {
        "anthropic": {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        "bedrock": {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
    }[provider]
    call = {
        "anthropic": {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        "bedrock": {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
    }[provider]
    native = {"provider": provider, "model": "m", "wire": [thinking, call]}
    data = {"id": "c1", "name": "look", "arguments": {}, "native": native}
    history = [
        ("user", "q", None),
        ("assistant", "I look.", None),
        ("tool_call", None, data),
        ("tool_result", "r", {"id": "c1"}),
    ]
    answer = dump(history, provider, model="m").body["messages"][1]["content"]
    assert answer[0] == thinking
    assert "I look." in repr(answer[1])


THINK = {"type": "enabled", "budget_tokens": 2048}
RUNNING = [
    ("user", "q", None),
    ("assistant", "I look.", None),
    ("tool_call", None, {"id": "c1", "name": "look", "arguments": {}}),
    ("tool_result", "r", {"id": "c1"}),
]


def find_thinking_settings(
    provider, messages, thinking=THINK, model="claude-sonnet-4-5", **options
):
    fields = {"thinking": thinking}
    if provider == "bedrock":
        fields = {"additionalModelRequestFields": fields}
    settings = Settings(model=model, params={provider: fields})
    conversation = Conversation([Message(*one) for one in messages], settings)
    request, repairs = conversation.dump_request(provider, **options)
    fields = request if provider == "anthropic" else request["additionalModelRequestFields"]
    return fields.get("thinking"), [repair.why for repair in repairs if repair.rule == "parameter"]


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_a_tool_turn_of_another_model_goes_without_thinking(provider):
    thinking, [why] = find_thinking_settings(provider, RUNNING)
    assert thinking is None
    assert why.startswith("thinking was left out")


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_thinking_stays_on_in_the_next_turn_and_where_the_turn_has_some(provider):
    answered = [*RUNNING, ("assistant", "Done.", None), ("user", "And now?", None)]
    block = {
        "anthropic": {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        "bedrock": {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
    }[provider]
    text = get_format(provider).write_text("I look.")
    native = {"provider": provider, "model": "claude-sonnet-4-5", "wire": [block, text]}
    own = [RUNNING[0], ("assistant", "I look.", {"native": native}), *RUNNING[2:]]
    second = [("tool_call", None, {"id": "c2", "name": "look", "arguments": {}})]
    for messages in (
        RUNNING[:1],
        answered,
        own,
        own + second + [("tool_result", "r", {"id": "c2"})],
    ):
        assert find_thinking_settings(provider, messages) == (THINK, [])


def test_adaptive_thinking_and_other_servers_need_no_thinking_first():
    adaptive = {"type": "adaptive"}
    assert find_thinking_settings("anthropic", RUNNING, adaptive) == (adaptive, [])
    assert find_thinking_settings("bedrock", RUNNING, adaptive) == (adaptive, [])
    assert find_thinking_settings("anthropic", RUNNING, THINK, "kimi-k2")[0] == THINK


def test_a_key_that_is_not_a_text_in_what_a_service_ran_is_read():
    run = {"type": "server_tool_use", "id": "s", "name": "search", "input": {1: 2}}
    [event] = load_answer({"content": [run], "type": "message"}, "anthropic")
    told = dump([("user", "q", None), event], "openai").body
    assert "1: 2" in repr(told)


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_a_prefill_without_thinking_is_continued_without_it(provider):
    history = [("user", "Greet.", None), ("assistant", "Hello", None)]
    thinking, [why] = find_thinking_settings(provider, history, pause=True)
    assert (thinking, why.startswith("thinking was left out")) == (None, True)
    # Without `pause`, the last message is the user's.
    assert find_thinking_settings(provider, history) == (THINK, [])


def test_a_prefill_that_begins_with_thinking_is_continued_with_it():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    form = [thought, {"type": "text", "text": "Hello"}]
    native = {"provider": "anthropic", "model": "claude-sonnet-4-5", "wire": form}
    history = [("user", "Greet.", None), ("assistant", "Hello", {"native": native})]
    assert find_thinking_settings("anthropic", history, pause=True) == (THINK, [])
