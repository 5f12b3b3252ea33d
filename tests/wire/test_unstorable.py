"""U+0000 and halves of surrogate pairs, which no store can hold: one goes back exactly, the other as `?`."""

from __future__ import annotations

from typing import Any

import pytest

import backstory
from backstory.wire import FORMATS, dump, load, load_answer


def body_of(format: str, text: str) -> dict[str, Any]:
    """A short history in which everything says the text: system, user, model, arguments and result."""
    given = {"a": text}
    if format == "openai":
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        return {
            "messages": [
                {"role": "system", "content": text},
                {"role": "user", "content": text},
                {
                    "role": "assistant",
                    "content": text,
                    "reasoning_content": text,
                    "tool_calls": [call],
                },
                {"role": "tool", "tool_call_id": "c", "content": text},
            ]
        }
    if format == "openai-responses":
        return {
            "input": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": text},
            ]
        }
    if format == "anthropic":
        use = {"type": "tool_use", "id": "c", "name": "f", "input": given}
        result = {"type": "tool_result", "tool_use_id": "c", "content": text}
        return {
            "system": text,
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": [{"type": "text", "text": text}, use]},
                {"role": "user", "content": [result]},
            ],
        }
    if format == "gemini":
        response = {"name": "f", "response": {"output": text}}
        return {
            "systemInstruction": {"parts": [{"text": text}]},
            "contents": [
                {"role": "user", "parts": [{"text": text}]},
                {
                    "role": "model",
                    "parts": [{"text": text}, {"functionCall": {"name": "f", "args": given}}],
                },
                {"role": "user", "parts": [{"functionResponse": response}]},
            ],
        }
    said = {"toolResult": {"toolUseId": "c", "content": [{"text": text}]}}
    return {
        "system": [{"text": text}],
        "messages": [
            {"role": "user", "content": [{"text": text}]},
            {
                "role": "assistant",
                "content": [
                    {"text": text},
                    {"toolUse": {"toolUseId": "c", "name": "f", "input": given}},
                ],
            },
            {"role": "user", "content": [said]},
        ],
    }


def stored(events: list[Any]) -> Any:
    agent = backstory.open(":memory:").start("main")
    agent.extend(events)
    return agent.conversation()


@pytest.mark.parametrize("format", FORMATS)
def test_a_nul_goes_back_exactly_and_is_a_replacement_character_in_the_log(format):
    body = body_of(format, "one\0two")
    conversation = stored(load(body, format, model="m"))
    assert {message.content for message in conversation if message.content} >= {"one\ufffdtwo"}
    assert not any("\0" in (message.content or "") for message in conversation)
    dumped, repairs = conversation.dump(format, model="m")
    assert ({key: dumped[key] for key in body}, repairs) == (body, [])


@pytest.mark.parametrize("format", FORMATS)
def test_elsewhere_an_answer_with_a_nul_says_what_the_log_says_and_that_is_told(format):
    events = [
        ("user", "Hi.", None),
        *load_answer({"content": [{"type": "text", "text": "a\0b"}]}, "anthropic"),
    ]
    body, repairs = stored(events).dump(format, model="m", pause=True)
    assert "a\ufffdb" in str(body)
    assert [repair.rule for repair in repairs if repair.rule == "data"] == ["data"]


@pytest.mark.parametrize("format", FORMATS)
def test_half_of_a_surrogate_pair_is_a_question_mark_and_told_of_each_event(format):
    conversation = stored(load(body_of(format, "one\ud83dtwo"), format, model="m"))
    dumped, repairs = conversation.dump(format, model="m")
    said = body_of(format, "one?two")
    assert {key: dumped[key] for key in said} == said
    assert {repair.rule for repair in repairs} == {"data"}
    changed = [message for message in conversation if "?" in (message.content or "")]
    assert len(repairs) == len(changed)


@pytest.mark.parametrize("text", ["Be\0brief.", "Be\udc00brief."])
def test_instructions_have_no_form_of_their_own_so_what_is_replaced_is_told(text):
    events = load({"instructions": text, "input": "Hi."}, "openai-responses", model="m")
    dumped, repairs = stored(events).dump("openai-responses", model="m")
    assert dumped["instructions"] in ("Be\ufffdbrief.", "Be?brief.")
    assert [repair.rule for repair in repairs] == ["data"]


def test_a_whole_pair_and_other_letters_are_left_alone():
    body = body_of("openai", "Grüße 😀")
    assert dump(load(body, "openai", model="m"), "openai", model="m") == (body, [])


def test_ids_and_names_with_half_a_pair_can_be_stored_and_still_belong_together():
    call = {"id": "c\ud800", "type": "function", "function": {"name": "f\ud800", "arguments": "{}"}}
    body = {
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c\ud800", "content": "1"},
        ]
    }
    dumped, repairs = stored(load(body, "openai", model="m")).dump("openai", model="m")
    assert (
        dumped["messages"][2]["tool_call_id"]
        == dumped["messages"][1]["tool_calls"][0]["id"]
        == "c?"
    )
    assert [repair.rule for repair in repairs] == ["data", "data"]
