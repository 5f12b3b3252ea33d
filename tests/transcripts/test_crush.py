import json

import pytest

from tests.transcripts.formats_reading import describe_context, get_thread, list_entries


@pytest.fixture
def crush(other):
    other.table("sessions", "id", "parent_session_id", "title", "created_at", "summary_message_id")
    columns = "id session_id role parts model created_at is_summary_message provider"
    other.table("messages", *columns.split())

    def say(session, id, role, *parts, summary=0):
        given = json.dumps([{"type": type_, "data": data} for type_, data in parts])
        other.add(
            "messages", id, session, role, given, "claude-x", 1775293200, summary, "anthropic"
        )

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
        "s1",
        "m4",
        "assistant",
        ("tool_call", {"id": "c1", "name": "agent", "input": '{"prompt": "x"}'}),
    )
    crush.say(
        "s1",
        "m5",
        "tool",
        ("tool_result", {"tool_call_id": "c1", "content": "Seen.", "is_error": False}),
    )
    crush.say("m4$$c1", "m6", "user", ("text", {"text": "look"}))
    main, child = crush.read()[0]
    thread = main.threads[0]
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("user", "In short."),
        ("call", "c1"),
        ("result", "c1", "Seen."),
    ]
    assert events[1].data["native"]["wire"][0]["signature"] == "c2ln"
    origin = child.threads[0].origin
    assert (origin.session, origin.call, origin.is_spawned) == ("s1", "call c1", True)


