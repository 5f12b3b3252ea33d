import json
import sqlite3

import pytest

from backstory.transcripts.model import Origin, SourceMove
from tests.transcripts.formats_reading import (
    describe_context,
    list_entries,
    list_steps,
    read_sessions,
)

TIME = {"created": 1785072160000, "completed": 1785072161000}


def text(id, words, **more):
    return {"id": id, "type": "text", "text": words} | more


def tool(id, call, status="completed", **state):
    given = {
        "status": status,
        "input": {"p": 1},
        "time": {"start": 1785072160100, "end": 1785072160200},
    }
    return {"id": id, "type": "tool", "tool": "read", "callID": call, "state": given | state}


def user(id, *parts):
    return {"info": {"id": id, "role": "user", "time": TIME}, "parts": list(parts)}


def answer(id, *parts, **more):
    info = {"id": id, "role": "assistant", "time": TIME, "modelID": "m", "providerID": "anthropic"}
    return {"info": info | more, "parts": list(parts)}


def session(id="ses_1", *messages, **info):
    about = {"id": id, "title": "T", "directory": "/w", "version": "1.2.0", "projectID": "p"}
    return {"info": about | info, "messages": list(messages)}


def as_documents(folder, *sessions):
    for one in sessions:
        (folder / f"{one['info']['id']}.json").write_text(json.dumps(one, indent=1))
    return folder


def as_storage(folder, *sessions):
    def put(path, value):
        place = folder / "storage" / f"{path}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(value))

    for one in sessions:
        put(f"session/p/{one['info']['id']}", one["info"])
        for message in one["messages"]:
            put(f"message/{one['info']['id']}/{message['info']['id']}", message["info"])
            for part in message["parts"]:
                put(f"part/{message['info']['id']}/{part['id']}", part)
    return folder


def as_database(folder, *sessions):
    base = sqlite3.connect(folder / "opencode.db")
    base.execute("create table session (id, parent_id, directory, title, version, revert)")
    base.execute("create table message (id, session_id, time_created, data)")
    base.execute("create table part (id, message_id, session_id, data)")
    for one in sessions:
        info = one["info"]
        revert = json.dumps(info["revert"]) if "revert" in info else None
        values = (
            info["id"],
            info.get("parentID"),
            info["directory"],
            info["title"],
            info["version"],
            revert,
        )
        base.execute("insert into session values (?, ?, ?, ?, ?, ?)", values)
        for message in one["messages"]:
            id, data = message["info"]["id"], dict(message["info"])
            del data["id"]
            base.execute(
                "insert into message values (?, ?, 0, ?)", (id, info["id"], json.dumps(data))
            )
            for part in message["parts"]:
                rest = {key: value for key, value in part.items() if key != "id"}
                base.execute(
                    "insert into part values (?, ?, ?, ?)",
                    (part["id"], id, info["id"], json.dumps(rest)),
                )
    base.commit()
    base.close()
    return folder


@pytest.fixture(
    params=[as_documents, as_storage, as_database], ids=["document", "storage", "database"]
)
def stored(request, tmp_path):
    return lambda *sessions: read_sessions(request.param(tmp_path, *sessions))[0]


def live(sessions):
    [one] = sessions
    return describe_context(one.threads[0])


def test_the_three_ways_of_keeping_a_session_come_to_the_same(stored):
    told = session(
        "ses_1",
        user("msg_1", text("prt_1", "go"), text("prt_2", "Called the Read tool", synthetic=True)),
        answer("msg_2", tool("prt_4", "c1", output="found"), text("prt_3", "Look.")),
        answer("msg_3", tool("prt_5", "c2", "error", error="gone")),
    )
    [one] = stored(told)
    thread = one.threads[0]
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("user", "go"),
        ("user", "Called the Read tool"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("result", "c1", "found"),
        ("call", "c2"),
        ("result", "c2", "gone"),
    ]
    assert events[1].data == {"meta": "tool"}
    assert events[-1].data["error"] is True
    assert one.threads[0].about == {"title": "T", "cwd": "/w", "version": "1.2.0"}


