import json

import pytest

import backstory
from backstory.storage.zstd import zstd
from backstory.transcripts.model import OUTSIDE, ReadWhole
from tests.transcripts.one_format import is_recognized, read_tail, write_file
from tests.transcripts.reading import context, entry_ids, everything, log, one, read, write_lines

ID = "019e8c7f-1800-7f02-a000-0000000000aa"
CHILD = "019e8c80-1800-7f02-a000-0000000000bb"


def record(type_, time=0, **payload):
    return {"timestamp": f"2026-06-03T08:00:{time:02}.000Z", "type": type_, "payload": payload}


def meta(id=ID, **more):
    return record(
        "session_meta",
        id=id,
        timestamp="2026-06-03T08:00:00Z",
        cwd="/w",
        cli_version="0.140.0",
        **more,
    )


def said(role, text, time=0):
    kind = "output_text" if role == "assistant" else "input_text"
    return record(
        "response_item", time, type="message", role=role, content=[{"type": kind, "text": text}]
    )


def item(time=0, **payload):
    return record("response_item", time, **payload)


def call(id, time=0, **more):
    return item(
        time, type="function_call", call_id=id, name="shell", arguments='{"cmd": "ls"}', **more
    )


def output(id, text="ok", time=0):
    return item(time, type="function_call_output", call_id=id, output=text)


def event(type_, **payload):
    return record("event_msg", type=type_, **payload)


def write(folder, *records, id=ID):
    return write_lines(folder / f"rollout-2026-06-03T08-00-00-{id}.jsonl", records)


def kinds_by_id(thread):
    return [(entry.id, entry.kind) for unit in thread.read_units() for entry in unit.entries]


def thread_of(folder, *records):
    return one(read(write(folder, meta(), *records), "codex")[0])


ENVIRONMENT = said("user", "<environment_context>\n<cwd>/w</cwd>\n</environment_context>")


def test_a_rollback_counts_the_letters_of_other_agents(tmp_path):
    letter = {"author": "/lead", "recipient": "/lead/a", "content": "Go on.", "trigger_turn": True}
    turn = [said("assistant", json.dumps(letter)), said("assistant", "Gone.")]
    back = event("thread_rolled_back", num_turns=1)
    thread = thread_of(tmp_path, said("user", "one"), said("assistant", "first"), *turn, back)
    assert context(log(thread)) == [("user", "one"), ("assistant", "first")]


def test_a_rollback_counts_prompts_and_takes_the_notices_above_the_cut(tmp_path):
    thread = thread_of(
        tmp_path,
        said("developer", "<permissions instructions>ask</permissions instructions>"),
        ENVIRONMENT,
        said("user", "one"),
        said("assistant", "first"),
        ENVIRONMENT,
        said("user", "two"),
        said("assistant", "second"),
        event("thread_rolled_back", num_turns=1),
        said("user", "three"),
    )
    events = log(thread)
    assert [line for line in context(events) if line[0] != "system"][1:] == [
        ("user", "one"),
        ("assistant", "first"),
        ("user", "three"),
    ]
    assert ("assistant", "second") in everything(events)


def test_a_rollback_of_everything_keeps_what_stood_above_the_first_prompt(tmp_path):
    thread = thread_of(
        tmp_path, ENVIRONMENT, said("user", "one"), event("thread_rolled_back", num_turns=9)
    )
    assert [text for _, text in context(log(thread))] == [everything(log(thread))[0][1]]


def test_a_compaction_copies_what_it_repeats_and_marks_the_rest_as_its_summary(tmp_path):
    repeated = said("user", "one")["payload"]
    summary = said("user", "In short.")["payload"]
    thread = thread_of(
        tmp_path,
        said("user", "one"),
        said("assistant", "first"),
        record("compacted", message="", replacement_history=[repeated, summary]),
        said("user", "two"),
    )
    events = log(thread)
    assert [event.kind for event in events] == [
        "user",
        "assistant",
        "clear",
        "user",
        "user",
        "user",
    ]
    assert events[3].data == {"copy_of": 1}
    assert events[4].data == {"compaction": True}
    assert context(events) == [("user", "one"), ("user", "In short."), ("user", "two")]


def test_an_old_compaction_keeps_the_prompts_and_its_message(tmp_path):
    thread = thread_of(
        tmp_path,
        said("user", "one"),
        said("assistant", "first"),
        record("compacted", message="In short."),
    )
    assert context(log(thread)) == [("user", "one"), ("user", "In short.")]


