"""Loading: what is not of the format is refused with the place, and what is comes into the log."""

import pytest

import backstory
from backstory import Invalid
from backstory.wire import FORMATS, dump, load, load_answer
from backstory.wire.context import RequestContext
from backstory.wire.formats import get_format
from backstory.wire.request import build_request
from tests.wire.rules import violations

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def messages(*found):
    return {"messages": list(found)}


def contents(*parts):
    return {"contents": [{"role": "user", "parts": list(parts)}]}


REFUSED = [
    ("openai", {}, r"^messages: missing"),
    ("openai", {"messages": {}}, r"^messages: expected an array, found an object"),
    ("openai", messages("hi"), r"^messages\[0\]: expected an object, found a string"),
    ("openai", messages({"content": "hi"}), r"^messages\[0\]\.role: expected one of system"),
    ("openai", messages({"role": "robot"}), r"^messages\[0\]\.role: .*'robot'"),
    ("openai", messages({"role": "user"}), r"^messages\[0\]\.content: .*null"),
    (
        "openai",
        messages({"role": "user", "content": [{"text": "x"}]}),
        r"^messages\[0\]\.content\[0\]\.type: missing",
    ),
    (
        "openai",
        messages({"role": "tool", "content": "x"}),
        r"^messages\[0\]\.tool_call_id: missing",
    ),
    (
        "openai",
        messages(
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [CALL, {"type": "function", "id": 5}]},
        ),
        r"^messages\[1\]\.tool_calls\[1\]\.id: expected a string, found a number",
    ),
    (
        "anthropic",
        messages({"role": "assistant", "content": "x", "id": "msg_1"}),
        r"^messages\[0\]\.id: the service takes only content and role here",
    ),
    (
        "bedrock",
        messages({"role": "user", "content": [{"text": "x"}], "name": "Ann"}),
        r"^messages\[0\]\.name: the service takes only content and role here",
    ),
    (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"text": "x"}], "name": "Ann"}]},
        r"^contents\[0\]\.name: the service takes only parts and role here",
    ),
    ("gemini", contents({"inlineData": None}), r"^contents\[0\]\.parts\[0\]: a part without data"),
    (
        "openai",
        messages(
            {
                "role": "assistant",
                "tool_calls": [CALL | {"function": {"name": "f", "arguments": []}}],
            }
        ),
        r"^messages\[0\]\.tool_calls\[0\]\.function\.arguments: expected a string, found an array",
    ),
    ("openai-responses", {"input": 5}, r"^input: expected an array"),
    ("openai-responses", {"input": [{}]}, r"^input\[0\]\.type: missing"),
    ("openai-responses", {"input": [], "instructions": []}, r"^instructions: expected a string"),
    (
        "openai-responses",
        {"input": [{"type": "function_call"}]},
        r"^input\[0\]\.arguments: missing",
    ),
    (
        "anthropic",
        {"messages": [{"role": "user"}]},
        r"^messages\[0\]\.content: expected an array, found null",
    ),
    (
        "anthropic",
        messages({"role": "user", "content": [{"type": "text"}]}),
        r"^messages\[0\]\.content\[0\]\.text",
    ),
    (
        "anthropic",
        messages({"role": "user", "content": [{"type": "tool_result"}]}),
        r"^messages\[0\]\.content\[0\]\.tool_use_id: missing",
    ),
    (
        "anthropic",
        messages({"role": "assistant", "content": [{"type": "tool_use", "input": "x"}]}),
        r"^messages\[0\]\.content\[0\]\.input: expected an object, found a string",
    ),
    ("anthropic", {"system": 5, "messages": []}, r"^system: expected an array"),
    (
        "openai-responses",
        {"input": [{"type": "function_call", "call_id": "1", "name": "", "arguments": "{}"}]},
        r"^input\[0\]\.name: .*non-empty",
    ),
    (
        "openai-responses",
        {"input": [{"type": "function_call_output", "call_id": {}, "output": "x"}]},
        r"^input\[0\]\.call_id: expected a string, found an object",
    ),
    (
        "anthropic",
        messages({"role": "user", "content": [{"type": "tool_result", "tool_use_id": ""}]}),
        r"^messages\[0\]\.content\[0\]\.tool_use_id: .*non-empty",
    ),
    (
        "gemini",
        contents({"functionCall": {"name": ""}}),
        r"parts\[0\]\.functionCall\.name: .*non-empty",
    ),
    (
        "bedrock",
        messages(
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "", "name": "f", "input": {}}}],
            }
        ),
        r"^messages\[0\]\.content\[0\]\.toolUse\.toolUseId: .*non-empty",
    ),
    ("gemini", {"system_instruction": {}, "contents": []}, r"^systemInstruction\.parts: missing"),
    ("gemini", {"contents": [{"role": "user"}]}, r"^contents\[0\]\.parts: missing"),
    ("gemini", contents({}), r"^contents\[0\]\.parts\[0\]: a part without data"),
    (
        "gemini",
        contents({"function_call": {"args": {}}}),
        r"parts\[0\]\.functionCall\.name: missing",
    ),
    (
        "gemini",
        {"systemInstruction": "x", "contents": []},
        r"^systemInstruction: expected an object",
    ),
    (
        "bedrock",
        messages({"role": "user", "content": "hi"}),
        r"^messages\[0\]\.content: expected an array",
    ),
    (
        "bedrock",
        messages({"role": "user", "content": [{"a": 1, "b": 2}]}),
        r"^messages\[0\]\.content\[0\]: .*one key",
    ),
    (
        "bedrock",
        messages({"role": "assistant", "content": [{"toolUse": {"name": "f", "input": {}}}]}),
        r"^messages\[0\]\.content\[0\]\.toolUse\.toolUseId: missing",
    ),
]


