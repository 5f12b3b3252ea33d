"""What one server was seen to take, though others refuse it, goes back to that server as it was."""

from __future__ import annotations

from typing import Any

import pytest

from backstory.errors import Invalid
from backstory.transcripts.exporting import write_messages
from backstory.wire import FORMATS, dump, load, load_answer
from tests.wire.maker import PDF, PIXEL, WAV
from tests.wire.rules import violations


def chat(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts]}]}


def items(*items: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": "Look."}, *items]}


def use(id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "look", "input": {}, **more}


def answered(*ids: str) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": id, "content": "seen"} for id in ids]
    return {"role": "user", "content": results}


def output(id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": "x"}


CONVERSE = [
    {"toolUse": {"toolUseId": "1", "name": "look", "input": {}}},
    {"cachePoint": {"type": "default"}},
]
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "content": [{"type": "reasoning_text", "text": "Hm."}],
}
CALL = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
SHELL = {
    "type": "local_shell_call",
    "call_id": "1",
    "status": "completed",
    "action": {"type": "exec"},
}

REFERENCE = {"type": "item_reference", "id": "fc_1"}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "x"},
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def calls(arguments: str, **result: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    asked = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"messages": [{"role": "user", "content": "Look."}, asked, {"role": "tool", **result}]}


ASKED = {"role": "user", "content": "Look."}
TAKEN = [
    # Groq and OpenAI: other JSON than an object for arguments.
    ("openai", calls("null", tool_call_id="1", content="x")),
    ("openai-responses", items(CALL | {"arguments": "[]"}, output("1"))),
    # Zhipu: a result that does not say which call it answers.
    ("openai", calls("{}", content="x")),
    # Mistral: sounds by their bare data, and by their address.
    ("openai", chat({"type": "input_audio", "input_audio": WAV})),
    ("openai", chat({"type": "input_audio", "input_audio": "https://a.org/a.mp3"})),
    # OpenAI: results of calls that only references stand for.
    ("openai-responses", items(REFERENCE, output("1"))),
    (
        "openai-responses",
        items(REFERENCE, {"id": "fc_2"}, output("2"), output("1"), CALL, output("1")),
    ),
    # Anthropic: a tool that it runs itself behind a call, whose result comes with the next answer.
    (
        "anthropic",
        {
            "messages": [
                ASKED,
                says(use("1"), SEARCH),
                answered("1"),
                says(FOUND, text("So.")),
                ASKED,
            ]
        },
    ),
    # Some of its models: system text behind the result of such a tool.
    (
        "anthropic",
        {
            "messages": [
                ASKED,
                says(SEARCH, FOUND),
                {"role": "system", "content": "Be brief."},
                says(text("Yes.")),
                ASKED,
            ]
        },
    ),
    # Alibaba: sounds by their address, and as data URLs without a type.
    (
        "openai",
        chat(
            {"type": "input_audio", "input_audio": {"data": "https://a.org/a.wav", "format": "wav"}}
        ),
    ),
    (
        "openai",
        chat(
            {"type": "input_audio", "input_audio": {"data": f"data:;base64,{WAV}", "format": "wav"}}
        ),
    ),
    # OpenRouter: a PDF by its address.
    (
        "openai",
        chat({"type": "file", "file": {"filename": "a.pdf", "file_data": "https://a.org/a.pdf"}}),
    ),
    # Zhipu: an image's bare data for its address.
    ("openai", chat({"type": "image_url", "image_url": {"url": PIXEL}})),
    # vLLM: the text of reasoning, and no summary of it.
    (
        "openai-responses",
        items(THOUGHT, CALL, {"type": "function_call_output", "call_id": "1", "output": "x"}),
    ),
    (
        "openai-responses",
        items(SHELL, {"type": "local_shell_call_output", "call_id": "1", "output": "x"}),
    ),
    (
        "bedrock",
        {
            "messages": [
                {"role": "user", "content": [{"text": "Look."}]},
                {"role": "assistant", "content": CONVERSE},
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "x"}]}}],
                },
            ]
        },
    ),
]


@pytest.mark.parametrize(("format", "body"), TAKEN)
def test_it_comes_back(format, body):
    dumped, repairs = dump(load(body, format, model="m"), format, model="m", stored=True)
    assert repairs == []
    assert {key: dumped[key] for key in body} == body