def test_reasoning_is_in_the_native_content_of_what_it_led_to(tmp_path):
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
    records = [said("user", "go"), item(**sealed), call("c1"), output("c1"), item(**sealed)]
    sessions, report = read(write(tmp_path, meta(), *records), "codex")
    events = log(one(sessions))
    assert [event.kind for event in events] == ["user", "tool_call", "tool_result"]
    assert events[1].data["native"]["wire"][0] == sealed
    assert report.mended == {"reasoning without an answer": 1}


def test_a_result_between_reasoning_and_its_answer_does_not_separate_them(tmp_path):
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
    records = [call("c1"), item(**sealed), output("c1"), call("c2"), output("c2")]
    events = log(thread_of(tmp_path, said("user", "go"), *records))
    assert [event.kind for event in events][1:3] == ["tool_call", "tool_result"]
    assert events[3].data["native"]["wire"][0] == sealed


def test_an_answer_at_the_end_of_a_file_may_go_on(tmp_path):
    thought = item(type="reasoning", summary=[], encrypted_content="E")
    count = event("token_count", info={"last_token_usage": {"input_tokens": 5}})
    for records, complete in (
        ((said("user", "q"), thought), [True]),
        ((said("user", "q"), call("c")), [True, False]),
        ((said("user", "q"), said("assistant", "a"), count), [True, True]),
        ((said("user", "q"), call("c"), output("c")), [True, True, True]),
    ):
        units = thread_of(tmp_path, *records).read_units()
        assert [unit.is_complete for unit in units] == complete


def test_a_first_line_longer_than_a_head_still_says_whose_thread_it_is(tmp_path):
    write(tmp_path, meta(base_instructions={"text": "x" * 100_000}), said("user", "q"))
    (tmp_path / "other.jsonl").write_bytes(next(tmp_path.glob("*.jsonl")).read_bytes())
    assert [session.id for session in read(tmp_path / "other.jsonl", "codex")[0]] == [ID]


def test_a_first_line_that_is_still_being_written_is_waited_for(tmp_path):
    path = write(tmp_path, meta(), said("user", "one"))
    lines = path.read_bytes()
    path.write_bytes(lines[:40])
    assert read(path, "codex")[0] == []
    path.write_bytes(lines)
    [session] = read(path, "codex")[0]
    assert session.id == ID


def test_a_hosted_search_is_no_call_without_a_result(tmp_path):
    search = {
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    thread = thread_of(tmp_path, said("user", "go"), item(**search), said("assistant", "found"))
    assert context(log(thread)) == [("user", "go"), ("assistant", "found")]


def test_usage_and_model_are_on_the_first_event_of_the_answer(tmp_path):
    usage = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}
    thread = thread_of(
        tmp_path,
        record("turn_context", model="gpt-x"),
        said("user", "go"),
        said("assistant", "yes"),
        call("c1"),
        event("token_count", info={"last_token_usage": usage}),
        output("c1"),
    )
    events = log(thread)
    assert events[1].data["usage"] == {"input": 10, "cache_read": 4, "output": 2}
    assert events[1].data["model"] == "gpt-x"
    assert "usage" not in events[2].data
    assert thread.about["model"] == "gpt-x"


def test_arguments_need_not_be_json_and_shell_calls_are_calls(tmp_path):
    odd = item(type="function_call", call_id="c1", name="shell", arguments="ls -l")
    patch = item(
        type="custom_tool_call",
        call_id="c2",
        name="apply_patch",
        input="*** Begin",
        status="completed",
    )
    local = item(
        type="local_shell_call", call_id="c3", status="completed", action={"command": ["ls"]}
    )
    calls = [e.data for e in log(thread_of(tmp_path, odd, patch, local)) if e.kind == "tool_call"]
    assert [data["id"] for data in calls] == ["c1", "c2", "c3"]
    assert calls[0]["arguments"] == "ls -l"
    assert calls[1]["arguments"] == {"input": "*** Begin"}
    assert calls[2]["name"] == "local_shell"


