"""The checkpoints of LangGraph: the contracts beyond its kit."""

import asyncio
import copy
import dataclasses
import os
from pathlib import Path

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

import backstory
from backstory.adapters.langgraph import BackstorySaver

ROOT = Path(__file__).parents[2]
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def asked(text, n):
    return {"messages": [HumanMessage(text, id=f"h{n}")]}


def put(saver, id, parent=None, *, messages=(), thread="t", changed=(), version=1, **values):
    checkpoint = empty_checkpoint() | {"id": id}
    checkpoint["channel_values"] = values | ({"messages": list(messages)} if messages else {})
    checkpoint["channel_versions"] = dict.fromkeys(checkpoint["channel_values"], version)
    named = {"thread_id": thread, "checkpoint_ns": ""} | (
        {"checkpoint_id": parent} if parent else {}
    )
    metadata = {"source": "loop", "step": 1}
    return saver.put({"configurable": named}, checkpoint, metadata, dict.fromkeys(changed, version))


def values(saver, id=None, thread="t"):
    named = {"thread_id": thread} | ({"checkpoint_id": id} if id else {})
    found = saver.get_tuple({"configurable": named})
    return found and found.checkpoint["channel_values"]


def test_what_cannot_be_serialized_makes_no_thread(saver, opened):
    with pytest.raises(TypeError):
        put(saver, "1", value=lambda: None)
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "1"}}
    with pytest.raises(TypeError):
        saver.put_writes(at, [("a", lambda: None)], "task")
    assert list(saver.list(None)) == []
    assert opened.agents() == []


def test_writes_may_come_before_their_checkpoint(saver):
    put(saver, "1")
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "2"}}
    saver.put_writes(at, [("a", 1)], "task")
    put(saver, "2", "1")
    assert saver.get_tuple(THREAD).pending_writes == [("task", "a", 1)]


def test_of_ordinary_writes_the_first_stays_and_of_special_ones_the_last(saver):
    put(saver, "1")
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "1"}}
    for value in ("first", "second"):
        saver.put_writes(at, [("a", value)], "task")
        saver.put_writes(at, [("__error__", value)], "task")
    assert saver.get_tuple(THREAD).pending_writes == [
        ("task", "__error__", "second"),
        ("task", "a", "first"),
    ]


def test_writes_are_in_the_order_of_path_task_and_number(saver):
    put(saver, "1")
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "1"}}
    saver.put_writes(at, [("b", 1), ("c", 2)], "z", "path 1")
    saver.put_writes(at, [("a", 3)], "a", "path 2")
    saver.put_writes(at, [("a", 4)], "b", "path 1")
    assert [write[2] for write in saver.get_tuple(THREAD).pending_writes] == [4, 1, 2, 3]


def test_going_on_from_an_older_checkpoint_leaves_both_branches_readable(saver):
    one, two, three = (HumanMessage(text, id=text) for text in ("one", "two", "three"))
    put(saver, "1", messages=[one])
    put(saver, "2", "1", messages=[one, two])
    put(saver, "3", "1", messages=[one, three])
    assert values(saver, "2")["messages"] == [one, two]
    assert values(saver)["messages"] == [one, three]
    assert [message.content for message in saver.agent("t").conversation()] == ["one", "three"]


def test_a_message_that_is_changed_in_place_is_seen(saver):
    message = HumanMessage("before", id="m")
    put(saver, "1", messages=[message])
    message.content = "after"
    put(saver, "2", "1", messages=[message])
    assert values(saver)["messages"][0].content == "after"
    assert values(saver, "1")["messages"][0].content == "before"


def test_a_conversation_is_written_once(saver):
    messages = [HumanMessage(f"message {n}", id=str(n)) for n in range(40)]
    for n in range(1, 41):
        put(saver, f"{n:03}", f"{n - 1:03}" if n > 1 else None, messages=messages[:n])
    assert len([event for event in saver.agent("t").events() if event.kind == "user"]) == 40


def test_thread_ids_may_be_numbers_and_without_a_namespace_it_is_the_empty_one(saver):
    put(saver, "1", thread=42, x=1)
    assert values(saver, thread="42") == {"x": 1}
    assert (
        saver.get_tuple({"configurable": {"thread_id": 42}}).config["configurable"]["checkpoint_ns"]
        == ""
    )


def test_all_threads_are_listed_without_a_config(saver):
    for thread in ("a", "b/c", "d"):
        put(saver, "1", thread=thread)
    found = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    assert found == {"a", "b/c", "d"}


