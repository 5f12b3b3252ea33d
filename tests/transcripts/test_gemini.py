import json

from backstory.transcripts.model import ImportReport, SourceMove
from tests.transcripts.one_format import is_recognized
from tests.transcripts.reading import context, entry_ids, log, one, read, write_lines

META = {
    "sessionId": "g1",
    "projectHash": "abc",
    "startTime": "2026-08-02T11:00:00Z",
    "kind": "main",
}


def user(id, text):
    return {
        "id": id,
        "timestamp": "2026-08-02T11:00:01Z",
        "type": "user",
        "content": [{"text": text}],
    }


def answer(id, text="", **more):
    message = {"id": id, "timestamp": "2026-08-02T11:00:02Z", "type": "gemini", "content": text}
    return message | {"model": "gemini-x"} | more


def call(id, output=None, **more):
    response = {"functionResponse": {"id": id, "name": "read", "response": {"output": output}}}
    found = {
        "id": id,
        "name": "read",
        "args": {"p": 1},
        "status": "success" if output else "executing",
    }
    return found | ({"result": [response]} if output else {}) | more


def thread_of(tmp_path, *records):
    return one(read(write_lines(tmp_path / "session-x.jsonl", [META, *records]), "gemini")[0])


def test_a_message_that_was_written_again_counts_once_and_as_it_was_last(tmp_path):
    thread = thread_of(
        tmp_path,
        user("u", "go"),
        answer("a", toolCalls=[call("c1")]),
        answer("a", toolCalls=[call("c1", "found")]),
    )
    assert context(log(thread)) == [("user", "go"), ("call", "c1"), ("result", "c1", "found")]


def test_a_call_that_still_runs_leaves_its_message_unsettled(tmp_path):
    thread = thread_of(tmp_path, user("u", "go"), answer("a", toolCalls=[call("c1")]))
    assert [unit.is_complete for unit in thread.read_units()] == [True, False]


def test_a_rewind_takes_the_named_message_too_and_an_unknown_one_empties(tmp_path):
    said = [user("u1", "one"), answer("a1", "first"), user("u2", "two")]
    back = thread_of(tmp_path, *said, {"$rewindTo": "u2"})
    assert isinstance(list(back.read_steps(ImportReport()))[-1], SourceMove)
    assert context(log(back)) == [("user", "one"), ("assistant", "first")]
    empty = thread_of(tmp_path, *said, {"$rewindTo": "nobody"}, user("u3", "three"))
    assert context(log(empty)) == [("user", "three")]


def test_a_history_that_is_set_anew_is_a_compaction_if_live_messages_are_gone(tmp_path):
    said = [user("u1", "one"), answer("a1", "first"), user("u2", "two")]
    same = thread_of(tmp_path, *said, {"$set": {"messages": said}})
    assert [event.kind for event in log(same)] == ["user", "assistant", "user"]
    cut = thread_of(tmp_path, *said, {"$set": {"messages": [user("s", "In short."), said[2]]}})
    events = log(cut)
    assert [event.kind for event in events] == [
        "user",
        "assistant",
        "user",
        "clear",
        "user",
        "user",
    ]
    assert events[-2].data == {"compaction": True}
    assert events[-1].data == {"copy_of": 3}


def test_a_history_that_lacks_only_what_people_see_is_no_compaction(tmp_path):
    shown = {"id": "i", "type": "info", "content": "shown"}
    thread = thread_of(
        tmp_path, user("u", "q"), shown, {"$set": {"messages": [user("u", "q"), answer("a", "r")]}}
    )
    assert [event.kind for event in log(thread)] == ["user", "assistant"]


def test_one_document_is_read_like_lines(tmp_path):
    document = META | {"messages": [user("u", "go"), answer("a", "done")]}
    (tmp_path / "session.json").write_text(json.dumps(document, indent=2))
    assert context(log(one(read(tmp_path, "gemini")[0]))) == [("user", "go"), ("assistant", "done")]


def test_what_only_people_see_is_no_event(tmp_path):
    info = {
        "id": "i",
        "timestamp": "2026-08-02T11:00:03Z",
        "type": "info",
        "content": "Update available",
    }
    thread = thread_of(tmp_path, user("u", "go"), info, answer("a", "done"))
    assert [event.kind for event in log(thread)] == ["user", "assistant"]


