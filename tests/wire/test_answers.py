"""`load_answer`: what a provider answered becomes events, and what it sealed goes back to it."""

import json

import anthropic.types
import openai.types.chat
import pytest
from google.genai import types as google

import backstory
from backstory import Invalid
from backstory.wire import FORMATS, dump, load_answer, to_bytes
from backstory.wire.answers import build_answer
from tests.wire.answers import ANSWERS
from tests.wire.rules import violations

CASES = [pytest.param(case, id=f"{case.format}: {case.name}") for case in ANSWERS]


@pytest.mark.parametrize("case", CASES)
def test_an_answer_becomes_events(case):
    assert load_answer(case.whole, case.format, model="m-1") == case.events


@pytest.mark.parametrize("case", CASES)
def test_the_events_of_a_stream_come_to_the_same(case):
    assert load_answer(case.stream, case.format, model="m-1") == case.events
    assert load_answer(iter(case.stream), case.format, model="m-1") == case.events


@pytest.mark.parametrize("case", CASES)
def test_the_next_request_has_the_answer_as_it_came(case):
    store = backstory.open(":memory:")
    agent = store.start("main")
    agent.user("Well?")
    agent.extend(load_answer(case.stream, case.format, model="m-1"))
    for message in agent.conversation():
        if message.kind == "tool_call":
            agent.tool_result(message.data["id"], "3 files")
    agent.user("Go on.")
    conversation = agent.conversation()
    assert conversation.repairs(case.format, model="m-1", stored=True) == []
    dumped = json.loads(conversation.to_bytes(case.format, model="m-1", stored=True))
    assert json.dumps(case.form, sort_keys=True)[1:-1] in json.dumps(dumped, sort_keys=True)
    assert (
        violations(dumped, case.format, strict=False, model="m-1", stored=True, compatible=True)
        == []
    )


def test_bedrock_events_are_read_as_the_sdk_names_them_and_as_the_frames_hold_them():
    for case in (case for case in ANSWERS if case.format == "bedrock"):
        bare = [inner for event in case.stream for inner in event.values()]
        assert load_answer(bare, "bedrock", model="m-1") == case.events


def test_objects_of_the_sdks_are_read_as_they_are():
    message = anthropic.types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": "Yes."}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        }
    )
    about = {"model": "claude-x", "usage": {"input": 3, "output": 1}}
    assert load_answer(message, "anthropic") == [("assistant", "Yes.", about)]
    completion = openai.types.chat.ChatCompletion.model_validate(
        {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-x",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "Yes."},
                    "logprobs": None,
                }
            ],
        }
    )
    assert load_answer(completion, "openai") == [("assistant", "Yes.", {"model": "gpt-x"})]
    chunk = google.GenerateContentResponse.model_validate(
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}}],
            "modelVersion": "g-x",
        }
    )
    assert load_answer([chunk], "gemini") == [("assistant", "Yes.", {"model": "g-x"})]


def test_an_object_that_can_say_itself_as_a_dict_does():
    class Reply:
        def to_dict(self):
            return {"content": [{"type": "text", "text": "Yes."}]}

    assert load_answer(Reply(), "anthropic") == [("assistant", "Yes.", None)]


def test_the_model_that_was_asked_is_asked_again_whatever_the_answer_calls_it():
    sealed = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Yes."},
    ]
    answer = {"model": "claude-x-20260101", "content": sealed}
    events = load_answer(answer, "anthropic", model="claude-newest")
    assert events[0][2]["model"] == "claude-x-20260101"
    history = [("user", "Well?", None), *events, ("user", "Sure?", None)]
    assert (
        dump(history, "anthropic", model="claude-newest").body["messages"][1]["content"] == sealed
    )
    unasked = [("user", "Well?", None), *load_answer(answer, "anthropic"), ("user", "Sure?", None)]
    assert dump(unasked, "anthropic", model="claude-x").body["messages"][1]["content"] == sealed


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_not_an_answer_is_refused(format):
    for found in ("Yes.", None, 5):
        with pytest.raises(Invalid, match=f"an answer of the format {format} is an object"):
            load_answer(found, format)


