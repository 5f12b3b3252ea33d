import json

import pytest

from backstory.transcripts.model import Origin
from tests.transcripts.formats_reading import (
    describe_context,
    get_thread,
    list_entries,
    read_sessions,
)
from tests.transcripts.reading import write_lines


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
        values = (
            number,
            f"m{number}",
            "20260303_1",
            role,
            json.dumps(content),
            1772532000 + number,
        )
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
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert [event.kind for event in events].count("clear") == 1
    assert describe_context(thread) == [
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
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert describe_context(thread) == [
        ("user", "In short."),
        ("assistant", "Understood."),
        ("user", "two"),
    ]
    assert [event.content for event in events if (event.data or {}).get("compaction")] == [
        "In short."
    ]
    assert [event.copy_of for event in events if event.content == "two"] == [
        None,
        "m3",
    ]


def test_a_prompt_that_a_person_says_once_more_after_a_compaction_is_not_a_copy(goose):
    goose.say("user", text("on"), seen=GONE)
    goose.say("user", text("In short."), seen=TOLD)
    goose.say("assistant", text("Understood."), seen=TOLD)
    goose.add(
        "messages",
        9,
        "m9",
        "20260303_1",
        "user",
        json.dumps([text("on")]),
        1772532090,
        json.dumps(SEEN),
    )
    assert [
        event.data for event in list_entries(get_thread(goose.read()[0])) if event.content == "on"
    ] == [
        None,
        None,
    ]


def test_a_summary_that_was_compacted_itself_is_still_one(goose):
    goose.say("user", text("one"), seen=GONE)
    goose.say("user", text("two"), seen=HIDDEN)
    goose.say("user", text("First."), seen=HIDDEN)
    goose.say("assistant", text("Understood."), seen=HIDDEN)
    goose.say("user", text("two"), seen=GONE)
    goose.say("user", text("Second."), seen=TOLD)
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert [e.content for e in events if (e.data or {}).get("compaction")] == ["First.", "Second."]
    assert describe_context(thread) == [("user", "Second.")]


def test_a_message_from_before_ids_has_the_one_that_goose_gives_it_later(other):
    other.table("sessions", "id", "description", "working_dir")
    other.table("messages", "id", "session_id", "role", "content_json", "created_timestamp")
    other.add("sessions", "s", "Old", "/w")
    other.add("messages", 4, "s", "user", json.dumps([text("go")]), 1772532000)
    [event] = list_entries(get_thread(other.read()[0]))
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
        return {
            "type": "toolResponse",
            "id": id,
            "toolResult": {"status": "success", "value": value},
        }

    goose.say("assistant", text("Look."), request("c1"), request("c2"))
    goose.say("user", response("c1", "1"), response("c2", "no", isError=True))
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert describe_context(thread)[-2:] == [("result", "c1", "1"), ("result", "c2", "no")]
    assert events[-1].data["error"] is True
    assert thread.about == {"title": "Chat", "cwd": "/w"}


def test_a_picture_in_a_result_of_goose_is_kept(goose):
    value = {
        "content": [
            text("seen"),
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        ]
    }
    goose.say(
        "user",
        {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": value}},
    )
    [result] = list_entries(get_thread(goose.read()[0]))
    assert (result.content, result.data["id"]) == ("seen", "c1")
    assert result.data["native"]["wire"][0]["content"][1]["source"]["data"] == "iVBORw0KGgo="


def test_the_old_lines_of_goose_have_a_header(tmp_path):
    header = {"description": "Old", "working_dir": "/w", "message_count": 1}
    lines = [header, {"role": "user", "created": 1784278801, "content": [text("go")]}]
    [session] = read_sessions(write_lines(tmp_path / "20250724_1.jsonl", lines))[0]
    assert (session.tool, session.id) == ("goose", "20250724_1")
    assert describe_context(session.threads[0]) == [("user", "go")]


def test_a_header_of_the_first_releases_names_no_folder(tmp_path):
    header = {"description": "Old", "id": "20240101_120000", "message_count": 1}
    lines = [header, {"role": "user", "created": 1704110400, "content": [text("go")]}]
    [session] = read_sessions(write_lines(tmp_path / "20240101_120000.jsonl", lines))[0]
    assert (session.tool, session.threads[0].about) == ("goose", {"title": "Old"})
    assert describe_context(session.threads[0]) == [("user", "go")]


def test_an_exported_session_is_read(tmp_path):
    told = [{"role": "user", "created": 1772532000, "content": [text("go")], "id": "m1"}]
    exported = {"id": "20260303_1", "working_dir": "/w", "name": "Chat", "conversation": told}
    (tmp_path / "session.json").write_text(json.dumps(exported, indent=2))
    [session] = read_sessions(tmp_path / "session.json")[0]
    assert (session.tool, session.id) == ("goose", "20260303_1")
    assert describe_context(session.threads[0]) == [("user", "go")]
    exported["conversation"][0]["content"] = [text("x" * 100_000)]
    (tmp_path / "session.json").write_text(json.dumps(exported, indent=2))
    [session] = read_sessions(tmp_path / "session.json")[0]
    assert (session.tool, session.id) == ("goose", "20260303_1")


def response(id, *content):
    value = {"content": list(content)}
    return {"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}}


def request(id):
    return {
        "type": "toolRequest",
        "id": id,
        "toolCall": {"status": "success", "value": {"name": "run"}},
    }


def test_what_a_tool_says_for_the_person_alone_is_not_in_the_result(goose):
    for_model = text("found") | {"annotations": {"audience": ["assistant"]}}
    for_person = text("found") | {"annotations": {"audience": ["user"], "priority": 0.0}}
    goose.say("user", response("c1", for_model, for_person))
    assert describe_context(get_thread(goose.read()[0])) == [("result", "c1", "found")]


def test_a_resource_in_a_result_has_its_words(goose):
    file = {
        "type": "resource",
        "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "inside"},
    }
    goose.say("user", response("c1", file))
    assert describe_context(get_thread(goose.read()[0])) == [("result", "c1", "inside")]


def test_notices_are_not_part_of_the_conversation_and_what_only_people_see_is_a_note(goose):
    goose.say("user", text("go"))
    goose.say(
        "assistant",
        {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "..."},
    )
    goose.say("user", text("$ ls"), seen=GONE)
    goose.say("assistant", text("Done."))
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert describe_context(thread) == [("user", "go"), ("assistant", "Done.")]
    assert [event.data["text"] for event in events if event.kind == "note"] == ["$ ls"]


def test_calls_that_were_summarized_one_by_one_are_one_compaction_that_keeps_the_rest(goose):
    goose.say("user", text("go"))
    for number in (1, 2):
        goose.say("assistant", request(f"c{number}"), seen=GONE)
        goose.say("user", response(f"c{number}", text("x")), seen=GONE)
        goose.say("user", text(f"Call {number} was made."), seen=TOLD)
    goose.say("assistant", text("Done."))
    thread = get_thread(goose.read()[0])
    events = list_entries(thread)
    assert [event.kind for event in events].count("clear") == 1
    assert describe_context(thread) == [
        ("user", "Call 2 was made."),
        ("user", "go"),
        ("user", "Call 1 was made."),
        ("assistant", "Done."),
    ]


def test_a_broken_row_is_passed_over_and_contents_that_nobody_understands_are_counted(goose):
    goose.add("messages", 7, "m7", "20260303_1", "user", "[{oops", 1772532000, None)
    goose.say("user", text("go"), {"type": "hologram"})
    sessions, report = goose.read()
    assert describe_context(get_thread(sessions)) == [("user", "go")]
    assert len(report.damaged) == 1
    assert report.unknown == {"part hologram (goose)": 1}


def test_a_line_of_an_old_file_that_was_written_twice_is_told_once(tmp_path):
    asked = {"role": "user", "created": 1, "content": [text("go")]}
    spoken = {"id": "m2", "role": "assistant", "content": [text("first")]}
    again = asked | {"created": 2}
    lines = [{"working_dir": "/w", "description": ""}, asked, asked, spoken, spoken, asked, again]
    [session], report = read_sessions(write_lines(tmp_path / "old.jsonl", lines))
    thread = session.threads[0]
    assert describe_context(thread) == [
        ("user", "go"),
        ("assistant", "first"),
        ("user", "go"),
        ("user", "go"),
    ]
    assert report.mended["line written again"] == 2


def test_a_sub_agent_is_at_the_call_whose_result_names_its_session(goose):
    """The call that fetches the result of one in the background names it once more."""
    goose.add("sessions", "20260303_0", "Delegated task", "", "/w")
    goose.add(
        "messages", 90, "s1", "20260303_0", "user", json.dumps([text("look")]), 1772532000, None
    )
    named = {"content": [text("found")], "_meta": {"subagent_session_id": "20260303_0"}}
    result = {"status": "success", "value": named}
    goose.say("user", text("go"))
    for call in ("c1", "c2"):
        asked = {"value": {"name": "delegate", "arguments": {}}}
        goose.say("assistant", {"type": "toolRequest", "id": call, "toolCall": asked})
        goose.say("user", {"type": "toolResponse", "id": call, "toolResult": result})
    origins = {session.id: session.threads[0].origin for session in goose.read().sessions}
    assert origins == {
        "20260303_0": Origin("20260303_1", call="call c1", is_spawned=True),
        "20260303_1": None,
    }


def test_a_sub_agent_waits_for_the_result_that_says_whose_it_is(other, store):
    """The call itself is written no earlier than that."""
    other.table("sessions", "id", "name", "working_dir", "session_type")
    other.table(
        "messages", "id", "message_id", "session_id", "role", "content_json", "created_timestamp"
    )
    other.add("sessions", "s1", "Chat", "/w", "user")
    other.add("sessions", "s2", "Delegated task", "/w", "sub_agent")
    other.add("messages", 1, "m1", "s1", "user", json.dumps([text("go")]), 1772532000)
    other.add("messages", 2, "m2", "s2", "user", json.dumps([text("look")]), 1772532001)
    other.read()
    outcome = store.import_transcripts(other.path, settle=3600)
    assert [
        (session.id, session.unfinished) for session in outcome.sessions if session.unfinished
    ] == [("s2", 1)]
    asked = {"type": "toolRequest", "id": "c1", "toolCall": {"value": {"name": "delegate"}}}
    other.add("messages", 3, "m3", "s1", "assistant", json.dumps([asked]), 1772532002)
    named = {"content": [text("found")], "_meta": {"subagent_session_id": "s2"}}
    result = {"type": "toolResponse", "id": "c1", "toolResult": {"value": named}}
    other.add("messages", 4, "m4", "s1", "user", json.dumps([result]), 1772532003)
    other.read()
    store.import_transcripts(other.path, settle=3600)
    agent = store.agent("s2")
    assert (agent.parent, agent.spawned) == (store.agent("s1").id, True)


def test_an_old_file_whose_session_was_moved_into_the_database_is_not_told_again(goose, tmp_path):
    goose.say("user", text("go"))
    goose.say("assistant", text("gone"))
    header = {"description": "Old", "working_dir": "/w"}
    said = [{"role": "user", "created": 1772532001, "content": [text("go")]}]
    write_lines(tmp_path / "20260303_1.jsonl", [header, *said])
    write_lines(tmp_path / "20260303_2.jsonl", [header, *said])
    goose.read()
    sessions = read_sessions(tmp_path)[0]
    assert [(session.id, session.source.rpartition(".")[2]) for session in sessions] == [
        ("20260303_1", "db"),
        ("20260303_2", "jsonl"),
    ]
