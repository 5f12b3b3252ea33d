import json

import pytest

from backstory.transcripts.model import Origin
from tests.transcripts.formats_reading import describe_context, get_thread, list_entries


@pytest.fixture
def llm(other):
    other.table("conversations", "id", "name", "model")
    columns = (
        "id model prompt system response conversation_id datetime_utc input_tokens output_tokens"
    )
    other.table("responses", *columns.split())
    return other


def test_before_0_32_results_stand_before_the_prompt_of_their_response(llm):
    llm.table("tool_calls", "id", "response_id", "name", "arguments", "tool_call_id")
    llm.table("tool_results", "id", "response_id", "output", "tool_call_id", "exception")
    llm.add("conversations", "c1", "Chat", "gpt-x")
    llm.add(
        "responses",
        "r1",
        "gpt-x",
        "count",
        "Be brief.",
        "",
        "c1",
        "2026-02-02T09:00:00+00:00",
        3,
        1,
    )
    llm.add(
        "responses", "r2", "gpt-x", "", "Be brief.", "One.", "c1", "2026-02-02T09:00:01+00:00", 4, 2
    )
    llm.add("tool_calls", 1, "r1", "run", '{"n": 1}', "call_1")
    llm.add("tool_results", 1, "r2", "1", "call_1", None)
    thread = get_thread(llm.read()[0])
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("system", "Be brief."),
        ("user", "count"),
        ("call", "call_1"),
        ("result", "call_1", "1"),
        ("assistant", "One."),
    ]
    assert events[-1].data["usage"] == {"input": 4, "output": 2}
    assert thread.about == {"title": "Chat", "model": "gpt-x"}


def test_since_0_32_threads_that_share_more_than_the_system_text_are_forks(llm):
    llm.table("messages", "hash", "parent_hash", "role")
    llm.table("parts", "id", "message_hash", "position", "type", "text", "payload")
    llm.table("threads", "id", "name", "tip_message_hash", "datetime_utc")
    llm.table("turns", "id", "tip_message_hash", "datetime_utc", "model")
    told = [
        ("s", None, "system", "Be brief."),
        ("u1", "s", "user", "one"),
        ("a1", "u1", "assistant", "first"),
        ("u2", "a1", "user", "left"),
        ("u3", "a1", "user", "right"),
        ("u4", "s", "user", "another"),
    ]
    for number, (hash, parent, role, text) in enumerate(told):
        llm.add("messages", hash, parent, role)
        llm.add("parts", number, hash, 0, "text", text, None)
    for number, (thread, tip) in enumerate([("t1", "u2"), ("t2", "u3"), ("t3", "u4")]):
        llm.add("threads", thread, f"Thread {number}", tip, f"2026-02-02 09:00:0{number}+00:00")
        llm.add("turns", f"turn {number}", tip, f"2026-02-02T09:00:0{number}+00:00", "m")
    first, fork, alone = llm.read()[0]
    assert describe_context(first.threads[0])[-1] == ("user", "left")
    [thread] = fork.threads
    assert thread.origin == Origin("t1")
    assert [unit.id for unit in thread.read_units()] == ["s", "u1", "a1", "u3"]
    assert alone.threads[0].origin is None


@pytest.fixture
def store_of_messages(llm):
    llm.table("messages", "hash", "parent_hash", "role")
    llm.table("parts", "id", "message_hash", "position", "type", "text", "payload")
    llm.table("threads", "id", "name", "tip_message_hash", "datetime_utc")
    llm.table(
        "turns", "id", "tip_message_hash", "datetime_utc", "model", "input_tokens", "output_tokens"
    )
    llm.table("fragments", "id", "content")
    llm.table("attachments", "id", "type", "path", "url", "content")
    llm.add("messages", "u", None, "user")
    llm.add("messages", "a", "u", "assistant")
    llm.add("parts", 9, "a", 0, "text", "Seen.", None)
    llm.add("threads", "t", "Thread", "a", "2026-02-02 09:00:00+00:00")
    llm.add("turns", "turn", "a", "2026-02-02T09:00:00+00:00", "m", 5, 2)
    return llm


def test_a_prompt_that_borrows_from_fragments_has_their_text(store_of_messages):
    pieces = [{"fragment": 7}, {"literal": "\nWhat is this?"}]
    store_of_messages.add("fragments", 7, "A long text.")
    store_of_messages.add("parts", 1, "u", 0, "text", None, json.dumps({"text_ref": pieces}))
    thread = get_thread(store_of_messages.read()[0])
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("user", "A long text.\nWhat is this?"),
        ("assistant", "Seen."),
    ]
    assert events[-1].data["usage"] == {"input": 5, "output": 2}


def test_a_prompt_that_is_nothing_but_an_image_is_one(store_of_messages):
    store_of_messages.add("attachments", "i", "image/png", None, None, b"png")
    store_of_messages.add(
        "parts", 1, "u", 0, "attachment", None, json.dumps({"attachment": {"id": "i"}})
    )
    [prompt, _] = list_entries(get_thread(store_of_messages.read()[0]))
    assert prompt.kind == "user"
    assert "cG5n" in json.dumps(prompt.data)