@pytest.mark.parametrize(("format", "body", "problem"), REFUSED)
def test_a_body_that_is_not_of_the_format_is_refused_with_the_place(format, body, problem):
    with pytest.raises(Invalid, match=problem):
        load(body, format)


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_is_an_object(body):
    with pytest.raises(Invalid, match="is an object"):
        load(body, "openai")


@pytest.mark.parametrize("name", ["openia", None, []])
def test_an_unknown_format_is_refused_with_the_known_ones(name):
    with pytest.raises(Invalid, match="openai, openai-responses, anthropic, gemini, bedrock"):
        dump([], name)
    with pytest.raises(Invalid, match="no wire format"):
        load({}, name)


@pytest.mark.parametrize("format", FORMATS)
def test_a_loaded_conversation_can_be_appended_and_says_the_same(format):
    history = [
        ("system", "Be careful.", None),
        ("user", "Look.", None),
        ("assistant", "I shall.", None),
        ("tool_call", None, {"id": "call_1", "name": "glob", "arguments": {"p": 1}}),
        ("tool_result", "a.py", {"id": "call_1"}),
    ]
    body = dump(history, format).body
    with backstory.open(":memory:") as store:
        agent = store.start()
        agent.extend(load(body, format))
        events = agent.context().messages
    assert [(event.kind, event.content, event.data) for event in events] == history
    assert dump(events, format).body == body


def test_native_content_is_tagged_with_the_model_of_the_body():
    body = {"model": "m1", "messages": [{"role": "user", "content": "hi"}]}
    [(_, _, data)] = load(body, "anthropic")
    assert data == {"native": {"provider": "anthropic", "model": "m1", "wire": "hi"}}
    [(_, _, data)] = load(body, "anthropic", model="m2")
    assert data["native"]["model"] == "m2"


def test_a_gemini_response_that_answers_nothing_is_named_after_its_tool():
    answer = {"functionResponse": {"name": "f", "response": {"output": "x"}}}
    [(kind, content, data)] = load(contents(answer), "gemini")
    assert (kind, content, data["id"]) == ("tool_result", "x", "f")


def test_gemini_responses_find_their_calls_by_name():
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("f", "g", "f")]
    answers = [
        {"functionResponse": {"name": name, "response": {"output": str(n)}}}
        for n, name in enumerate(("g", "f", "f"))
    ]
    body = {"contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": answers}]}
    results = [event for event in load(body, "gemini") if event[0] == "tool_result"]
    assert [(text, data["id"]) for _, text, data in results] == [
        ("0", "call_2"),
        ("1", "call_1"),
        ("2", "call_3"),
    ]


def test_custom_tools_of_openai_come_back_as_they_were():
    custom = {"id": "1", "type": "custom", "custom": {"name": "f", "input": "free text"}}
    body = messages(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [custom]},
        {"role": "tool", "tool_call_id": "1", "content": "y"},
    )
    events = load(body, "openai")
    assert events[1][2]["arguments"] == {"input": "free text"}
    assert dump(events, "openai") == (body, [])