def test_calls_in_the_content_keep_their_seal_and_are_not_told_twice(tmp_path):
    part = {
        "functionCall": {"id": "c1", "name": "read", "args": {"p": 1}},
        "thoughtSignature": "c2ln",
    }
    message = answer("a", toolCalls=[call("c1", "found")]) | {"content": [{"text": "Look."}, part]}
    events = log(thread_of(tmp_path, user("u", "go"), message))
    assert [event.kind for event in events] == ["user", "assistant", "tool_call", "tool_result"]
    assert "c2ln" in str(events[2].data["native"])


def test_a_sub_agent_belongs_to_the_session_whose_folder_it_is_in(tmp_path):
    chats = tmp_path / "hash" / "chats"
    write_lines(
        chats / "session-1.jsonl", [META, answer("a", toolCalls=[call("c1", "ok", agentId="g2")])]
    )
    below = META | {"sessionId": "g2", "kind": "subagent"}
    write_lines(chats / "g1" / "g2.jsonl", [below, user("u", "look")])
    main, agent = read(tmp_path, "gemini")[0]
    origin = agent.threads[0].origin
    assert (main.id, origin.session, origin.is_spawned) == ("g1", "g1", True)
    assert origin.call in entry_ids(main.threads[0])


def test_the_folder_is_the_first_directory_else_the_hash(tmp_path):
    thread = thread_of(
        tmp_path, user("u", "go"), {"$set": {"summary": "Layout", "directories": ["/w"]}}
    )
    assert thread.about == {"title": "Layout", "cwd": "/w"}
    assert thread_of(tmp_path, user("u", "go")).about["cwd"] == "abc"


def test_pictures_that_a_tool_found_are_kept_beside_its_words_or_within_them(tmp_path):
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    beside = call("c1", "one")
    beside["result"].append(picture)
    within = call("c2", "two")
    within["result"][0]["functionResponse"]["parts"] = [picture]
    events = log(thread_of(tmp_path, user("u", "go"), answer("a", toolCalls=[beside, within])))
    results = [event for event in events if event.kind == "tool_result"]
    assert [(event.content, event.data["id"]) for event in results] == [
        ("one", "c1"),
        ("two", "c2"),
    ]
    for event in results:
        assert [block["type"] for block in event.data["native"]["wire"][0]["content"]] == [
            "text",
            "image",
        ]


def test_messages_that_name_their_session_are_not_taken_for_another_tool_s(tmp_path):
    messages = [user("u", "go") | {"sessionId": "g1"}, answer("a", "gone") | {"sessionId": "g1"}]
    [session] = read(write_lines(tmp_path / "session-x.jsonl", [META, *messages]), "gemini")[0]
    assert (session.tool, session.id) == ("gemini", "g1")


def response(id, output):
    return {"functionResponse": {"id": id, "name": "read", "response": {"output": output}}}


def responses(id, *parts):
    return {"id": id, "timestamp": "2026-08-02T11:00:03Z", "type": "user", "content": list(parts)}


def test_results_that_are_a_message_of_their_own_too_are_told_once(tmp_path):
    asked = answer("a", toolCalls=[call("c1", "one"), call("c2")])
    thread = thread_of(
        tmp_path,
        user("u", "go"),
        asked,
        responses("r", response("c1", "one"), response("c2", "two")),
        answer("b", "done"),
    )
    assert context(log(thread)) == [
        ("user", "go"),
        ("call", "c1"),
        ("call", "c2"),
        ("result", "c1", "one"),
        ("result", "c2", "two"),
        ("assistant", "done"),
    ]


def test_a_session_that_was_resumed_is_not_compacted(tmp_path):
    """The tool writes its history again: results as messages, and nothing of what only it said."""
    asked = answer("a", toolCalls=[call("c1", "one")])
    said = [
        user("e", "<session_context>here"),
        user("u", "go"),
        asked,
        responses("r", response("c1", "one")),
    ]
    command, shown = user("k", "/stats"), {"id": "i", "type": "info", "content": "shown"}
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"p": 1}}}
    again = [
        user("u", "go"),
        asked | {"content": [part]},
        responses("a_response", response("c1", "one")),
    ]
    thread = thread_of(
        tmp_path,
        *said,
        command,
        answer("n"),
        shown,
        {"$set": {"messages": again}},
        user("v", "on"),
    )
    events = log(thread)
    assert [event.kind for event in events if event.kind in ("clear", "jump")] == []
    assert [event.content for event in events if event.kind == "tool_result"] == ["one"]
    assert context(events)[-1] == ("user", "on")