@pytest.mark.parametrize(
    ("format", "empty"),
    [
        ("openai", {"choices": []}),
        ("openai-responses", {}),
        ("anthropic", {"model": "x"}),
        ("bedrock", {"output": {}}),
    ],
)
def test_an_answer_without_its_content_is_refused_with_the_place(format, empty):
    with pytest.raises(Invalid, match=r"^response\S*: missing, expected an? (object|array)"):
        load_answer(empty, format)


def test_an_answer_that_does_not_say_what_it_cost_is_an_answer():
    said = {"output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}}}
    assert load_answer(said, "bedrock") == [("assistant", "Yes.", None)]
    odd = said | {
        "usage": {"inputTokens": "many", "outputTokens": 2.5, "cacheReadInputTokens": True}
    }
    assert load_answer(odd, "bedrock") == [
        ("assistant", "Yes.", {"usage": {"input": 0, "output": 0}})
    ]


@pytest.mark.parametrize("details", [[], [None], "many", 5])
def test_details_of_a_usage_that_are_no_object_count_as_absent(details):
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": details}
    choice = {"message": {"role": "assistant", "content": "Yes."}}

    [(_, _, data)] = load_answer({"choices": [choice], "usage": usage}, "openai")

    assert data["usage"] == {"input": 3, "output": 1}


def test_a_stream_of_blocks_that_are_not_known_yet_is_kept():
    events = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Yes."}}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"smell": "roses"}}},
    ]
    [(_, text, data)] = load_answer(events, "bedrock")
    assert (text, data["native"]["wire"]) == ("Yes.", [{"text": "Yes."}, {"smell": "roses"}])


def test_gemini_may_answer_nothing_at_all():
    assert load_answer({"promptFeedback": {"blockReason": "OTHER"}}, "gemini") == [
        ("assistant", "", None)
    ]


BLOCKED = {
    "a response": {"promptFeedback": {"blockReason": "SAFETY"}},
    "the other spelling": {"prompt_feedback": {"block_reason": "SAFETY"}},
    "a stream": [{"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "g"}, {}],
}


@pytest.mark.parametrize("response", BLOCKED.values(), ids=BLOCKED)
def test_a_prompt_that_google_blocked_is_recognized_and_says_why_there_is_no_answer(response):
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.user("Well?")
        agent.record(response)
        answer = agent.context().messages[-1]
    assert (answer.kind, answer.content) == ("assistant", "")
    assert answer.data["request"]["format"] == "gemini"
    assert answer.data["response"] == {"stop": "SAFETY"}


def test_a_stream_that_broke_off_says_what_had_come():
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Y"}],
    }
    begun = [{"type": "response.created", "response": {"model": "m-1"}}]
    done = {"type": "response.output_item.done", "item": item}
    assert load_answer([*begun, done], "openai-responses")[0][1] == "Y"
    assert (
        load_answer(
            [*begun, {"type": "response.completed", "response": {"output": [item]}}],
            "openai-responses",
        )[0][1]
        == "Y"
    )


def test_input_that_is_cut_off_is_kept_as_text():
    use = {"type": "tool_use", "id": "toolu_1", "name": "glob", "input": {}}
    events = [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"a'},
        },
    ]
    [(_, _, data)] = load_answer(events, "anthropic")
    assert data["arguments"] == {"_invalid_json": '{"a'}


CALL_OF_CHAT = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
CALL_OF_RESPONSES = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""}
CALL_OF_ANTHROPIC = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
CALL_OF_BEDROCK = {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}
START_OF_BEDROCK = {
    "contentBlockStart": {
        "contentBlockIndex": 0,
        "start": {"toolUse": {"toolUseId": "c1", "name": "f"}},
    }
}
CALL_OF_GEMINI = {"functionCall": {"name": "f", "willContinue": True}}


def stream_of_chat(reason):
    delta = {"tool_calls": [{"index": 0, **CALL_OF_CHAT}]}
    return [{"choices": [{"delta": delta, "finish_reason": reason}]}]


def stream_of_responses(status):
    item = {**CALL_OF_RESPONSES, "status": status}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    return [done, {"type": "response.completed", "response": {"status": status}}]


def stream_of_anthropic(reason):
    start = {"type": "content_block_start", "index": 0, "content_block": CALL_OF_ANTHROPIC}
    ended = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}
    return [{"type": "message_start", "message": {}}, start, ended]


