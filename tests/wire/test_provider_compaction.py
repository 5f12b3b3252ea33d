"""Compaction by a provider: it is recorded as a compaction, and its summary goes back unchanged."""

import pytest

import backstory
from backstory.wire import FORMATS, load_answer

SUMMARY = {"type": "compaction", "content": "They said hello.", "signature": "c2ln"}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}


def start():
    agent = backstory.open(":memory:").start(system="Be brief.")
    agent.settings(params={"temperature": 0})
    agent.user("Hello!")
    agent.assistant("Hello to you.")
    agent.user("What did I say?")
    return agent


def anthropic(*content, stop="end_turn"):
    return {
        "type": "message",
        "id": "msg_1",
        "model": "claude-x",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop,
    }


def says(text):
    return {"type": "text", "text": text}


def compacted(*texts):
    messages = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in texts
    ]
    return {"id": "resp_1", "object": "response.compaction", "output": [*messages, ITEM]}


def test_the_summary_of_anthropic_is_the_first_message_unchanged():
    agent = start()
    agent.record(anthropic(SUMMARY, says("You said hello.")))
    agent.user("Thanks.")
    conversation = agent.conversation()
    body = conversation.to("anthropic", model="claude-x")
    assert body["messages"] == [
        {"role": "assistant", "content": [SUMMARY, says("You said hello.")]},
        {"role": "user", "content": [says("Thanks.")]},
    ]
    assert body["system"] == [says("Be brief.")]
    assert conversation.repairs("anthropic", model="claude-x") == []
    assert conversation.settings.params == {"temperature": 0}


def test_a_model_that_stopped_for_its_compaction_continues_from_there():
    agent = start()
    events = agent.record(anthropic(SUMMARY, stop="compaction"))
    assert [event.kind for event in events] == ["clear", "system", "note", "assistant"]
    assert events[-1].content == "They said hello."
    body = agent.conversation().to("anthropic", model="claude-x")
    assert body["messages"] == [{"role": "assistant", "content": [SUMMARY]}]


def test_the_summary_of_anthropic_is_text_for_others():
    agent = start()
    agent.record(anthropic(SUMMARY, stop="compaction"))
    messages = agent.conversation().to("openai")["messages"]
    assert messages[-1] == {"role": "assistant", "content": "They said hello."}


def test_a_compaction_that_failed_replaces_nothing():
    agent = start()
    agent.record(anthropic(SUMMARY | {"content": None}, says("You said hello.")))
    agent.user("Thanks.")
    assert len(agent.conversation().to("anthropic", model="claude-x")["messages"]) == 5


def test_openai_keeps_user_messages_as_copies():
    agent = start()
    hello = agent.conversation()[1].seq
    events = agent.record(compacted("Hello!", "What did I say?"), model="gpt-5")
    kinds = [event.kind for event in events]
    assert kinds == ["clear", "system", "note", "user", "user", "assistant"]
    assert events[3].data == {"copy_of": hello}
    body = agent.conversation().to("openai-responses", model="gpt-5")
    user = [{"role": "user", "content": text} for text in ("Hello!", "What did I say?")]
    assert body["input"] == [*user, {key: ITEM[key] for key in ("type", "encrypted_content")}]


def test_a_message_that_the_log_lacks_is_written_with_the_compaction():
    agent = start()
    events = agent.record(compacted("Said elsewhere.", "What did I say?"), model="gpt-5")
    users = [event for event in events if event.kind == "user"]
    assert [event.content for event in users] == ["Said elsewhere.", "What did I say?"]
    assert [event.data.get("copy_of") for event in users] == [None, 5]


def test_an_item_of_openai_replaces_what_came_before():
    agent = start()
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi."}],
    }
    response = {"id": "resp_1", "model": "gpt-5", "output": [ITEM, message]}
    agent.record(response)
    body = agent.conversation().to("openai-responses", model="gpt-5")
    assert [item.get("type") for item in body["input"]] == ["compaction", "message"]


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "openai-responses"])
def test_an_encrypted_summary_is_named_elsewhere_with_the_way_back(format):
    agent = start()
    agent.record(compacted("What did I say?"), model="gpt-5")
    conversation = agent.conversation()
    assert "(earlier messages were compacted by openai)" in str(conversation.to(format))
    whys = [repair.why for repair in conversation.repairs(format) if repair.rule == "native"]
    assert ["undo" in why for why in whys] == [True]


def test_undo_and_explain_work_as_with_a_compaction_of_ours():
    agent = start()
    before = list(agent.conversation())
    hello = before[1].seq
    events = agent.record(anthropic(SUMMARY, says("You said hello.")), key="turn-1")
    assert agent.record(anthropic(SUMMARY, says("You said hello.")), key="turn-1") == events
    explanation = agent.explain(hello)
    assert explanation.status == "compacted"
    assert f"the summary is at {events[-1].seq}" in explanation.reason
    agent.undo()
    assert list(agent.conversation()) == before


def test_the_events_of_an_answer_stay_the_same_without_a_log():
    [(kind, text, data)] = load_answer(anthropic(SUMMARY, stop="compaction"), "anthropic")
    assert (kind, text, data["native"]["wire"]) == ("assistant", "They said hello.", [SUMMARY])