def test_a_prompt_that_was_broken_off_is_taken_back_and_nothing_is_copied(tmp_path):
    kept = [user("u", "one"), answer("a", "first")]
    left = [user("v", "two"), answer("b", "half")]
    thread = thread_of(tmp_path, *kept, *left, {"$set": {"messages": kept}}, user("w", "three"))
    events = log(thread)
    assert [event.kind for event in events] == ["user", "assistant"] * 2 + ["jump", "user"]
    assert context(events) == [("user", "one"), ("assistant", "first"), ("user", "three")]


def test_a_call_has_its_own_result_though_those_of_its_siblings_stand_beside_it(tmp_path):
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    both = [response("c1", "one"), picture, response("c2", "two")]
    calls = [call("c1", "one") | {"result": both}, call("c2", "two") | {"result": both}]
    events = log(thread_of(tmp_path, user("u", "go"), answer("a", toolCalls=calls)))
    found = [event for event in events if event.kind == "tool_result"]
    assert [(event.content, "native" in event.data) for event in found] == [
        ("one", True),
        ("two", False),
    ]


def test_a_compaction_that_keeps_calls_and_results_as_messages_keeps_the_results(tmp_path):
    asked = answer("a", toolCalls=[call("c1", "one")])
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"p": 1}}}
    kept = [user("s", "In short."), answer("b", [part]), responses("r", response("c1", "one"))]
    events = log(thread_of(tmp_path, user("u", "go"), asked, {"$set": {"messages": kept}}))
    assert [event.kind for event in events].count("clear") == 1
    assert context(events) == [("user", "In short."), ("call", "c1"), ("result", "c1", "one")]


def test_a_history_goes_back_though_only_something_silent_came_behind(tmp_path):
    shown = {"id": "i", "type": "info", "content": "shown"}
    said = [user("u", "one"), answer("a", "first"), user("v", "two"), {"$rewindTo": "v"}, shown]
    assert context(log(thread_of(tmp_path, *said))) == [("user", "one"), ("assistant", "first")]


def test_what_a_compaction_kept_under_new_ids_is_a_copy(tmp_path):
    asked = answer("a2", "Look.", toolCalls=[call("c1", "one")])
    said = [user("u1", "one"), answer("a1", "first"), user("u2", "two"), asked]
    said += [responses("r", response("c1", "one")), answer("a3", "second")]
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"p": 1}}}
    summary = [user("e", "<session_context>here"), user("s", "In short."), answer("g", "Got it.")]
    kept = [user("k1", "two"), answer("k2", [{"text": "Look."}, part])]
    kept += [responses("k3", response("c1", "one")), answer("k4", [{"text": "second"}])]
    thread = thread_of(
        tmp_path, *said, {"$set": {"messages": [*summary, *kept]}}, user("u3", "three")
    )
    events = log(thread)
    clear = next(event.seq for event in events if event.kind == "clear")
    after = [
        (event.content, (event.data or {}).get("copy_of")) for event in events if event.seq > clear
    ]
    assert after == [
        ("<session_context>here", None),
        ("In short.", None),
        ("Got it.", None),
        ("two", 3),
        ("Look.", 4),
        (None, 5),
        ("one", 6),
        ("second", 7),
        ("three", None),
    ]
    assert [event.content for event in events if (event.data or {}).get("compaction")] == [
        "In short."
    ]


def test_a_second_compaction_does_not_take_the_tool_s_own_words_for_kept_ones(tmp_path):
    first = [user("s1", "In short."), answer("g1", "Got it.")]
    second = [user("s2", "In shorter."), answer("g2", "Got it."), user("k", "two")]
    said = [user("u1", "one"), answer("a1", "first"), {"$set": {"messages": first}}]
    said += [user("u2", "two"), {"$set": {"messages": second}}]
    events = log(thread_of(tmp_path, *said))
    assert [(event.data or {}).get("copy_of") for event in events[-3:]] == [None, None, 6]


