"""Odd forms that a provider made: what they say elsewhere, and that they come back as they were."""

import json

import pytest

import backstory
from backstory.wire import FORMATS, dump, load
from backstory.wire.formats import get_format
from backstory.wire.json_values import encode_body
from tests.wire.laws import strings
from tests.wire.rules import violations


def bedrock(*blocks, role="user"):
    history = [{"role": role, "content": list(blocks)}]
    asked = {"role": "user", "content": [{"text": "Well?"}]}
    return {"messages": history if role == "user" else [asked, *history, asked]}


def responses(*items):
    return {"input": [{"role": "user", "content": "Look."}, *items]}


def said_elsewhere(body, format):
    """What another format says, and what is told about the rest."""
    other = "openai" if format != "openai" else "anthropic"
    dumped, repairs = dump(load(body, format), other)
    assert violations(dumped, other) == []
    return list(strings(dumped)), [repair.why for repair in repairs]


WORDS = [
    (
        "bedrock",
        bedrock({"guardContent": {"text": {"text": "Guarded.", "qualifiers": ["query"]}}}),
        "Guarded.",
    ),
    (
        "bedrock",
        bedrock(
            {"citationsContent": {"content": [{"text": "Cited."}], "citations": [{"title": "x"}]}},
            role="assistant",
        ),
        "Cited.",
    ),
    (
        "bedrock",
        bedrock(
            {"text": "Read."},
            {"searchResult": {"title": "found", "source": "x", "content": [{"text": "A find."}]}},
        ),
        '<document name="found">\nA find.\n</document>',
    ),
    (
        "bedrock",
        bedrock({"text": "Read."}, {"document": {"name": "a", "source": {"text": "A text."}}}),
        '<document name="a">\nA text.\n</document>',
    ),
    (
        "openai-responses",
        responses(
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "I will not."}],
            },
            {"role": "user", "content": "Why?"},
        ),
        "I will not.",
    ),
]


@pytest.mark.parametrize(("format", "body", "words"), WORDS)
def test_words_that_are_wrapped_are_words_elsewhere_and_come_back_wrapped(format, body, words):
    found, _ = said_elsewhere(body, format)
    assert any(words in text for text in found)
    assert json.loads(encode_body(dump(load(body, format), format).body)) == body


REPORTED = [
    (
        "bedrock",
        bedrock({"text": "Look."}, {"guardContent": {"image": {"format": "png"}}}),
        "image",
    ),
    (
        "bedrock",
        bedrock(
            {"text": "Yes."}, {"reasoningContent": {"redactedContent": "c2Vh"}}, role="assistant"
        ),
        "reasoningContent",
    ),
    (
        "bedrock",
        bedrock({"text": "Yes."}, {"reasoningContent": {"other": 1}}, role="assistant"),
        "reasoningContent",
    ),
    (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}, {"executableCode": {"code": "1"}}]}
            ]
        },
        "executableCode",
    ),
    (
        "gemini",
        {
            "contents": [
                {
                    "role": "user",
                    "parts": [{"text": "Look."}, {"fileData": {"fileUri": "https://a/b"}}],
                }
            ]
        },
        "fileData",
    ),
]


@pytest.mark.parametrize(("format", "body", "what"), REPORTED)
def test_what_only_its_provider_understands_is_told_elsewhere(format, body, what):
    _, whys = said_elsewhere(body, format)
    assert [what in why for why in whys] == [True]


CALL = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}


def run(call, output):
    return responses(call, output, {"role": "user", "content": "Well?"})


TOOLS = [
    (
        {"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "1",
            "output": [
                {"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {
                    "stdout": "",
                    "stderr": "no such file",
                    "outcome": {"type": "exit", "exit_code": 2},
                },
                "not a chunk",
            ],
        },
        "a.py\n\nno such file\n(exit code 2)",
    ),
    (
        {"type": "local_shell_call", "call_id": "1", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "1", "output": "a.py"},
        "a.py",
    ),
    (
        {
            "type": "apply_patch_call",
            "call_id": "1",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "apply_patch_call_output", "call_id": "1", "status": "completed"},
        "completed",
    ),
    (
        {"type": "tool_search_call", "call_id": "1", "arguments": {}},
        {"type": "tool_search_output", "call_id": "1", "tools": [{"name": "glob"}]},
        '[{"name":"glob"}]',
    ),
    (
        CALL,
        {
            "type": "function_call_output",
            "call_id": "1",
            "output": [
                {"type": "input_text", "text": "Seen."},
                {"type": "input_image", "file_id": "f"},
            ],
        },
        "Seen.",
    ),
]


@pytest.mark.parametrize(("call", "output", "words"), TOOLS)
def test_tools_that_the_caller_runs_are_calls_and_results_elsewhere(call, output, words):
    body = run(call, output)
    dumped, repairs = dump(load(body, "openai-responses"), "openai-responses", stored=True)
    assert (dumped, repairs) == (body, [])
    found, _ = said_elsewhere(body, "openai-responses")
    assert words in found


