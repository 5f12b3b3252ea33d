import backstory
from tests.transcripts.one_format import is_recognized, write_file
from tests.transcripts.reading import context, entry_ids, log, one, read, write_lines

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s1",
    "timestamp": "2026-05-02T07:00:00.000Z",
    "cwd": "/w",
}


def entry(id, parent, type_="message", **fields):
    return {
        "type": type_,
        "id": id,
        "parentId": parent,
        "timestamp": "2026-05-02T07:00:01.000Z",
    } | fields


def user(id, parent, text):
    return entry(id, parent, message={"role": "user", "content": text})


def answer(id, parent, *blocks, **more):
    message = {
        "role": "assistant",
        "content": list(blocks),
        "api": "anthropic-messages",
        "model": "claude-x",
    }
    return entry(id, parent, message=message | more)


def words(text):
    return {"type": "text", "text": text}


def thread_of(tmp_path, *records):
    return one(read(write_lines(tmp_path / "x_s1.jsonl", records), "pi")[0])


def test_the_last_entry_is_live_and_a_branch_summary_speaks_behind_the_jump(tmp_path):
    thread = thread_of(
        tmp_path,
        HEADER,
        user("a", None, "one"),
        answer("b", "a", words("first")),
        user("c", "b", "two"),
        entry("d", "b", "branch_summary", fromId="c", summary="Two was a mistake."),
        user("e", "d", "three"),
    )
    events = log(thread)
    assert [e.kind for e in events] == ["user", "assistant", "user", "jump", "user", "user"]
    assert events[4].data == {"meta": "branch summary"}
    assert context(events)[-2:] == [("user", "Two was a mistake."), ("user", "three")]


def test_a_label_names_an_earlier_position_and_what_hangs_on_it_hangs_on_its_parent(tmp_path):
    thread = thread_of(
        tmp_path,
        HEADER,
        user("a", None, "one"),
        user("b", "a", "two"),
        entry("l", "b", "label", targetId="a", label="works"),
        user("c", "l", "three"),
    )
    events = log(thread)
    assert [e.kind for e in events] == ["user", "user", "note", "user"]
    assert events[2].data == {"label": "works", "at": 1}
    assert context(events) == [("user", "one"), ("user", "two"), ("user", "three")]


def test_a_title_that_omp_changed_is_the_title(tmp_path):
    changed = entry("t", "a", "title_change", title="Another", previousTitle="One", source="auto")
    write_lines(
        tmp_path / "s.jsonl", [HEADER, user("a", None, "one"), changed, user("b", "t", "two")]
    )
    sessions, report = read(tmp_path, "pi")
    assert one(sessions).about["title"] == "Another"
    assert context(log(one(sessions))) == [("user", "one"), ("user", "two")]
    assert not report.unknown


def test_a_compaction_keeps_from_its_first_kept_entry(tmp_path):
    thread = thread_of(
        tmp_path,
        HEADER,
        user("a", None, "one"),
        answer("b", "a", words("first")),
        user("c", "b", "two"),
        entry("k", "c", "compaction", summary="In short.", firstKeptEntryId="b", tokensBefore=9),
        user("d", "k", "three"),
    )
    events = log(thread)
    assert context(events) == [
        ("user", "In short."),
        ("assistant", "first"),
        ("user", "two"),
        ("user", "three"),
    ]
    assert [e.data["copy_of"] for e in events if "copy_of" in (e.data or {})] == [2, 3]


def test_version_1_counts_entries_and_its_header(tmp_path):
    header = {"type": "session", "id": "s1", "timestamp": "2025-11-20T00:00:00Z", "cwd": "/w"}
    lines = [
        {
            "type": "message",
            "timestamp": "2025-11-20T00:00:01Z",
            "message": {"role": "user", "content": text},
        }
        for text in ("one", "two")
    ]
    cut = {"type": "compaction", "timestamp": "2025-11-20T00:00:02Z", "summary": "In short."}
    kept = thread_of(tmp_path, header, *lines, cut | {"firstKeptEntryIndex": 2})
    assert context(log(kept)) == [("user", "In short."), ("user", "two")]
    none = thread_of(tmp_path, header, *lines, cut | {"firstKeptEntryIndex": 0})
    assert context(log(none)) == [("user", "In short.")]