def test_a_history_that_is_written_message_by_message_before_it_is_set_is_told_once(tmp_path):
    """So are long results replaced: all messages get new ids."""
    said = [user("u1", "one"), answer("a1", "Look.", toolCalls=[call("c1", "long")])]
    said += [responses("r", response("c1", "long")), answer("a2", "first")]
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"p": 1}}}
    again = [user("k1", "one"), answer("k2", [{"text": "Look."}, part])]
    again += [responses("k3", response("c1", "short")), answer("k4", [{"text": "first"}])]
    thread = thread_of(tmp_path, *said, *again, {"$set": {"messages": again}}, user("u2", "two"))
    events = log(thread)
    assert [event.kind for event in events].count("user") == 3
    assert [(event.data or {}).get("copy_of") for event in events if event.seq > 6] == [
        1,
        2,
        3,
        4,
        5,
        None,
    ]
    assert context(events) == [
        ("user", "one"),
        ("assistant", "Look."),
        ("call", "c1"),
        ("result", "c1", "short"),
        ("assistant", "first"),
        ("user", "two"),
    ]


def test_the_first_prompt_may_be_broken_off_and_taken_back_too(tmp_path):
    around = user("e", "<session_context>here")
    broken = [around, user("u", "one"), {"$set": {"messages": [around]}}]
    events = log(thread_of(tmp_path, *broken, user("v", "two"), answer("a", "first")))
    assert [event.kind for event in events] == ["user", "user", "jump", "user", "assistant"]
    assert context(events)[-2:] == [("user", "two"), ("assistant", "first")]
    cleared = log(
        thread_of(tmp_path, user("u", "one"), {"$set": {"messages": []}}, user("v", "two"))
    )
    assert [event.kind for event in cleared] == ["user", "clear", "user"]


def test_a_result_that_names_no_call_goes_to_the_open_call(tmp_path):
    """Results whose ids are those of another system are still results."""
    asked = answer("a", toolCalls=[call("c1")])
    thread = thread_of(tmp_path, user("u", "go"), asked, responses("r", response("other", "one")))
    assert context(log(thread)) == [("user", "go"), ("call", "c1"), ("result", "c1", "one")]


def test_of_several_open_calls_the_oldest_with_the_name_of_a_result_has_it(tmp_path):
    asked = answer("a", toolCalls=[call("c1", name="list"), call("c2"), call("c3")])
    thread = thread_of(tmp_path, user("u", "go"), asked, responses("r", response("other", "one")))
    assert [line for line in context(log(thread)) if line[0] == "result"] == [
        ("result", "c2", "one")
    ]


def test_a_result_that_fits_no_call_is_the_tool_speaking(tmp_path):
    thread = thread_of(tmp_path, user("u", "go"), responses("r", response("other", "one")))
    [_, event] = log(thread)
    assert (event.kind, event.content, event.data) == ("user", "one", {"meta": "tool"})


def test_a_session_of_nothing_but_notices_has_no_steps(tmp_path):
    shown = {"id": "i", "type": "info", "content": "shown"}
    assert list(thread_of(tmp_path, shown).read_steps(ImportReport())) == []


def test_ids_do_not_depend_on_what_stands_around_a_message(tmp_path):
    asked = answer("a", [{"text": "One."}], toolCalls=[call("c1", "found")])
    whole = entry_ids(thread_of(tmp_path, user("u", "go"), asked))
    assert whole == ["u", "a", "a/call c1", "a/result c1"]
    assert entry_ids(thread_of(tmp_path, asked)) == whole[1:]
    kept = [user("s", "In short."), asked]
    cut = {"$set": {"messages": kept}}
    late = thread_of(tmp_path, user("u", "go"), asked, cut)
    assert set(entry_ids(thread_of(tmp_path, asked, cut))) == set(entry_ids(late)) - {"u"}


def test_two_texts_of_an_answer_are_two_events(tmp_path):
    part = {"functionCall": {"id": "c1", "name": "read", "args": {"p": 1}}}
    message = answer("a", [{"text": "I have a plan."}, part, {"text": "Go."}])
    events = log(thread_of(tmp_path, user("u", "go"), message))
    assert [event.content for event in events[1:]] == ["I have a plan.", None, "Go."]
    assert {event.data["answer"] for event in events[1:]} == {"a"}


def test_only_a_session_s_own_fields_make_it_one(tmp_path):
    assert is_recognized(write_lines(tmp_path / "a.jsonl", [META]), "gemini")
    qwen = {"sessionId": "q", "uuid": "u", "parentUuid": None, "type": "user"}
    assert not is_recognized(write_lines(tmp_path / "b.jsonl", [qwen]), "gemini")