@pytest.mark.parametrize("shown", [{"image_url": "data:image/png;base64,aGk="}, {"file_id": "f"}])
def test_a_screenshot_is_an_image_where_results_show_images(shown):
    call = {"type": "computer_call", "call_id": "1", "action": {"type": "screenshot"}}
    output = {
        "type": "computer_call_output",
        "call_id": "1",
        "output": {"type": "computer_screenshot", **shown},
    }
    dumped, [written, *lost] = dump(load(run(call, output), "openai-responses"), "anthropic")
    assert violations(dumped, "anthropic") == []
    assert "computer_call of this answer written as a function" in written.why
    assert ("aGk=" in strings(dumped)) == (lost == [])


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        (
            {"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}},
            {
                "stdout": "",
                "stderr": "interrupted: no result was recorded",
                "outcome": {"type": "exit", "exit_code": 1},
            },
        ),
        (
            {
                "type": "apply_patch_call",
                "call_id": "1",
                "operation": {"type": "delete_file", "path": "a"},
            },
            "failed",
        ),
        ({"type": "local_shell_call", "call_id": "1", "action": {"command": ["ls"]}}, None),
    ],
)
def test_a_call_of_such_a_tool_that_was_interrupted_gets_an_output_of_its_kind(call, kept):
    output = run(call, TOOLS[[one[0]["type"] for one in TOOLS].index(call["type"])][1])
    events = [event for event in load(output, "openai-responses") if event[0] != "tool_result"]
    body, repairs = dump(events, "openai-responses", stored=True)
    found = body["input"][2]
    assert found["type"] == f"{call['type']}_output"
    assert [repair.rule for repair in repairs] == ["close"]
    assert kept is None or kept in (found.get("status"), *found["output"])


def test_a_reference_to_an_item_goes_only_where_the_item_is_stored():
    body = responses({"id": "msg_1"}, {"role": "user", "content": "Well?"})
    assert dump(load(body, "openai-responses"), "openai-responses", stored=True) == (body, [])
    assert [
        repair.rule for repair in dump(load(body, "openai-responses"), "openai-responses").repairs
    ] == [
        "native",
        "blank",
    ]


LEGACY = {
    "messages": [
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "glob", "arguments": "{}"},
        },
        {"role": "function", "name": "glob", "content": "3 files"},
        {"role": "user", "content": "Well?"},
    ]
}


def test_functions_as_they_were_before_tools_come_back_and_are_calls_elsewhere():
    assert dump(load(LEGACY, "openai"), "openai") == (LEGACY, [])
    found, whys = said_elsewhere(LEGACY, "openai")
    assert "3 files" in found
    assert whys == []


def test_such_a_function_that_was_interrupted_gets_a_result_of_its_kind():
    events = [event for event in load(LEGACY, "openai") if event[0] != "tool_result"]
    body, _ = dump(events, "openai")
    assert body["messages"][2] == {
        "role": "function",
        "name": "glob",
        "content": "interrupted: no result was recorded",
    }


def test_a_document_alone_gets_words_beside_it():
    block = {"document": {"name": "a", "format": "txt", "source": {"bytes": "aGk="}}}
    dumped, repairs = dump(load(bedrock(block), "bedrock"), "bedrock")
    assert dumped["messages"][0]["content"][1] == {"text": "(a document)"}
    assert [repair.why for repair in repairs] == [
        "a document needs words beside it: they are '(a document)'"
    ]


def test_an_address_that_no_service_can_fetch_is_told():
    image = {"type": "image_url", "image_url": {"url": "ftp://example.org/a.png"}}
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, image]}]}
    for format in FORMATS:
        assert (dump(load(body, "openai"), format).repairs == []) == (format == "openai")


@pytest.mark.parametrize("format", FORMATS)
def test_a_body_of_nothing_has_no_messages(format):
    assert list(get_format(format).write_body([]).body.values()) == [[]]


def test_what_is_no_json_at_all_is_an_error_of_ours():
    with pytest.raises(TypeError):
        encode_body({"messages": {1}})


def test_a_name_stays_with_a_message_of_which_something_is_broken():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}
    body = {
        "messages": [
            {"role": "user", "name": "ann", "content": [{"type": "text", "text": "Look."}, image]}
        ]
    }
    dumped, repairs = dump(load(body, "openai"), "openai")
    assert dumped["messages"] == [{"role": "user", "name": "ann", "content": "Look."}]
    assert [repair.why for repair in repairs] == ["image left out: it is broken"]


def test_a_result_without_json_is_refused_with_the_place():
    use = {"toolResult": {"toolUseId": "1", "content": [{"json": {1, 2}}]}}
    with pytest.raises(backstory.Invalid, match=r"content\[0\]\.json: this is not JSON"):
        load(bedrock(use), "bedrock")
    answer = {"functionResponse": {"name": "f", "response": {"x": {1, 2}}}}
    with pytest.raises(backstory.Invalid, match="response: this is not JSON"):
        load({"contents": [{"role": "user", "parts": [answer]}]}, "gemini")


