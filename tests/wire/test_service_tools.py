"""What a service's own tools did, as other services are told of it."""

from __future__ import annotations

import pytest

from backstory.wire import dump, load, load_answer
from tests.wire.test_matrix import FOUND

SEARCH = [
    {"type": "text", "text": "I shall look. "},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "high tide"},
    },
    FOUND,
    {"type": "text", "text": "It is at noon."},
]
TOLD = [
    "I shall look. ",
    "<web_search>\nquery: high tide\n</web_search>",
    "<web_search_result>\ntitle: Tides\nurl: https://example.org\n</web_search_result>",
    "It is at noon.",
]


def asked(*blocks):
    messages = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": [*blocks]}]
    return load(
        {"messages": [*messages, {"role": "user", "content": "Sure?"}]}, "anthropic", model="m"
    )


def test_it_is_told_where_it_happened():
    body, repairs = dump(asked(*SEARCH), "bedrock")
    assert [block["text"] for block in body["messages"][1]["content"]] == TOLD
    [repair] = repairs
    assert repair.why.startswith(
        "server_tool_use, web_search_tool_result of this answer described in words: "
    )


def test_it_is_one_text_where_an_answer_has_one():
    body, _ = dump(asked(*SEARCH), "openai")
    assert body["messages"][1] == {"role": "assistant", "content": "\n\n".join(TOLD)}


def test_the_log_says_what_the_model_said():
    assert [content for _, content, _ in asked(*SEARCH)][1] == "I shall look. It is at noon."


def test_it_goes_in_front_of_an_answer_that_says_something_else_now():
    events = asked(*SEARCH)
    events[1] = ("assistant", "It was edited.", events[1][2])
    body, _ = dump(events, "openai")
    assert body["messages"][1]["content"] == "\n\n".join([*TOLD[1:3], "It was edited."])


def test_a_run_with_nothing_to_read_is_left_out():
    run = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    came = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    body, repairs = dump(asked(run, came, {"type": "text", "text": "No."}), "openai")
    assert body["messages"][1] == {"role": "assistant", "content": "No."}
    assert "web_search_tool_result of this answer left out" in repairs[0].why


def test_files_are_not_words():
    page = {"type": "document", "title": "Tides", "source": {"type": "base64", "data": "JVBERg=="}}
    came = {
        "type": "web_fetch_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "web_fetch_result", "url": "https://example.org", "content": page},
    }
    body, _ = dump(asked(came, {"type": "text", "text": "Yes."}), "openai")
    told = "<web_fetch_result>\nurl: https://example.org\ntitle: Tides\n</web_fetch_result>"
    assert body["messages"][1]["content"] == f"{told}\n\nYes."


TOOL_SEARCH = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": "call_1",
    "execution": "server",
    "status": "completed",
    "arguments": {"query": "files"},
}
TOOLS_FOUND = {
    "type": "tool_search_output",
    "id": "tso_1",
    "call_id": "call_1",
    "execution": "server",
    "status": "completed",
    "tools": [{"type": "function", "name": "glob", "parameters": {}}],
}
DONE = {"role": "assistant", "content": "There is glob."}
ASKED = {"role": "user", "content": "Which tools?"}


@pytest.mark.parametrize("items", [[TOOL_SEARCH, TOOLS_FOUND, DONE], [TOOL_SEARCH, DONE]])
def test_a_search_for_tools_that_the_service_ran_is_not_closed_as_interrupted(items):
    body = {"input": [ASKED, *items], "store": True}
    events = load(body, "openai-responses", model="m")
    assert [kind for kind, _, _ in events] == ["user", "assistant"]
    found = dump(events, "openai-responses", model="m", stored=True)
    assert (found.body["input"], found.repairs) == (body["input"], [])
    [_, answer] = dump(events, "openai", model="m").body["messages"]
    assert answer["content"].startswith("<tool_search>\nquery: files\n</tool_search>")
    assert answer["content"].endswith("There is glob.")


def test_a_search_for_tools_that_the_caller_ran_is_a_call_with_its_result():
    client = [TOOL_SEARCH | {"execution": "client"}, TOOLS_FOUND | {"execution": "client"}]
    events = load({"input": [ASKED, *client]}, "openai-responses", model="m")
    assert [kind for kind, _, _ in events] == ["user", "tool_call", "tool_result"]


def test_a_signature_before_what_a_tool_did_does_not_hide_it():
    run = {"thoughtSignature": "c2VhbA==", "toolCall": {"args": {"queries": ["high tide"]}}}
    parts = [run, {"text": "It is at noon."}]
    contents = [
        {"role": "user", "parts": [{"text": "When?"}]},
        {"role": "model", "parts": parts},
        {"role": "user", "parts": [{"text": "Sure?"}]},
    ]
    events = load({"contents": contents}, "gemini", model="m")
    assert dump(events, "gemini", model="m") == ({"contents": contents}, [])
    answer = dump(events, "anthropic").body["messages"][1]
    assert [block["text"] for block in answer["content"]] == [
        "<tool_call>\nqueries: high tide\n</tool_call>",
        "It is at noon.",
    ]


def record_paused(*answers):
    events = [("user", "When?", None)]
    for content in answers:
        response = {"type": "message", "role": "assistant", "model": "m", "content": content}
        events += load_answer(response, "anthropic")
    return [*events, ("user", "Sure?", None)]


def test_nothing_comes_between_a_paused_answer_and_the_one_that_continues_it():
    body, repairs = dump(record_paused(SEARCH[:2], SEARCH[2:]), "anthropic", model="m")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert (body["messages"][1]["content"], repairs) == (SEARCH, [])


def test_an_answer_may_pause_more_than_once():
    again = [SEARCH[1] | {"id": "srvtoolu_2"}]
    found = [FOUND | {"tool_use_id": "srvtoolu_2"}, SEARCH[3]]
    events = record_paused(SEARCH[:2], [FOUND, SEARCH[0], *again], found)
    body, repairs = dump(events, "anthropic", model="m")
    assert body["messages"][1]["content"] == [*SEARCH[:3], SEARCH[0], *again, *found]
    assert repairs == []


def test_an_answer_that_continues_no_paused_one_stays_apart():
    body, repairs = dump(record_paused(SEARCH, SEARCH), "anthropic", model="m")
    assert len(body["messages"]) == 5
    assert [repair.rule for repair in repairs] == ["alternate"]