def test_a_result_of_a_call_in_the_store_goes_only_where_the_reference_goes():
    events = load(items(REFERENCE, output("1")), "openai-responses", model="m")
    cut = [events[0], events[2]]
    for model, stored, log in [("m", False, events), ("n", True, events), ("m", True, cut)]:
        body, repairs = dump(log, "openai-responses", model=model, stored=stored)
        text = f"<tool_result>\n{events[-1][1]}\n</tool_result>"
        assert body["input"] == [ASKED, {"role": "user", "content": text}]
        assert "is only in the service's store" in repairs[-1].why
    twice = dump([*events, events[-1]], "openai-responses", model="m", stored=True)
    assert [repair.why for repair in twice.repairs] == ["a second result for the call '1'"]


def test_a_result_without_an_id_gets_the_one_of_its_call_for_another_model():
    events = load(calls("{}", content="x"), "openai", model="m")
    assert dump(events, "openai", model="n").body == calls("{}", tool_call_id="1", content="x")


def test_a_sealed_call_behind_a_prefill_and_blank_text_goes_back():
    asked = {"role": "user", "parts": [{"text": "Look."}]}
    prefill = {"role": "model", "parts": [{"text": "I look."}]}
    signed = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "\n\n"}, signed]}}]}
    events = load({"contents": [asked, prefill]}, "gemini", model="m")
    events += load_answer(answer, "gemini", model="m")
    body, repairs = dump([*events, ("tool_result", "x", {"id": "call_1"})], "gemini", model="m")
    assert repairs == []
    assert body["contents"][1]["parts"] == [{"text": "I look."}, {"text": "\n\n"}, signed]


def test_such_a_pdf_and_such_a_sound_arrive_elsewhere():
    pdf = chat({"type": "file", "file": {"filename": "a.pdf", "file_data": "https://a.org/a.pdf"}})
    assert "https://a.org/a.pdf" in str(dump(load(pdf, "openai"), "anthropic").body)
    sound = chat(
        {"type": "input_audio", "input_audio": {"data": f"data:;base64,{WAV}", "format": "wav"}}
    )
    assert WAV in str(dump(load(sound, "openai"), "gemini").body)


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {"openai"}))
def test_a_sound_of_a_type_that_nobody_told_is_left_out_elsewhere(format):
    body, repairs = dump(load(chat({"type": "input_audio", "input_audio": WAV}), "openai"), format)
    assert WAV not in str(body)
    assert "audio left out" in repairs[0].why


TWICE = {
    "messages": [
        {"role": "user", "content": "Look twice."},
        {"role": "assistant", "content": [use("1")]},
        answered("1"),
        {"role": "assistant", "content": [use("1")]},
        answered("1"),
    ]
}


def test_an_id_that_came_twice_in_a_request_goes_twice_to_the_same_model():
    events = load(TWICE, "anthropic", model="m1")
    body, repairs = dump(events, "anthropic", model="m1")
    ids = [
        message["content"][0]["id"]
        for message in body["messages"]
        if message["role"] == "assistant"
    ]
    assert (ids, repairs) == (["1", "1"], [])
    assert [repair.rule for repair in dump(events, "anthropic", model="m2").repairs] == ["id"]
    # Only there: an id that is used again by anybody else is still replaced.
    assert [repair.rule for repair in dump([*events[:3], *events[:3]], "anthropic").repairs] == [
        "id"
    ]


PREFILL = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "As JSON?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "{"}]},
    ]
}


def test_a_request_that_ended_with_the_models_words_ends_with_them_again():
    events = load(PREFILL, "anthropic", model="m1")
    assert dump(events, "anthropic", model="m1") == (PREFILL, [])
    for model, more in [("m2", []), ("m1", [("assistant", "}", None)])]:
        body, repairs = dump([*events, *more], "anthropic", model=model)
        assert [repair.rule for repair in repairs][-1] == "alternate"
        assert body["messages"][-1]["content"] == [{"type": "text", "text": "Continue."}]
    assert [repair.rule for repair in dump(load(PREFILL, "anthropic"), "anthropic").repairs] == [
        "alternate"
    ]
    for format in FORMATS:
        later, _ = dump([*events, ("user", "Go on.", None)], format, model="m1")
        assert "Continue." not in str(later)