def test_what_is_kept_from_the_model_is_a_note(tmp_path):
    command = {"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0}
    thread = thread_of(
        tmp_path,
        HEADER,
        entry("a", None, message=command | {"excludeFromContext": True}),
        entry("b", "a", message=command),
        entry("c", "b", "custom", customType="state", data={}),
        entry(
            "d",
            "c",
            "custom_message",
            customType="reminder",
            content="Mind the plan.",
            display=False,
        ),
    )
    events = log(thread)
    assert [(e.kind, (e.data or {}).get("meta")) for e in events] == [
        ("note", None),
        ("user", "command"),
        ("user", "reminder"),
    ]


def test_signatures_go_back_into_the_form_of_their_provider(tmp_path):
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
    hidden = {"type": "thinking", "thinking": "", "thinkingSignature": "aGlk", "redacted": True}
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"p": 1}}
    sealed = call | {"thoughtSignature": "c2Vh"}
    thread = thread_of(
        tmp_path,
        HEADER,
        answer("a", None, thought, hidden, words("so")),
        answer("b", "a", sealed, api="google-generative-ai", model="gemini-x"),
        answer("c", "b", thought, words("yes"), api="openai-completions", model="qwen"),
    )
    natives = [event.data["native"] for event in log(thread)]
    assert [native["provider"] for native in natives] == ["anthropic", "gemini", "openai"]
    assert natives[0]["wire"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "aGlk"},
    ]
    assert "c2Vh" in str(natives[1]["wire"])
    assert "hm" in str(natives[2]["wire"])


def test_an_aborted_and_empty_answer_is_an_event(tmp_path):
    thread = thread_of(
        tmp_path, HEADER, user("a", None, "go"), answer("b", "a", stopReason="aborted")
    )
    event = log(thread)[-1]
    assert (event.kind, event.content, event.data["stopped"]) == ("assistant", "", "aborted")


def test_a_fork_has_its_parents_entries_with_their_ids(tmp_path):
    shared = [user("a", None, "one"), answer("b", "a", words("first"))]
    write_lines(tmp_path / "t_s1.jsonl", [HEADER, *shared, user("c", "b", "left")])
    fork = HEADER | {"id": "s2", "parentSession": "/home/x/t_s1.jsonl"}
    write_lines(tmp_path / "a_s2.jsonl", [fork, *shared, user("d", "b", "right")])
    child, parent = sorted(read(tmp_path, "pi")[0], key=lambda session: session.source)
    [thread] = child.threads
    assert (thread.origin.session, thread.origin.copies_content) == ("s1", False)
    assert entry_ids(thread)[:2] == entry_ids(parent.threads[0])[:2] == ["a", "b"]


def test_omp_has_a_title_before_its_header_and_instructions_of_its_own(tmp_path):
    title = {"type": "title", "v": 1, "title": "Pixels", "pad": "   "}
    init = entry("i", None, "session_init", systemPrompt="Be omp.")
    thread = thread_of(tmp_path, title, HEADER, init, user("a", "i", "go"))
    assert thread.about["title"] == "Pixels"
    assert context(log(thread)) == [("system", "Be omp."), ("user", "go")]


def test_of_several_titles_the_last_counts(tmp_path):
    titles = [
        {"type": "title", "v": 1, "title": title} for title in ("Pixels", "Colours", "Shades")
    ]
    assert thread_of(tmp_path, *titles, HEADER, user("a", None, "go")).about["title"] == "Shades"


def test_a_compaction_may_hold_the_messages_that_it_kept(tmp_path):
    """The newer ones do, and name no first kept entry. What stands before it in the file is told once."""
    question = {"role": "user", "content": "two"}
    cut = entry("k", "c", "compaction", summary="In short.", tokensBefore=9)
    thread = thread_of(
        tmp_path,
        HEADER,
        user("a", None, "one"),
        answer("b", "a", words("first")),
        user("c", "b", "two"),
        cut | {"retainedTail": [question, {"role": "user", "content": "shortened"}]},
        user("d", "k", "three"),
    )
    events = log(thread)
    kept = [("user", "In short."), ("user", "two"), ("user", "shortened"), ("user", "three")]
    assert context(events) == kept
    assert [e.data["copy_of"] for e in events if "copy_of" in (e.data or {})] == [3]


