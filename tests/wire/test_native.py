"""Provider-native content: replayed where it belongs, translated where it can be, never where it is not."""

import json
from typing import ClassVar

import pytest

from backstory.wire import FORMATS, dump, load, load_answer
from tests.wire.logs import EMPTY, PIXEL
from tests.wire.rules import violations

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
# Sealed thinking, a text and an empty text.
SEALED = {
    "anthropic": (THINKING, {"type": "text", "text": "Hi."}, {"type": "text", "text": ""}),
    "bedrock": (
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2VhbGVk"}}},
        {"text": "Hi."},
        {"text": ""},
    ),
}
ANSWER = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "out"}


def text(words):
    return {"type": "text", "text": words}


def thought(model="m1"):
    """An Anthropic history with thinking before text and a call."""
    body = {
        "messages": [
            {"role": "user", "content": [text("Look.")]},
            {"role": "assistant", "content": [THINKING, text("I shall."), USE]},
            {"role": "user", "content": [ANSWER]},
        ]
    }
    return body, load(body, "anthropic", model=model)


def native(kind, content, provider, wire, **data):
    return kind, content, data | {"native": {"provider": provider, "wire": wire}}


class TestReasoning:
    def test_it_returns_to_the_same_provider_and_model_as_it_was(self):
        body, events = thought("m1")
        assert dump(events, "anthropic", model="m1") == (body, [])

    @pytest.mark.parametrize("model", [None, "m2"])
    def test_not_to_another_model(self, model):
        _, events = thought("m1")
        body, repairs = dump(events, "anthropic", model=model)
        assert "c2lnbmVk" not in json.dumps(body)
        assert "I shall." in json.dumps(body)
        assert [repair.rule for repair in repairs] == ["native"]
        assert "thinking" in repairs[0].why

    @pytest.mark.parametrize("format", [format for format in FORMATS if format != "anthropic"])
    def test_nor_to_another_provider(self, format):
        _, events = thought(None)
        body, repairs = dump(events, format)
        assert "c2lnbmVk" not in json.dumps(body)
        assert [repair.rule for repair in repairs] == ["native"]
        assert violations(body, format) == []

    def test_what_the_log_says_before_it_goes_behind_it(self):
        call = native(
            "tool_call", None, "anthropic", [THINKING, USE], id="toolu_1", name="f", arguments={}
        )
        events = [("user", "Hi.", None), ("assistant", "I shall.", None), call]
        body, _ = dump([*events, ("tool_result", "out", {"id": "toolu_1"})], "anthropic")
        assert body["messages"][1]["content"] == [THINKING, text("I shall."), USE]

    def test_it_does_not_go_before_that_of_another_answer_where_it_needs_an_item_of_its_own(self):
        reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbA=="}
        said = {"role": "assistant", "content": "Hello."}
        cut = native("assistant", None, "openai-responses", [reasoning])
        whole = native("assistant", "Hello.", "openai-responses", [reasoning, said])
        body, repairs = dump([("user", "Hi.", None), cut, whole], "openai-responses")
        assert body["input"] == [{"role": "user", "content": "Hi."}, said]
        assert {repair.rule for repair in repairs} == {"native"}

    def test_nor_from_a_step_that_lost_a_call(self):
        _, events = thought(None)
        events = [event for event in events if event[0] not in ("tool_call", "tool_result")]
        body, repairs = dump([*events, ("user", "Go on.", None)], "anthropic")
        assert "c2lnbmVk" not in json.dumps(body)
        assert [repair.rule for repair in repairs] == ["native"]

    def test_nor_where_the_text_was_changed(self):
        _, events = thought(None)
        events = [
            (kind, "Changed." if kind == "assistant" else content, data)
            for kind, content, data in events
        ]
        body, _ = dump(events, "anthropic")
        assert "c2lnbmVk" not in json.dumps(body)
        assert "Changed." in json.dumps(body)

    def test_nor_where_an_id_had_to_change(self):
        _, events = thought(None)
        body, _ = dump([*events, ("user", "Again.", None), *events[1:]], "anthropic")
        assert json.dumps(body).count("c2lnbmVk") == 1
        assert violations(body, "anthropic") == []

    def test_it_stays_where_a_call_was_interrupted(self):
        _, events = thought(None)
        body, repairs = dump([*events[:-1], ("user", "Stop.", None)], "anthropic")
        assert "c2lnbmVk" in json.dumps(body)
        assert [repair.rule for repair in repairs] == ["close"]

    def test_thinking_without_a_signature_is_left_out(self):
        half = [{"type": "thinking", "thinking": "Hm."}, text("Hi.")]
        body, repairs = dump(
            [
                ("user", "u", None),
                native("assistant", "Hi.", "anthropic", half),
                ("user", "v", None),
            ],
            "anthropic",
        )
        assert "thinking" not in json.dumps(body)
        assert [repair.rule for repair in repairs] == ["native"]

    def test_each_event_of_a_step_may_carry_its_own_form(self):
        events = [
            ("user", "Look.", None),
            native("assistant", "I shall.", "anthropic", [THINKING, text("I shall.")]),
            native("tool_call", None, "anthropic", [USE], id="toolu_1", name="f", arguments={}),
            ("tool_result", "out", {"id": "toolu_1"}),
        ]
        assert dump(events, "anthropic") == (thought()[0], [])

    def test_items_of_responses_lose_their_ids_unless_they_are_stored(self):
        items = [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [],
            },
        ]
        items[1]["content"] = [{"type": "output_text", "text": "Hi.", "annotations": []}]
        events = [("user", "u", None), native("assistant", "Hi.", "openai-responses", items)]
        assert dump(events, "openai-responses", stored=True).body["input"][1:] == items
        bare = dump(events, "openai-responses").body
        assert "rs_1" not in json.dumps(bare)
        assert "msg_1" not in json.dumps(bare)
        assert "c2VhbGVk" in json.dumps(bare)
        assert violations(bare, "openai-responses") == []

    def test_reasoning_that_only_a_store_could_read_is_told_when_it_goes(self):
        items = [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "assistant", "content": "Hi."},
        ]
        events = [("user", "u", None), native("assistant", "Hi.", "openai-responses", items)]
        body, repairs = dump(events, "openai-responses")
        assert body["input"][1:] == [{"role": "assistant", "content": "Hi."}]
        assert [repair.rule for repair in repairs] == ["native"]

    def test_a_form_with_text_behind_a_call_is_put_in_order(self):
        events = [
            ("user", "Look.", None),
            native("assistant", "I shall.", "anthropic", [USE, text("I shall.")]),
            ("tool_call", None, {"id": "toolu_1", "name": "f", "arguments": {}}),
            ("tool_result", "out", {"id": "toolu_1"}),
        ]
        body, _ = dump(events, "anthropic")
        assert body["messages"][1]["content"] == [text("I shall."), USE]

    def test_reasoning_without_the_item_that_it_led_to_is_left_out(self):
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
        said = {"role": "assistant", "content": "Hi."}
        for items, text in (([sealed], ""), ([said, sealed], "Hi.")):
            events = [("user", "u", None), native("assistant", text, "openai-responses", items)]
            body, repairs = dump(events, "openai-responses")
            assert "c2VhbGVk" not in json.dumps(body)
            assert repairs[0].rule == "native"
            assert violations(body, "openai-responses") == []

    def test_gemini_signs_the_first_call_of_each_step_and_keeps_a_signature_it_knows(self):
        calls = [("tool_call", None, {"id": id, "name": "f", "arguments": {}}) for id in "12"]
        results = [("tool_result", "out", {"id": id}) for id in "12"]
        body, repairs = dump([("user", "u", None), *calls, *results], "gemini")
        first, second = body["contents"][1]["parts"]
        assert first["thoughtSignature"] == "skip_thought_signature_validator"
        assert "thoughtSignature" not in second
        assert repairs == []

    @pytest.mark.parametrize("signature", ["c2ln_not_whole", True, ["c2ln"]])
    @pytest.mark.parametrize(
        "part", [{"text": ""}, {"thought": True, "text": "so"}, {"executableCode": {"code": "1"}}]
    )
    def test_a_broken_signature_does_not_reach_gemini(self, part, signature):
        wire = [{"text": "words"}, part | {"thoughtSignature": signature}]
        said = [
            ("user", "u", None),
            native("assistant", "words", "gemini", wire),
            ("user", "v", None),
        ]
        body, repairs = dump(said, "gemini")
        assert "thoughtSignature" not in json.dumps(body)
        assert "thoughtSignature" in repairs[0].why

    def test_a_gemini_call_that_had_an_id_gets_it_back_in_the_response(self):
        wire = [{"functionCall": {"id": "x1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}]
        events = [
            ("user", "u", None),
            native("tool_call", None, "gemini", wire, id="x1", name="f", arguments={}),
            ("tool_result", "out", {"id": "x1"}),
        ]
        body, repairs = dump(events, "gemini")
        assert body["contents"][2]["parts"][0]["functionResponse"]["id"] == "x1"
        assert repairs == []

    @pytest.mark.parametrize("format", ["anthropic", "bedrock"])
    @pytest.mark.parametrize("ending", [["seal"], ["seal", "empty"], ["seal", "seal"]])
    def test_at_the_end_of_an_answer_it_is_left_out_and_reported(self, format, ending):
        seal, words, empty = SEALED[format]
        blocks = {"seal": seal, "empty": empty}
        tail = [blocks[name] for name in ending]
        for kept in ([], [seal, words]):
            said = "Hi." if kept else ""
            answer = native("assistant", said, format, [*kept, *tail])
            body, repairs = dump([("user", "u", None), answer, ("user", "v", None)], format)
            contents = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
            assert contents == ([kept] if kept else [])
            assert "thinking at its end is left out" in str(repairs)
            assert violations(body, format) == []

    @pytest.mark.parametrize("format", ["anthropic", "bedrock"])
    def test_blank_text_before_it_does_not_stay_alone(self, format):
        seal, words, _ = SEALED[format]
        blank = words | {"text": " "}
        answer = native("assistant", "", format, [blank, seal])
        body, repairs = dump([("user", "u", None), answer, ("user", "v", None)], format)
        assert [message["role"] for message in body["messages"]] == ["user"]
        assert [repair.rule for repair in repairs] == ["native", "blank"]

    def test_it_is_not_last_where_a_reference_after_it_goes(self):
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
        items = [sealed, {"type": "item_reference", "id": "msg_1"}]
        events = [("user", "u", None), native("assistant", "", "openai-responses", items)]
        stored = dump([*events, ("user", "v", None)], "openai-responses", stored=True)
        assert stored.body["input"][1:3] == items
        body, repairs = dump([*events, ("user", "v", None)], "openai-responses")
        assert [item["role"] for item in body["input"]] == ["user", "user"]
        assert [repair.rule for repair in repairs] == ["native", "blank"]
        assert violations(body, "openai-responses") == []


WIRES = {
    "anthropic": [
        text("What?"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    ],
    "openai": {
        "role": "user",
        "content": [
            text("What?"),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        ],
    },
    "openai-responses": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What?"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                    "detail": "auto",
                },
            ],
        }
    ],
    "gemini": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
    "bedrock": [{"text": "What?"}, {"image": {"format": "png", "source": {"bytes": PIXEL}}}],
}


