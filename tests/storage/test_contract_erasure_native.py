"""What every backend does with the native forms of answers, when a part of an answer is erased."""

import json

import pytest

import backstory
from backstory.storage.memory import MemoryBackend, MemoryReader, MemoryTransaction
from tests.storage.held import act_before, held
from tests.storage.test_contract_erasure import FORMATS


def block(input, id="c1"):
    return {"type": "tool_use", "id": id, "name": "look", "input": input}


SEARCH = {"for": "hunter2x"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
IN_RESPONSES = {
    "type": "function_call",
    "name": "look",
    "call_id": "c1",
    "arguments": json.dumps(SEARCH),
}
IN_CHAT = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": json.dumps(SEARCH)},
}
IN_BEDROCK = {"toolUse": {"toolUseId": "c1", "name": "look", "input": SEARCH}}
IN_GEMINI = {"functionCall": {"name": "look", "args": SEARCH}, "thoughtSignature": "c2ln"}
MESSAGE = {
    "role": "assistant",
    "content": "I look",
    "reasoning_content": "hm",
    "tool_calls": [IN_CHAT],
}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"},
    IN_RESPONSES | {"call_id": "c0", "arguments": "{}"},
    IN_RESPONSES,
]
REASONED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
ANSWERS = {
    "openai": {"choices": [{"message": MESSAGE}]},
    "openai-responses": {"output": ITEMS},
    "anthropic": {"content": [THOUGHT, {"type": "text", "text": "I look"}, block(SEARCH)]},
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I look"}, IN_GEMINI]}}]
    },
    "bedrock": {
        "output": {
            "message": {"role": "assistant", "content": [REASONED, {"text": "I look"}, IN_BEDROCK]}
        }
    },
}


@pytest.mark.parametrize("format", FORMATS)
def test_the_native_form_of_an_answer_goes_with_each_of_its_calls(store, agent, url, format):
    agent.user("go")
    *_, last = agent.record(ANSWERS[format], format=format)
    agent.tool_result("c1", "done")
    agent.compact("a summary", keep=3)
    assert b"hunter2x" in held(store, url)
    planned = agent.erase([last.seq], why="asked", dry_run=True)
    assert [agent.events([event.seq])[0] for event in planned] == planned
    assert b"hunter2x" in held(store, url)
    erased = agent.erase([last.seq], why="asked")
    assert {2, last.seq} < {event.seq for event in erased} == {event.seq for event in planned}
    assert b"hunter2x" not in held(store, url)
    assert agent.events([1])[0].content == "go"
    assert store.verify() == []


def test_what_keeps_its_own_form_is_not_erased_with_others(store, agent):
    agent.record({"content": [THOUGHT, {"type": "text", "text": "a thought"}]}, format="anthropic")
    agent.record({"content": [THOUGHT, block({"for": "x"})]}, format="anthropic")
    agent.tool_call("look", {"for": "y"}, id="c2")
    agent.tool_call("look", {"for": "z"}, id="c3")
    assert [event.seq for event in agent.erase([2], why="asked")] == [2]
    assert [event.seq for event in agent.erase([4], why="asked")] == [4]
    assert agent.events([1])[0].content == "a thought"
    assert agent.events([3])[0].data["arguments"] == {"for": "y"}


def named(answer, *blocks):
    return {"answer": answer, "native": {"provider": "anthropic", "wire": [THOUGHT, *blocks]}}


@pytest.mark.parametrize("place", [2, 3, 4])
def test_an_answer_that_came_in_pieces_is_in_no_form_of_any_of_them(store, agent, url, place):
    words = {"type": "text", "text": "a hunter1x and a hunter2x"}
    call = block({"for": "hunter3x"})
    agent.user("go")
    agent.append("assistant", "a hunter1x", {"answer": "m1"})
    agent.append(
        "tool_call", None, {"answer": "m1", "id": "c1", "name": "look", "arguments": call["input"]}
    )
    agent.append("assistant", " and a hunter2x", named("m1", words, call))
    agent.append("assistant", "another", named("m10", {"type": "text", "text": "another"}))
    agent.clear()
    copy = named("m1", words, call) | {"copy_of": 2}
    agent.append("assistant", "a hunter1x and a hunter2x", copy)
    fork = agent.fork("fork")
    fork.append("assistant", "!", named("m1", words, call))
    agent.erase([place], why="asked")
    kept = held(store, url)
    said = b"hunter3x" if place == 3 else b"hunter1x" if place == 2 else b"hunter2x"
    assert said not in kept
    assert (agent.events([1])[0].content, agent.events([5])[0].content) == ("go", "another")
    assert store.verify() == []


def test_two_forks_may_call_different_answers_the_same(store, agent):
    agent.user("go")
    fork = agent.fork("fork")
    for one in (agent, fork):
        one.append("assistant", f"of {one.name}", {"answer": "2"})
    fork.erase([2], why="asked")
    assert agent.events([2])[0].content == "of main"


def test_a_log_is_read_once_for_many_answers_and_before_it_is_locked(new_url, monkeypatch):
    pages = {MemoryBackend: [], MemoryTransaction: []}
    read_rows = MemoryReader.read_rows

    def count_rows(reader, *args):
        rows = read_rows(reader, *args)
        pages[type(reader)].append(len(rows))
        return rows

    monkeypatch.setattr(MemoryReader, "read_rows", count_rows)
    with backstory.open(new_url("memory")) as store:
        agent = store.start("main")
        agent.extend([("assistant", f"answer {n}", named(f"m{n}")) for n in range(60)])
        agent.fork("fork").extend([("assistant", f"more {n}", named(f"f{n}")) for n in range(60)])
        assert len(agent.erase(range(1, 61), why="asked")) == 60
    before_lock = [size for size in pages[MemoryBackend] if size > 1]
    assert before_lock == [60, 60]  # for the links of each agent
    assert set(pages[MemoryTransaction]) == {1}
    assert len(pages[MemoryTransaction]) < 60 * 10


def test_a_copy_that_is_made_before_an_erasure_has_its_lock_is_erased(
    store, agent, url, monkeypatch
):
    agent.user("my password is hunter2x")
    fork = agent.fork("fork")
    act_before(store, monkeypatch, "begin", lambda: fork.compact("a summary", keep=1))
    assert len(agent.erase([1], why="asked")) == 2
    assert b"hunter2x" not in held(store, url)


def test_an_heir_that_is_deleted_before_an_erasure_has_its_lock_does_not_matter(
    store, agent, monkeypatch
):
    agent.user("my password is hunter2x")
    fork = agent.fork("fork")
    fork.compact("a summary", keep=1)
    fork.fork("second")
    act_before(store, monkeypatch, "begin", lambda: store.delete(fork))
    assert len(agent.erase([1], why="asked")) == 2
    assert store.verify() == []