def test_the_line_ends_where_the_last_leaf_entry_says(tmp_path):
    said = [HEADER, user("a", None, "one"), answer("b", "a", words("first")), user("c", "b", "two")]
    back = entry("l", "c", "leaf", targetId="b")
    assert context(log(thread_of(tmp_path, *said, back))) == [
        ("user", "one"),
        ("assistant", "first"),
    ]
    events = log(thread_of(tmp_path, *said, back, user("d", "b", "three")))
    assert context(events) == [("user", "one"), ("assistant", "first"), ("user", "three")]
    assert context(log(thread_of(tmp_path, *said, entry("l", "c", "leaf", targetId=None)))) == []
    omp = [
        *said,
        entry("x", "c", "leaf_change", target="a"),
        entry("y", "x", "leaf_change", target="nobody"),
    ]
    sessions, report = read(write_lines(tmp_path / "omp_s1.jsonl", omp), "pi")
    assert context(log(one(sessions))) == [("user", "one")]
    assert not report.unknown


def version_4(*lines):
    header = {"kind": "header", "version": 4, "id": "s1", "createdAt": 1777705200000, "cwd": "/w"}
    times = ({"seq": seq, "timestamp": 1777705200000 + seq} for seq in range(1, len(lines) + 1))
    return [header, *(time | line for time, line in zip(times, lines, strict=True))]


def said_in(lane, id, parent, text, role="user"):
    message = {"role": role, "content": [words(text)]}
    return {
        "kind": "entry",
        "lane": lane,
        "type": "message",
        "id": id,
        "parentId": parent,
        "message": message,
    }


def test_version_4_has_lanes_of_which_the_main_one_is_live(tmp_path):
    lines = version_4(
        said_in("main", "a", None, "one"),
        said_in("main", "b", "a", "first", "assistant"),
        {"kind": "lane", "lane": "aside", "leafId": "a"},
        {"kind": "record", "type": "operation_started", "id": "r", "lane": "aside"},
        said_in("aside", "c", "a", "elsewhere"),
        {"kind": "fact", "fact": "name", "name": "Pixels"},
        {"kind": "fact", "fact": "label", "targetId": "a", "label": "works"},
    )
    sessions, report = read(write_lines(tmp_path / "x_s1.jsonl", lines), "pi")
    events = log(one(sessions))
    assert context(events) == [("user", "one"), ("assistant", "first")]
    assert ("user", "elsewhere") in [(event.kind, event.content) for event in events]
    assert [event.data for event in events if event.kind == "note"] == [{"label": "works", "at": 1}]
    assert one(sessions).about == {"cwd": "/w", "title": "Pixels"}
    assert events[0].time == 1777705200001000
    assert not report
    moved = [*lines, {"kind": "lane", "seq": 9, "lane": "main", "leafId": "a"}]
    assert context(log(thread_of(tmp_path, *moved))) == [("user", "one")]


def test_a_fork_of_version_4_names_the_session_that_it_came_from(tmp_path):
    shared = [said_in("main", "a", None, "one"), said_in("main", "b", "a", "first", "assistant")]
    write_lines(tmp_path / "t_s1.jsonl", version_4(*shared, said_in("main", "c", "b", "left")))
    header, *lines = version_4(*shared, said_in("main", "d", "b", "right"))
    write_lines(tmp_path / "a_s2.jsonl", [header | {"id": "s2", "parentSessionId": "s1"}, *lines])
    child, parent = sorted(read(tmp_path, "pi")[0], key=lambda session: session.source)
    assert (parent.id, child.threads[0].origin.session) == ("s1", "s1")


# --- releases since 0.86 ---


def system(id, parent, **fields):
    return entry(id, parent, message={"role": "system", **fields})


TOOL = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}