def stream_of_bedrock(reason):
    return [START_OF_BEDROCK, *([{"messageStop": {"stopReason": reason}}] if reason else [])]


def stream_of_gemini(reason):
    return [{"candidates": [{"content": {"parts": [CALL_OF_GEMINI]}, "finishReason": reason}]}]


def answer_of_chat(reason):
    message = {"role": "assistant", "content": None, "tool_calls": [CALL_OF_CHAT]}
    return {"choices": [{"message": message, "finish_reason": reason}]}


def answer_of_bedrock(reason):
    message = {"role": "assistant", "content": [CALL_OF_BEDROCK]}
    return {"output": {"message": message}, "stopReason": reason}


# A call that came without arguments: how the answer ended if it was cut off there, and otherwise.
BEGUN_CALLS = [
    ("openai", stream_of_chat, (None, "length"), "tool_calls"),
    ("openai", answer_of_chat, ("length",), "tool_calls"),
    ("openai-responses", stream_of_responses, ("incomplete",), "completed"),
    ("anthropic", stream_of_anthropic, (None, "max_tokens"), "tool_use"),
    (
        "anthropic",
        lambda reason: {"content": [CALL_OF_ANTHROPIC], "stop_reason": reason},
        ("max_tokens", "model_context_window_exceeded"),
        "tool_use",
    ),
    ("gemini", stream_of_gemini, (None, "MAX_TOKENS"), "STOP"),
    ("bedrock", stream_of_bedrock, (None, "max_tokens"), "tool_use"),
    ("bedrock", answer_of_bedrock, ("max_tokens",), "tool_use"),
]


@pytest.mark.parametrize(("format", "build", "cut", "ended"), BEGUN_CALLS)
def test_a_call_that_was_cut_off_before_its_arguments_has_none_to_run_with(
    format, build, cut, ended
):
    for reason in cut:
        [(kind, _, data)] = load_answer(build(reason), format, model="m")
        assert kind == "tool_call"
        assert data["arguments"] in ("{", {"_invalid_json": "{"}, {"_invalid_json": "{}"})
    [(_, _, data)] = load_answer(build(ended), format, model="m")
    assert data["arguments"] == {}


PATCH = {"type": "update_file", "path": "a.py", "diff": ""}
# What a call that was cut off arrived as, and its arguments.
CUT_ITEMS = [
    ({"type": "function_call", "name": "f", "arguments": '{"a":1}'}, '{"a":1'),
    ({"type": "function_call", "name": "f", "arguments": "{}"}, "{"),
    ({"type": "function_call", "name": "f", "arguments": '{"a'}, '{"a'),
    ({"type": "custom_tool_call", "name": "f", "input": "rm -rf /"}, '{"input":"rm -rf /"'),
    ({"type": "shell_call", "action": {"commands": ["ls"]}}, '{"action":{"commands":["ls"]}'),
    (
        {"type": "apply_patch_call", "operation": PATCH},
        '{"operation":{"type":"update_file","path":"a.py","diff":""}',
    ),
]


@pytest.mark.parametrize(("item", "arguments"), CUT_ITEMS)
def test_no_incomplete_call_of_responses_can_run(item, arguments):
    item = {**item, "call_id": "c1", "status": "incomplete"}
    response = {"model": "m", "status": "incomplete", "output": [item]}
    [(_, _, data)] = events = load_answer(response, "openai-responses")
    assert data["arguments"] == arguments
    body = dump(events, "openai-responses", model="m").body
    assert violations(body, "openai-responses") == []


def test_no_incomplete_call_of_a_custom_tool_can_run():
    call = {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "rm -rf /"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"choices": [{"message": message, "finish_reason": "length"}]}
    [(_, _, data)] = load_answer(answer, "openai")
    assert data["arguments"] == '{"input":"rm -rf /"'


# What a stream of Responses that ends with the arguments of a call has of it, and what is kept.
CUT_STREAMS = [
    (
        {"type": "function_call", "name": "f", "arguments": ""},
        "response.function_call_arguments.delta",
        ['{"pa', 'th":'],
        '{"path":',
    ),
    (
        {"type": "custom_tool_call", "name": "f", "input": ""},
        "response.custom_tool_call_input.delta",
        ["rm ", "-rf /"],
        '{"input":"rm -rf /"',
    ),
    ({"type": "function_call", "name": "f", "arguments": ""}, "", [], "{"),
]


