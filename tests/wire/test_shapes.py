"""Shapes that services document, in our own words: they come back, and go elsewhere as far as they can."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backstory.errors import Invalid
from backstory.wire import FORMATS, count_tokens, dump, load, load_answer, to_bytes
from tests.wire.maker import PIXEL
from tests.wire.rules import violations

Body = dict[str, Any]

PAINTED = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
SEAL = {"thoughtSignature": "c2lnbmVk"}
LOOK = {"role": "user", "parts": [{"text": "Look."}]}
MORE = {"role": "user", "parts": [{"text": "And?"}]}


def google(*parts: Body) -> Body:
    return {"contents": [LOOK, {"role": "model", "parts": [*parts]}, MORE]}


ASK = {"role": "user", "content": "Who?"}
ANSWER = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "They."}],
}
POSTS = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "xs_call_1",
    "name": "x_keyword_search",
    "input": '{"query":"from:me"}',
    "status": "completed",
}

SHAPES = {
    "an image that Gemini painted while it thought": (
        "gemini",
        google(PAINTED | {"thought": True}, PAINTED | {"thoughtSignature": "c2lnbmVk"}),
    ),
    "an image in the store that it thought of": (
        "gemini",
        google({"fileData": {"fileUri": "gs://a/b.png"}, "thought": True}, {"text": "Yes."}),
    ),
    "a seal with nothing": ("gemini", google({"thought": True, **SEAL}, {"text": "Yes."})),
    "a search while it thought": (
        "gemini",
        google({"toolCall": {"id": "1"}, "thought": True}, {"text": "Yes."}),
    ),
    "what xAI looked up on X": (
        "openai-responses",
        {"input": [ASK, {**POSTS, "type": "x_search_call", "arguments": "{}"}, ANSWER, ASK]},
    ),
    "the same as a custom tool": (
        "openai-responses",
        {"input": [ASK, POSTS, POSTS | {"call_id": "xs_call_2"}, ANSWER, ASK]},
    ),
}


@pytest.mark.parametrize(("format", "body"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("stored", [True, False])
def test_it_comes_back_as_it_was(format, body, stored):
    events = load(body, format, model="m")
    assert dump(events, format, model="m", stored=stored).repairs == []
    assert json.loads(to_bytes(events, format, model="m", stored=stored)) == body
    assert violations(body, format, strict=False, model="m", stored=stored, compatible=True) == []
    for other in FORMATS:
        assert violations(dump(events, other).body, other, strict=False) == []


BROKEN: list[Body] = [
    {"inlineData": {"data": PIXEL}},
    {"text": 5},
    {"toolCall": 5},
    {"fileData": {"fileUri": 5}},
]


@pytest.mark.parametrize("found", [{}, *BROKEN, *(found | SEAL for found in BROKEN)])
def test_a_thought_with_nothing_whole_in_it_does_not_go_back(found):
    native = {"provider": "gemini", "wire": [{"thought": True, **found}, {"text": "Yes."}]}
    history = [
        ("user", "Look.", None),
        ("assistant", "Yes.", {"native": native}),
        ("user", "And?", None),
    ]
    body, repairs = dump(history, "gemini")
    assert body == google({"text": "Yes."})
    assert [repair.rule for repair in repairs] == ["native"]


def test_a_search_of_xai_is_no_call_to_run_and_is_told_elsewhere():
    answer = {"output": [POSTS, ANSWER]}
    events = load_answer(answer, "openai-responses", model="m")
    assert [(kind, text) for kind, text, _ in events] == [("assistant", "They.")]
    [_, said, _] = dump([("user", "Who?", None), *events, ("user", "And?", None)], "openai").body[
        "messages"
    ]
    told = '<custom_tool>\nname: x_keyword_search\ninput: {"query":"from:me"}\n</custom_tool>'
    assert said["content"] == f"{told}\n\nThey."


def calls(name: str) -> Body:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}


def came(*names: str) -> Body:
    return {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": name, "response": {"output": name}}} for name in names
        ],
    }


def test_calls_of_one_answer_in_several_contents_get_their_results():
    body = {"contents": [LOOK, calls("f"), calls("g"), calls("f"), came("f", "g", "f")]}
    dumped, repairs = dump(load(body, "gemini", model="m"), "gemini", model="m")
    assert repairs == []
    assert dumped["contents"] == [
        LOOK,
        {"role": "model", "parts": [part for name in "fgf" for part in calls(name)["parts"]]},
        came("f", "g", "f"),
    ]


def test_a_call_that_was_left_open_does_not_get_the_result_of_a_later_one():
    said = {"role": "model", "parts": [{"text": "I look."}]}
    body = {"contents": [LOOK, calls("f"), MORE, said, calls("f"), came("f")]}
    events = load(body, "gemini", model="m")
    [first, second] = [data["id"] for kind, _, data in events if kind == "tool_call"]
    [result] = [data["id"] for kind, _, data in events if kind == "tool_result"]
    assert first != second == result


def summed(**fields: Any) -> Body:
    summary = {"type": "compaction", "content": "They met.", **fields}
    content = [summary, {"type": "text", "text": "Go on."}]
    return {"messages": [ASK, {"role": "assistant", "content": content}, ASK]}


def test_a_summary_of_anthropic_comes_back_and_is_told_elsewhere():
    events = load(summed(encrypted_content="c2VhbGVk"), "anthropic", model="m")
    assert dump(events, "anthropic", model="m") == (summed(encrypted_content="c2VhbGVk"), [])
    body, repairs = dump(events, "openai")
    assert body["messages"][1]["content"] == "<compaction>\nThey met.\n</compaction>\n\nGo on."
    assert ["compaction of this answer described in words" in repair.why for repair in repairs] == [
        True
    ]
    failed = load(summed(content=None), "anthropic", model="m")
    assert dump(failed, "anthropic", model="m") == (summed(content=None), [])
    assert "compaction of this answer left out" in dump(failed, "openai").repairs[0].why


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_image_in_system_text_goes_back_and_is_told_elsewhere(role, is_first):
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    paper = {
        "type": "input_file",
        "filename": "a.txt",
        "file_data": "data:text/plain;base64,QSBub3RlLg==",
    }
    said = {"role": role, "content": [{"type": "input_text", "text": "So it looks."}, shown, paper]}
    body = {"input": [said, ASK] if is_first else [ASK, said, ASK]}
    events = load(body, "openai-responses", model="m")
    assert dump(events, "openai-responses", model="m") == (body, [])
    for format in set(FORMATS) - {"openai-responses"}:
        dumped, repairs = dump(events, format)
        assert violations(dumped, format, strict=False) == []
        sent = to_bytes(events, format).decode()
        assert ("So it looks." in sent, "A note." in sent, PIXEL in sent) == (True, True, False)
        assert f"image left out: {format} has no such thing here" in [
            repair.why for repair in repairs
        ]


def test_a_request_that_is_a_template_in_the_store_says_nothing():
    assert load({"prompt": {"id": "pmpt_1"}}, "openai-responses") == []
    with pytest.raises(Invalid, match="input: missing"):
        load({"model": "m"}, "openai-responses")


@pytest.mark.parametrize("content", [None, []])
def test_a_result_of_nothing_says_so_to_models_that_did_not_take_it(content):
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "1", "content": content}
    body = {"messages": [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}, result]}
    events = load(body, "openai", model="m")
    assert dump(events, "openai", model="m") == (body, [])
    dumped, repairs = dump(events, "openai", model="another")
    assert dumped["messages"][2]["content"] == "(no output)"
    assert [repair.rule for repair in repairs] == ["blank"]


def test_what_openrouter_read_of_a_file_goes_back_but_not_what_it_found():
    read = [{"type": "file", "file": {"hash": "a1", "content": [{"type": "text", "text": "x"}]}}]
    found = [{"type": "url_citation", "url_citation": {"url": "https://example.org"}}]
    for notes, is_sent in ((read, True), (found, False), (None, False)):
        message = {"role": "assistant", "content": "Yes.", "annotations": notes}
        events = load_answer({"choices": [{"message": message}]}, "openai", model="m")
        [_, said, _] = dump(
            [("user", "Read.", None), *events, ("user", "And?", None)], "openai", model="m"
        ).body["messages"]
        assert ("annotations" in said) == is_sent


@pytest.mark.parametrize("model", ["m", "another"])
def test_arguments_of_a_function_as_it_was_before_tools_keep_their_spacing(model):
    function = {"name": "look", "arguments": '{ "at":1.0}'}
    asked = {"role": "assistant", "content": None, "function_call": function}
    body = {"messages": [ASK, asked, {"role": "function", "name": "look", "content": "x"}]}
    assert (
        json.dumps(function["arguments"])
        in to_bytes(load(body, "openai", model="m"), "openai", model=model).decode()
    )


@pytest.mark.parametrize(
    ("format", "name"), [("openai-responses", "input"), ("openai", "messages")]
)
def test_how_closely_to_look_goes_where_it_can_be_said(format, name):
    url = "https://example.org/a.png"
    shown = {
        "openai": {"type": "image_url", "image_url": {"url": url, "detail": "high"}},
        "openai-responses": {"type": "input_image", "image_url": url, "detail": "high"},
    }
    body = {name: [{"role": "user", "content": [shown[format]]}]}
    [other] = shown.keys() - {format}
    dumped, repairs = dump(load(body, format), other)
    assert repairs == []
    [[message]] = dumped.values()
    assert message["content"] == [shown[other]]


def test_tools_that_are_added_in_the_middle_are_no_words_for_another_model():
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "look"}}
    body = {"messages": [ASK, {"role": "system", "content": [added]}]}
    events = load(body, "anthropic", model="m")
    assert dump(events, "anthropic", model="m") == (body, [])
    dumped, repairs = dump(events, "anthropic", model="another")
    assert dumped == {"messages": [{"role": "user", "content": "Who?"}]}
    assert [(repair.rule, repair.at) for repair in repairs] == [("system", 1)]


def test_tools_that_were_added_in_the_middle_do_not_go_to_the_top_with_system_text():
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "look"}}
    words = {"type": "text", "text": "Look well.", "cache_control": {"type": "ephemeral"}}
    for content, top in (
        ([added], None),
        ([added, words], [{"type": "text", "text": "Look well."}]),
        ([words], [words]),
    ):
        body = {"messages": [ASK, {"role": "system", "content": content}]}
        _, system = load(
            body, "anthropic", model="m"
        )  # a compaction writes it again before its summary
        dumped, repairs = dump([system, ("user", "Who?", None)], "anthropic", model="m")
        assert dumped.get("system") == top
        assert [(repair.rule, repair.at) for repair in repairs] == [("system", 0)] * (
            added in content
        )


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize("format", ["openai", "openai-responses"])
def test_blank_arguments_are_no_json_so_they_are_empty_ones(format, blank):
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": blank}}
    item = {"type": "function_call", "call_id": "1", "name": "look", "arguments": blank}
    body = {
        "openai": {"messages": [ASK, {"role": "assistant", "content": "", "tool_calls": [call]}]},
        "openai-responses": {"input": [ASK, item]},
    }[format]
    events = [*load(body, format, model="m"), ("tool_result", "x", {"id": "1"})]
    dumped, repairs = dump(events, format, model="m")
    assert violations(dumped, format, strict=False) == []
    assert [repair.why for repair in repairs] == ["arguments that are null or blank become {}"]


@pytest.mark.parametrize(
    ("part", "second"),
    [
        ({"text": "Yes.", **PAINTED}, "inlineData"),
        ({"functionCall": {"name": "f", "args": {}}, "text": "Yes."}, "text"),
        ({"text": "Yes.", "executable_code": {"code": "1"}}, "executable_code"),
    ],
)
def test_a_part_of_google_with_two_things_in_it_does_not_go_back_and_nothing_is_lost_silently(
    part, second
):
    events = load(google(part), "gemini", model="m")
    for format in FORMATS:
        body, repairs = dump(events, format, model="m")
        assert part not in body.get("contents", [None, {"parts": []}])[1]["parts"]
        assert [
            repair.why for repair in repairs if f"{second} of this answer left out" in repair.why
        ]


def test_what_stands_beside_a_part_of_google_is_told_whatever_its_name_is():
    [repair] = dump(
        load(google({"text": "Yes.", "displayName": "x"}), "gemini", model="m"), "openai"
    ).repairs
    assert "displayName of this answer left out" in repair.why


def document(*content: Any) -> Body:
    block = {
        "type": "document",
        "source": {"type": "content", "content": [*content]},
        "title": "paper",
    }
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Read."}, block]}]}


def test_the_title_of_a_document_of_images_is_not_lost_silently():
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    events = load(document(image), "anthropic")
    assert dump(events, "anthropic") == (document(image), [])
    [repair] = dump(events, "openai").repairs
    assert repair.why == "the name 'paper' left out: openai has no such thing here"


@pytest.mark.parametrize("inside", [5, {}, {"type": "text"}, {"type": "text", "text": 5}])
def test_a_document_with_something_broken_inside_does_not_go_back(inside):
    events = load(document({"type": "text", "text": "x"}, inside), "anthropic")
    for format in FORMATS:
        body, [repair] = dump(events, format)
        assert repair.why == "document left out: it is broken"
        assert "paper" not in json.dumps(body)


def test_arguments_of_calls_without_ids_are_not_mixed_up():
    spelled = ['{"on": 1}', '{"on": true}', '{"on":1.0}']
    calls = [
        {"id": "", "type": "function", "function": {"name": "f", "arguments": each}}
        for each in spelled
    ]
    results = [{"role": "tool", "tool_call_id": "", "content": each} for each in spelled]
    asked = {"role": "assistant", "content": None, "tool_calls": calls}
    events = load({"messages": [ASK, asked, *results]}, "openai", model="m")
    sent = dump(events, "openai", model="another").body["messages"][1]["tool_calls"]
    assert [call["function"]["arguments"] for call in sent] == spelled


def test_of_two_names_of_a_file_always_the_same_is_sent():
    link = {"type": "file_url", "file_url": {"url": "https://example.org/a.pdf"}}
    link |= {"document_name": "second.pdf", "file_name": "first.pdf"}
    body, _ = dump(load({"messages": [{"role": "user", "content": [link]}]}, "openai"), "anthropic")
    assert body["messages"][0]["content"][0]["title"] == "first.pdf"


@pytest.mark.parametrize("message", [{"role": "user", "content": "Hello"}, "Hello", None])
def test_a_message_of_another_shape_is_refused_and_not_left_out(message):
    with pytest.raises(Invalid, match="is not an event, a Message or a tuple"):
        dump([message], "openai")
    with pytest.raises(Invalid, match="is not an event"):
        count_tokens([message])