def test_system_messages_are_the_system_prompt_and_the_tools(tmp_path):
    first = {"sections": {"role": "Be pi.", "files": "None."}, "toolsAdded": [TOOL]}
    update = {"sections": {"files": "a.py", "role": None}, "toolsRemoved": ["read"]}
    thread = thread_of(
        tmp_path,
        HEADER,
        system("s", None, **first),
        user("a", "s", "one"),
        system("t", "a", **update),
    )
    events = log(thread)
    assert [event.kind for event in events] == ["system", "note", "user", "system", "note"]
    assert events[0].content == "Be pi.\n\nNone."
    assert (events[1].content, events[1].data) == ("backstory.settings", {"tools": [TOOL]})
    assert events[3].content == "a.py"
    assert events[4].data == {"tools": []}


def test_a_compaction_has_the_system_prompt_again(tmp_path):
    again = {"role": "system", "sections": {"role": "Be pi."}, "toolsAdded": [TOOL]}
    cut = entry("k", "a", "compaction", summary="In short.", systemMessage=again)
    thread = thread_of(tmp_path, HEADER, user("a", None, "one"), cut)
    assert context(log(thread)) == [("system", "Be pi."), ("user", "In short.")]


def test_usage_beside_the_conversation_is_a_note(tmp_path):
    usage = {"input": 3, "output": 0, "cacheRead": 900, "cost": {"total": 0.25}}
    warm = entry("w", "a", "usage", kind="cache_warm", model="claude-x", usage=usage)
    path = write_lines(tmp_path / "x_s1.jsonl", [HEADER, user("a", None, "one"), warm])
    sessions, report = read(path, "pi")
    [_, note] = log(one(sessions))
    assert (note.kind, note.content) == ("note", "pi.usage")
    assert note.data["usage"] == {"input": 3, "cache_read": 900, "cost": 0.25}
    assert not report.unknown


def edit(id, parent, target, replacement):
    return entry(id, parent, "context_edit", targetId=target, replacement=replacement)


def test_the_last_edit_of_an_entry_is_applied_and_the_original_kept(tmp_path):
    said = [HEADER, user("a", None, "one"), answer("b", "a", words("first")), user("c", "b", "two")]
    edits = [
        edit("x", "c", "a", {"content": "other"}),
        edit("y", "x", "a", {"content": [words("ONE")]}),
        edit("z", "y", "b", None),
    ]
    events = log(thread_of(tmp_path, *said, *edits))
    assert context(events) == [("user", "ONE"), ("user", "two")]
    assert events[0].data == {"original": "one"}
    assert (events[1].kind, events[1].content) == ("note", "pi.hidden")
    assert events[1].data["original"]["content"] == [words("first")]


def test_an_edit_that_comes_later_makes_another_entry(tmp_path):
    said = [HEADER, user("a", None, "one"), user("b", "a", "two")]
    assert entry_ids(thread_of(tmp_path, *said)) == ["a", "b"]
    later = edit("x", "b", "a", {"content": "ONE"})
    assert entry_ids(thread_of(tmp_path, *said, later)) == ["a+x", "b"]


def test_an_edit_on_an_abandoned_branch_changes_nothing(tmp_path):
    said = [HEADER, user("a", None, "one"), edit("x", "a", "a", None), user("b", "a", "two")]
    assert context(log(thread_of(tmp_path, *said))) == [("user", "one"), ("user", "two")]


# --- other rules ---


def test_two_texts_of_an_answer_are_two_events_of_one_answer(tmp_path):
    call = {"type": "toolCall", "id": "call_0", "name": "read", "arguments": {}}
    blocks = [words("I have a plan."), call, words("Go.")]
    records = [HEADER, answer("a", None, *blocks, responseId="r1"), answer("b", "a", call)]
    events = log(thread := thread_of(tmp_path, *records))
    assert [event.content for event in events] == ["I have a plan.", None, "Go.", None]
    assert [event.data["answer"] for event in events] == ["r1", "r1", "r1", "b"]
    assert entry_ids(thread) == ["a", "a/call call_0", "a/2", "b/call call_0"]


def test_parents_that_stand_below_or_run_in_a_circle_lose_nothing(tmp_path):
    late = [HEADER, user("b", "a", "two"), user("a", None, "one"), user("c", "b", "three")]
    assert context(log(thread_of(tmp_path, *late))) == [
        ("user", "one"),
        ("user", "two"),
        ("user", "three"),
    ]
    circle = [HEADER, user("a", "b", "one"), user("b", "a", "two")]
    sessions, report = read(write_lines(tmp_path / "c_s1.jsonl", circle), "pi")
    assert {event.content for event in log(one(sessions))} >= {"one", "two"}
    assert report.mended["circle of parents"] == 1
    lost = [HEADER, user("a", None, "one"), user("c", "gone", "three")]
    assert context(log(thread_of(tmp_path, *lost))) == [("user", "one"), ("user", "three")]


