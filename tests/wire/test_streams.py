"""Streams that come in unusual pieces: each is assembled to what the service would have said at once."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from backstory.errors import Invalid
from backstory.wire import dump, load_answer


def chat(*contents: Any) -> list[dict[str, Any]]:
    return [{"choices": [{"delta": {"content": content}}]} for content in contents]


def thinks(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts]}]


def says(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


THOUGHT = [*thinks("Two and two."), *says("It is 4.")]


@pytest.mark.parametrize(
    "contents",
    [
        (thinks("Two "), thinks("and two."), says("It is "), says("4."), ""),
        (thinks("Two and two."), "It is ", "4."),
        ("", thinks("Two and"), None, thinks(" two."), "It is 4.", says("")),
    ],
)
def test_a_model_of_mistral_thinks_in_parts_and_speaks_in_parts_or_words(contents):
    [(_, text, data)] = load_answer(chat(*contents), "openai", model="m")
    assert text == "It is 4."
    assert data["native"]["wire"]["content"] == THOUGHT


def test_words_before_a_thought_and_what_is_no_text_stay_apart():
    reference = {"type": "reference", "reference_ids": [1]}
    [(_, text, data)] = load_answer(
        chat("So: ", thinks("Hm."), [reference], says("4."), [reference]), "openai", model="m"
    )
    assert text == "So: 4."
    wanted = [*says("So: "), *thinks("Hm."), reference, *says("4."), reference]
    assert data["native"]["wire"]["content"] == wanted


def sealed(text: str, signature: str | None) -> list[dict[str, Any]]:
    [part] = thinks(text)
    return [part | {"signature": signature}]


def test_the_seal_of_a_thought_may_come_with_its_last_piece_and_seals_are_not_mixed():
    pieces = [sealed("Two ", None), sealed("and two.", "c2Vh"), sealed("So.", "bGVk"), "4."]
    [(_, text, data)] = load_answer(chat(*pieces), "openai", model="m")
    assert text == "4."
    wanted = [*sealed("Two and two.", "c2Vh"), *sealed("So.", "bGVk"), *says("4.")]
    assert data["native"]["wire"]["content"] == wanted


def test_an_answer_that_a_server_has_parsed_may_be_in_a_stream():
    [(_, text, _)] = load_answer(chat(None, {"sum": 4}), "openai", model="m")
    assert text == '{"sum":4}'


@pytest.mark.parametrize("more", [5, {"sum": 4}, ["4."]])
def test_a_content_that_is_neither_text_nor_parts_is_refused(more):
    with pytest.raises(Invalid):
        load_answer(chat(says("It is "), more, says("!")), "openai", model="m")


def test_what_is_sealed_in_a_summary_of_anthropic_goes_back():
    delta = {"type": "compaction_delta", "content": "They met.", "encrypted_content": "c2VhbGVk"}
    stream = [
        {"type": "message_start", "message": {"model": "m"}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "compaction", "content": None, "encrypted_content": None},
        },
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "compaction_delta", "content": None},
        },
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": "Go on."},
        },
    ]
    events = [
        ("user", "Hi.", None),
        *load_answer(stream, "anthropic", model="m"),
        ("user", "Yes.", None),
    ]
    body, repairs = dump(events, "anthropic", model="m")
    assert repairs == []
    assert body["messages"][1]["content"] == [
        {"type": "compaction", "content": "They met.", "encrypted_content": "c2VhbGVk"},
        {"type": "text", "text": "Go on."},
    ]


def gemini(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]


def begins(name: str, **beside: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "willContinue": True}, **beside}


def piece(path: str, *, is_last: bool = False, **value: Any) -> dict[str, Any]:
    more = {} if is_last else {"willContinue": True}
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], **more}}


ENDS: dict[str, Any] = {"functionCall": {}}


def test_arguments_that_google_streams_in_pieces_are_put_together():
    stream = gemini(
        {"text": "Hm.", "thought": True},
        begins("cook", thoughtSignature="c2lnbmVk"),
        piece("$.dish.name", stringValue="Las", willContinue=True),
        piece("$.dish.name", stringValue="agna"),
        piece("$.dish.steps[0].text", stringValue="Boil."),
        {"functionCall": {"willContinue": True}},
        piece("$.dish.steps[1].minutes", numberValue=0.5),
        piece("$['a.b'][\"c d\"]", boolValue=False),
        {"text": ""},
        piece("$.nothing", nullValue="NULL_VALUE"),
        ENDS,
        {"functionCall": {"name": "rest"}},
        begins("eat"),
        piece("$.who", stringValue="all", is_last=True),
    )
    events = load_answer(stream, "gemini", model="m")
    arguments = {
        "dish": {"name": "Lasagna", "steps": [{"text": "Boil."}, {"minutes": 0.5}]},
        "a.b": {"c d": False},
        "nothing": None,
    }
    assert [(data["name"], data["arguments"]) for _, _, data in events] == [
        ("cook", arguments),
        ("rest", {}),
        ("eat", {"who": "all"}),
    ]
    assert events[0][2]["native"]["wire"] == [
        {"text": "Hm.", "thought": True},
        {"functionCall": {"name": "cook", "args": arguments}, "thoughtSignature": "c2lnbmVk"},
        {"text": ""},
        {"functionCall": {"name": "rest"}},
        {"functionCall": {"name": "eat", "args": {"who": "all"}}},
    ]


def test_such_pieces_in_the_other_spelling_and_a_signature_that_comes_late():
    stream = gemini(
        {"function_call": {"name": "eat", "will_continue": True}},
        {
            "function_call": {"partial_args": [{"json_path": "$.who", "string_value": "all"}]},
            "thought_signature": "c2lnbmVk",
        },
    )
    [(_, _, data)] = load_answer(stream, "gemini", model="m")
    assert data["native"]["wire"] == [
        {"function_call": {"name": "eat", "args": {"who": "all"}}, "thought_signature": "c2lnbmVk"}
    ]


@pytest.mark.parametrize(
    "path", ["$", "", 5, "$.a[-1]", "$.a[*].b", "$['a'", "$.a[1001]", f"$.a[{9**30}]"]
)
def test_a_piece_without_a_place_is_refused(path):
    with pytest.raises(Invalid, match="not the events of a stream"):
        load_answer(gemini(begins("eat"), piece(path, stringValue="all")), "gemini")


def test_a_name_in_quotes_may_have_quotes_in_it_and_a_list_may_have_gaps():
    stream = gemini(
        begins("eat"),
        piece(r"""$['it\'s']["a\\b"]""", stringValue="ours"),
        piece("$.list[2]", numberValue=3, is_last=True),
    )
    [(_, _, data)] = load_answer(stream, "gemini")
    assert data["arguments"] == {"it's": {"a\\b": "ours"}, "list": [None, None, 3]}


def test_what_was_streamed_is_not_changed_and_may_repeat_the_name():
    first = begins("eat")
    first["functionCall"] |= {"args": {"who": {"first": "Ann"}}}
    second = piece("$.who.last", stringValue="Bee", is_last=True)
    second["functionCall"]["name"] = "eat"
    stream = gemini(first, second)
    before = deepcopy(stream)
    [(_, _, data)] = load_answer(stream, "gemini")
    assert data["arguments"] == {"who": {"first": "Ann", "last": "Bee"}}
    assert stream == before


def test_arguments_too_deep_to_be_put_together_are_refused():
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}
    with pytest.raises(Invalid, match="not the events of a stream"):
        load_answer(
            gemini({"functionCall": {"name": "eat", "args": deep, "willContinue": True}}), "gemini"
        )


@pytest.mark.parametrize("reason", [None, "MAX_TOKENS", "STOP"])
def test_a_call_that_was_cut_off_has_no_arguments_to_run_with(reason):
    stream = gemini({"text": "I clean up."}, begins("remove"), piece("$.path", stringValue="/tmp"))
    stream.append({"candidates": [{"finishReason": reason}]})
    _, (_, _, data) = load_answer(stream, "gemini", model="m")
    whole = {"path": "/tmp"}
    assert data["arguments"] == (
        whole if reason == "STOP" else {"_invalid_json": '{"path":"/tmp"}'}
    )


def test_chunks_are_not_changed_and_can_be_loaded_again():
    call = {"name": "f", "arguments": '{"a":'}
    deltas = [
        {"function_call": call, "extra_content": {"google": {"thought_signature": "QUFB"}}},
        {"function_call": {"arguments": "1}"}, "extra_content": {"google": {"more": ["b"]}}},
        {"extra_content": {"google": {"more": ["c"]}}},
    ]
    stream = [{"choices": [{"delta": delta}]} for delta in deltas]
    before = deepcopy(stream)
    first = load_answer(stream, "openai", model="m")
    assert stream == before
    assert load_answer(stream, "openai", model="m") == first
    assert first[0][2]["arguments"] == {"a": 1}


def call_part(id: str | None, name: str | None, arguments: str, index: int = 0) -> dict[str, Any]:
    part = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"delta": {"tool_calls": [part]}}]}


def test_a_new_id_with_the_same_number_begins_another_call():
    stream = [
        call_part("a", "f", '{"x":'),
        call_part("a", "f", "1"),
        call_part(None, None, "}"),
        call_part("b", "g", '{"x":'),
        call_part(None, None, "2}"),
    ]
    events = load_answer(stream, "openai", model="m")
    assert [(data["id"], data["name"], data["arguments"]) for _, _, data in events] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"x": 2}),
    ]


def test_the_input_of_a_custom_tool_is_put_together():
    begun = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": ""}}
    deltas = [begun, *({"index": 0, "custom": {"input": text}} for text in ("ls ", "-l"))]
    chunks = [{"choices": [{"delta": {"tool_calls": [delta]}}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    [(kind, _, data)] = load_answer(chunks, "openai")
    assert kind == "tool_call"
    assert (data["id"], data["name"], data["arguments"]) == ("c1", "run", {"input": "ls -l"})


def test_calls_that_are_streamed_at_the_same_time_are_known_by_their_numbers():
    stream = [
        call_part("a", "f", '{"x":'),
        call_part("b", "g", '{"x":', index=1),
        call_part(None, None, "1}"),
        call_part("other", None, "2}", index=1),  # a server that makes an id for each chunk
    ]
    events = load_answer(stream, "openai", model="m")
    assert [(data["id"], data["arguments"]) for _, _, data in events] == [
        ("a", {"x": 1}),
        ("b", {"x": 2}),
    ]


CREATED = {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}}
HALF = {"type": "response.output_text.delta", "output_index": 1, "delta": "Half of "}
REST = {"type": "response.output_text.delta", "output_index": 1, "delta": "an answer"}
THOUGHT_ITEM = {
    "type": "response.output_item.done",
    "output_index": 0,
    "item": {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"},
}


def test_the_text_of_a_responses_stream_that_was_cut_off_is_kept():
    [(kind, text, data)] = load_answer([CREATED, THOUGHT_ITEM, HALF, REST], "openai-responses")
    assert (kind, text) == ("assistant", "Half of an answer")
    message = {"role": "assistant", "content": "Half of an answer"}
    assert data["native"]["wire"] == [THOUGHT_ITEM["item"], message]


def test_the_text_of_an_item_that_is_done_is_not_kept_twice():
    content = [{"type": "output_text", "text": "Half of an answer"}]
    item = {"type": "message", "role": "assistant", "content": content}
    done = {"type": "response.output_item.done", "output_index": 1, "item": item}
    [(_, text, _)] = load_answer([CREATED, HALF, REST, done], "openai-responses")
    assert text == "Half of an answer"
    whole = {"type": "response.incomplete", "response": {"model": "m", "output": [item]}}
    [(_, text, _)] = load_answer([CREATED, HALF, whole], "openai-responses")
    assert text == "Half of an answer"


ERROR = {"message": "Too busy"}
STARTED = {"type": "message_start", "message": {"model": "m", "content": []}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "H"}}
FAILED = {
    "type": "response.failed",
    "response": {"status": "failed", "error": ERROR, "output": []},
}
# The format, an event with text, and an event with an error.
FAILURES = [
    ("anthropic", [STARTED, BLOCK], {"type": "error", "error": ERROR}),
    ("openai", chat("H"), {"error": ERROR}),
    ("openai", chat("H"), {"error": "Too busy"}),
    ("openai-responses", [HALF | {"delta": "H"}], FAILED),
    ("openai-responses", [HALF | {"delta": "H"}], {"type": "error", "message": "Too busy"}),
    ("gemini", gemini({"text": "H"}), {"error": ERROR}),
    (
        "bedrock",
        [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "H"}}}],
        {"throttlingException": ERROR},
    ),
]


@pytest.mark.parametrize(("format", "begun", "failure"), FAILURES)
def test_an_error_in_a_stream_is_no_empty_answer(format, begun, failure):
    with pytest.raises(Invalid, match="an error instead of an answer: Too busy"):
        load_answer([failure], format)


@pytest.mark.parametrize(("format", "begun", "failure"), FAILURES)
def test_what_arrived_before_an_error_is_kept(format, begun, failure):
    [(kind, text, _)] = load_answer([*begun, failure], format)
    assert (kind, text) == ("assistant", "H")


def test_an_answer_that_failed_is_no_empty_answer():
    with pytest.raises(Invalid, match="Too busy"):
        load_answer(FAILED["response"], "openai-responses")


def test_a_call_that_is_done_under_another_index_is_one_call():
    call = {"type": "function_call", "call_id": "c1", "name": "glob", "arguments": ""}
    whole = call | {"arguments": "{}", "status": "completed"}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": call},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 1, "item": whole},
    ]
    [(kind, _, data)] = load_answer(events, "openai-responses")
    assert (kind, data["id"], data["arguments"]) == ("tool_call", "c1", {})