def test_a_revert_hides_from_its_message_on_and_the_log_keeps_it(stored):
    told = [
        user("msg_1", text("p1", "one")),
        answer("msg_2", text("p2", "first")),
        user("msg_3", text("p3", "two")),
    ]
    [one] = stored(session("ses_1", *told, revert={"messageID": "msg_3"}))
    assert list_steps(one.threads[0])[-1] == SourceMove("msg_2")
    assert describe_context(one.threads[0]) == [("user", "one"), ("assistant", "first")]


def test_a_revert_may_begin_within_a_message(stored):
    told = [
        user("msg_1", text("p1", "one")),
        answer("msg_2", text("p2", "first"), tool("p3", "c1", output="x")),
    ]
    assert live(stored(session("ses_1", *told, revert={"messageID": "msg_2", "partID": "p3"}))) == [
        ("user", "one"),
        ("assistant", "first"),
    ]


def test_a_sub_agent_is_spawned_by_the_task_that_names_it(stored):
    task = tool("p2", "c1", output="done", metadata={"sessionId": "ses_0"})
    parent = session("ses_1", user("msg_1", text("p1", "go")), answer("msg_2", task))
    child = session("ses_0", user("msg_3", text("p3", "look")), parentID="ses_1")
    origins = {session.id: session.threads[0].origin for session in stored(child, parent)}
    assert origins == {
        "ses_0": Origin("ses_1", call="call c1", is_spawned=True),
        "ses_1": None,
    }


def test_a_compaction_begins_the_context_anew_with_what_it_kept(stored):
    told = session(
        "ses_1",
        user("msg_1", text("p1", "one")),
        user("msg_2", text("p2", "two")),
        user("msg_3", {"id": "p3", "type": "compaction", "auto": True, "tail_start_id": "msg_2"}),
        answer("msg_4", text("p4", "In short."), summary=True, parentID="msg_3", finish="stop"),
        user("msg_5", text("p5", "three")),
    )
    assert live(stored(told)) == [("user", "In short."), ("user", "two"), ("user", "three")]


def test_reasoning_keeps_the_signature_of_its_provider(stored):
    thought = {
        "id": "p1",
        "type": "reasoning",
        "text": "hm",
        "metadata": {"anthropic": {"signature": "c2ln"}},
    }
    [one] = stored(session("ses_1", answer("msg_1", thought, text("p2", "so"))))
    assert list_entries(one.threads[0])[0].data["native"]["wire"][0]["signature"] == "c2ln"


def test_a_picture_that_a_tool_found_and_a_document_of_the_person_are_kept(stored):
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="}
    paper = {
        "id": "p2",
        "type": "file",
        "mime": "application/pdf",
        "url": "data:application/pdf;base64,JVBERg==",
    }
    told = [
        user("msg_1", text("p1", "look"), paper),
        answer("msg_2", tool("p3", "c1", output="read", attachments=[picture])),
    ]
    [one] = stored(session("ses_1", *told))
    asked, _, result = list_entries(one.threads[0])
    assert [block["type"] for block in asked.data["native"]["wire"]] == ["text", "document"]
    assert (result.content, result.data["id"]) == ("read", "c1")
    assert [block["type"] for block in result.data["native"]["wire"][0]["content"]] == [
        "text",
        "image",
    ]


def test_an_answer_that_died_is_an_event_without_words(stored):
    [one] = stored(session("ses_1", answer("msg_1", error={"name": "MessageAbortedError"})))
    event = list_entries(one.threads[0])[0]
    assert (event.kind, event.content, event.data["failure"]) == (
        "assistant",
        "",
        "MessageAbortedError",
    )


def test_an_answer_that_still_runs_is_not_settled(stored):
    running = answer("msg_1", tool("p1", "c1", "running")) | {}
    running["info"]["time"] = {"created": 1785072160000}
    [one] = stored(session("ses_1", running))
    assert [unit.is_complete for unit in one.threads[0].read_units()] == [False]