def test_a_command_that_a_person_ran_in_crush_is_told_with_its_output(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say(
        "s1", "m1", "user", ("shell_command", {"command": "ls", "output": "a b", "exit_code": 0})
    )
    assert describe_context(get_thread(crush.read()[0])) == [("user", "$ ls\na b\n(exit code 0)")]


def test_files_that_were_attached_in_crush_and_pictures_of_its_tools_are_kept(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    notes = {"Path": "notes.md", "MIMEType": "text/markdown", "Data": "aGVsbG8="}
    paper = {"Path": "a.pdf", "MIMEType": "application/pdf", "Data": "JVBERg=="}
    crush.say("s1", "m1", "user", ("text", {"text": "read"}), ("binary", notes), ("binary", paper))
    seen = {
        "tool_call_id": "c1",
        "content": "seen",
        "data": "iVBORw0KGgo=",
        "mime_type": "image/png",
    }
    crush.say("s1", "m2", "tool", ("tool_result", seen))
    asked, file, result = list_entries(get_thread(crush.read()[0]))
    assert [block["type"] for block in asked.data["native"]["wire"]] == ["text", "document"]
    assert (file.content, file.data["meta"]) == (
        "<file path='notes.md'>\n\nhello\n</file>",
        "attachment",
    )
    assert [block["type"] for block in result.data["native"]["wire"][0]["content"]] == [
        "text",
        "image",
    ]


def test_reasoning_that_openai_sealed_is_kept_by_crush(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    sealed = {"item_id": "rs_1", "encrypted_content": "c2VhbGVk", "summary": []}
    parts = [
        {"type": "reasoning", "data": {"thinking": "hm", "signature": "", "responses_data": sealed}}
    ]
    parts += [
        {"type": "text", "data": {"text": "so"}},
        {"type": "finish", "data": {"reason": "end_turn"}},
    ]
    crush.add(
        "messages", "m1", "s1", "assistant", json.dumps(parts), "gpt-5", 1775293200, 0, "openai"
    )
    [said] = list_entries(get_thread(crush.read()[0]))
    assert said.data["native"]["wire"][0]["encrypted_content"] == "c2VhbGVk"


def test_an_answer_of_crush_without_its_end_is_still_being_written(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", "m1", "user", ("text", {"text": "go"}))
    crush.say("s1", "m2", "assistant", ("text", {"text": "Do"}))
    assert [unit.is_complete for unit in get_thread(crush.read()[0]).read_units()] == [True, False]
    crush.say(
        "s1", "m3", "assistant", ("text", {"text": "Done"}), ("finish", {"reason": "end_turn"})
    )
    assert all(unit.is_complete for unit in get_thread(crush.read()[0]).read_units())


def test_a_database_with_broken_rows_is_read_as_far_as_it_goes(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.add("messages", "m1", "s1", "user", "{not json", "m", 1775293200, 0, "x")
    crush.say("s1", "m2", "user", ("text", {"text": "go"}))
    sessions, report = crush.read()
    assert describe_context(get_thread(sessions)) == [("user", "go")]
    assert len(report.damaged) == 1


def test_a_database_of_crush_from_before_summaries_is_read(other):
    other.table("sessions", "id", "parent_session_id", "title", "created_at")
    other.table("messages", "id", "session_id", "role", "parts", "model", "created_at")
    other.add("sessions", "s", None, "Old", 1)
    parts = [{"type": "text", "data": {"text": "hi"}}]
    other.add("messages", "m", "s", "user", json.dumps(parts), "x", 1)
    sessions, report = other.read()
    assert describe_context(get_thread(sessions)) == [("user", "hi")]
    assert not report.unread


def test_a_summary_that_failed_leaves_the_context_as_it_was(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", "m1", "user", ("text", {"text": "go"}))
    failed = {"reason": "error", "message": "Summarization Error"}
    crush.say("s1", "m2", "assistant", ("text", {"text": "In sh"}), ("finish", failed), summary=1)
    crush.say("s1", "m3", "user", ("text", {"text": "on"}))
    assert describe_context(get_thread(crush.read()[0])) == [("user", "go"), ("user", "on")]


def test_at_first_the_id_of_a_child_was_that_of_its_call(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.add("sessions", "toolu_1", "s1", "New Agent Session", 1775293201, None)
    crush.say(
        "s1", "m1", "assistant", ("tool_call", {"id": "toolu_1", "name": "agent", "input": "{}"})
    )
    crush.say("toolu_1", "m2", "user", ("text", {"text": "look"}))
    _, child = crush.read()[0]
    assert (child.threads[0].origin.session, child.threads[0].origin.call) == ("s1", "call toolu_1")


def test_an_image_at_an_address_is_kept_by_crush(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say(
        "s1",
        "m1",
        "user",
        ("text", {"text": "look"}),
        ("image_url", {"url": "https://example.com/a.png"}),
    )
    [asked] = list_entries(get_thread(crush.read()[0]))
    assert asked.data["native"]["wire"][1]["source"]["url"] == "https://example.com/a.png"


def test_parts_of_crush_that_nobody_understands_are_counted(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", "m1", "user", ("text", {"text": "go"}), ("hologram", {"x": 1}))
    assert crush.read()[1].unknown == {"part hologram (crush)": 1}


def test_a_message_whose_id_is_none_or_not_a_text_comes_in(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, None)
    crush.say("s1", None, "user", ("text", {"text": "one"}))
    crush.say("s1", b"\xff", "user", ("text", {"text": "two"}))
    assert describe_context(get_thread(crush.read()[0])) == [("user", "one"), ("user", "two")]


def test_a_summary_that_was_never_finished_leaves_the_context_as_it_was(crush):
    crush.add("sessions", "s1", None, "Chat", 1775293200, "m4")
    crush.say("s1", "m1", "user", ("text", {"text": "one"}))
    end = ("finish", {"reason": "end_turn"})
    crush.say("s1", "m2", "assistant", ("text", {"text": "First."}), end, summary=1)
    crush.say("s1", "m3", "user", ("text", {"text": "two"}))
    crush.say("s1", "m4", "assistant", ("text", {"text": "Second."}), summary=1)
    crush.say("s1", "m5", "user", ("text", {"text": "three"}))
    crush.say("s1", "m6", "assistant", ("text", {"text": "Thi"}), summary=1)
    crush.say("s1", "m7", "user", ("text", {"text": "four"}))
    thread = get_thread(crush.read()[0])
    events = list_entries(thread)
    assert [event.kind for event in events].count("clear") == 2
    assert describe_context(thread) == [("user", "Second."), ("user", "three"), ("user", "four")]
