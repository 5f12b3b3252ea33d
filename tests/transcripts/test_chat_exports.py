"""The exports of ChatGPT and Claude.ai."""

import json
import zipfile

import pytest

from backstory.transcripts.model import SourceMove, order_nodes
from tests.transcripts.formats_reading import (
    describe_context,
    get_thread,
    list_context,
    list_entries,
    list_steps,
    read_sessions,
)

# --- ChatGPT ---


def node(id, parent, role, *parts, **more):
    content = {"content_type": more.pop("type", "text"), "parts": list(parts)}
    message = {"author": {"role": role}, "create_time": more.pop("time", 1), "content": content}
    return {id: {"parent": parent, "message": {"recipient": "all", **message, **more}}}


def chatgpt(folder, *nodes, **more):
    mapping = {"root": {"parent": None, "message": None}}
    for one in nodes:
        mapping |= one
    conversation = {"title": "Chat", "conversation_id": "c", "mapping": mapping, **more}
    (folder / "conversations.json").write_text(json.dumps([conversation]))
    return read_sessions(folder).sessions


def test_an_edited_question_is_a_branch_and_the_shown_node_is_the_end(tmp_path):
    sessions = chatgpt(
        tmp_path,
        node("q1", "root", "user", "one", time=1),
        node("a1", "q1", "assistant", "first", time=2),
        node("q2", "root", "user", "two", time=3),
        node("a2", "q2", "assistant", "second", time=4),
        current_node="a1",
    )
    thread = get_thread(sessions)
    assert describe_context(thread) == [("user", "one"), ("assistant", "first")]
    assert [entry.content for entry in list_entries(thread)] == ["one", "first", "two", "second"]
    assert list_steps(thread)[-1] == SourceMove("a1")
    assert (sessions[0].id, thread.about) == ("c", {"title": "Chat"})


def test_text_for_a_tool_is_a_call_and_the_node_below_it_the_result(tmp_path):
    sessions = chatgpt(
        tmp_path,
        node("q", "root", "user", "count"),
        node("c", "q", "assistant", '{"n": 1}', recipient="python"),
        node("r", "c", "tool", "1", type="system_error"),
        node("t", "r", "tool", "by itself"),
        node("a", "t", "assistant", "One.", metadata={"model_slug": "gpt"}),
    )
    entries = list_context(get_thread(sessions))
    assert [(entry.kind, entry.id) for entry in entries] == [
        ("user", "q"),
        ("tool_call", "call c"),
        ("tool_result", "r"),
        ("tool_result", "t"),
        ("assistant", "a"),
    ]
    assert entries[1].data == {"id": "c", "name": "python", "arguments": {"n": 1}}
    assert entries[2].data == {"id": "c", "error": True}
    assert entries[4].data == {"model": "gpt"}


def test_a_tool_that_nobody_called_speaks_and_thoughts_are_notes(tmp_path):
    sessions = chatgpt(
        tmp_path,
        node("q", "root", "user", "go", {"content_type": "image_asset_pointer"}),
        node("t", "q", "tool", "a notice"),
        node("h", "t", "assistant", "hm", type="thoughts"),
    )
    said, notice, thought = list_context(get_thread(sessions))
    assert said.content == "go\n[image_asset_pointer]"
    assert (notice.kind, notice.data) == ("user", {"meta": "tool"})
    assert (thought.kind, thought.data) == ("note", {"text": "hm"})


def test_conversations_in_numbered_members_of_a_zip_are_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for number in (0, 1):
            mapping = node("q", None, "user", "go")
            value = [{"id": f"c{number}", "mapping": mapping}, {"id": "empty", "mapping": {}}]
            archive.writestr(f"conversations-00{number}.json", json.dumps(value))
    sessions = read_sessions(tmp_path).sessions
    assert [session.id for session in sessions] == ["c0", "c1"]