def test_only_a_header_makes_a_session(tmp_path):
    assert is_recognized(write_lines(tmp_path / "a.jsonl", [HEADER]), "pi")
    assert is_recognized(write_lines(tmp_path / "b.jsonl", [{"type": "title"}, HEADER]), "pi")
    assert not is_recognized(
        write_lines(tmp_path / "c.jsonl", [user("a", None, "x"), HEADER]), "pi"
    )


# --- exports ---


def test_an_exported_file_is_read_with_its_positions(tmp_path):
    call = {"id": "c1", "name": "read", "arguments": {"p": 1}}
    said = [("user", "go"), ("assistant", "I will."), ("tool_call", None, call)]
    said += [("tool_result", "found", {"id": "c1"}), ("user", "thanks")]
    path = write_file(tmp_path / "file.jsonl", "pi", said)
    thread = one(read(path, "pi")[0])
    assert [line[0] for line in context(log(thread))] == [
        "user",
        "assistant",
        "call",
        "result",
        "user",
    ]
    lines = {entry.line for unit in thread.read_units() for entry in unit.entries}
    positions = [thread.exported.get_positions(line) for line in sorted(lines)]
    assert positions == [[1], [2, 3], [4], [5]]


def test_sections_of_the_system_prompt_are_written_back(tmp_path):
    sections = {"role": "Be pi."}
    said = [("system", "Be pi.", {"meta": "instructions", "sections": sections}), ("user", "go")]
    thread = one(read(write_file(tmp_path / "file.jsonl", "pi", said), "pi")[0])
    events = log(thread)
    assert [event.content for event in events] == ["Be pi.", "go"]
    assert events[0].data["sections"] == sections


def test_what_a_service_s_own_tool_did_is_told_in_words(tmp_path):
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_result", "title": "A page", "url": "https://example.org/a"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    wire = [search, result, {"type": "text", "text": "Found."}]
    native = {"provider": "anthropic", "wire": wire}
    path = write_file(
        tmp_path / "file.jsonl", "pi", [("user", "go"), ("assistant", "Found.", {"native": native})]
    )
    text = path.read_text()
    assert "left out" not in text
    assert "https://example.org/a" in text


def test_a_session_that_grows_behind_a_note_is_not_copied(tmp_path):
    hidden = {"role": "bashExecution", "command": "ls", "excludeFromContext": True}
    records = [HEADER, user("a", None, "one"), entry("n", "a", message=hidden)]
    records += [user("b", "n", "two"), user("c", "b", "three")]
    with backstory.open(":memory:") as store:
        for end in range(2, len(records) + 1):
            path = write_lines(tmp_path / "x_s1.jsonl", records[:end])
            store.import_transcripts(path, settle=0)
        [agent] = store.agents()
        assert [event.kind for event in agent.events()] == ["user", "note", "user", "user"]


def test_a_fork_begins_where_its_parent_ends_to_be_equal(tmp_path):
    shared = [user("a", None, "one"), answer("b", "a", words("first"))]
    fork = HEADER | {"id": "s2", "parentSession": "/home/x/t_s1.jsonl"}
    parent_file = write_lines(tmp_path / "t_s1.jsonl", [HEADER, *shared, user("c", "b", "left")])
    fork_file = write_lines(tmp_path / "a_s2.jsonl", [fork, *shared, user("d", "b", "right")])
    for files in ([parent_file, fork_file], [fork_file, parent_file]):
        with backstory.open(":memory:") as store:
            store.import_transcripts(files, settle=0)
            [parent] = [agent for agent in store.agents() if agent.parent is None]
            [child] = store.agents(session=parent.session)[1:]
            assert (child.parent, child.fork_seq, child.head) == (parent.id, 2, 3)
            assert [event.content for event in child.context().messages] == [
                "one",
                "first",
                "right",
            ]
