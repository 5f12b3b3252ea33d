"""opencode's `session_message`: where its second server keeps a session."""

import json
import sqlite3

from backstory.transcripts.model import SourceMove
from tests.transcripts.formats_reading import (
    describe_context,
    list_entries,
    list_steps,
    read_sessions,
)
from tests.transcripts.test_opencode import answer, as_database, session, text, user

TIME = {"created": 1785072160000, "completed": 1785072161000}
MODEL = {"id": "claude-sonnet-4-5", "providerID": "anthropic"}


def with_rows(folder, rows, *messages, **info):
    """A database with one session; a row is its type and its data."""
    as_database(folder, session("ses_1", *messages, **info))
    base = sqlite3.connect(folder / "opencode.db")
    base.execute("create table session_message (id, session_id, type, seq, time_created, data)")
    for seq, (type_, data) in enumerate(rows, 1):
        values = (f"msg_{9 - seq}x", "ses_1", type_, seq, json.dumps({"time": TIME} | data))
        base.execute("insert into session_message values (?, ?, ?, ?, 0, ?)", values)
    base.commit()
    base.close()
    [one], report = read_sessions(folder)
    return one.threads[0], report


def called(call, status="completed", **state):
    given = {
        "status": status,
        "input": {"path": "x"},
        "structured": {"n": 1},
        "content": [],
    } | state
    return {"type": "tool", "id": call, "name": "read", "state": given, "time": TIME}


def test_a_session_of_rows_alone_is_read_in_their_order(tmp_path):
    thought = {
        "type": "reasoning",
        "id": "r",
        "text": "hm",
        "providerMetadata": {"anthropic": {"signature": "c2ln"}},
    }
    content = [
        thought,
        {"type": "text", "id": "t", "text": "Look."},
        called("c1", content=[{"type": "text", "text": "found"}]),
        called("c2", "error", error={"type": "unknown", "message": "gone"}),
        called("c3"),
        called("c4", "running"),
    ]
    tokens = {"input": 7, "output": 3, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    thread, report = with_rows(
        tmp_path,
        [
            ("model-switched", {"model": MODEL}),
            ("system", {"text": "Be brief."}),
            ("user", {"text": "go"}),
            ("synthetic", {"text": "by the way"}),
            ("shell", {"callID": "s", "command": "ls", "output": "a b"}),
            ("assistant", {"agent": "build", "model": MODEL, "content": content, "tokens": tokens}),
        ],
    )
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("system", "Be brief."),
        ("user", "go"),
        ("user", "by the way"),
        ("user", "Shell command: ls\n\na b"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("call", "c2"),
        ("call", "c3"),
        ("call", "c4"),
        ("result", "c1", "found"),
        ("result", "c2", "gone"),
        ("result", "c3", '{"n":1}'),
    ]
    said = events[4]
    assert said.data["native"]["wire"][0]["signature"] == "c2ln"
    assert (said.data["model"], said.data["usage"]) == (MODEL["id"], {"input": 7, "output": 3})
    assert [event.data.get("meta") for event in events[2:4]] == ["tool", "tool"]
    assert events[5].data["arguments"] == {"path": "x"}
    assert not report


def test_a_compaction_of_rows_begins_the_context_anew(tmp_path):
    short = {"reason": "auto", "summary": "In short.", "recent": "user: two"}
    rows = [("user", {"text": "one"}), ("compaction", short), ("user", {"text": "three"})]
    thread, _ = with_rows(tmp_path, rows)
    assert describe_context(thread) == [("user", "In short.\n\nuser: two"), ("user", "three")]


def test_a_revert_among_rows_keeps_its_message_and_hides_what_follows(tmp_path):
    rows = [("user", {"text": "one"}), ("user", {"text": "two"}), ("user", {"text": "three"})]
    thread, _ = with_rows(tmp_path, rows, revert={"messageID": "msg_8x"})
    assert list_steps(thread)[-1] == SourceMove("msg_8x")
    assert describe_context(thread) == [("user", "one")]


def test_a_command_that_still_runs_is_not_settled(tmp_path):
    shell = {"callID": "s", "command": "make", "output": "", "time": {"created": TIME["created"]}}
    thread, _ = with_rows(tmp_path, [("shell", shell)])
    assert [unit.is_complete for unit in thread.read_units()] == [False]


def test_rows_that_repeat_the_messages_are_passed_over_and_others_reported(tmp_path):
    said = {"model": MODEL, "content": [{"type": "text", "id": "t", "text": "hello"}]}
    rows = [
        ("user", {"text": "hi"}),
        ("assistant", said),
        ("user", {"text": "only here"}),
        ("new-kind", {}),
    ]
    older = [user("msg_1", text("p1", "hi")), answer("msg_2", text("p2", "hello"))]
    thread, report = with_rows(tmp_path, rows, *older)
    assert describe_context(thread) == [("user", "hi"), ("assistant", "hello")]
    assert report.mended == {"message of both servers, taken once": 3}
    assert report.unknown["session_message new-kind (opencode)"] >= 1


def test_a_session_that_the_second_server_went_on_with_is_whole(tmp_path):
    later = {"time": {"created": TIME["created"] + 60_000}}
    rows = [("user", {"text": "hi"}), ("user", {"text": "on"} | later)]
    thread, report = with_rows(tmp_path, rows, user("msg_1", text("p1", "hi")))
    assert describe_context(thread) == [("user", "hi"), ("user", "on")]
    assert report.mended == {"message of both servers, taken once": 1}
    assert not report.unknown


def test_a_call_that_failed_has_what_its_tool_had_said_until_then(tmp_path):
    failed = called(
        "c1",
        "error",
        error={"type": "unknown", "message": "stopped"},
        content=[{"type": "text", "text": "half"}],
    )
    rows = [
        ("user", {"text": "go"}),
        ("assistant", {"agent": "build", "model": MODEL, "content": [failed], "finish": "stop"}),
    ]
    thread, _ = with_rows(tmp_path, rows)
    assert describe_context(thread)[-1] == ("result", "c1", "stopped\nhalf")
