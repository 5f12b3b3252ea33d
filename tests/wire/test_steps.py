"""Forms of several events that are one answer, and forms of results: joined, renamed, or written anew."""

import pytest

from backstory.wire import FORMATS, dump, load, load_answer
from backstory.wire.media import decode_base64
from tests.wire.laws import strings
from tests.wire.rules import violations


def own(format, kind, text, wire, **data):
    return kind, text, {**data, "native": {"provider": format, "wire": wire}}


FUNCTION_CALL = {"type": "function_call", "call_id": "c", "name": "glob", "arguments": "{}"}


def test_forms_of_one_answer_that_cannot_be_joined_are_written_anew():
    call = {"id": "1", "name": "glob", "arguments": {}}
    worded = [
        ("user", "?", None),
        own("openai", "tool_call", None, {"role": "assistant", "content": "One."}, **call),
        own("openai", "assistant", "Two.", {"role": "assistant", "content": "Two."}),
    ]
    body, _ = dump(worded, "openai")
    assert violations(body, "openai") == []
    assert "Two." in strings(body)
    garbled = [
        ("user", "?", None),
        own("openai", "tool_call", None, "no message", **call),
        own("openai", "assistant", "Two.", {"role": "assistant", "content": "Two."}),
    ]
    body, _ = dump(garbled, "openai")
    assert violations(body, "openai") == []
    assert "Two." in strings(body)


def test_an_answer_of_an_empty_list_beside_a_call_does_not_empty_the_whole():
    events = [
        ("user", "?", None),
        ("tool_call", None, {"id": "1", "name": "glob", "arguments": {}}),
        own("openai", "assistant", "", {"role": "assistant", "content": []}),
    ]
    body, _ = dump(events, "openai")
    assert body["messages"][1]["content"] is None
    assert violations(body, "openai") == []


RENAMED = {
    "anthropic": [
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "out"}]}
    ],
    "bedrock": [
        {"toolResult": {"toolUseId": "1", "content": [{"text": "out"}], "status": "success"}}
    ],
    "openai": {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "out"}]},
    "openai-responses": [
        {"type": "function_call_output", "call_id": "1", "output": "out", "status": "completed"}
    ],
}


@pytest.mark.parametrize("format", RENAMED)
def test_a_result_keeps_its_form_when_its_call_gets_another_id(format):
    call = ("tool_call", None, {"id": "1", "name": "glob", "arguments": {}})
    result = own(format, "tool_result", "out", RENAMED[format], id="1")
    history = [("user", "?", None), call, ("tool_result", "x", {"id": "1"}), call, result]
    body, repairs = dump(history, format)
    assert violations(body, format) == []
    assert [repair.rule for repair in repairs] == ["id"]
    marks = {
        "anthropic": "text",
        "bedrock": "success",
        "openai": "text",
        "openai-responses": "completed",
    }
    assert marks[format] in list(strings(body))


def test_documents_of_one_name_are_told_apart_in_results_too():
    def shown(id, name):
        document = {"document": {"name": name, "format": "txt", "source": {"bytes": "aGk="}}}
        return {"toolResult": {"toolUseId": id, "content": [{"text": "out"}, document]}}

    def use(id):
        return {"toolUse": {"toolUseId": id, "name": "read", "input": {}}}

    body = {
        "messages": [
            {"role": "user", "content": [{"text": "Read."}]},
            {"role": "assistant", "content": [use("1"), use("2")]},
            {"role": "user", "content": [shown("1", "notes"), shown("2", "Notes")]},
        ]
    }
    dumped, repairs = dump(load(body, "bedrock"), "bedrock")
    results = dumped["messages"][2]["content"]
    names = [result["toolResult"]["content"][1]["document"]["name"] for result in results]
    assert names == ["notes", "Notes 2"]
    assert [repair.why for repair in repairs] == ["a document's name comes again: it is 'Notes 2'"]


def test_a_form_that_no_longer_says_what_the_event_says_is_left_out():
    wire = [{"type": "text", "text": "Old words.", "citations": None}]
    changed = own("anthropic", "user", "New words.", wire)
    body, repairs = dump([changed], "anthropic")
    assert body["messages"][0]["content"] == [{"type": "text", "text": "New words."}]
    result = own(
        "anthropic",
        "tool_result",
        "new",
        [{"type": "tool_result", "tool_use_id": "1", "content": "old"}],
        id="1",
    )
    call = ("tool_call", None, {"id": "1", "name": "glob", "arguments": {}})
    body, more = dump([("user", "?", None), call, result], "anthropic")
    assert body["messages"][2]["content"][0]["content"] == "new"
    assert [repair.why for repair in repairs + more] == [
        "its native content no longer says what the message says: left out",
        "its native content no longer says what the result says: left out",
    ]


