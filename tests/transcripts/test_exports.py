"""The exports of ChatGPT and Claude.ai."""

import json
import zipfile

import pytest

from backstory.transcripts import SourceMove
from tests.transcripts.reading import context, everything, log, one, read, steps_of


def as_zip(folder, conversations):
    with zipfile.ZipFile(folder / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps(conversations))
        archive.writestr("user.json", "{}")
    return folder / "export.zip"


def as_file(folder, conversations):
    (folder / "conversations.json").write_text(json.dumps(conversations, indent=1))
    return folder / "conversations.json"


@pytest.fixture(params=[as_zip, as_file], ids=["zip", "file"])
def exported(request, tmp_path):
    return lambda *conversations: read(request.param(tmp_path, list(conversations)))


# ------------------------------------------------------------------ ChatGPT


def node(id, parent, role=None, text="", *, time=1.0, to="all", **content):
    message = None
    if role:
        given = {"content_type": "text", "parts": [text]} | content
        message = {
            "author": {"role": role},
            "create_time": 1767636000 + time,
            "content": given,
            "recipient": to,
        }
        message["metadata"] = {"model_slug": "gpt-x"} if role == "assistant" else {}
    return {"id": id, "parent": parent, "message": message, "children": []}


def chat(*nodes, current=None, **more):
    conversation = {
        "conversation_id": "c1",
        "title": "Chat",
        "mapping": {n["id"]: n for n in nodes},
    }
    return conversation | ({"current_node": current} if current else {}) | more


def test_an_answer_made_again_and_an_edited_question_are_branches(exported):
    nodes = [
        node("root", None),
        node("u1", "root", "user", "one", time=1),
        node("a2", "u1", "assistant", "second try", time=3),
        node("a1", "u1", "assistant", "first try", time=2),
        node("u2", "a2", "user", "two", time=4),
        node("u3", "a2", "user", "two, edited", time=5),
    ]
    events = log(one(exported(chat(*nodes, current="u3"))[0]))
    assert context(events) == [
        ("user", "one"),
        ("assistant", "second try"),
        ("user", "two, edited"),
    ]
    assert {("assistant", "first try"), ("user", "two")} <= set(everything(events))


def test_the_node_that_is_shown_is_live_even_if_it_is_not_the_newest(exported):
    nodes = [node("u1", None, "user", "one"), node("u2", None, "user", "two", time=2)]
    thread = one(exported(chat(*nodes, current="u1"))[0])
    assert steps_of(thread)[-1] == SourceMove("u1")
    assert context(log(thread)) == [("user", "one")]


def test_what_is_said_to_a_tool_is_a_call_and_the_tools_node_its_result(exported):
    nodes = [
        node("u", None, "user", "count"),
        node(
            "c",
            "u",
            "assistant",
            time=2,
            to="python",
            content_type="code",
            text_="",
            parts=['{"n": 1}'],
        ),
        node("r", "c", "tool", "1", time=3),
        node("a", "r", "assistant", "One.", time=4),
        node("x", "a", "tool", "by itself", time=5),
    ]
    events = log(one(exported(chat(*nodes))[0]))
    assert context(events) == [
        ("user", "count"),
        ("call", "c"),
        ("result", "c", "1"),
        ("assistant", "One."),
        ("user", "by itself"),
    ]
    assert events[1].data["name"] == "python"
    assert events[4].data == {"meta": "tool"}


def test_hidden_system_nodes_and_thoughts_do_not_speak(exported):
    thoughts = {
        "content_type": "thoughts",
        "thoughts": [{"summary": "Plan", "content": "hm"}],
        "parts": None,
    }
    nodes = [
        node("s", None, "system", ""),
        node("u", "s", "user", "go", time=2),
        node("t", "u", "assistant", time=3, **thoughts),
        node("a", "t", "assistant", "done", time=4),
    ]
    thread = one(exported(chat(*nodes))[0])
    assert [event.kind for event in log(thread)] == ["user", "note", "assistant"]
    assert thread.about["title"] == "Chat"


# ------------------------------------------------------------------ Claude.ai


def message(uuid, parent, sender, *content, time=1, **more):
    found = {
        "uuid": uuid,
        "sender": sender,
        "text": "",
        "content": list(content),
        "attachments": [],
    }
    found |= {"created_at": f"2026-02-06T18:00:{time:02}.000Z"} | more
    return found | ({} if parent is None else {"parent_message_uuid": parent})


def words(text):
    return {"type": "text", "text": text}


def conversation(*messages, **more):
    return {"uuid": "k1", "name": "Chat", "chat_messages": list(messages)} | more


ROOT = "00000000-0000-4000-8000-000000000000"


def test_calls_and_results_inside_an_answer_come_step_by_step(exported):
    use = {"type": "tool_use", "id": "t1", "name": "run", "input": {"n": 1}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "name": "run",
        "content": [words("ok")],
        "is_error": True,
    }
    answer = message("m2", "m1", "assistant", words("Look."), use, result, words("Done."), time=2)
    events = log(one(exported(conversation(message("m1", ROOT, "human", words("go")), answer))[0]))
    assert context(events) == [
        ("user", "go"),
        ("assistant", "Look."),
        ("call", "t1"),
        ("result", "t1", "ok"),
        ("assistant", "Done."),
    ]
    assert events[3].data["error"] is True


def test_messages_name_their_parents_or_stand_in_a_row(exported):
    branches = [
        message("m1", ROOT, "human", words("one")),
        message("m2", ROOT, "human", words("one, edited"), time=2),
    ]
    assert context(log(one(exported(conversation(*branches))[0]))) == [("user", "one, edited")]
    shown = conversation(*branches, current_leaf_message_uuid="m1")
    assert context(log(one(exported(shown)[0]))) == [("user", "one")]
    row = [
        message("m1", None, "human", words("one")),
        message("m2", None, "assistant", words("first"), time=2),
    ]
    assert context(log(one(exported(conversation(*row))[0]))) == [
        ("user", "one"),
        ("assistant", "first"),
    ]


def test_messages_that_name_nobody_stand_in_a_row(exported):
    nobody = {"parent_message_uuid": None}
    row = [
        message("m1", None, "human", words("one"), time=1, **nobody),
        message("m2", None, "assistant", words("two"), time=2, **nobody),
    ]
    assert context(log(one(exported(conversation(*row))[0]))) == [
        ("user", "one"),
        ("assistant", "two"),
    ]


def test_calls_without_ids_are_bound_in_order(exported):
    use = {"type": "tool_use", "id": None, "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": None, "content": "ok"}
    events = log(one(exported(conversation(message("m1", ROOT, "assistant", use, result)))[0]))
    assert events[0].data["id"] == events[1].data["id"]


def test_the_text_of_an_attachment_was_read_by_the_model(exported):
    file = {"file_name": "a.txt", "extracted_content": "inside"}
    prompt = message("m1", ROOT, "human", words("see"), attachments=[file])
    event = log(one(exported(conversation(prompt))[0]))[-1]
    assert (event.content, event.data) == ("inside", {"meta": "attachment", "name": "a.txt"})


def test_a_large_export_has_its_conversations_in_several_members(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for number in range(3):
            mapping = {"a": node("a", None, "user", f"question {number}")}
            conversation = {
                "conversation_id": f"c{number}",
                "mapping": mapping,
                "current_node": "a",
            }
            archive.writestr(f"conversations-00{number}.json", json.dumps([conversation]))
    sessions, _ = read(tmp_path / "export.zip")
    assert [session.id for session in sessions] == ["c0", "c1", "c2"]