@pytest.mark.parametrize("arguments", ["{broken", "[1]", '{"a": 1e999}'])
@pytest.mark.parametrize("format", ["openai", "openai-responses"])
def test_arguments_that_are_no_json_object_are_mended_and_told(format, arguments):
    body = dump(
        [("user", "x", None), ("tool_call", None, {"id": "1", "name": "f"})], format, pending=True
    ).body
    call = (
        body["messages"][1]["tool_calls"][0]["function"] if format == "openai" else body["input"][1]
    )
    call["arguments"] = arguments
    events = load(body, format)
    assert events[1][2]["arguments"] == arguments
    for target in FORMATS:
        dumped, repairs = dump(events, target, pending=True)
        assert [repair.rule for repair in repairs] == ["arguments"]
        assert dumped != body


REFUSALS = {
    "openai": messages({"role": "assistant", "content": None, "refusal": "I will not."}),
    "openai-responses": {
        "input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]}]
    },
}


@pytest.mark.parametrize("format", REFUSALS)
def test_a_refusal_is_what_the_assistant_said(format):
    [event] = events = load(REFUSALS[format], format)
    assert event[:2] == ("assistant", "I will not.")
    assert dump(events, format) == (REFUSALS[format], [])
    assert "I will not." in str(dump(events, "anthropic").body)


def calling(**arguments):
    call = {"id": "1", "type": "function", "function": {"name": "f", **arguments}}
    return {"role": "user", "content": "Look."}, {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
    }


def using(result):
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    return messages(
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result | {"tool_use_id": "t"}]},
    )


EPHEMERAL = {"type": "ephemeral"}
UNNAMED = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
STUBS = {
    "toolConfig": {
        "tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]
    }
}
GOT = {"role": "tool", "tool_call_id": "1", "content": "x"}
# What services take although no page of theirs shows it: one part without its brackets, fields that are null,
# arguments as an object. Each comes back as it was.
TAKEN = {
    "a part alone": ("gemini", {"contents": [{"role": "user", "parts": {"text": "Hi."}}]}),
    "an instruction alone": (
        "gemini",
        {"systemInstruction": {"parts": {"text": "Be brief."}}, **contents({"text": "Hi."})},
    ),
    "a call and a response alone": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": {"functionCall": {"name": "f", "args": {}}}},
                {
                    "role": "user",
                    "parts": {"functionResponse": {"name": "f", "response": {"output": "x"}}},
                },
            ]
        },
    ),
    "a result of null": ("openai", messages(*calling(arguments="{}"), GOT | {"content": None})),
    "arguments that are an object": ("openai", messages(*calling(arguments={"a": 1}), GOT)),
    "no arguments": ("openai", messages(*calling(), GOT)),
    "calls and results without ids": (
        "openai",
        messages(
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": None, "tool_calls": [UNNAMED, UNNAMED]},
            {"role": "tool", "name": "f", "content": "x"},
            {"role": "tool", "name": "f", "content": "y"},
        ),
    ),
    "a result without content": (
        "anthropic",
        using({"type": "tool_result", "cache_control": EPHEMERAL}),
    ),
    "a result of nothing": ("anthropic", using({"type": "tool_result", "content": ""})),
    "a result of no blocks": (
        "bedrock",
        messages(
            {"role": "user", "content": [{"text": "Look."}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "t", "content": [], "status": "success"}}],
            },
        )
        | STUBS,
    ),
    "a block with a null beside it": (
        "bedrock",
        messages({"role": "user", "content": [{"text": "Hi.", "image": None}]}),
    ),
}


@pytest.mark.parametrize(("format", "body"), TAKEN.values(), ids=TAKEN)
def test_what_a_service_takes_in_another_shape_comes_back_in_it(format, body):
    events = load(body, format, model="m")
    assert dump(events, format, model="m") == (body, [])
    for other in FORMATS:
        if other != format:
            assert violations(dump(events, other).body, other) == []


def test_a_single_content_of_gemini_is_a_list_of_one():
    one = {"role": "user", "parts": [{"text": "Hi."}]}
    assert load({"contents": one}, "gemini") == load({"contents": [one]}, "gemini")


def test_parts_with_and_without_brackets_are_one_message():
    two = {
        "contents": [
            {"role": "user", "parts": {"text": "a"}},
            {"role": "user", "parts": [{"text": "b"}]},
        ]
    }
    events = load(two, "gemini")
    assert dump(events, "gemini").body == contents({"text": "a"}, {"text": "b"})
    assert build_request(events, RequestContext(get_format("gemini"))).list_origins() == [[0, 1]]


def test_a_system_text_of_null_is_none():
    body = messages({"role": "user", "content": [{"text": "Hi."}]})
    assert load({"system": None, **body}, "bedrock") == load(body, "bedrock")