def test_words_without_a_form_stay_between_the_forms_of_their_answer():
    seal = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    use = [{"type": "tool_use", "id": "1", "name": "glob", "input": {}}]
    events = [
        ("user", "?", None),
        own("anthropic", "assistant", "", seal),
        ("assistant", "Looking.", None),
        own("anthropic", "tool_call", None, use, id="1", name="glob", arguments={}),
        ("tool_result", "3 files", {"id": "1"}),
    ]
    body, repairs = dump(events, "anthropic")
    assert body["messages"][1]["content"] == [*seal, {"type": "text", "text": "Looking."}, *use]
    assert repairs == []


def test_reasoning_and_words_that_came_as_two_events_are_one_answer():
    seal = [{"type": "reasoning", "summary": [], "encrypted_content": "c2Vh"}]
    said = [{"role": "assistant", "content": "Yes."}]
    for second, is_joined in (("m1", True), ("m2", False)):
        events = [
            ("user", "?", None),
            (
                "assistant",
                "",
                {"native": {"provider": "openai-responses", "model": "m1", "wire": seal}},
            ),
            (
                "assistant",
                "Yes.",
                {"native": {"provider": "openai-responses", "model": second, "wire": said}},
            ),
            ("user", "Sure?", None),
        ]
        body, repairs = dump(events, "openai-responses", model="m1")
        assert (seal[0] in body["input"]) == is_joined == (repairs == [])


def test_two_messages_that_were_apart_stay_apart():
    empty = {"role": "assistant", "content": "", "reasoning_content": "Hm."}
    body = {
        "messages": [
            {"role": "user", "content": "?"},
            empty,
            {"role": "assistant", "content": "Yes.", "reasoning_content": "Aha."},
        ]
    }
    assert dump(load(body, "openai"), "openai") == (body, [])


def test_what_continues_a_store_says_so_where_there_is_none():
    body = {"previous_response_id": "resp_1", "input": [{"role": "user", "content": "Go on."}]}
    events = load(body, "openai-responses")
    assert dump(events, "openai-responses", stored=True) == (body, [])
    for format in FORMATS:
        why = dump(events, format).repairs[0].why
        assert (
            why == "what came before is left out: it is in a store (previous_response_id 'resp_1')"
        )


def test_results_of_calls_in_a_store_go_back_to_it_alone():
    output = {"type": "function_call_output", "call_id": "1", "output": "3 files"}
    body = {"previous_response_id": "resp_1", "input": [output]}
    events = load(body, "openai-responses")
    assert dump(events, "openai-responses", stored=True) == (body, [])
    whys = [repair.why for repair in dump(events, "anthropic").repairs]
    assert any("is only in the service's store" in why for why in whys)
    assert any("what came before is left out" in why for why in whys)