def test_a_conversation_without_a_mapping_is_counted(tmp_path):
    value = [{"mapping": node("q", None, "user", "go")}, {"mapping": 3}]
    (tmp_path / "conversations.json").write_text(json.dumps(value))
    sessions, report = read_sessions(tmp_path)
    assert len(sessions) == 1
    assert report.unknown == {"a conversation without a mapping (chatgpt)": 1}


@pytest.mark.parametrize(
    ("parents", "ordered"),
    [
        ({"b": "a", "a": None}, [("a", None), ("b", "a")]),
        ({"a": "gone"}, [("a", None)]),
        ({"a": "b", "b": "a"}, [("a", None), ("b", "a")]),
        ({"c": None, "a": "b", "b": "a"}, [("c", None), ("a", "c"), ("b", "a")]),
        ({"a": "a"}, [("a", None)]),
    ],
)
def test_parents_come_first_and_circles_are_broken(parents, ordered):
    assert list(order_nodes(parents).items()) == ordered


# --- Claude.ai ---


def message(id, parent, sender, *content, **more):
    named = {"uuid": id, "sender": sender, "created_at": more.pop("at", "2026-02-05T18:00:00Z")}
    if parent is not None:
        named["parent_message_uuid"] = parent
    return {**named, "content": list(content), **more}


def claude_ai(folder, *messages, **more):
    conversation = {"uuid": "c", "name": "Chat", "chat_messages": list(messages), **more}
    (folder / "conversations.json").write_text(json.dumps([conversation]))
    return get_thread(read_sessions(folder).sessions)


def text(words):
    return {"type": "text", "text": words}


def test_calls_and_results_stand_in_the_answer_and_text_after_a_result_is_the_next_answer(tmp_path):
    thread = claude_ai(
        tmp_path,
        message("q", "root", "human", text("count")),
        message(
            "a",
            "q",
            "assistant",
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            text("Look."),
            {"type": "tool_use", "id": "c1", "name": "run", "input": {"n": 1}},
            {"type": "tool_result", "tool_use_id": "c1", "name": "run", "content": [text("1")]},
            text("One."),
        ),
    )
    entries = list_context(thread)
    assert describe_context(thread) == [
        ("user", "count"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("result", "c1", "1"),
        ("assistant", "One."),
    ]
    assert entries[1].data["native"]["wire"][0]["signature"] == "c2ln"
    assert entries[1].data["answer"] == entries[2].data["answer"] != entries[4].data["answer"]


def test_calls_of_older_exports_have_no_ids(tmp_path):
    thread = claude_ai(
        tmp_path,
        message("a", None, "assistant", {"type": "tool_use"}, {"type": "tool_result"}),
    )
    call, result = list_context(thread)
    assert call.data["name"] == "unknown"
    assert result.data["id"] == call.data["id"]


def test_messages_that_name_no_parents_are_a_row_and_others_a_tree(tmp_path):
    row = [message("q", None, "human", text("one")), message("a", None, "assistant", text("first"))]
    assert describe_context(claude_ai(tmp_path, *row)) == [("user", "one"), ("assistant", "first")]
    tree = [
        message("q1", "root", "human", text("one"), at="2026-02-05T18:00:01Z"),
        message("q2", "root", "human", text("two"), at="2026-02-05T18:00:02Z"),
    ]
    assert describe_context(claude_ai(tmp_path, *tree)) == [("user", "two")]
    shown = claude_ai(tmp_path, *tree, current_leaf_message_uuid="q1")
    assert describe_context(shown) == [("user", "one")]


def test_the_text_of_an_attached_file_is_in_the_context(tmp_path):
    file = {"file_name": "a.txt", "extracted_content": "inside"}
    thread = claude_ai(tmp_path, message("q", None, "human", text="read", attachments=[file]))
    said, attached = list_context(thread)
    assert (said.content, attached.content) == ("read", "inside")
    assert attached.data == {"meta": "attachment", "name": "a.txt"}


def test_an_old_answer_has_its_text_beside_the_content(tmp_path):
    thread = claude_ai(tmp_path, message("a", None, "assistant", text="Hello."))
    assert describe_context(thread) == [("assistant", "Hello.")]
