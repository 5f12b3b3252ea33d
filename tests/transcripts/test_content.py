"""Entries from the contents of messages that tools store."""

import pytest

from backstory import wire
from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    build_result_entry,
    flatten_deep,
    parse_arguments,
    parse_time,
    read_anthropic_blocks,
    to_text,
)
from backstory.transcripts.model import Entry

THINKING = AnswerBlock("thinking", "hm", seal="c2ln")
CALL = AnswerBlock("call", id="c1", name="run", arguments='{"n": 1}')


def build(*blocks, **options):
    return AnswerBuilder("a", 5, **options).build(blocks)


def test_each_text_of_an_answer_is_an_entry_and_the_answer_joins_them():
    entries = build(AnswerBlock("text", "One."), AnswerBlock("text", "Two."), CALL)
    assert [(entry.id, entry.kind, entry.content) for entry in entries] == [
        ("a", "assistant", "One."),
        ("a/1", "assistant", "Two."),
        ("call c1", "tool_call", None),
    ]
    assert {entry.data["answer"] for entry in entries} == {"a"}
    assert entries[2].data["arguments"] == {"n": 1}


def test_model_and_usage_are_on_the_first_entry():
    first, second = build(
        AnswerBlock("text", "One."), CALL, model="m", data={"usage": {"input": 1}}
    )
    assert (first.data["model"], first.data["usage"]) == ("m", {"input": 1})
    assert "model" not in second.data


def test_an_answer_without_text_and_calls_is_one_entry():
    [entry] = build()
    assert (entry.kind, entry.content) == ("assistant", "")


@pytest.mark.parametrize("wire_format", ["anthropic", "openai-responses", "gemini", "openai"])
def test_reasoning_goes_back_to_its_provider_in_front_of_what_followed_it(wire_format):
    seal = {"encrypted_content": "c2ln"} if wire_format == "openai-responses" else "c2ln"
    first = AnswerBlock("thinking", "hm", seal=seal)
    entries = build(AnswerBlock("text", "One."), first, CALL, wire_format=wire_format, model="m")
    assert ["native" in entry.data for entry in entries] == [True, True]
    result = build_result_entry("c1", "", "1", 6)
    said = [Entry("u", "user", "go"), *entries, result]
    body, repairs = wire.dump([entry[1:4] for entry in said], wire_format, model="m")
    sent = str(body)
    assert sent.index("One.") < sent.index("hm")
    assert repairs == []


def test_reasoning_that_nothing_follows_is_left_out():
    [entry] = build(AnswerBlock("text", "One."), THINKING, wire_format="anthropic")
    assert "native" not in entry.data


def test_a_form_that_the_wire_refuses_is_left_out():
    [entry] = build(AnswerBlock("call", id=None, name=7, seal="x"), wire_format="anthropic")
    assert entry.data["name"] == "7"
    assert "native" not in entry.data


def test_what_only_anthropic_understands_is_in_the_native_content():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    blocks = read_anthropic_blocks([search, found, {"type": "text", "text": "Found."}])
    [entry] = build(*blocks, wire_format="anthropic")
    assert entry.content == "Found."
    assert [block["type"] for block in entry.data["native"]["wire"]] == [
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]


def test_plain_blocks_of_anthropic_need_no_native_content():
    direct = {"type": "direct"}
    call = {"type": "tool_use", "id": "c1", "name": "run", "input": {}, "caller": direct}
    blocks = read_anthropic_blocks([{"type": "text", "text": "Look."}, call])
    assert ["native" in entry.data for entry in build(*blocks, wire_format="anthropic")] == [
        False,
        False,
    ]


def test_a_call_id_that_repeats_gets_a_number_and_its_result_too():
    calls = CallBinder()
    entries = [*build(CALL), *build(CALL)]
    bound = [calls.bind(entry) for entry in entries]
    results = [calls.bind(build_result_entry(id, "", "x", 6)) for id in ("c1", "")]
    assert [entry.id for entry in bound] == ["call c1", "call c1#2"]
    assert [entry.data["id"] for entry in results] == ["c1", "c1#2"]


def test_an_image_in_a_result_is_kept_in_its_form():
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aQ=="},
    }
    entry = build_result_entry("c1", "", "seen", 6, is_error=False, media=[None, image])
    assert (entry.content, entry.data["id"]) == ("seen", "c1")
    [form] = entry.data["native"]["wire"]
    assert [block["type"] for block in form["content"]] == ["text", "image"]


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01 00:00:01", 1_000_000),
        (1.5, 1_500_000),
        (1_785_072_160_000, 1_785_072_160_000_000),
        (0, None),
        (True, None),
        (float("nan"), None),
        (10**40, None),
        ("soon", None),
        ([1], None),
    ],
)
def test_a_time_is_iso_text_seconds_or_milliseconds(value, time):
    assert parse_time(value) == time


def test_what_is_nested_too_deep_for_an_event_becomes_text():
    deep = value = {}
    for _ in range(200):
        value["in"] = value = {}
    flat = flatten_deep(deep)
    depth = 0
    while isinstance(flat, dict):
        flat, depth = flat["in"], depth + 1
    assert depth < 100
    assert flat.startswith('{"in"')


def test_arguments_are_the_object_in_a_text_or_the_text():
    assert parse_arguments('{"a": 1}') == {"a": 1}
    assert parse_arguments("ls -l") == "ls -l"
    assert parse_arguments("[1]") == "[1]"
    assert parse_arguments(None) == {}


def test_a_number_of_more_than_64_bits_is_written_as_any_other():
    assert to_text({"id": 2**70}) == '{"id": 1180591620717411303424}'