def test_the_oldest_generation_has_bare_items(tmp_path):
    lines = [
        {"id": ID, "timestamp": "2025-06-12T10:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        said("user", "go")["payload"],
        {"type": "reasoning", "summary": []},
        said("assistant", "done")["payload"],
    ]
    [session] = read(write_lines(tmp_path / "rollout.jsonl", lines), "codex")[0]
    assert session.id == ID
    assert context(log(session.threads[0])) == [("user", "go"), ("assistant", "done")]


def test_two_records_in_one_line_are_both_taken(tmp_path):
    path = write(tmp_path, meta())
    with path.open("a") as file:
        file.write(json.dumps(said("user", "one")) + json.dumps(said("user", "two")) + "\n")
    sessions, report = read(path, "codex")
    assert context(log(one(sessions))) == [("user", "one"), ("user", "two")]
    assert report.mended["several records in one line"] == 1


def test_names_are_the_newest_of_the_index_or_of_the_file(tmp_path):
    write(
        tmp_path,
        meta(),
        said("user", "go"),
        event("thread_name_updated", thread_id=ID, thread_name="From the file"),
    )
    write(tmp_path, meta(CHILD), said("user", "go"), id=CHILD)
    index = [
        {"id": CHILD, "thread_name": "new", "updated_at": "2026-06-02"},
        {"id": CHILD, "thread_name": "old", "updated_at": "2026-06-01"},
    ]
    write_lines(tmp_path / "session_index.jsonl", index)
    titles = {s.id: s.threads[0].about["title"] for s in read(tmp_path, "codex")[0]}
    assert titles == {ID: "From the file", CHILD: "new"}


def test_a_resumed_thread_says_what_it_is_again_and_stays_one(tmp_path):
    thread = thread_of(tmp_path, said("user", "one"), meta(), said("user", "two"))
    assert context(log(thread)) == [("user", "one"), ("user", "two")]
    assert thread.origin is None


BASE = [
    said("user", "one", 1),
    said("assistant", "first", 2),
    call("spawn", 3),
    output("spawn", "{}", 4),
]


def test_a_copied_fork_is_read_as_a_whole_and_says_that_it_is_a_copy(tmp_path):
    copied = [line | {"timestamp": "2026-06-04T00:00:00.000Z"} for line in BASE[:3]]
    own = [output("spawn", "inherited", 5), said("user", "right", 6)]
    write(tmp_path, meta(CHILD, forked_from_id=ID), meta(), *copied, *own, id=CHILD)
    [fork], report = read(tmp_path, "codex")
    [thread] = fork.threads
    assert (thread.origin.session, thread.origin.copies_content, thread.origin.is_spawned) == (
        ID,
        True,
        False,
    )
    assert [line[1] for line in context(log(thread))][-2:] == ["spawn", "right"]
    assert len(set(entry_ids(thread))) == 5
    assert not report


def test_the_native_form_of_a_call_is_stored_as_it_was(tmp_path):
    given = {"command": ["bash", "-lc", "a long command that is stored twice"]}
    text = json.dumps(given, separators=(",", ":"))
    thought = record("response_item", type="reasoning", summary=[], encrypted_content="c2VhbA==")
    asked = record(
        "response_item", type="function_call", call_id="c1", name="shell", arguments=text
    )
    write(tmp_path, meta(), said("user", "go"), thought, asked, output("c1", "done"))
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        [agent] = store.agents()
        [call] = [event for event in agent.events() if event.kind == "tool_call"]
        assert call.data["native"]["wire"][-1]["arguments"] == text
        items = agent.conversation().to("openai-responses")["input"]
        assert [item["arguments"] for item in items if item.get("type") == "function_call"] == [
            text
        ]


@pytest.mark.parametrize(
    "spawned",
    [
        {"type": "collab_agent_spawn_end", "call_id": "spawn", "new_thread_id": CHILD},
        {
            "type": "sub_agent_activity",
            "event_id": "spawn",
            "agent_thread_id": CHILD,
            "kind": "started",
        },
    ],
)
def test_a_sub_agent_is_spawned_by_its_call(tmp_path, spawned):
    write(tmp_path, meta(), *BASE, record("event_msg", **spawned))
    source = {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}
    write(
        tmp_path, meta(CHILD, source=source, agent_nickname="Ohm"), said("user", "look"), id=CHILD
    )
    parent, child = read(tmp_path, "codex")[0]
    origin = child.threads[0].origin
    [called] = [id for id, kind in kinds_by_id(parent.threads[0]) if kind == "tool_call"]
    assert (origin.session, origin.call, origin.is_spawned) == (ID, called, True)
    assert not origin.copies_content
    assert child.threads[0].about["agent"] == "Ohm"


def paginated(lines, start=0):
    return [line | {"ordinal": start + n} for n, line in enumerate(lines)]


def test_a_paginated_fork_begins_with_the_entries_of_its_parent(tmp_path):
    write(tmp_path, *paginated([meta(), *BASE, said("user", "left")]))
    base = {"thread_id": ID, "end_ordinal_exclusive": 3}
    fork = meta(CHILD, forked_from_id=ID, history_base=base) | {"ordinal": 0}
    own = paginated([said("user", "right")], 4)
    path = write(tmp_path, fork, *own, id=CHILD)
    parent, child = read(tmp_path, "codex")[0]
    [thread] = child.threads
    assert entry_ids(thread)[:2] == entry_ids(parent.threads[0])[:2]  # up to ordinal 2
    assert context(log(thread)) == [("user", "one"), ("assistant", "first"), ("user", "right")]
    assert (thread.origin.session, thread.origin.copies_content) == (ID, False)
    [alone], report = read(path, "codex")
    assert context(log(alone.threads[0])) == [("user", "right")]
    assert [fault.what for fault in report.notes] == [
        f"a fork of {ID}, which is not here: taken without it"
    ]


def test_a_thread_that_was_reverted_goes_on_in_another_file_as_a_fork(tmp_path):
    write(tmp_path, *paginated([meta(), *BASE, said("user", "left")]))
    again, later = "019e8c81-1800-7f02-a000-0000000000cc", "019e8c82-1800-7f02-a000-0000000000dd"
    base = {"thread_id": ID, "end_ordinal_exclusive": 3, "end_byte_offset": 1}
    write(
        tmp_path,
        *paginated([meta(history_base=base), said("user", "right")], 3),
        id=f"{ID}_{again}",
    )
    base = {"thread_id": again, "end_ordinal_exclusive": 5}
    write(
        tmp_path, *paginated([meta(history_base=base), said("user", "on")], 5), id=f"{ID}_{later}"
    )
    sessions, report = read(tmp_path, "codex")
    assert [session.id for session in sessions] == [ID, again, later]
    assert [
        session.threads[0].origin and session.threads[0].origin.session for session in sessions
    ] == [
        None,
        ID,
        again,
    ]
    assert not report.notes
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        said_last = [store.agent(id).context().messages[-1].content for id in (ID, again, later)]
        assert said_last == ["left", "right", "on"]
        words = [event.content for event in store.agent(later).context().messages]
        assert words == ["one", "first", "right", "on"]


def test_a_compressed_rollout_is_read(tmp_path):
    plain = write(tmp_path / "plain", meta(), said("user", "go"))
    packed = tmp_path / f"rollout-{ID}.jsonl.zst"
    packed.write_bytes(zstd.compress(plain.read_bytes()))
    [session] = read(packed, "codex")[0]
    assert context(log(session.threads[0])) == [("user", "go")]


def test_a_rollout_of_nothing_but_events_is_told_by_them(tmp_path):
    asked = [event("user_message", message="one"), event("agent_message", message="first")]
    left = [event("user_message", message="two"), event("thread_rolled_back", num_turns=1)]
    thread = thread_of(tmp_path, meta(), *asked, *left, event("user_message", message="three"))
    told = [line for line in context(log(thread)) if line[0] != "system"]
    assert told == [("user", "one"), ("assistant", "first"), ("user", "three")]


def test_events_beside_items_are_passed_over(tmp_path):
    lines = [
        meta(),
        event("user_message", message="one"),
        said("user", "one"),
        said("assistant", "first"),
    ]
    told = [line for line in context(log(thread_of(tmp_path, *lines))) if line[0] != "system"]
    assert told == [("user", "one"), ("assistant", "first")]


def test_what_another_agent_wrote_is_a_prompt_and_no_system_text(tmp_path):
    letter = {
        "author": "/lead",
        "recipient": "/lead/a",
        "content": "look at x",
        "trigger_turn": True,
    }
    thread = thread_of(
        tmp_path, record("inter_agent_communication", **letter), said("assistant", "seen")
    )
    events = log(thread)
    assert context(events) == [("user", "look at x"), ("assistant", "seen")]
    assert events[0].data["meta"] == "message"


def test_an_item_that_was_written_twice_is_told_once_and_reported(tmp_path):
    question, spoken = said("user", "go", 1), said("assistant", "first", 2)
    mirror = event("user_message", message="go")
    lines = [
        question,
        mirror,
        question,
        mirror,
        spoken,
        spoken,
        call("c1", 3),
        call("c1", 3),
        output("c1"),
    ]
    path = write(tmp_path, meta(), *lines, said("user", "go", 9))
    [session], _ = read(path, "codex")
    events = log(session.threads[0])
    assert context(events) == [
        ("user", "go"), ("assistant", "first"), ("call", "c1"), ("result", "c1", "ok"), ("user", "go"),
    ]  # fmt: skip
    assert session.report.mended == {"line written again": 3}


def test_what_was_said_twice_is_told_twice(tmp_path):
    thread = thread_of(tmp_path, said("user", "go", 1), said("user", "go", 2))
    assert context(log(thread)) == [("user", "go"), ("user", "go")]


def test_an_output_that_no_call_asked_for_is_the_tool_speaking(tmp_path):
    told = item(type="function_call_output", name="clock", output="It is noon.")
    events = log(thread_of(tmp_path, said("user", "one"), told, said("assistant", "first")))
    assert (events[1].kind, events[1].content, events[1].data) == (
        "user",
        "It is noon.",
        {"meta": "clock"},
    )


def test_ids_do_not_depend_on_what_stands_around_a_record(tmp_path):
    """Codex writes its older rollouts anew: with ordinals, and without turns that were rolled back."""
    turns = [said("user", "one", 1), call("c1", 2), said("user", "two", 3), said("user", "two", 4)]
    whole = entry_ids(thread_of(tmp_path, *turns))
    assert len(set(whole)) == 4
    assert entry_ids(thread_of(tmp_path, *paginated(turns[1:], 7))) == whole[1:]
    assert entry_ids(thread_of(tmp_path, *reversed(turns))) == whole[::-1]


def test_the_tail_of_a_file_continues_something_before_it(tmp_path):
    records = [said("user", "one", 1), said("assistant", "first", 2), said("user", "two", 3)]
    path = write(tmp_path, meta(), record("turn_context", model="gpt-x"), *records)
    whole = one(read(path, "codex")[0])
    tail = read_tail(path, "codex", 5, whole.state)
    assert entry_ids(tail) == entry_ids(whole)[-1:]
    assert [unit.after for unit in tail.read_units()] == [OUTSIDE]
    assert tail.origin is None
    assert tail.tail is not None


@pytest.mark.parametrize(
    "late", [event("thread_rolled_back", num_turns=1), record("compacted", message="In short.")]
)
def test_a_tail_with_something_that_refers_to_the_beginning_is_not_enough(tmp_path, late):
    path = write(tmp_path, meta(), said("user", "one", 1), said("user", "two", 2), late)
    tail = read_tail(path, "codex", 3, {"model": None, "is_mirror": False})
    with pytest.raises(ReadWhole):
        list(tail.read_units())


def test_an_exported_file_has_a_time_for_each_message(tmp_path):
    messages = [("user", "commit"), ("user", "commit"), ("assistant", "Done.")]
    path = write_file(tmp_path / "file.jsonl", "codex", messages)
    assert is_recognized(path, "codex")
    thread = one(read(path, "codex")[0])
    assert context(log(thread)) == messages
    assert len(set(entry_ids(thread))) == 3
    entries = [entry for unit in thread.read_units() for entry in unit.entries]
    positions = [thread.exported.get_positions(entry.line) for entry in entries]
    assert positions == [[1], [2], [3]]


def test_two_texts_of_one_answer_are_shown_with_a_blank_line_between(tmp_path):
    said = [("assistant", text, {"answer": "m1"}) for text in ("I have a plan.", "Go.")]
    path = write_file(tmp_path / "file.jsonl", "codex", said)
    events = [json.loads(line)["payload"] for line in path.read_text().splitlines()]
    shown = [event["message"] for event in events if event.get("type") == "agent_message"]
    assert shown == ["I have a plan.\n\nGo."]


def test_lines_with_a_payload_of_unknown_types_are_not_rollouts(tmp_path):
    foreign = [{"type": "Started", "payload": {"x": 1}, "timestamp": "2026-06-03T08:00:00Z"}]
    assert not is_recognized(write_lines(tmp_path / "a.jsonl", foreign), "codex")
    assert is_recognized(write(tmp_path, meta(), record("new_type")), "codex")