def test_what_the_model_went_on_with_follows_the_words_that_it_was_given():
    answer = {"content": [{"type": "text", "text": "}"}]}
    events = load(PREFILL, "anthropic", model="m1") + load_answer(answer, "anthropic", model="m1")
    body, repairs = dump([*events, ("user", "Thanks.", None)], "anthropic", model="m1")
    assert repairs == []
    assert body["messages"][1] == says(text("{"), text("}"))


def test_text_behind_a_call_is_refused_so_it_goes_before_and_that_is_told():
    content = [use("1"), {"type": "text", "text": "Done?"}]
    body = {
        "messages": [
            PREFILL["messages"][0],
            {"role": "assistant", "content": content},
            answered("1"),
        ]
    }
    dumped, repairs = dump(load(body, "anthropic", model="m"), "anthropic", model="m")
    assert [block["type"] for block in dumped["messages"][1]["content"]] == ["text", "tool_use"]
    assert [repair.rule for repair in repairs] == ["order"]


@pytest.mark.parametrize("format", ["anthropic", "bedrock"])
def test_a_result_of_nothing_but_blank_text_has_no_output(format):
    blank = {
        "anthropic": {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": [{"type": "text", "text": ""}],
        },
        "bedrock": {"toolResult": {"toolUseId": "1", "content": [{"text": ""}]}},
    }[format]
    data = {"id": "1", "native": {"provider": format, "wire": [blank]}}
    asked = [
        ("user", "Look.", None),
        ("tool_call", None, {"id": "1", "name": "look", "arguments": {}}),
    ]
    body, repairs = dump([*asked, ("tool_result", "", data)], format)
    assert "(no output)" in str(body)
    assert [repair.rule for repair in repairs] == ["blank"]


def test_thinking_without_its_text_is_broken_and_told():
    thought = {"type": "thinking", "thinking": None, "signature": "c2ln"}
    native = {"provider": "anthropic", "wire": [thought, {"type": "text", "text": "42."}]}
    history = [
        ("user", "6 times 7?", None),
        ("assistant", "42.", {"native": native}),
        ("user", "Sure?", None),
    ]
    body, repairs = dump(history, "anthropic")
    assert body["messages"][1]["content"] == [{"type": "text", "text": "42."}]
    assert [repair.rule for repair in repairs] == ["native"]


def test_a_document_is_still_a_document():
    assert PDF in str(
        dump(load(chat({"type": "file", "file": {"file_data": PDF}}), "openai"), "openai").body
    )


def thought(format, model, **seal):
    if format == "anthropic":
        blocks = [{"type": "thinking", "thinking": "Hm.", **seal}, {"type": "text", "text": "42."}]
    else:
        blocks = [{"reasoningContent": {"reasoningText": {"text": "Hm.", **seal}}}, {"text": "42."}]
    native = {"provider": format, "wire": blocks} | ({"model": model} if model else {})
    return [
        ("user", "What?", None),
        ("assistant", "42.", {"native": native}),
        ("user", "Sure?", None),
    ], blocks


@pytest.mark.parametrize("seal", [{}, {"signature": ""}, {"signature": None}])
@pytest.mark.parametrize(
    ("format", "model"),
    [
        *(
            ("anthropic", model)
            for model in ("deepseek-chat", "kimi-k2", "glm-4.6", "MiniMax-M2", "qwen3-max")
        ),
        ("bedrock", "openai.gpt-oss-120b-1:0"),
        ("bedrock", "qwen.qwen3-32b-v1:0"),
        ("bedrock", "us.amazon.nova-2-lite-v1:0"),
        ("bedrock", "moonshot.kimi-k2-thinking"),
    ],
)
def test_models_that_sign_nothing_get_their_thinking_back(format, model, seal):
    events, blocks = thought(format, model, **seal)
    body, repairs = dump(events, format, model=model)
    assert (body["messages"][1]["content"], repairs) == (blocks, [])
    assert violations(body, format, strict=False, model=model) == []
    assert violations(body, format, strict=False, model="claude-sonnet-4-5") != []
    assert [repair.rule for repair in dump(events, format, model="another").repairs] == ["native"]


