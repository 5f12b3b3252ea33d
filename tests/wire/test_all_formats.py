"""Rules that hold in every format, whichever provider a history came from."""

import json

import pytest

import backstory
from backstory.log.messages import Message
from backstory.wire import FORMATS, dump, load
from backstory.wire.conversation import Conversation
from tests.wire.rules import violations

pytestmark = pytest.mark.parametrize("format", FORMATS)

APPROVED = [
    Message("user", "Remove it."),
    Message("tool_call", None, {"id": "c1", "name": "remove", "arguments": {}}),
    Message("tool_result", "waits for approval", {"id": "c1"}),
    Message("tool_result", "removed", {"id": "c1"}),
]


def test_of_two_results_of_a_call_the_newest_counts(format):
    conversation = Conversation(APPROVED)
    body = conversation.to(format)
    text = json.dumps(body)
    assert (text.count("removed"), text.count("approval")) == (1, 0)
    assert [(repair.rule, repair.at) for repair in conversation.repairs(format)] == [("drop", 2)]
    assert violations(body, format) == []


def test_strict_names_the_repairs_instead_of_making_them(format):
    with pytest.raises(backstory.Invalid, match="drop at 2: a newer result"):
        Conversation(APPROVED).to(format, strict=True)
    assert Conversation(APPROVED[:3]).to(format, strict=True)


SEARCH = [
    {
        "type": "tool_search_call",
        "id": "ts_1",
        "execution": "server",
        "status": "completed",
        "arguments": {"query": "weather"},
        "call_id": None,
    },
    {
        "type": "tool_search_output",
        "id": "tso_1",
        "execution": "server",
        "status": "completed",
        "tools": [{"type": "function", "name": "forecast"}],
        "call_id": None,
    },
]
SAID = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Sunny."}],
}


@pytest.mark.parametrize("stored", [True, False])
def test_a_search_for_tools_that_openai_ran_was_not_interrupted(format, stored):
    user = {"role": "user", "content": "Weather?"}
    history = {"input": [user, *SEARCH, SAID, user]}
    events = load(history, "openai-responses", model="m")
    body, repairs = dump(events, format, model="m", stored=stored)
    text = json.dumps(body)
    assert "weather" in text
    assert "forecast" in text
    assert "interrupted" not in text
    assert {repair.rule for repair in repairs} <= {"native"}


@pytest.mark.parametrize("stored", [True, False])
def test_the_output_of_a_call_that_is_only_a_reference_is_not_lost(format, stored):
    output = {"type": "function_call_output", "call_id": "c9", "output": "42 files"}
    user = {"role": "user", "content": "Count."}
    history = {"input": [user, {"type": "item_reference", "id": "fc_1"}, output, user]}
    events = load(history, "openai-responses", model="m")
    body, repairs = dump(events, format, model="m", stored=stored)
    assert "42 files" in json.dumps(body)
    is_home = format == "openai-responses" and stored
    assert (body == history) == is_home
    assert (repairs == []) == is_home


def test_tools_that_come_and_go_in_system_messages_are_kept_or_reported(format):
    added = {"type": "tool_addition", "tool": {"name": "f", "input_schema": {"type": "object"}}}
    removed = {"type": "tool_removal", "tool_name": "f"}
    history = {
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "system", "content": [added]},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Go on."},
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}, removed]},
        ]
    }
    body, repairs = dump(load(history, "anthropic", model="m"), format, model="m")
    if format == "anthropic":
        assert (body, repairs) == (history, [])
        return
    assert "Be brief." in json.dumps(body)
    whys = " ".join([repair.why for repair in repairs])
    assert "tool_addition" in whys
    assert "tool_removal" in whys


COMPACTED = {
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "stop_reason": "compaction",
        "content": [{"type": "compaction", "content": "They planned a trip."}],
    },
    "openai-responses": {
        "object": "response.compaction",
        "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}],
    },
}


@pytest.mark.parametrize("provider", COMPACTED)
def test_a_compaction_by_a_provider_shortens_the_request_of_every_format(format, provider):
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        for number in range(3):
            agent.user(f"Question {number}?")
            agent.assistant(f"Answer {number}.")
        agent.record(COMPACTED[provider], format=provider, model="m")
        agent.user("And now?")
        text = json.dumps(agent.conversation().to(format, model="m"))
    assert "Question" not in text
    assert "Answer" not in text
    assert "And now?" in text
    if format == provider:
        assert "encrypted_content" in text or '"type": "compaction"' in text
    else:
        assert "They planned a trip." in text or "compacted by openai" in text


def test_a_replacing_system_prompt_takes_the_place_of_all_before_it(format):
    agent = backstory.open(":memory:").start(system="Old.")
    agent.user("hi")
    agent.system("Older still.")
    agent.assistant("hello")
    agent.system("New.", replace=True)
    agent.user("and now?")
    fresh = backstory.open(":memory:").start(system="New.")
    fresh.extend([("user", "hi"), ("assistant", "hello"), ("user", "and now?")])
    assert agent.conversation().to(format) == fresh.conversation().to(format)
    assert agent.conversation().repairs(format) == []
    agent.system("It is Monday.")
    fresh.system("It is Monday.")
    assert agent.conversation().to(format) == fresh.conversation().to(format)


def test_a_compaction_keeps_only_the_system_messages_in_force(format):
    agent = backstory.open(":memory:").start(system="Old.")
    agent.user("hi")
    agent.system("New.", replace=True)
    agent.system("It is Monday.")
    agent.compact("They greeted each other.")
    fresh = backstory.open(":memory:").start(system="New.")
    fresh.system("It is Monday.")
    fresh.user("They greeted each other.")
    assert agent.conversation().to(format) == fresh.conversation().to(format)
    assert [e.content for e in agent.context().messages if e.kind == "system"] == [
        "New.",
        "It is Monday.",
    ]
