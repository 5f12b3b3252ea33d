"""Streams that come in unusual pieces: each is assembled to what the service would have said at once."""

from __future__ import annotations

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
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": None}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Go on."}},
    ]
    events = [("user", "Hi.", None), *load_answer(stream, "anthropic", model="m"), ("user", "Yes.", None)]
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


@pytest.mark.parametrize("path", ["$", "", 5])
def test_a_piece_without_a_place_is_refused(path):
    with pytest.raises(Invalid, match="not the events of a stream"):
        load_answer(gemini(begins("eat"), piece(path, stringValue="all")), "gemini")
