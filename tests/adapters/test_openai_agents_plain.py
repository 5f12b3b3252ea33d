"""The plainest items of the Agents SDK skip the reader of the format, and become what it would read."""

from copy import deepcopy

import pytest

from backstory.adapters.openai_agents import BackstorySession, _plain, drafts, written
from backstory.log.checks import check_drafts as checked
from tests.adapters.test_openai_agents import MESSAGE, OUTPUT

ARGUMENTS = (
    *('{"a": 1}', '{"a":1}', "", "x", "[1]", '{"a":NaN}', '{"a":1,"a":2}', f'{{"a":{2**70}}}'),
    *('{"a":1e400}', '{"a":-0}', r'{"a":"\ud83d"}', '{"a":' + "[" * 60 + "]" * 60 + "}"),
    *('{"a":"' + "long " * 20 + '"}', '{"$backstory":"content"}'),
)


@pytest.mark.parametrize(
    "text", ["words", "words " * 20, "zażółć " * 20, "nul \0" * 20, "  ", "", "a\n", "\u00a0"]
)
@pytest.mark.parametrize("id", ["c1", "", " "])
def test_the_plainest_items_become_what_the_format_reads(text, id):
    part = {"type": "output_text", "text": text}
    for item in (
        {"role": "user", "content": text},
        {"type": "function_call_output", "call_id": id, "output": text},
        {
            "type": "message",
            "role": "assistant",
            "content": [part],
            "id": id,
            "status": "completed",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [part | {"annotations": [], "logprobs": None}],
        },
        *(
            {"type": "function_call", "call_id": id, "name": "f", "arguments": given}
            for given in ARGUMENTS
        ),
        {
            "type": "function_call",
            "call_id": id,
            "name": text,
            "arguments": "{}",
            "id": "fc",
            "status": "x",
        },
        {
            "type": "function_call",
            "call_id": id,
            "name": "f",
            "arguments": "{}",
            "caller": {"type": "direct"},
        },
    ):
        assert checked(written([item])) == checked(drafts(item))


@pytest.mark.parametrize("text", ["x" * 40 + "\ud800", "é" * 40 + "\udc80", "\ud800"])
def test_half_of_a_surrogate_pair_does_not_lose_the_batch(run, text):
    said = MESSAGE["content"][0] | {"text": text}
    items = [
        {"role": "user", "content": "before"},
        {"role": "user", "content": text},
        OUTPUT | {"output": text},
        MESSAGE | {"content": [said]},
    ]
    session = BackstorySession("s")
    run(session.add_items(items))
    assert run(session.get_items()) == items


def test_the_plainest_items_are_not_read_by_the_format(monkeypatch):
    monkeypatch.setattr("backstory.adapters.openai_agents.drafts", None)
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "f",
        "arguments": '{"a": 1}',
        "id": "fc",
    }
    said = {"type": "output_text", "text": "Words.", "annotations": [], "logprobs": []}
    answer = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [said],
    }
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    question = {"role": "user", "content": "Words?"}
    assert [draft.kind for draft in checked(written([question, call, output, answer]))] == [
        *("user", "tool_call", "tool_result", "assistant")
    ]


class Word(str):
    pass


@pytest.mark.parametrize("odd", [Word("w"), 1, None, ["a"], {}, (), float("nan"), "\ud800"])
def test_an_item_with_anything_but_texts_is_not_a_plain_one(odd):
    part = {"type": "output_text", "text": "words", "annotations": []}
    answer = {"type": "message", "role": "assistant", "content": [part], "id": "m"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc"}
    assert _plain(answer) is not None
    assert _plain(call) is not None
    for item in (
        answer | {"id": odd},
        answer | {"content": [part | {"annotations": odd}]},
        answer | {"content": [part | {"text": odd}]},
        answer | {"else": odd},
        call | {"id": odd},
        call | {"call_id": odd},
        {"role": "user", "content": odd},
        {"type": "function_call_output", "call_id": "c", "output": odd},
    ):
        assert _plain(item) is None


def test_an_item_may_be_changed_while_it_is_written():
    part = {"type": "output_text", "text": "Hello.", "annotations": []}
    answer = {"type": "message", "role": "assistant", "content": [part]}
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "f",
        "arguments": "{}",
        "status": "in_progress",
    }
    user, output = {"role": "user", "content": "Hi."}, {**OUTPUT, "call_id": "c1", "output": "1"}
    batch = written([user, answer, call, output])
    before = deepcopy(batch)
    part["annotations"].append("later")
    for item in (user, answer, call, output, part):
        item.update(dict.fromkeys(item, "changed"))
    assert batch == before