class TestImages:
    @pytest.mark.parametrize("source", FORMATS)
    @pytest.mark.parametrize("format", FORMATS)
    def test_every_format_translates_those_of_every_other(self, source, format):
        body, repairs = dump([native("user", "What?", source, WIRES[source])], format)
        expected, _ = dump([native("user", "What?", format, WIRES[format])], format)
        assert body == expected
        assert repairs == []

    def test_an_image_by_url_stays_one_where_urls_are_known(self):
        link = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
        event = native("user", "What?", "anthropic", [text("What?"), link])
        for format in FORMATS:
            body, repairs = dump([event], format)
            assert ("https://example.org/a.png" in json.dumps(body)) == (format != "bedrock")
            assert [repair.rule for repair in repairs] == (
                ["native"] if format == "bedrock" else []
            )

    @pytest.mark.parametrize("format", FORMATS)
    def test_an_image_alone_is_enough(self, format):
        event = native("user", "", "anthropic", WIRES["anthropic"][1:])
        body, repairs = dump([event], format)
        assert repairs == []
        assert violations(body, format) == []

    def test_a_broken_image_is_left_out(self):
        source = {"type": "base64", "media_type": "image/png", "data": "not base64!"}
        event = native(
            "user", "What?", "anthropic", [text("What?"), {"type": "image", "source": source}]
        )
        for format in FORMATS:
            body, repairs = dump([event], format)
            assert "not base64!" not in json.dumps(body, default=str)
            assert [repair.rule for repair in repairs] == ["native"]

    def test_images_in_results_go_where_results_may_hold_them(self):
        image = WIRES["anthropic"][1]
        events = [
            ("user", "u", None),
            ("tool_call", None, {"id": "1", "name": "f", "arguments": {}}),
            native(
                "tool_result",
                "out",
                "anthropic",
                [ANSWER | {"tool_use_id": "1", "content": [text("out"), image]}],
                id="1",
            ),
        ]
        holding = []
        for format in FORMATS:
            body, repairs = dump(events, format)
            assert violations(body, format) == []
            holding += [format] if repairs == [] else []
        assert holding == ["openai-responses", "anthropic", "gemini", "bedrock"]

    def test_a_failed_result_is_text_and_nothing_else(self):
        shown = {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"}
        words = {"type": "input_text", "text": "out"}
        wire = [{"type": "function_call_output", "call_id": "1", "output": [words, shown]}]
        events = [
            ("user", "u", None),
            ("tool_call", None, {"id": "1", "name": "f", "arguments": {}}),
            native("tool_result", "out", "openai-responses", wire, id="1", error=True),
        ]
        body, repairs = dump(events, "anthropic")
        assert [repair.rule for repair in repairs] == ["native"]
        assert violations(body, "anthropic") == []


class TestGarbage:
    @pytest.mark.parametrize("is_old", [False, True])
    def test_arguments_that_are_null_become_empty_ones(self, is_old):
        function = {"name": "f", "arguments": None}
        calls = {"tool_calls": [{"id": "1", "type": "function", "function": function}]}
        form = {"role": "assistant", "content": None} | (
            {"function_call": function} if is_old else calls
        )
        call = native("tool_call", None, "openai", form, id="1", name="f", arguments={})
        body, repairs = dump(
            [("user", "Hi.", None), call, ("tool_result", "out", {"id": "1"})], "openai"
        )
        [sent] = [message for message in body["messages"] if message["role"] == "assistant"]
        assert (sent.get("function_call") or sent["tool_calls"][0]["function"])["arguments"] == "{}"
        assert [repair.why for repair in repairs] == ["arguments that are null or blank become {}"]

    @pytest.mark.parametrize(
        "event",
        [
            ("user", "hi", {"native": 5}),
            ("user", "hi", {"native": {"wire": "hi"}}),
            native("user", "hi", "anthropic", 5),
            native("user", "hi", "anthropic", [USE]),
            native("user", "hi", "openai", {"role": "system", "content": "hi"}),
            native("user", "hi", "openai-responses", [{"role": "developer", "content": "hi"}]),
            native("assistant", "hi", "openai", {"role": "user", "content": "hi"}),
            native("assistant", "hi", "anthropic", [text("hi"), text(" ")]),
            native(
                "assistant",
                "hi",
                "openai-responses",
                [{"type": "reasoning", "encrypted_content": "x"}],
            ),
        ],
    )
    def test_it_never_reaches_the_wire(self, event):
        for format in FORMATS:
            body, _ = dump([("user", "u", None), event, ("user", "v", None)], format)
            plain, _ = dump([("user", "u", None), (*event[:2], None), ("user", "v", None)], format)
            assert body == plain

    def test_usage_alone_is_nothing_to_tell(self):
        event = (
            "assistant",
            "hi",
            {"native": {"provider": "openai", "usage": {"total_tokens": 5}}},
        )
        assert dump([("user", "u", None), event], "openai").repairs == []


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("kind", "content", "provider", "wire"), EMPTY)
def test_a_form_with_nothing_in_it_is_nothing(format, kind, content, provider, wire):
    body, repairs = dump([("user", "u", None), native(kind, content, provider, wire)], format)
    assert body == dump([("user", "u", None)], format).body
    assert [repair.rule for repair in repairs] == ["blank"]