@pytest.mark.parametrize(("item", "kind", "deltas", "arguments"), CUT_STREAMS)
def test_a_call_in_a_responses_stream_that_was_cut_off_is_kept(item, kind, deltas, arguments):
    item = {**item, "id": "fc_1", "call_id": "c1", "status": "in_progress"}
    stream = [
        {"type": "response.created", "response": {"model": "m", "status": "in_progress"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "I clean up."},
        {"type": "response.output_item.added", "output_index": 1, "item": item},
    ]
    for delta in deltas:
        stream.append({"type": kind, "output_index": 1, "delta": delta})
    (_, text, _), (_, _, data) = load_answer(stream, "openai-responses")
    assert text == "I clean up."
    assert (data["id"], data["name"], data["arguments"]) == ("c1", "f", arguments)


def test_a_call_that_is_done_under_another_index_is_not_kept_twice():
    added = {"type": "response.output_item.added", "output_index": 1, "item": CALL_OF_RESPONSES}
    item = {**CALL_OF_RESPONSES, "arguments": "{}"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    [(_, _, data)] = load_answer([added, done], "openai-responses")
    assert data["arguments"] == {}


NO_USAGE = {
    "openai": [
        {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": None},
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes."},
        {"type": "response.completed", "response": {"usage": None, "output": []}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"content": [], "usage": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "Yes."},
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Yes."}]}}], "usageMetadata": None},
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": None},
    ],
    "bedrock": [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Yes."}}},
        {"metadata": {"usage": None}},
    ],
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_may_have_no_usage(format):
    [event], kept = build_answer(NO_USAGE[format], format, model="m", request=None, at=1)
    assert event[1] == "Yes."
    assert "usage" not in event[2]
    assert kept is None


def test_a_usage_of_nothing_does_not_replace_an_earlier_one():
    begun = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    usage = {"input_tokens": None, "output_tokens": 5}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    [(_, _, data)] = load_answer([begun, ended], "anthropic")
    assert data["usage"] == {"input": 9, "output": 5}


def completion(**message):
    return {"choices": [{"message": {"role": "assistant", **message}}]}


def test_fields_that_servers_fill_with_nothing_are_not_sent_back():
    answer = completion(
        content="Yes.",
        function_call={"name": "", "arguments": ""},
        audio={"id": "", "data": ""},
        refusal="",
        tool_calls=None,
        annotations=[],
    )
    assert load_answer(answer, "openai") == [("assistant", "Yes.", None)]


def test_an_answer_that_was_cut_off_while_it_thought_goes_back_with_its_thought():
    message = {"role": "assistant", "content": None, "reasoning_content": "Hm"}
    events = load_answer({"choices": [{"message": message}]}, "openai", model="m")
    sent = dump(
        [("user", "Well?", None), *events, ("user", "And?", None)], "openai", model="m"
    ).body
    assert sent["messages"][1] == {"role": "assistant", "content": "", "reasoning_content": "Hm"}
    assert violations(sent, "openai", strict=False) == []


@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": ""}])
def test_a_call_without_arguments_is_a_call_of_nothing(given):
    call = {"id": "1", "type": "function", "function": {"name": "glob", **given}}
    history = [
        ("user", "?", None),
        *load_answer(completion(content=None, tool_calls=[call]), "openai"),
    ]
    sent = json.loads(to_bytes([*history, ("tool_result", "x", {"id": "1"})], "openai"))
    assert sent["messages"][1]["tool_calls"][0]["function"] == {"name": "glob", "arguments": "{}"}


def test_content_that_a_server_parsed_is_its_json():
    [(_, text, _)] = load_answer(completion(content={"title": "Apples"}), "openai")
    assert text == '{"title":"Apples"}'


def test_calls_of_a_server_that_gives_no_ids_go_back_without_them():
    call = {"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    [asked] = load_answer(completion(content=None, tool_calls=[call]), "openai", model="m")
    result = ("tool_result", "x", {"id": asked[2]["id"]})
    body, repairs = dump([("user", "Look.", None), asked, result], "openai", model="m")
    assert body["messages"][1]["tool_calls"] == [call]
    assert body["messages"][2]["tool_call_id"] == ""
    assert repairs == []


def test_a_spoken_answer_is_named_by_its_id():
    answer = completion(
        content=None, audio={"id": "audio_1", "data": "c291bmQ=", "transcript": "Yes."}
    )
    [(_, _, data)] = load_answer(answer, "openai")
    assert data["native"]["wire"]["audio"] == {"id": "audio_1"}


def test_calls_that_come_whole_and_without_numbers_are_kept_apart():
    def part(id, arguments):
        return {
            "id": id,
            "function": {"name": "glob", "arguments": arguments},
            "extra_content": {"x": id},
        }

    chunks = [
        {"choices": [{"delta": {"tool_calls": [part("1", "{}")]}}]},
        {"choices": [{"delta": {"tool_calls": [part("2", '{"a"')]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": ": 1}"}}]}}]},
        {
            "choices": [{"delta": None}],
            "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        },
    ]
    first, second = load_answer(chunks, "openai")
    assert first[2]["usage"] == {"input": 3, "output": 2}
    assert (first[2]["arguments"], second[2]["arguments"]) == ({}, {"a": 1})
    assert first[2]["native"]["wire"]["tool_calls"][1]["extra_content"] == {"x": "2"}


def test_fields_of_a_delta_that_are_objects_or_lists_go_on_too():
    deltas = [
        {"content": "Yes.", "reasoning_extra": {"a": "x"}, "reasoning_details": ["one"]},
        {"reasoning_extra": {"a": "y"}, "reasoning_details": ["two", {"index": 0, "text": "z"}]},
        {"reasoning_extra": "all of it"},
    ]
    [(_, _, data)] = load_answer([{"choices": [{"delta": delta}]} for delta in deltas], "openai")
    assert data["native"]["wire"]["reasoning_details"] == ["one", "two", {"index": 0, "text": "z"}]
    assert data["native"]["wire"]["reasoning_extra"] == "all of it"


def test_an_answer_of_an_unknown_model_is_recorded_without_one():
    said = {"output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}}}
    [(_, _, data)] = build_answer(said, "bedrock", model=None, request=None, at=3).events
    assert data == {"request": {"format": "bedrock", "at": 3}}


HOSTED = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"},
    {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "call_1",
        "action": {"commands": ["ls"]},
        "environment": {"type": "container_reference", "container_id": "cntr_1"},
        "status": "completed",
    },
    {
        "type": "shell_call_output",
        "id": "sho_1",
        "call_id": "call_1",
        "output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        "status": "completed",
    },
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "c2VhbGVk"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "One file.", "annotations": []}],
    },
]


def test_a_tool_that_the_service_ran_in_the_middle_of_an_answer_is_a_call_with_its_result():
    events = load_answer({"model": "m", "output": HOSTED}, "openai-responses")
    told = [(kind, text) for kind, text, _ in events]
    assert told == [("tool_call", None), ("tool_result", "a.py"), ("assistant", "One file.")]
    asked = [("user", "Look.", None), *events, ("user", "Sure?", None)]
    body, repairs = dump(asked, "openai-responses", model="m", stored=True)
    assert body["input"][1:-1] == HOSTED
    assert repairs == []
    for format in FORMATS:
        assert violations(dump(asked, format).body, format, strict=False) == []


def test_an_answer_of_nothing_is_one_event():
    [event] = load_answer({"model": "m", "output": []}, "openai-responses")
    assert event[:2] == ("assistant", "")


@pytest.mark.parametrize(
    "sealed",
    [
        {"extra_content": {"google": {"thought_signature": "c2VhbGVk"}}},
        {"provider_specific_fields": {"thought_signatures": ["c2VhbGVk"]}},
        {"reasoning_text": "Hm.", "reasoning_opaque": "c2VhbGVk"},
    ],
)
def test_what_servers_beside_openai_want_back_goes_back(sealed):
    message = {"role": "assistant", "content": "Yes.", **sealed}
    answer = load_answer({"model": "m", "choices": [{"message": message}]}, "openai")
    body, repairs = dump(
        [("user", "Sure?", None), *answer, ("user", "Why?", None)], "openai", model="m"
    )
    assert (body["messages"][1], repairs) == (message, [])
