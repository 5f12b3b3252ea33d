"""llm, goose and crush: the databases of other programs."""

import json
import sqlite3

import pytest

from tests.importers.reading import context, log, one, read, write_lines


class Base:
    """A database that a test fills."""

    def __init__(self, path):
        self.path = path
        self._connection = sqlite3.connect(path)

    def table(self, name, *columns):
        self._connection.execute(f"create table {name} ({', '.join(columns)})")

    def add(self, table, *values):
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"insert into {table} values ({marks})", values)

    def read(self):
        self._connection.commit()
        return read(self.path)


@pytest.fixture
def other(tmp_path):
    base = Base(tmp_path / "other.db")
    yield base
    base._connection.close()


# ------------------------------------------------------------------ llm


@pytest.fixture
def llm(other):
    other.table("conversations", "id", "name", "model")
    columns = "id model prompt system response conversation_id datetime_utc input_tokens output_tokens"
    other.table("responses", *columns.split())
    return other


def test_before_0_32_results_stand_before_the_prompt_of_their_response(llm):
    llm.table("tool_calls", "id", "response_id", "name", "arguments", "tool_call_id")
    llm.table("tool_results", "id", "response_id", "output", "tool_call_id", "exception")
    llm.add("conversations", "c1", "Chat", "gpt-x")
    llm.add("responses", "r1", "gpt-x", "count", "Be brief.", "", "c1", "2026-02-02T09:00:00+00:00", 3, 1)
    llm.add("responses", "r2", "gpt-x", "", "Be brief.", "One.", "c1", "2026-02-02T09:00:01+00:00", 4, 2)
    llm.add("tool_calls", 1, "r1", "run", '{"n": 1}', "call_1")
    llm.add("tool_results", 1, "r2", "1", "call_1", None)
    thread = one(llm.read()[0])
    events = log(thread)
    assert context(events) == [
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
    assert context(log(first.threads[0]))[-1] == ("user", "left")
    [thread] = fork.threads
    assert (thread.origin.session, thread.origin.at) == ("t1", "a1")
    assert [unit.inherited for unit in thread.units()] == [True, True, True, False]
    assert alone.threads[0].origin is None


@pytest.fixture
def store_of_messages(llm):
    llm.table("messages", "hash", "parent_hash", "role")
    llm.table("parts", "id", "message_hash", "position", "type", "text", "payload")
    llm.table("threads", "id", "name", "tip_message_hash", "datetime_utc")
    llm.table("turns", "id", "tip_message_hash", "datetime_utc", "model", "input_tokens", "output_tokens")
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
    events = log(one(store_of_messages.read()[0]))
    assert context(events) == [("user", "A long text.\nWhat is this?"), ("assistant", "Seen.")]
    assert events[-1].data["usage"] == {"input": 5, "output": 2}


def test_a_prompt_that_is_nothing_but_an_image_is_one(store_of_messages):
    store_of_messages.add("attachments", "i", "image/png", None, None, b"png")
    store_of_messages.add("parts", 1, "u", 0, "attachment", None, json.dumps({"attachment": {"id": "i"}}))
    [prompt, _] = log(one(store_of_messages.read()[0]))
    assert prompt.kind == "user"
    assert "cG5n" in json.dumps(prompt.data)


def test_a_response_to_an_image_has_its_prompt(llm):
    llm.table("attachments", "id", "type", "path", "url", "content")
    llm.table("prompt_attachments", "response_id", "attachment_id", '"order"')
    llm.add("conversations", "c", "Chat", "m")
    llm.add("responses", "r", "m", "", None, "A cat.", "c", "2026-02-02T09:00:00", 1, 1)
    llm.add("attachments", "i", "image/png", None, "https://example.com/cat.png", None)
    llm.add("prompt_attachments", "r", "i", 0)
    [prompt, _] = log(one(llm.read()[0]))
    assert prompt.kind == "user"
    assert "https://example.com/cat.png" in json.dumps(prompt.data)


# ------------------------------------------------------------------ goose


def text(words):
    return {"type": "text", "text": words}


SEEN, GONE, TOLD, HIDDEN = (
    {"userVisible": True, "agentVisible": True},
    {"userVisible": True, "agentVisible": False},
    {"userVisible": False, "agentVisible": True},
    {"userVisible": False, "agentVisible": False},
)


@pytest.fixture
def goose(other):
    other.table("sessions", "id", "name", "description", "working_dir")
    columns = "id message_id session_id role content_json created_timestamp metadata_json"
    other.table("messages", *columns.split())
    other.add("sessions", "20260303_1", "Chat", "", "/w")
    other.said = []

    def say(role, *content, seen=SEEN):
        number = len(other.said) + 1
        values = (number, f"m{number}", "20260303_1", role, json.dumps(content), 1772532000 + number)
        other.said.append(values)
        other.add("messages", *values, json.dumps(seen))

    other.say = say
    return other


def test_what_the_agent_no_longer_sees_was_compacted_and_what_it_sees_was_kept(goose):
    goose.say("user", text("one"), seen=GONE)
    goose.say("assistant", text("first"), seen=GONE)
    goose.say("user", text("kept"))
    goose.say("user", text("In short."), seen=TOLD)
    goose.say("assistant", text("Understood."), seen=TOLD)
    goose.say("user", text("two"))
    events = log(one(goose.read()[0]))
    assert [event.kind for event in events].count("clear") == 1
    assert context(events) == [
        ("user", "In short."),
        ("user", "kept"),
        ("assistant", "Understood."),
        ("user", "two"),
    ]


def test_a_prompt_that_a_compaction_says_again_is_not_its_summary(goose):
    goose.say("user", text("one"), seen=GONE)
    goose.say("assistant", text("first"), seen=GONE)
    goose.say("user", text("two"), seen=HIDDEN)
    goose.say("user", text("In short."), seen=TOLD)
    goose.say("assistant", text("Understood."), seen=TOLD)
    goose.say("user", text("two"))
    events = log(one(goose.read()[0]))
    assert context(events) == [("user", "In short."), ("assistant", "Understood."), ("user", "two")]
    assert [event.content for event in events if (event.data or {}).get("compaction")] == ["In short."]


def test_a_summary_that_was_compacted_itself_is_still_one(goose):
    goose.say("user", text("one"), seen=GONE)
    goose.say("user", text("two"), seen=HIDDEN)
    goose.say("user", text("First."), seen=HIDDEN)
    goose.say("assistant", text("Understood."), seen=HIDDEN)
    goose.say("user", text("two"), seen=GONE)
    goose.say("user", text("Second."), seen=TOLD)
    events = log(one(goose.read()[0]))
    assert [e.content for e in events if (e.data or {}).get("compaction")] == ["First.", "Second."]
    assert context(events) == [("user", "Second.")]


def test_a_message_from_before_ids_has_the_one_that_goose_gives_it_later(other):
    other.table("sessions", "id", "description", "working_dir")
    other.table("messages", "id", "session_id", "role", "content_json", "created_timestamp")
    other.add("sessions", "s", "Old", "/w")
    other.add("messages", 4, "s", "user", json.dumps([text("go")]), 1772532000)
    [event] = log(one(other.read()[0]))
    assert event.id == "msg_s_4"


def test_one_message_holds_the_results_of_several_calls(goose):
    def request(id):
        return {
            "type": "toolRequest",
            "id": id,
            "toolCall": {"value": {"name": "run", "arguments": {"n": 1}}},
        }

    def response(id, words, **more):
        value = {"content": [text(words)]} | more
        return {"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}}

    goose.say("assistant", text("Look."), request("c1"), request("c2"))
    goose.say("user", response("c1", "1"), response("c2", "no", isError=True))
    thread = one(goose.read()[0])
    events = log(thread)
    assert context(events)[-2:] == [("result", "c1", "1"), ("result", "c2", "no")]
    assert events[-1].data["error"] is True
    assert thread.about == {"title": "Chat", "cwd": "/w"}


def test_a_picture_in_a_result_of_goose_is_kept(goose):
    value = {"content": [text("seen"), {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    goose.say(
        "user", {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": value}}
    )
    [result] = log(one(goose.read()[0]))
    assert (result.content, result.data["id"]) == ("seen", "c1")
    assert result.data["native"]["wire"][0]["content"][1]["source"]["data"] == "iVBORw0KGgo="


def test_the_old_lines_of_goose_have_a_header(tmp_path):
    header = {"description": "Old", "working_dir": "/w", "message_count": 1}
    lines = [header, {"role": "user", "created": 1784278801, "content": [text("go")]}]
    [session] = read(write_lines(tmp_path / "20250724_1.jsonl", lines))[0]
    assert (session.tool, session.id) == ("goose", "20250724_1")
    assert context(log(session.threads[0])) == [("user", "go")]


# ------------------------------------------------------------------ crush


@pytest.fixture
def crush(other):
    other.table("sessions", "id", "parent_session_id", "title", "created_at", "summary_message_id")
    columns = "id session_id role parts model created_at is_summary_message provider"
    other.table("messages", *columns.split())

    def say(session, id, role, *parts, summary=0):
        given = json.dumps([{"type": type_, "data": data} for type_, data in parts])
        other.add("messages", id, session, role, given, "claude-x", 1775293200, summary, "anthropic")

    other.say = say
    return other


def test_the_context_begins_at_the_summary_and_a_child_names_its_call(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, "m3")
    crush.add("sessions", "m4$$c1", "s1", "Agent", 1775293201, None)
    crush.say("s1", "m1", "user", ("text", {"text": "one"}))
    crush.say(
        "s1",
        "m2",
        "assistant",
        ("reasoning", {"thinking": "hm", "signature": "c2ln"}),
        ("text", {"text": "a"}),
    )
    crush.say("s1", "m3", "assistant", ("text", {"text": "In short."}), summary=1)
    crush.say(
        "s1", "m4", "assistant", ("tool_call", {"id": "c1", "name": "agent", "input": '{"prompt": "x"}'})
    )
    crush.say(
        "s1", "m5", "tool", ("tool_result", {"tool_call_id": "c1", "content": "Seen.", "is_error": False})
    )
    crush.say("m4$$c1", "m6", "user", ("text", {"text": "look"}))
    main, child = crush.read()[0]
    events = log(main.threads[0])
    assert context(events) == [("user", "In short."), ("call", "c1"), ("result", "c1", "Seen.")]
    assert events[1].data["native"]["wire"][0]["signature"] == "c2ln"
    origin = child.threads[0].origin
    assert (origin.session, origin.call, origin.spawned) == ("s1", "c1", True)


def test_a_command_that_a_person_ran_in_crush_is_told_with_its_output(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", "m1", "user", ("shell_command", {"command": "ls", "output": "a b", "exit_code": 0}))
    assert context(log(one(crush.read()[0]))) == [("user", "$ ls\na b\n(exit code 0)")]


def test_files_that_were_attached_in_crush_and_pictures_of_its_tools_are_kept(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    notes = {"Path": "notes.md", "MIMEType": "text/markdown", "Data": "aGVsbG8="}
    paper = {"Path": "a.pdf", "MIMEType": "application/pdf", "Data": "JVBERg=="}
    crush.say("s1", "m1", "user", ("text", {"text": "read"}), ("binary", notes), ("binary", paper))
    seen = {"tool_call_id": "c1", "content": "seen", "data": "iVBORw0KGgo=", "mime_type": "image/png"}
    crush.say("s1", "m2", "tool", ("tool_result", seen))
    asked, file, result = log(one(crush.read()[0]))
    assert [block["type"] for block in asked.data["native"]["wire"]] == ["text", "document"]
    assert (file.content, file.data["meta"]) == ("<file path='notes.md'>\n\nhello\n</file>", "attachment")
    assert [block["type"] for block in result.data["native"]["wire"][0]["content"]] == ["text", "image"]


def test_reasoning_that_openai_sealed_is_kept_by_crush(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    sealed = {"item_id": "rs_1", "encrypted_content": "c2VhbGVk", "summary": []}
    parts = [{"type": "reasoning", "data": {"thinking": "hm", "signature": "", "responses_data": sealed}}]
    parts += [{"type": "text", "data": {"text": "so"}}, {"type": "finish", "data": {"reason": "end_turn"}}]
    crush.add("messages", "m1", "s1", "assistant", json.dumps(parts), "gpt-5", 1775293200, 0, "openai")
    [said] = log(one(crush.read()[0]))
    assert said.data["native"]["wire"][0]["encrypted_content"] == "c2VhbGVk"


def test_an_answer_of_crush_without_its_end_is_still_being_written(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", "m1", "user", ("text", {"text": "go"}))
    crush.say("s1", "m2", "assistant", ("text", {"text": "Do"}))
    assert [unit.settled for unit in one(crush.read()[0]).units()] == [True, False]
    crush.say("s1", "m3", "assistant", ("text", {"text": "Done"}), ("finish", {"reason": "end_turn"}))
    assert all(unit.settled for unit in one(crush.read()[0]).units())


def test_a_database_with_broken_rows_is_read_as_far_as_it_goes(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.add("messages", "m1", "s1", "user", "{not json", "m", 1775293200, 0, "x")
    crush.say("s1", "m2", "user", ("text", {"text": "go"}))
    sessions, report = crush.read()
    assert context(log(one(sessions)))[-1] == ("user", "go")
    assert len(report.damaged) == 1


def test_a_database_of_crush_from_before_summaries_is_read(other):
    other.table("sessions", "id", "parent_session_id", "title", "created_at")
    other.table("messages", "id", "session_id", "role", "parts", "model", "created_at")
    other.add("sessions", "s", None, "Old", 1)
    parts = [{"type": "text", "data": {"text": "hi"}}]
    other.add("messages", "m", "s", "user", json.dumps(parts), "x", 1)
    sessions, report = other.read()
    assert context(log(one(sessions))) == [("user", "hi")]
    assert not report.unread


def test_responses_from_before_tokens_are_read_and_those_without_a_conversation_too(other):
    other.table("conversations", "id", "name", "model")
    other.table("responses", "id", "model", "prompt", "system", "response", "conversation_id", "datetime_utc")
    other.add("conversations", "c", "Named", "x")
    other.add("responses", "r1", "x", "one", None, "first", "c", "2024-01-01T00:00:00")
    other.add("responses", "r2", "x", "two", None, "second", None, "2024-01-01T00:00:01")
    other.add("responses", "r3", "x", "three", None, "third", "gone", "2024-01-01T00:00:02")
    sessions, report = other.read()
    assert {session.id: context(log(session.threads[0]))[0] for session in sessions} == {
        "c": ("user", "one"),
        "r2": ("user", "two"),
        "gone": ("user", "three"),
    }
    assert not report.unread