def test_an_old_message_with_several_steps_is_told_step_by_step(stored):
    start = {"type": "step-start"}
    told = answer(
        "msg_1",
        start | {"id": "p1"},
        text("p2", "First."),
        tool("p3", "c1", output="x"),
        start | {"id": "p4"},
        text("p5", "Then."),
    )
    assert live(stored(session("ses_1", told))) == [
        ("assistant", "First."),
        ("call", "c1"),
        ("result", "c1", "x"),
        ("assistant", "Then."),
    ]


def test_before_0_4_sessions_stood_in_info_and_parts_below_their_session(tmp_path):
    root = tmp_path / "project" / "x" / "storage" / "session"
    files = {
        "info/ses_0.json": {"id": "ses_0", "title": "Old"},
        "message/ses_0/msg_1.json": {"id": "msg_1", "role": "user", "time": {"created": 1}},
        "part/ses_0/msg_1/prt_1.json": {"id": "prt_1", "type": "text", "text": "hi"},
    }
    for name, value in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(value))
    sessions, _ = read_sessions(tmp_path)
    assert [(session.id, describe_context(session.threads[0])) for session in sessions] == [
        ("ses_0", [("user", "hi")])
    ]


def test_a_session_that_was_moved_into_the_database_is_taken_from_there(tmp_path, store):
    told = [user("msg_1", text("p1", "one")), user("msg_2", text("p2", "two"))]
    as_storage(tmp_path, session("ses_1", *told[:1]))
    as_database(tmp_path, session("ses_1", *told))
    store.import_transcripts(tmp_path)
    [agent] = store.agents()
    assert [event.content for event in agent.context().messages] == ["one", "two"]


def test_a_tool_that_was_interrupted_said_what_it_had_said(stored):
    cut = {"interrupted": True, "output": "half"}
    call = tool("p1", "c1", "error", error="Tool execution aborted", metadata=cut)
    assert live(stored(session("ses_1", answer("msg_1", call))))[-1] == ("result", "c1", "half")


def test_parts_that_nobody_understands_are_counted(tmp_path):
    told = user("msg_1", text("p1", "go"), {"id": "p2", "type": "hologram"})
    _, report = read_sessions(as_documents(tmp_path, session("ses_1", told)))
    assert report.unknown == {"part hologram (opencode)": 1}


def at(second, message):
    """A message of a later second."""
    moment = TIME["created"] + 1000 * second
    message["info"]["time"] = {"created": moment, "completed": moment + 500}
    return message


def asked_for_summary(id, kept_from):
    return user(
        id, {"id": f"{id}_p", "type": "compaction", "auto": True, "tail_start_id": kept_from}
    )


def test_what_a_compaction_keeps_is_found_by_its_place_though_ids_do_not_ascend(stored):
    told = [
        at(1, user("msg_7", text("p1", "one"))),
        at(2, answer("msg_9", text("p2", "first"))),
        at(3, user("msg_2", text("p3", "two"))),
        at(4, answer("msg_5", text("p4", "second"))),
        at(5, asked_for_summary("msg_4", "msg_2")),
        at(
            6,
            answer("msg_1", text("p6", "In short."), summary=True, finish="stop", parentID="msg_4"),
        ),
        at(7, user("msg_3", text("p7", "three"))),
    ]
    assert live(stored(session("ses_1", *told))) == [
        ("user", "In short."),
        ("user", "two"),
        ("assistant", "second"),
        ("user", "three"),
    ]


def test_a_compaction_that_keeps_more_than_the_one_before_it_keeps_its_summary_too(stored):
    told = [
        at(1, user("msg_1", text("p1", "one"))),
        at(2, user("msg_2", text("p2", "two"))),
        at(3, asked_for_summary("msg_3", "msg_2")),
        at(
            4,
            answer("msg_4", text("p4", "In short."), summary=True, finish="stop", parentID="msg_3"),
        ),
        at(5, user("msg_5", text("p5", "three"))),
        at(6, asked_for_summary("msg_6", "msg_2")),
        at(
            7,
            answer(
                "msg_7", text("p7", "In shorter."), summary=True, finish="stop", parentID="msg_6"
            ),
        ),
    ]
    assert live(stored(session("ses_1", *told))) == [
        ("user", "In shorter."),
        ("user", "two"),
        ("user", "In short."),
        ("user", "three"),
    ]