def test_an_agent_whose_key_has_no_namespace_is_not_a_thread(saver, opened):
    put(saver, "1", thread="a")
    opened.ensure("langgraph:x").user("the slash was forgotten")
    [found] = saver.list(None)
    assert found.config["configurable"]["thread_id"] == "a"


def test_after_a_deletion_nothing_late_brings_a_checkpoint_back(saver):
    put(saver, "1")
    saver.delete_thread("t")
    put(saver, "2", "1")
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "1"}}
    saver.put_writes(at, [("a", 1)], "task")
    assert saver.get_tuple(THREAD) is None
    put(saver, "3")
    put(saver, "4", "1")
    assert [each.checkpoint["id"] for each in saver.list(THREAD)] == ["3"]


def test_a_copy_survives_the_deletion_of_its_source_and_is_one_row_for_each_namespace(
    saver, opened
):
    put(saver, "1", messages=[HumanMessage("one", id="1")], x=1)
    below = {"configurable": {"thread_id": "t", "checkpoint_ns": "sub:1"}}
    saver.put(below, empty_checkpoint(), {"source": "loop"}, {})
    saver.copy_thread("t", "u")
    assert len(opened.agents()) == 4
    saver.delete_thread("t")
    assert values(saver, thread="u")["x"] == 1
    assert [message.content for message in values(saver, thread="u")["messages"]] == ["one"]
    assert values(saver) is None


def test_a_copied_saver_works_on_the_same_store(saver):
    put(copy.copy(saver), "1", x=1)
    assert values(saver) == {"x": 1}


class Cipher:
    """Enough to see what is encrypted."""

    def encrypt(self, plaintext):
        return "xor", bytes(byte ^ 0xFF for byte in plaintext)

    def decrypt(self, ciphername, ciphertext):
        return bytes(byte ^ 0xFF for byte in ciphertext)


def test_with_an_encrypting_serializer_no_text_is_in_the_clear(durable_url, run):
    saver = BackstorySaver(durable_url, serde=EncryptedSerializer(Cipher()))
    put(saver, "1", messages=[HumanMessage("the treasure", id="1")], place="the treasure")
    at = {"configurable": THREAD["configurable"] | {"checkpoint_id": "1"}}
    saver.put_writes(at, [("a", "the treasure")], "task")
    assert values(saver)["messages"][0].content == values(saver)["place"] == "the treasure"
    assert all("treasure" not in f"{e.content}{e.data_json}" for e in saver.agent("t").events())
    saver.close()


def test_pruning_keeps_what_the_kept_checkpoint_refers_to(saver):
    big = "x" * 1_000
    put(saver, "1", big=big, messages=[HumanMessage("one", id="1")])
    put(saver, "2", "1", big=big, messages=[HumanMessage("one", id="1")])
    assert sum("xxxx" in (event.data_json or "") for event in saver.agent("t").events()) == 1
    saver.prune(["t"])
    assert values(saver)["big"] == big
    assert values(saver, "1") is None


@dataclasses.dataclass
class Point:
    x: int


def test_values_of_any_type_come_back(saver):
    given = {
        "b": b"\x00\xff",
        "n": None,
        "s": {1, 2},
        "p": Point(1),
        "f": 1.0,
        "i": 1,
        "o": True,
    }
    put(saver, "1", **given)
    found = values(saver)
    assert found == given
    assert {key: type(value) for key, value in found.items()} == {
        k: type(v) for k, v in given.items()
    }


def test_messages_of_every_kind_are_messages_for_everything_else(saver, sound, opened):
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2VhbA=="}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    messages = [
        SystemMessage("Be brief.", id="0"),
        HumanMessage([{"type": "text", "text": "look"}, image], id="1"),
        AIMessage("I will.", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c"}], id="2"),
        ToolMessage("failed", tool_call_id="c", status="error", id="3"),
        AIMessage(
            [thought, {"type": "text", "text": "Done."}],
            response_metadata={"model_name": "claude-x"},
            id="4",
        ),
        RemoveMessage(id="5"),
    ]
    put(saver, "1", messages=messages)
    assert values(saver)["messages"] == messages
    kinds = [(message.kind, message.content) for message in saver.agent("t").conversation()]
    assert kinds == [
        ("system", "Be brief."),
        ("user", "look"),
        ("assistant", "I will."),
        ("tool_call", None),
        ("tool_result", "failed"),
        ("assistant", "Done."),
    ]
    body = saver.agent("t").conversation().to("anthropic", model="claude-x")
    last = [message for message in body["messages"] if message["role"] == "assistant"][-1]
    assert last["content"][0] == thought
    sound(opened)