def test_a_response_to_an_image_has_its_prompt(llm):
    llm.table("attachments", "id", "type", "path", "url", "content")
    llm.table("prompt_attachments", "response_id", "attachment_id", '"order"')
    llm.add("conversations", "c", "Chat", "m")
    llm.add("responses", "r", "m", "", None, "A cat.", "c", "2026-02-02T09:00:00", 1, 1)
    llm.add("attachments", "i", "image/png", None, "https://example.com/cat.png", None)
    llm.add("prompt_attachments", "r", "i", 0)
    [prompt, _] = list_entries(get_thread(llm.read()[0]))
    assert prompt.kind == "user"
    assert "https://example.com/cat.png" in json.dumps(prompt.data)


def test_calls_without_ids_are_bound_to_their_results_in_order(llm):
    llm.table("tool_calls", "id", "response_id", "name", "arguments", "tool_call_id")
    llm.table("tool_results", "id", "response_id", "output", "tool_call_id")
    llm.add("conversations", "c1", "Chat", "gemini-x")
    for number, prompt in enumerate(["count", ""]):
        llm.add(
            "responses",
            f"r{number}",
            "gemini-x",
            prompt,
            None,
            "",
            "c1",
            f"2026-02-0{number + 1}",
            1,
            1,
        )
    for number in (1, 2):
        llm.add("tool_calls", number, "r0", "run", "{}", None)
        llm.add("tool_results", number, "r1", str(number), None)
    told = describe_context(get_thread(llm.read()[0]))
    calls = [line[1] for line in told if line[0] == "call"]
    assert len(set(calls)) == 2
    assert [line[1:] for line in told if line[0] == "result"] == [(calls[0], "1"), (calls[1], "2")]


def test_a_picture_that_a_tool_of_llm_found_is_kept(llm):
    llm.table("tool_results", "id", "response_id", "output", "tool_call_id")
    llm.table("attachments", "id", "type", "path", "url", "content")
    llm.table("tool_results_attachments", "tool_result_id", "attachment_id", '"order"')
    llm.add("responses", "r", "m", "", None, "Seen.", "c", "2026-02-02T09:00:00", 1, 1)
    llm.add("tool_results", 4, "r", "shot", "c1")
    llm.add("attachments", "i", "image/png", None, None, b"png")
    llm.add("tool_results_attachments", 4, "i", 0)
    [result, _] = list_entries(get_thread(llm.read()[0]))
    assert [block["type"] for block in result.data["native"]["wire"][0]["content"]] == [
        "text",
        "image",
    ]


def test_a_conversation_that_is_in_both_generations_of_tables_is_one_session(store_of_messages):
    store_of_messages.add("parts", 1, "u", 0, "text", "What?", None)
    store_of_messages.add("conversations", "t", "Thread", "m")
    store_of_messages.add(
        "responses", "r", "m", "What?", None, "Seen.", "t", "2026-02-02T09:00:00", 1, 1
    )
    assert describe_context(get_thread(store_of_messages.read()[0])) == [
        ("user", "What?"),
        ("assistant", "Seen."),
    ]


def test_a_tool_that_the_provider_ran_has_its_result_in_the_answer(store_of_messages):
    found = {"name": "search", "output": "found", "tool_call_id": "s1", "server_executed": True}
    asked = {
        "name": "search",
        "arguments": {"q": "x"},
        "tool_call_id": "s1",
        "server_executed": True,
    }
    store_of_messages.add("parts", 1, "u", 0, "text", "Look.", None)
    store_of_messages.add("parts", 10, "a", 1, "tool_call", None, json.dumps(asked))
    store_of_messages.add("parts", 11, "a", 2, "tool_result", None, json.dumps(found))
    assert describe_context(get_thread(store_of_messages.read()[0])) == [
        ("user", "Look."),
        ("assistant", "Seen."),
        ("call", "s1"),
        ("result", "s1", "found"),
    ]


def test_responses_from_before_tokens_are_read_and_those_without_a_conversation_too(other):
    other.table("conversations", "id", "name", "model")
    other.table(
        "responses",
        "id",
        "model",
        "prompt",
        "system",
        "response",
        "conversation_id",
        "datetime_utc",
    )
    other.add("conversations", "c", "Named", "x")
    other.add("responses", "r1", "x", "one", None, "first", "c", "2024-01-01T00:00:00")
    other.add("responses", "r2", "x", "two", None, "second", None, "2024-01-01T00:00:01")
    other.add("responses", "r3", "x", "three", None, "third", "gone", "2024-01-01T00:00:02")
    sessions, report = other.read()
    assert {session.id: describe_context(session.threads[0])[0] for session in sessions} == {
        "c": ("user", "one"),
        "r2": ("user", "two"),
        "gone": ("user", "three"),
    }
    assert not report.unread


def test_ids_and_arguments_that_are_not_texts_come_in(llm):
    llm.table("tool_calls", "id", "response_id", "name", "arguments", "tool_call_id")
    llm.add("conversations", b"\xff", "Chat", "m")
    llm.add("responses", 7, "m", "go", None, "", b"\xff", "2026-02-02T09:00:00+00:00", 3, 1)
    llm.add("tool_calls", 1, 7, "run", b'{"n": 1}', "call_1")
    [asked, called] = list_entries(get_thread(llm.read()[0]))
    assert (asked.content, called.data["arguments"]) == ("go", {"n": 1})
