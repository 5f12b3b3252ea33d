"""Answers that a database has before they are complete: their final form takes the place."""

import json
import sqlite3

import pytest

import backstory
from backstory.log.kinds import MESSAGE_KINDS
from tests.transcripts.test_again import added
from tests.transcripts.test_opencode import answer, as_database, session, text, tool, user

CREATED = {"created": 1785072160000}
CALL = ("tool_call", {"id": "c1", "name": "read", "input": "{}"})


def list_context(store):
    """Kind and text, or call id, of the messages in the context of the only agent."""
    [agent] = store.agents()
    found = []
    for event in agent.context().messages:
        if event.kind in MESSAGE_KINDS:
            found.append((event.kind, event.content or event.data["id"]))
    return found


@pytest.fixture
def store():
    with backstory.open(":memory:") as store:
        yield store


def write_crush(folder, parts):
    path = folder / "crush.db"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.execute("create table sessions (id, parent_session_id, title, created_at)")
        base.execute("create table messages (id, session_id, role, parts, model, created_at)")
        base.execute("insert into sessions values ('s1', null, 'T', 1775293200)")
        asked = [{"type": "text", "data": {"text": "go"}}]
        said = [{"type": type_, "data": data} for type_, data in parts]
        for id, role, given in (("m1", "user", asked), ("m2", "assistant", said)):
            values = (id, role, json.dumps(given))
            base.execute("insert into messages values (?, 's1', ?, ?, 'm', 1775293200)", values)
    base.close()
    return path


def test_an_answer_of_crush_that_grew_is_in_the_context_once(store, tmp_path):
    words = [("text", {"text": "Let"}), ("text", {"text": "Let me look."})]
    added(store, write_crush(tmp_path, [words[0]]))
    assert list_context(store) == [("user", "go"), ("assistant", "Let")]
    finished = [words[1], CALL, ("finish", {"reason": "tool_use"})]
    added(store, write_crush(tmp_path, finished))
    expected = [("user", "go"), ("assistant", "Let me look."), ("tool_call", "c1")]
    assert list_context(store) == expected


def write_opencode(folder, *parts, **time):
    (folder / "opencode.db").unlink(missing_ok=True)
    said = answer("msg_2", *parts)
    said["info"]["time"] = CREATED | time
    as_database(folder, session("ses_1", user("msg_1", text("p1", "go")), said))
    return folder / "opencode.db"


def test_an_answer_of_opencode_that_grew_is_in_the_context_once(store, tmp_path):
    begun = text("p2", "Let", time={"start": 1})
    added(store, write_opencode(tmp_path, begun, tool("p3", "c1", "pending", input={})))
    assert list_context(store)[1:] == [("assistant", "Let"), ("tool_call", "c1")]
    ended = text("p2", "Let me look.", time={"start": 1, "end": 2})
    call = tool("p3", "c1", output="found")
    added(store, write_opencode(tmp_path, ended, call, completed=1785072161000))
    assert list_context(store)[1:] == [
        ("assistant", "Let me look."),
        ("tool_call", "c1"),
        ("tool_result", "found"),
    ]
    [agent] = store.agents()
    [event] = [event for event in agent.context().messages if event.kind == "tool_call"]
    assert event.data["arguments"] == {"p": 1}
