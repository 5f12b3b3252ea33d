from tests.transcripts.reading import context, log, one, read, write_lines

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
    return one(read(write_lines(tmp_path / "x_s1.jsonl", records))[0])


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
    sessions, report = read(tmp_path)
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
    parent, child = read(tmp_path)[0]
    [thread] = child.threads
    assert (parent.id, thread.origin.session, thread.origin.at) == ("s1", "s1", "b")
    assert [unit.inherited for unit in thread.units()] == [True, True, False]


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
    sessions, report = read(write_lines(tmp_path / "omp_s1.jsonl", omp))
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
    sessions, report = read(write_lines(tmp_path / "x_s1.jsonl", lines))
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
    parent, child = read(tmp_path)[0]
    assert (parent.id, child.threads[0].origin.session, child.threads[0].origin.at) == (
        "s1",
        "s1",
        "b",
    )


def test_of_two_copies_of_a_file_the_longer_one_counts(tmp_path):
    said = [HEADER, user("a", None, "one"), answer("b", "a", words("first")), user("c", "b", "two")]
    write_lines(tmp_path / "new" / "x_s1.jsonl", said)
    write_lines(tmp_path / "old" / "x_s1.jsonl", said[:-1])
    assert context(log(one(read(tmp_path)[0])))[-1] == ("user", "two")