def test_what_others_wrote_is_in_the_newest_state_and_what_was_rewound_is_not(saver):
    def answer(state):
        return {
            "messages": [
                AIMessage(f"{len(state['messages'])} messages", id=f"a{len(state['messages'])}")
            ]
        }

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    running = builder.compile(checkpointer=saver)
    running.invoke(asked("hello", 1), THREAD)
    agent = saver.agent("t")
    agent.mark("here")
    agent.user("from the chat")
    call = agent.tool_call("add", {"a": 1}, id="c1")
    agent.tool_result(call, "2")
    running.invoke(asked("and now?", 2), THREAD)
    assert running.get_state(THREAD).values["messages"][-1].content == "6 messages"
    assert len([event for event in agent.events() if event.content == "from the chat"]) == 1
    agent.rewind("here")
    assert len(running.get_state(THREAD).values["messages"]) == 2
    running.invoke(asked("again", 3), THREAD)
    assert running.get_state(THREAD).values["messages"][-1].content == "3 messages"


def test_a_fork_goes_on_from_a_position(saver):
    put(saver, "1", messages=[HumanMessage("one", id="1")])
    at = saver.agent("t").head
    put(saver, "2", "1", messages=[HumanMessage("one", id="1"), HumanMessage("two", id="2")])
    saver.fork("t", "u", at=at)
    assert [message.content for message in values(saver, thread="u")["messages"]] == ["one"]


def test_two_processes_on_one_thread_lose_nothing(durable_url, two_writers, sound):
    two_writers("langgraph", durable_url)
    with backstory.open(durable_url) as store:
        saver = BackstorySaver(store)
        shared = {"thread_id": "shared"}
        found = [
            each.checkpoint["channel_values"]["n"] for each in saver.list({"configurable": shared})
        ]
        assert sorted(found) == sorted(f"{name} {n}" for name in ("one", "two") for n in range(50))
        one = saver.get_tuple({"configurable": shared | {"checkpoint_id": "one-007"}})
        assert one.pending_writes == [("task", "w", 7)]
        sound(store)


def test_a_long_conversation_takes_a_small_part_of_the_space_of_langgraphs_own_saver(tmp_path):
    def size(saver, path):
        fake = GenericFakeChatModel(messages=iter(AIMessage("y" * 400) for _ in range(60)))
        builder = StateGraph(MessagesState)
        builder.add_node("answer", lambda state: {"messages": [fake.invoke(state["messages"])]})
        builder.add_edge(START, "answer")
        running = builder.compile(checkpointer=saver)
        for n in range(60):
            running.invoke({"messages": [HumanMessage(f"{n} " + "x" * 400)]}, THREAD)
        return sum(os.path.getsize(file) for file in tmp_path.glob(f"{path}*"))

    ours = BackstorySaver(tmp_path / "ours.db")
    mine = size(ours, "ours")
    with SqliteSaver.from_conn_string(str(tmp_path / "theirs.db")) as theirs:
        assert mine < size(theirs, "theirs") / 5
    ours.close()