@pytest.mark.parametrize(
    ("format", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", None),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("bedrock", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"),
        ("bedrock", "us.deepseek.r1-v1:0"),
        ("bedrock", None),
    ],
)
def test_models_that_refuse_unsigned_thinking_do_not_get_it(format, model):
    events, _ = thought(format, model)
    body, repairs = dump(events, format, model=model)
    assert "Hm." not in str(body)
    assert [repair.rule for repair in repairs] == ["native"]


BARE = PIXEL.rstrip("=").replace("+", "-").replace("/", "_")


@pytest.mark.parametrize(
    ("format", "body"),
    [
        (
            "openai",
            chat({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BARE}"}}),
        ),
        (
            "gemini",
            {
                "contents": [
                    {
                        "role": "user",
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": BARE}}],
                    }
                ]
            },
        ),
    ],
)
def test_base64_without_padding_goes_back_as_it_was_and_padded_elsewhere_and_is_told(format, body):
    assert BARE != PIXEL
    events = load(body, format, model="m")
    for other in FORMATS:
        dumped, repairs = dump(events, other, model="m")
        assert [repair.rule for repair in repairs] == ["native"]
        assert "no padding" in repairs[0].why
        if other == format:
            assert dumped == body
        elif other != "bedrock":
            assert PIXEL in str(dumped)
        else:
            assert b"PNG" in dumped["messages"][0]["content"][0]["image"]["source"]["bytes"]


def test_base64_that_lost_its_end_in_a_log_is_still_left_out():
    native = {
        "provider": "openai",
        "wire": chat({"type": "image_url", "image_url": {"url": BARE}})["messages"][0],
    }
    body, repairs = dump([("user", "", {"native": native})], "openai")
    assert BARE not in str(body)
    assert [repair.rule for repair in repairs] == ["native"]


def test_a_server_that_takes_fields_beside_a_message_is_not_refused_them_but_told():
    message = {"role": "user", "content": "Hi.", "id": "m1"}
    body, repairs = dump(
        load({"messages": [message]}, "anthropic", model="glm-4.6"), "anthropic", model="glm-4.6"
    )
    assert body["messages"] == [{"role": "user", "content": "Hi."}]
    assert [repair.rule for repair in repairs] == ["native"]
    for model in ("claude-sonnet-4-5", None):
        with pytest.raises(Invalid, match=r"messages\[0\]\.id"):
            load({"messages": [message]}, "anthropic", model=model)


BESIDE: list[dict[str, Any]] = [
    {"function_call": None},
    {"function_call": {}},
    {"tool_calls": None},
    {"tool_calls": []},
    {"audio": None, "refusal": None, "annotations": []},
    {"provider_specific_fields": {"citations": None}},
    {"reasoning": "Hm."},
    {"prefix": True},
    {"partial": True},
    {"cache_control": {"type": "ephemeral"}},
]


@pytest.mark.parametrize("fields", BESIDE)
def test_what_compatible_servers_put_beside_an_answer_comes_back(fields):
    answer = {"role": "assistant", "content": "Yes.", **fields}
    body = {
        "messages": [
            {"role": "user", "content": "Hi."},
            answer,
            {"role": "user", "content": "Sure?"},
        ]
    }
    assert dump(load(body, "openai", model="m"), "openai", model="m") == (body, [])


@pytest.mark.parametrize("item", [{"role": "user", "content": "Go on."}, output("1")])
def test_a_request_that_continues_a_stored_one_without_being_stored_does_so_again(item):
    body = {"previous_response_id": "resp_1", "store": False, "input": [item]}
    events = load(body, "openai-responses", model="m")
    assert dump(events, "openai-responses", model="m") == (body, [])
    stored, _ = dump(events, "openai-responses", model="m", stored=True)
    assert stored == {"previous_response_id": "resp_1", "input": [item]}
    assert dump(events, "openai", model="m").repairs != []


@pytest.mark.parametrize("format", ["anthropic", "bedrock"])
def test_a_model_that_is_not_a_name_refuses_it_too(format):
    events, _ = thought(format, 5)
    assert "Hm." not in str(dump(events, format, model=5).body)
    assert "Hm." not in str([*write_messages(events, format)])