def test_bytes_of_an_sdk_are_kept_as_base64_and_given_back_as_bytes():
    video = {"video": {"format": "mp4", "source": {"bytes": b"film"}}}
    audio = {"audio": {"format": "mp4", "source": {"bytes": b"sound"}}}
    body = bedrock({"text": "Look."}, video, audio)
    events = load(body, "bedrock")
    assert json.loads(json.dumps(events)) is not None
    assert dump(events, "bedrock") == (body, [])
    types = [
        part["inlineData"]["mimeType"]
        for part in dump(events, "gemini").body["contents"][0]["parts"][1:]
    ]
    assert types == ["video/mp4", "audio/mp4"]


def test_a_message_of_null_is_refused_with_the_place():
    body = {"input": [{"role": "user", "content": None}]}
    with pytest.raises(
        backstory.Invalid, match=r"input\[0\]\.content: expected a string or an array"
    ):
        load(body, "openai-responses")


def test_parts_of_a_kind_that_is_not_known_yet_go_back_and_those_of_other_formats_do_not():
    def body(type):
        parts = [{"type": "input_text", "text": "Look."}, {"type": type, "x": 1}]
        return {"input": [{"role": "user", "content": parts}]}

    assert dump(load(body("input_smell"), "openai-responses"), "openai-responses") == (
        body("input_smell"),
        [],
    )
    dumped, repairs = dump(load(body("tool_result"), "openai-responses"), "openai-responses")
    assert violations(dumped, "openai-responses") == []
    assert [repair.why for repair in repairs] == ["tool_result left out: it is broken"]


def test_a_search_that_the_service_ran_itself_is_not_a_call():
    call = {"type": "tool_search_call", "call_id": None, "arguments": {}}
    output = {"type": "tool_search_output", "call_id": None, "tools": []}
    body = responses(call, output, {"role": "user", "content": "Well?"})
    assert [kind for kind, _, _ in load(body, "openai-responses")] == ["user", "assistant", "user"]
    assert dump(load(body, "openai-responses"), "openai-responses", stored=True) == (body, [])


def test_a_file_of_a_new_kind_goes_back_to_its_service():
    body = {"messages": [{"role": "user", "content": [{"type": "file", "file": {"other": 1}}]}]}
    assert dump(load(body, "openai"), "openai") == (body, [])


def test_a_status_that_bedrock_does_not_know_is_refused_with_the_place():
    body = bedrock({"toolResult": {"toolUseId": "1", "content": [], "status": "suc"}})
    with pytest.raises(
        backstory.Invalid, match=r"toolResult\.status: expected one of success, error"
    ):
        load(body, "bedrock")


PIXEL = {"type": "base64", "media_type": "image/png", "data": "aGk="}
ANTHROPIC_IMAGE = {"type": "image", "source": PIXEL}
BEDROCK_IMAGE = {"image": {"format": "png", "source": {"bytes": "aGk="}}}


def test_empty_text_beside_an_image_in_a_result_of_anthropic_is_left_out():
    call = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    content = [{"type": "text", "text": ""}, ANTHROPIC_IMAGE]
    result = {"type": "tool_result", "tool_use_id": "1", "content": content}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    body, repairs = dump(load({"messages": messages}, "anthropic"), "anthropic")
    [sent] = body["messages"][2]["content"]
    assert sent == result | {"content": [ANTHROPIC_IMAGE]}
    assert [repair.why for repair in repairs] == ["empty text in it is left out"]


def test_empty_text_beside_an_image_in_a_result_of_bedrock_is_left_out():
    call = {"toolUse": {"toolUseId": "1", "name": "look", "input": {}}}
    result = {"toolUseId": "1", "content": [{"text": ""}, BEDROCK_IMAGE]}
    messages = [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]
    body, repairs = dump(load({"messages": messages}, "bedrock"), "bedrock")
    [sent] = body["messages"][2]["content"]
    assert [list(block) for block in sent["toolResult"]["content"]] == [["image"]]
    assert [repair.why for repair in repairs] == ["empty text in it is left out"]


def test_unsigned_thinking_at_the_end_does_not_cost_the_signed_one():
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    text = {"type": "text", "text": "Yes."}
    form = [signed, text, {"type": "thinking", "thinking": "And"}]
    native = {"provider": "anthropic", "model": "claude-one", "wire": form}
    history = [
        ("user", "Well?", None),
        ("assistant", "Yes.", {"native": native}),
        ("user", "Sure?", None),
    ]
    body, repairs = dump(history, "anthropic", model="claude-one")
    assert body["messages"][1]["content"] == [signed, text]
    assert [repair.rule for repair in repairs] == ["native"]