def test_an_empty_message_that_was_loaded_is_nothing():
    events = load({"messages": [{"role": "user", "content": []}]}, "openai")
    assert violations(dump(events, "openai").body, "openai") == []


def test_an_answer_of_nothing_but_an_empty_message_is_left_out_where_items_are_stored():
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
    item["phase"] = "final_answer"
    events = load_answer({"output": [item]}, "openai-responses", model="m")

    body, repairs = dump(
        [("user", "Hi.", None), *events], "openai-responses", model="m", stored=True
    )

    assert body["input"] == [{"role": "user", "content": "Hi."}]
    assert [repair.rule for repair in repairs] == ["native", "blank"]


class TestCustomTools:
    CALL: ClassVar = {"type": "custom_tool_call", "call_id": "1", "name": "f", "input": "free text"}
    OUTPUT: ClassVar = {"type": "custom_tool_call_output", "call_id": "1", "output": "out"}

    def events(self):
        body = {"input": [{"role": "user", "content": "u"}, self.CALL, self.OUTPUT]}
        return load(body, "openai-responses", model="m1")

    def types(self, events, model):
        return [
            item["type"] for item in dump(events, "openai-responses", model=model).body["input"][1:]
        ]

    def test_call_and_output_return_together(self):
        assert self.types(self.events(), "m1") == ["custom_tool_call", "custom_tool_call_output"]

    def test_for_another_model_both_are_those_of_a_function(self):
        assert self.types(self.events(), "m2") == ["function_call", "function_call_output"]

    def test_a_result_that_was_logged_without_a_form_fits_its_call(self):
        plain = [*self.events()[:2], ("tool_result", "out", {"id": "1"})]
        assert self.types(plain, "m1") == ["custom_tool_call", "custom_tool_call_output"]
        assert self.types(plain[:2], "m1") == ["custom_tool_call", "custom_tool_call_output"]