CONTINUING = [
    {"type": "function_call_output", "call_id": "c", "output": "R"},
    {"role": "user", "content": "And now?"},
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("item", CONTINUING)
def test_only_the_first_turn_can_continue_a_store(item, format):
    body = {"model": "g", "previous_response_id": "resp_1", "input": [item]}
    events = [("user", "Earlier.", None), *load(body, "openai-responses")]
    dumped, repairs = dump(events, format, stored=True, model="g")
    assert violations(dumped, format) == []
    assert "previous_response_id" not in dumped
    assert "what came before is left out" in str(repairs)


def test_a_request_continues_only_one_stored_conversation():
    asked = {"role": "user", "content": "And now?"}
    first = {"previous_response_id": "resp_1", "input": [asked]}
    second = {"previous_response_id": "resp_2", "input": [asked, asked]}
    events = [*load(first, "openai-responses"), *load(second, "openai-responses")]
    body, [repair] = dump(events, "openai-responses", stored=True)
    assert body["previous_response_id"] == "resp_1"
    assert (repair.at, "'resp_2'" in repair.why) == (1, True)


def test_a_system_message_can_continue_a_store():
    items = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And now?"}]
    body = {"previous_response_id": "resp_1", "input": items}
    events = load(body, "openai-responses")
    assert dump(events, "openai-responses", stored=True) == (body, [])


def test_a_result_of_a_logged_call_needs_no_store():
    answer = {"model": "g", "output": [FUNCTION_CALL]}
    result = {"type": "function_call_output", "call_id": "c", "output": "R"}
    body = {"model": "g", "previous_response_id": "resp_1", "input": [result]}
    events = [
        ("user", "Earlier.", None),
        *load_answer(answer, "openai-responses"),
        *load(body, "openai-responses"),
    ]
    dumped, repairs = dump(events, "openai-responses", stored=True, model="g")
    assert "previous_response_id" not in dumped
    assert repairs == []


OTHER_TOOLS = [
    {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
    {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"},
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("item", OTHER_TOOLS)
def test_a_call_of_another_tool_that_becomes_a_function_is_reported(item, format):
    body = {"model": "m", "input": [{"role": "user", "content": "?"}, item]}
    events = [*load(body, "openai-responses"), ("tool_result", "x", {"id": "c"})]
    dumped, repairs = dump(events, format, model="m")
    is_sent_back = item in dumped.get("input", [])
    reported = f"{item['type']} of this answer written as a function" in str(repairs)
    assert reported is not is_sent_back


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_within_a_users_form_is_told(format):
    wire = [
        {"type": "text", "text": "Look."},
        {"type": "tool_result", "tool_use_id": "1", "content": "x"},
    ]
    dumped, repairs = dump([own("anthropic", "user", "Look.", wire)], format)
    assert violations(dumped, format) == []
    assert [repair.why for repair in repairs] == [
        f"result left out: {format} has no such thing here"
    ]


def test_a_form_of_nothing_but_empty_text_is_not_sent():
    wire = [{"type": "text", "text": "Look."}, {"type": "text", "text": ""}]
    dumped, repairs = dump([own("anthropic", "user", "Look.", wire)], "anthropic")
    assert dumped["messages"][0]["content"] == wire[:1]
    assert [repair.why for repair in repairs] == ["empty text in it is left out"]


@pytest.mark.parametrize("key", ["functionResponse", "function_response"])
def test_a_response_without_an_id_gets_that_of_its_call(key):
    call = [{"functionCall": {"id": "x1", "name": "glob", "args": {}}, "thoughtSignature": "c2ln"}]
    shown = [{key: {"name": "glob", "response": {"files": 3}}}]
    events = [
        ("user", "?", None),
        own("gemini", "tool_call", None, call, id="x1", name="glob", arguments={}),
        own("gemini", "tool_result", '{"files":3}', shown, id="x1"),
    ]
    body, repairs = dump(events, "gemini")
    assert body["contents"][2]["parts"] == [
        {key: {"name": "glob", "response": {"files": 3}, "id": "x1"}}
    ]
    assert repairs == []


def test_blank_words_between_the_forms_of_an_answer_are_nothing():
    seal = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    use = [{"type": "tool_use", "id": "1", "name": "glob", "input": {}}]
    events = [
        ("user", "?", None),
        own("anthropic", "assistant", "", seal),
        ("tool_call", None, {"id": "2", "name": "glob", "arguments": {}}),
        own("anthropic", "tool_call", None, use, id="1", name="glob", arguments={}),
    ]
    body, _ = dump(events, "anthropic", pending=True)
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "thinking",
        "tool_use",
        "tool_use",
    ]


@pytest.mark.parametrize("sealed", ["?", "a", "", None, 5])
def test_sealed_reasoning_that_is_cut_off_is_left_out_and_told(sealed):
    wire = [{"text": "Yes."}, {"reasoningContent": {"redactedContent": sealed}}]
    events = [("user", "?", None), own("bedrock", "assistant", "Yes.", wire), ("user", "?", None)]
    body, repairs = dump(events, "bedrock")
    assert body["messages"][1]["content"] == [{"text": "Yes."}]
    assert [repair.why for repair in repairs] == [
        "reasoningContent of this answer left out: the service would refuse it"
    ]


def test_sealed_reasoning_of_the_sdk_is_bytes():
    sealed = {"reasoningContent": {"redactedContent": b"sealed"}}
    body = {
        "messages": [
            {"role": "user", "content": [{"text": "?"}]},
            {"role": "assistant", "content": [sealed, {"text": "Yes."}]},
            {"role": "user", "content": [{"text": "Sure?"}]},
        ]
    }
    assert dump(load(body, "bedrock"), "bedrock") == (body, [])


def test_what_is_no_base64_stands_for_nothing():
    assert decode_base64("a") is None


def test_an_image_that_a_model_drew_goes_back_to_it_and_is_told_elsewhere():
    drawn = [{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    events = [
        ("user", "Draw.", None),
        own("gemini", "assistant", "Here.", drawn),
        ("user", "Thanks.", None),
    ]
    assert dump(events, "gemini").body["contents"][1]["parts"] == drawn
    assert [repair.why for repair in dump(events, "openai").repairs] == [
        "image of this answer left out: it belongs to another provider or model"
    ]


def test_parts_of_a_response_that_are_not_known_yet_go_back():
    response = {"name": "f", "response": {"output": "x"}, "parts": [{"smell": 1}]}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Look."}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "eA=="}],
            },
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]
    }
    assert dump(load(body, "gemini"), "gemini") == (body, [])
    assert [repair.why for repair in dump(load(body, "gemini"), "anthropic").repairs] == [
        "thoughtSignature of this answer left out: it belongs to another provider or model",
        "smell left out: anthropic has no such thing here",
    ]


def test_parts_of_a_message_that_are_not_known_yet_go_back():
    body = {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "roses"}]}]}
    assert dump(load(body, "openai"), "openai") == (body, [])


def test_a_message_of_which_nothing_is_left_does_not_end_an_answer():
    approval = [{"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}]
    events = [
        ("user", "?", None),
        ("assistant", "Looking.", None),
        own("openai-responses", "user", "", approval),
        ("tool_call", None, {"id": "1", "name": "glob", "arguments": {}}),
        ("tool_result", "3 files", {"id": "1"}),
    ]
    body, repairs = dump(events, "anthropic")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text", "tool_use"]
    assert [repair.rule for repair in repairs] == ["native", "blank"]