def test_cancelling_a_put_sees_it_through(saver, run):
    async def cancelled():
        checkpoint = empty_checkpoint() | {"id": "1"}
        task = asyncio.ensure_future(saver.aput(THREAD, checkpoint, {"source": "loop"}, {}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await saver.aget_tuple(THREAD)

    assert run(cancelled()).checkpoint["id"] == "1"


def test_versions_are_whole_numbers_and_text_versions_go_on(saver):
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(3, None) == 4
    assert saver.get_next_version("00000000000000000000000000000002.0.5", None).startswith(
        "0" * 31 + "3."
    )


LONG = "a/b@é " * 900


def test_a_thread_id_of_any_length_is_listed_copied_and_deleted(saver):
    put(saver, "1", thread=LONG)
    put(saver, "2", "1", thread=LONG)
    named = {"configurable": {"thread_id": LONG}}
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {LONG}
    assert len(list(saver.list(named))) == 2
    saver.copy_thread(LONG, LONG + "copy")
    saver.delete_thread(LONG)
    assert saver.get_tuple(named) is None
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {
        LONG + "copy"
    }


def test_task_ids_of_any_length_are_told_apart(saver):
    config = put(saver, "1")
    tasks = [LONG + end for end in ("a", "b")]
    for task in tasks:
        saver.put_writes(config, [("channel", task)], task)
    assert saver.get_tuple(config).pending_writes == [(task, "channel", task) for task in tasks]


def test_a_fork_of_nothing_and_an_unknown_strategy_write_nothing(saver, opened):
    with pytest.raises(backstory.AgentNotFound):
        saver.fork("nobody", "new")
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="some")
    assert opened.agents() == []


def test_a_thread_that_another_process_made_again_is_read_again(durable_url, saver):
    """Its agent has the same id, and what was kept of the old one at hand must not count."""
    put(saver, "1", messages=[HumanMessage("old", id="1")])
    with backstory.open(durable_url) as store:
        other = BackstorySaver(store)
        other.delete_thread("t")
        put(other, "2", messages=[HumanMessage("new", id="1")])
    put(saver, "3", "2", messages=[HumanMessage("old", id="1")])
    assert [message.content for message in values(saver)["messages"]] == ["old"]
    assert [message.content for message in saver.agent("t").conversation()] == ["old"]


def test_large_values_are_kept_small_and_come_back(saver):
    given = {"long": {"a " * 5_000}, "random": os.urandom(5_000), "short": {1, 2}}
    put(saver, "1", **given)
    assert values(saver) == given
    [note] = saver.agent("t").notes()
    assert len(note.data_json) < 10_000


def test_a_message_that_is_read_is_in_every_way_the_one_that_was_written(saver):
    call = {"name": "look", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    said = [
        HumanMessage("a", id="1", name="me"),
        AIMessage("b", id="2", tool_calls=[call], additional_kwargs={"x": [1]}),
        ToolMessage("c", id="3", tool_call_id="c", status="error"),
        SystemMessage("d", id="4"),
    ]
    put(saver, "1", messages=said)
    read = values(saver)["messages"]
    assert read == said
    for one, other in zip(read, said, strict=True):
        assert (repr(one), one.model_dump()) == (repr(other), other.model_dump())
        assert copy.deepcopy(one) == one
        assert one.model_copy(update={"content": "new"}).content == "new"


def test_a_saver_sees_what_another_one_wrote_after_it(saver, opened):
    one, two, three = (HumanMessage(text, id=text) for text in ("one", "two", "three"))
    other = BackstorySaver(opened)
    put(saver, "1", messages=[one])
    put(other, "2", "1", messages=[one, two])
    put(saver, "3", "2", messages=[one, two, three])
    put(saver, "4", "1", messages=[one, three])
    assert values(other)["messages"] == [one, three]
    assert values(other, "3")["messages"] == [one, two, three]
    assert values(other, "2")["messages"] == [one, two]


def test_a_checkpoint_that_is_put_again_is_there_once(saver):
    for _ in range(2):
        put(saver, "1", messages=[HumanMessage("one", id="1")])
    for _ in range(2):
        put(saver, "2", "1", messages=[HumanMessage(text, id=text) for text in ("1", "2")])
    assert len(list(saver.list(THREAD))) == 2
    assert [message.content for message in values(saver)["messages"]] == ["1", "2"]


@pytest.mark.parametrize("long", [[1] * 50, [1.0] * 50], ids=["int", "float"])
def test_a_value_with_a_new_version_is_written_even_if_it_is_equal(saver, long):
    put(saver, "1", x=[True] * 50)
    put(saver, "2", "1", x=long, changed=["x"])
    assert repr(values(saver)["x"]) == repr(long)
    put(saver, "3", "2", x=long)
    assert repr(values(saver)["x"]) == repr(long)


def test_a_copied_checkpoint_has_the_long_values_of_its_source(saver):
    put(saver, "1", notes="old " * 50)
    put(saver, "2", "1", notes="new " * 50, changed=["notes"], version=2)
    # LangGraph's copy is beside its source: it has the parent of the source, and nothing is new.
    put(saver, "3", "1", notes="new " * 50, version=2)
    assert values(saver)["notes"] == "new " * 50


PDF = {"type": "file", "base64": "JVBERi0xLjQ=", "mime_type": "application/pdf"}
SOUND = {"type": "audio", "base64": "c291bmQ=", "mime_type": "audio/wav"}
IMAGE = {"type": "image", "base64": "cGljdHVyZQ==", "mime_type": "image/png"}


def test_files_of_messages_and_tools_reach_other_formats(saver):
    call = {"name": "look", "args": {}, "id": "c", "type": "tool_call"}
    openai = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cGljdHVyZQ=="}}
    elsewhere = {"type": "file", "file_id": "file_1"}
    text = {"type": "text", "text": "read this"}
    messages = [
        HumanMessage([text, PDF, openai, elsewhere], id="1"),
        AIMessage("", tool_calls=[call], id="2"),
        ToolMessage([IMAGE], tool_call_id="c", id="3"),
        HumanMessage([SOUND], id="4"),
    ]
    put(saver, "1", messages=messages)
    assert values(saver)["messages"] == messages
    conversation = saver.agent("t").conversation()
    asked, _, [result, *_] = [each["content"] for each in conversation.to("anthropic")["messages"]][
        :3
    ]
    assert [block["type"] for block in asked] == ["text", "document", "image", "text"]
    assert asked[-1]["text"] == "(a document that cannot be shown here)"
    assert [block["type"] for block in result["content"]] == ["image"]
    body = conversation.to("gemini")
    assert body["contents"][-1]["parts"][-1]["inlineData"]["mimeType"] == "audio/wav"


def test_files_that_others_wrote_are_files(saver, opened):
    agent = opened.ensure("langgraph:t/")
    agent.user("look", images=[b"\x89PNG\r\n\x1a\n a picture"])
    [message] = values(saver)["messages"]
    assert [block["type"] for block in message.content_blocks] == ["text", "image"]


def test_the_tokens_of_an_answer_are_recorded_with_its_model(saver):
    usage = {
        "input_tokens": 100,
        "output_tokens": 7,
        "total_tokens": 107,
        "input_token_details": {"cache_read": 20},
    }
    call = {"name": "look", "args": {}, "id": "c", "type": "tool_call"}
    model = {"model_name": "gpt-x"}
    answer = AIMessage(
        "I look.", tool_calls=[call], usage_metadata=usage, response_metadata=model, id="1"
    )
    put(saver, "1", messages=[answer])
    first, second = saver.agent("t").messages()
    assert first.data["model"] == "gpt-x"
    assert first.data["usage"] == {"input": 100, "output": 7, "cached": 20}
    assert "usage" not in second.data


def test_a_call_that_another_program_left_open_is_interrupted(saver, opened):
    agent = opened.ensure("langgraph:t/")
    agent.user("add")
    agent.tool_call("add", {"a": 1}, id="c")
    seen = []

    def answer(state):
        seen.append([message.type for message in state["messages"]])
        return {"messages": [AIMessage("done")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    builder.compile(checkpointer=saver).invoke(asked("go on", 1), THREAD)
    builder.compile(checkpointer=saver).invoke(asked("and now?", 2), THREAD)
    assert seen == [
        ["human", "ai", "tool", "human"],
        ["human", "ai", "tool", "human", "ai", "human"],
    ]
    found = values(saver)["messages"]
    assert found[2].tool_call_id == "c"
    assert len({message.id for message in found}) == len(found)
    as_they_are = BackstorySaver(opened, repair=False)
    assert [message.type for message in values(as_they_are)["messages"]][:3] == [
        "human",
        "ai",
        "human",
    ]
    assert len(agent.messages()) == 6  # the result is not in the log


def test_a_graph_keeps_its_own_open_call(saver):
    call = {"name": "look", "args": {}, "id": "c", "type": "tool_call"}
    put(saver, "1", messages=[HumanMessage("a", id="1"), AIMessage("", tool_calls=[call], id="2")])
    assert [message.type for message in values(saver)["messages"]] == ["human", "ai"]


def test_a_thread_of_an_older_version_goes_on_as_one_that_others_began(saver, opened):
    agent = opened.ensure("langgraph:t/")
    old = {"of": "langgraph", "form": {"type": "human"}}
    agent.extend([("user", "hello", {"item": old})])
    agent.note("langgraph.checkpoint", {"id": "1", "parent": None, "metadata": {"json": {}}})
    assert [message.content for message in values(saver)["messages"]] == ["hello"]
    config = saver.get_tuple(THREAD).config["configurable"]
    put(saver, "2", config["checkpoint_id"], messages=[*values(saver)["messages"], AIMessage("hi")])
    assert [message.content for message in values(saver)["messages"]] == ["hello", "hi"]
    assert [event.content for event in agent.messages()] == ["hello", "hi"]