class TestTheStore:
    @pytest.mark.parametrize(
        "item",
        [
            {"type": "item_reference", "id": "msg_1"},
            {"id": "msg_1"},
        ],
    )
    def test_items_that_are_nothing_without_their_ids_go_and_are_told(self, item):
        said = {"role": "assistant", "content": "Hi."}
        body = {"input": [{"role": "user", "content": "u"}, item, said]}
        events = load(body, "openai-responses")
        assert dump(events, "openai-responses", stored=True) == (body, [])
        bare, repairs = dump(events, "openai-responses")
        assert bare["input"][1:] == [said]
        assert [repair.rule for repair in repairs] == ["native"]

    def test_a_step_of_nothing_else_is_gone(self):
        events = load({"input": [{"type": "item_reference", "id": "msg_1"}]}, "openai-responses")
        body, repairs = dump(events, "openai-responses")
        assert violations(body, "openai-responses") == []
        assert [repair.rule for repair in repairs] == ["native", "blank", "alternate"]


def test_a_result_that_was_an_image_does_not_say_that_there_was_none():
    wire = [ANSWER | {"tool_use_id": "1", "content": WIRES["anthropic"][1:]}]
    events = [
        ("user", "u", None),
        ("tool_call", None, {"id": "1", "name": "f", "arguments": {}}),
        native("tool_result", "", "anthropic", wire, id="1"),
    ]
    body, repairs = dump(events, "openai")
    assert body["messages"][2]["content"] == "(an image that cannot be shown here)"
    assert [repair.rule for repair in repairs] == ["native"]


def test_bedrock_reasoning_without_a_signature_is_left_out():
    wire = [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "Hi."}]
    events = [("user", "u", None), native("assistant", "Hi.", "bedrock", wire), ("user", "v", None)]
    body, repairs = dump(events, "bedrock")
    assert "Hm." not in str(body)
    assert [repair.rule for repair in repairs] == ["native"]
    sealed = [{"reasoningContent": {"redactedContent": "c2VhbGVk"}}, {"text": "Hi."}]
    assert (
        dump(
            [events[0], native("assistant", "Hi.", "bedrock", sealed), events[2]], "bedrock"
        ).repairs
        == []
    )


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_in_the_store_of_gemini_goes_nowhere_else(format):
    uri = "https://generativelanguage.googleapis.com/v1beta/files/abc"
    wire = [{"text": "What?"}, {"fileData": {"mimeType": "image/png", "fileUri": uri}}]
    body, repairs = dump([native("user", "What?", "gemini", wire)], format)
    assert (uri in json.dumps(body)) == (format == "gemini")
    assert [repair.rule for repair in repairs] == ([] if format == "gemini" else ["native"])