def test_a_message_of_null_is_left_out_and_told():
    body, repairs = dump(load(messages({"role": "user", "content": None}), "openai"), "openai")
    assert body["messages"][0]["content"]
    assert repairs[0].rule == "blank"


# --- answers of compatible servers that load() refused, although load_answer() took them ---

PARSED = {"role": "assistant", "content": {"city": "Paris"}}
NO_FUNCTION = {"name": "", "arguments": ""}


@pytest.mark.parametrize("model", ["m", None])
def test_an_object_as_content_is_read_as_its_json(model):
    body = {"messages": [{"role": "user", "content": "Where?"}, PARSED]}
    _, (kind, text, _) = events = load(body, "openai", model=model)
    assert (kind, text) == ("assistant", '{"city":"Paris"}')
    assert dump(events, "openai", model=model).body == body
    [shown] = dump(events, "anthropic", pause=True).body["messages"][1]["content"]
    assert shown["text"] == text


@pytest.mark.parametrize("function", [NO_FUNCTION, {}, None])
def test_an_empty_function_call_is_no_call(function):
    answer = {"role": "assistant", "content": "Paris.", "function_call": function}
    body = {"messages": [{"role": "user", "content": "Where?"}, answer]}
    events = load(body, "openai", model="m")
    assert [kind for kind, _, _ in events] == ["user", "assistant"]
    assert dump(events, "openai", model="m").body == body


def test_a_function_call_without_a_name_but_with_arguments_is_refused():
    answer = {"role": "assistant", "function_call": {"name": "", "arguments": "{}"}}
    with pytest.raises(Invalid, match=r"messages\[0\].function_call.name"):
        load({"messages": [answer]}, "openai")


def test_an_object_as_content_in_a_stream_is_read_as_its_json():
    chunk = {"choices": [{"delta": {"content": {"city": "Paris"}, "function_call": NO_FUNCTION}}]}
    [(kind, text, _)] = load_answer([chunk], "openai", model="m")
    assert (kind, text) == ("assistant", '{"city":"Paris"}')


SHARED_BODIES = [
    (
        "anthropic",
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"paths": ["x"]}}],
        },
    ),
    (
        "openai",
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f", "tags": ["x"]}}]},
    ),
]


@pytest.mark.parametrize(("format", "message"), SHARED_BODIES)
def test_a_later_change_of_a_body_does_not_reach_the_events(format, message):
    loaded = load({"messages": [message]}, format)
    before = repr(loaded)
    [block] = message["content"]
    for value in block.values():
        if isinstance(value, dict):
            value.clear()
    assert repr(loaded) == before


def test_a_later_change_of_an_answer_does_not_reach_the_events():
    block = {"type": "tool_use", "id": "a", "name": "f", "input": {"paths": ["x"]}}
    answer = {"type": "message", "role": "assistant", "content": [block], "model": "m"}
    loaded = load_answer(answer, "anthropic")
    block["input"]["paths"].append("y")
    assert loaded[0][2]["arguments"] == {"paths": ["x"]}


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("openai", {"messages": [{"role": "user", "content": {"a": b"x"}}]}),
        (
            "openai-responses",
            {"input": [{"type": "tool_search_output", "call_id": "a", "tools": [b"x"]}]},
        ),
    ],
)
def test_bytes_where_json_belongs_are_refused(format, body):
    with pytest.raises(Invalid, match="not JSON"):
        load(body, format)


@pytest.mark.parametrize("kind", [["x"], {"a": 1}, 5, None])
def test_an_item_whose_type_is_no_text_is_refused(kind):
    item = {"type": kind, "status": "incomplete", "call_id": "a"}
    with pytest.raises(Invalid, match="response"):
        load_answer({"output": [item]}, "openai-responses")


def test_a_call_without_an_id_gets_one_that_no_other_call_has():
    def call(id, name):
        return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}

    def result(id, content):
        return {"role": "tool", "tool_call_id": id, "content": content}

    calls = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("call_2", "f"), call("", "g")],
    }
    asked = {"role": "user", "content": "Look."}
    messages = [asked, calls, result("", "of g"), result("call_2", "of f")]
    events = load({"messages": messages}, "openai", model="m")
    ids = [data["id"] for kind, _, data in events if kind == "tool_call"]
    assert len(set(ids)) == 2
    assert dump(events, "openai", model="m").body["messages"] == messages
    body, _ = dump(events, "anthropic")
    called = {block["id"]: block["name"] for block in body["messages"][1]["content"]}
    said = {block["tool_use_id"]: block["content"] for block in body["messages"][2]["content"]}
    assert {called[id]: text for id, text in said.items()} == {"f": "of f", "g": "of g"}
