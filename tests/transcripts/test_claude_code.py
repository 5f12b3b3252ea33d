import backstory
from backstory.transcripts import SourceMove
from tests.transcripts.reading import context, everything, log, one, read, steps_of, write_lines
from tests.transcripts.writers_claude import SESSION


def line(uuid, parent, type_="user", content="hello", **fields):
    """A record; `content` of an answer is a list of blocks."""
    message = fields.pop("message", {"role": type_, "content": content})
    if type_ == "assistant":
        message = {"id": fields.pop("id", uuid), "model": "claude-x"} | message
    stamp = f"2026-03-01T09:00:{len(uuid) % 60:02}.000Z"
    return {
        "type": type_,
        "uuid": uuid,
        "parentUuid": parent,
        "message": message,
        "timestamp": stamp,
    } | fields


def text(words):
    return [{"type": "text", "text": words}]


def thread_of(tmp_path, *records):
    return one(read(write_lines(tmp_path / f"{SESSION}.jsonl", records))[0])


def live(tmp_path, *records):
    return context(log(thread_of(tmp_path, *records)))


def test_a_draft_that_was_taken_back_is_in_the_log_and_not_in_the_context(tmp_path):
    thread = thread_of(
        tmp_path,
        line("a", None),
        line("b", "a", "assistant", text("hi")),
        line("c", "b", content="fist draft"),
        line("d", "b", content="first draft"),
        line("e", "d", "assistant", text("yes")),
    )
    events = log(thread)
    assert ("user", "fist draft") in everything(events)
    assert context(events) == [
        ("user", "hello"),
        ("assistant", "hi"),
        ("user", "first draft"),
        ("assistant", "yes"),
    ]


def test_two_drafts_that_hang_on_a_hook_are_branches_and_not_a_clear(tmp_path):
    hook = {
        "type": "attachment",
        "uuid": "h",
        "parentUuid": None,
        "attachment": {"type": "hook_success"},
    }
    thread = thread_of(tmp_path, hook, line("a", "h", content="one"), line("b", "h", content="two"))
    events = log(thread)
    assert [event.kind for event in events] == ["user", "jump", "user"]
    assert context(events) == [("user", "two")]


def test_the_line_that_closes_an_exit_hangs_on_an_older_record(tmp_path):
    echo = "<command-name>/exit</command-name>"
    synthetic = {
        "role": "assistant",
        "model": "<synthetic>",
        "content": text("No response requested."),
    }
    found = live(
        tmp_path,
        line("a", None),
        line("b", "a", "assistant", text("hi")),
        line("c", "b", content="Caveat", isMeta=True),
        line("d", "c", content=echo),
        line("e", "c", "assistant", message=synthetic),
        line("f", "e", content="and now?"),
    )
    assert ("user", echo) not in found
    assert found[-2:] == [("user", "No response requested."), ("user", "and now?")]


def test_a_tail_of_echoes_on_the_first_record_is_not_the_live_leaf(tmp_path):
    thread = thread_of(
        tmp_path,
        line("a", None),
        line("b", "a", "assistant", text("hi")),
        line("c", "a", content="<bash-input>ls</bash-input>"),
        line("d", "c", content="<bash-stdout>x</bash-stdout>"),
    )
    assert isinstance(steps_of(thread)[-1], SourceMove)
    assert context(log(thread)) == [("user", "hello"), ("assistant", "hi")]


def test_a_linear_tail_of_echoes_stays_in_the_context(tmp_path):
    found = live(
        tmp_path, line("a", None), line("b", "a", content="<command-name>/cost</command-name>")
    )
    assert found == [("user", "hello"), ("user", "<command-name>/cost</command-name>")]


def test_a_boundary_whose_logical_parent_hangs_on_it_makes_no_circle(tmp_path):
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "z", "parentUuid": None}
    found = live(
        tmp_path,
        line("a", None),
        line("b", "a", "assistant", text("hi")),
        boundary | {"logicalParentUuid": "s"},
        line("s", "z", content="In short.", isCompactSummary=True),
        line("c", "s", content="go on"),
    )
    assert found == [("user", "In short."), ("user", "go on")]


def test_a_lost_line_is_bridged_by_the_record_before(tmp_path):
    sessions, report = read(
        write_lines(
            tmp_path / f"{SESSION}.jsonl",
            [
                line("a", None),
                line("b", "a", "assistant", text("hi")),
                line("c", "lost", content="next"),
            ],
        )
    )
    assert context(log(one(sessions))) == [("user", "hello"), ("assistant", "hi"), ("user", "next")]
    assert report.mended["lost parent"] == 1


def test_parents_in_a_circle_come_to_an_end(tmp_path):
    found = live(
        tmp_path, line("a", None), line("b", "c", content="x"), line("c", "b", content="y")
    )
    assert found[0] == ("user", "hello")
    assert set(found) == {("user", "hello"), ("user", "x"), ("user", "y")}


def test_an_equal_uuid_the_last_line_wins_in_the_place_of_the_first(tmp_path):
    found = live(
        tmp_path,
        line("a", None, content="old"),
        line("b", "a", content="next"),
        line("a", None, content="new"),
    )
    assert found == [("user", "new"), ("user", "next")]


def test_a_queued_prompt_is_a_prompt(tmp_path):
    queued = {"type": "queued_command", "prompt": "and the tests", "origin": {"kind": "human"}}
    attached = {"type": "attachment", "uuid": "q", "parentUuid": "a", "attachment": queued}
    thread = thread_of(tmp_path, line("a", None), attached)
    event = log(thread)[-1]
    assert (event.kind, event.content, event.data) == ("user", "and the tests", {"queued": True})


def test_a_queued_notification_is_not_a_prompt(tmp_path):
    queued = {
        "type": "queued_command",
        "prompt": "<task-notification>done",
        "commandMode": "prompt",
    }
    attached = {"type": "attachment", "uuid": "q", "parentUuid": "a", "attachment": queued}
    thread = thread_of(tmp_path, line("a", None), attached)
    event = log(thread)[-1]
    assert (event.kind, event.content, event.data) == (
        "user",
        "<task-notification>done",
        {"meta": "notification"},
    )


def test_an_api_error_is_the_tool_speaking(tmp_path):
    failed = line("b", "a", "assistant", text("API Error: 529"), isApiErrorMessage=True)
    event = log(thread_of(tmp_path, line("a", None), failed))[-1]
    assert (event.kind, event.data["meta"]) == ("user", "error")


def test_thinking_keeps_its_signature_and_the_answer_its_model_and_usage(tmp_path):
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 7}
    message = {"id": "m", "role": "assistant", "model": "claude-x", "usage": usage}
    thread = thread_of(
        tmp_path,
        line("a", None),
        line("b", "a", "assistant", message=message | {"content": [thought]}),
        line("c", "b", "assistant", message=message | {"content": text("done")}),
    )
    data = log(thread)[-1].data
    assert data["native"]["wire"][0] == thought
    assert (data["model"], data["answer"]) == ("claude-x", "m")
    assert data["usage"] == {"input": 10, "output": 2, "cache_read": 7}


def test_titles_are_given_by_people_before_models(tmp_path):
    thread = thread_of(
        tmp_path,
        {"type": "summary", "summary": "another session", "leafUuid": "x"},
        line("a", None, cwd="/project"),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
        {"type": "ai-title", "aiTitle": "Its own", "sessionId": "s"},
    )
    assert thread.about["title"] == "Mine"
    assert thread.about["cwd"] == "/project"


def test_the_newest_last_prompt_may_name_another_branch(tmp_path):
    leaf = {"type": "last-prompt", "leafUuid": "b", "sessionId": "s"}
    branches = [line("a", None), line("b", "a", content="left"), line("c", "a", content="right")]
    assert live(tmp_path, *branches)[-1] == ("user", "right")
    assert live(tmp_path, *branches, leaf)[-1] == ("user", "left")
    assert live(tmp_path, leaf, *branches)[-1] == ("user", "right")
    again = line("c", "a", content="right")  # a line that is written twice says nothing new
    assert live(tmp_path, *branches, leaf, again)[-1] == ("user", "left")


def agent(name, session, *records):
    return [
        record | {"isSidechain": True, "agentId": name, "sessionId": session} for record in records
    ]


def task(uuid, parent, call, prompt):
    block = {"type": "tool_use", "id": call, "name": "Task", "input": {"prompt": prompt}}
    return line(uuid, parent, "assistant", [block])


def done(uuid, parent, call, **fields):
    return line(
        uuid,
        parent,
        content=[{"type": "tool_result", "tool_use_id": call, "content": "ok"}],
        **fields,
    )


def test_sub_agents_are_found_by_what_the_session_knows_of_them(tmp_path):
    progress = {"type": "progress", "uuid": "p", "parentUuid": "c", "parentToolUseID": "call_2"}
    main = [
        line("a", None),
        task("b", "a", "call_1", "look"),
        done("r", "b", "call_1", toolUseResult={"agentId": "one"}),
        task("c", "r", "call_2", "see"),
        progress | {"data": {"type": "agent_progress", "agentId": "two"}},
        task("d", "c", "call_3", "find the third"),
        task("e", "d", "call_4", "named in a file"),
    ]
    write_lines(tmp_path / f"{SESSION}.jsonl", main)
    below = tmp_path / SESSION / "subagents"
    prompts = {"one": "x", "two": "y", "three": "find the third", "four": "z", "five": "Warmup"}
    for name, prompt in prompts.items():
        write_lines(
            below / f"agent-{name}.jsonl", agent(name, SESSION, line(name, None, content=prompt))
        )
    (below / "agent-four.meta.json").write_text('{"toolUseId": "call_4", "description": "Four"}')
    [session] = read(tmp_path)[0]
    calls = {thread.id: thread.origin.call for thread in session.threads if thread.id}
    assert calls == {
        "one": "call call_1",
        "two": "call call_2",
        "three": "call call_3",
        "four": "call call_4",
        "five": None,
    }
    assert all(thread.origin.is_spawned for thread in session.threads if thread.id)


def test_the_agents_of_a_workflow_are_at_the_call_that_began_it(tmp_path):
    main = [line("a", None), task("b", "a", "call_1", "run"), task("c", "b", "call_2", "run")]
    answered = {"status": "async_launched", "runId": "wf_1"}
    write_lines(
        tmp_path / f"{SESSION}.jsonl", [*main, done("r", "c", "call_2", toolUseResult=answered)]
    )
    below = tmp_path / SESSION / "subagents" / "workflows" / "wf_1"
    write_lines(below / "agent-one.jsonl", agent("one", SESSION, line("x", None, content="map")))
    [session] = read(tmp_path)[0]
    assert [thread.origin.call for thread in session.threads if thread.id] == ["call call_2"]


def test_agents_of_a_session_that_is_gone_have_a_session_without_a_main_thread(tmp_path):
    (tmp_path / "gone.jsonl").write_text("")
    write_lines(tmp_path / "agent-x.jsonl", agent("x", "gone", line("a", None)))
    [session] = read(tmp_path)[0]
    assert (session.id, [thread.id for thread in session.threads]) == ("gone", ["x"])


def test_side_chains_inside_a_file_are_threads_of_their_own(tmp_path):
    main = [line("a", None), task("b", "a", "call_1", "dig")]
    side = [
        line("s", None, content="dig", isSidechain=True),
        line("t", "s", "assistant", text("dug"), isSidechain=True),
        line("u", "lost", "assistant", text("alone"), isSidechain=True),
    ]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", [*main, *side, done("r", "b", "call_1")])
    [session] = read(path)[0]
    assert [(t.id, t.origin.call) for t in session.threads if t.id] == [
        ("s", "call call_1"),
        ("lost", None),
    ]
    assert context(log(session.threads[1])) == [("user", "dig"), ("assistant", "dug")]


def test_a_side_chain_that_lacks_its_first_line_has_the_name_of_the_whole_one(tmp_path):
    side = [
        line("t", "s", "assistant", text("dug"), isSidechain=True),
        line("u", "t", content="deeper", isSidechain=True),
    ]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", [line("a", None), *side])
    [session] = read(path)[0]
    assert [thread.id for thread in session.threads if thread.id] == ["s"]


def own_contents(agent):
    """What an agent has that its parent does not."""
    return [event.content for event in agent.events(after=agent.fork_seq)]


def test_a_fork_with_its_beginning_copied_has_only_its_own_events(tmp_path):
    base = [
        line("a", None),
        line("b", "a", "assistant", text("hi")),
        line("c", "b", content="left"),
    ]
    copied = [
        record | {"forkedFrom": {"sessionId": "base", "messageUuid": record["uuid"]}}
        for record in base[:2]
    ]
    write_lines(tmp_path / "base.jsonl", base)
    write_lines(tmp_path / "fork.jsonl", [*copied, line("x", "b", content="right")])
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        fork = store.agent("fork")
        assert (fork.parent, fork.fork_seq) == (store.agent("base").id, 2)
        assert own_contents(fork) == ["right"]


def test_a_fork_of_a_compacted_session_begins_with_the_boundary_and_is_at_what_it_copied_last(
    tmp_path,
):
    boundary = line("b", None, "system", subtype="compact_boundary", logicalParentUuid="a")
    base = [
        line("a", None),
        boundary,
        line("c", "b", isCompactSummary=True),
        line("d", "c", content="left"),
    ]
    copied = [record | {"forkedFrom": {"sessionId": "base"}} for record in base[1:3]]
    hook = {"type": "progress", "uuid": "h", "parentUuid": None, "data": {"type": "hook_progress"}}
    write_lines(tmp_path / "1-fork.jsonl", [*copied, line("x", "c", content="right")])
    write_lines(tmp_path / "2-fork.jsonl", [*copied, hook, line("y", "h", content="cleared")])
    write_lines(tmp_path / "base.jsonl", base)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path / "base.jsonl", settle=0)
        store.import_transcripts(tmp_path, settle=0)  # what was forked is looked up again
        forks = [store.agent("1-fork"), store.agent("2-fork")]
        assert [fork.parent for fork in forks] == [store.agent("base").id] * 2
        added = [[event.content for event in fork.events(after=fork.fork_seq)] for fork in forks]
    assert added == [["right"], [None, "cleared"]]


def test_a_copy_that_was_continued_in_another_file_is_a_fork_although_no_line_says_so(tmp_path):
    base = [line("a", None), line("b", "a", "assistant", text("hi"))]
    write_lines(tmp_path / "1-resumed.jsonl", [*base, line("c", "b", content="more")])
    write_lines(tmp_path / "2-base.jsonl", base)
    with backstory.open(":memory:") as store:
        store.import_transcripts(tmp_path, settle=0)
        fork = store.agent("1-resumed")
        assert (fork.parent, fork.fork_seq) == (store.agent("2-base").id, 2)
        assert own_contents(fork) == ["more"]


def test_a_file_that_begins_with_a_large_image_is_recognised(tmp_path):
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}
    first = line("a", None, content=[{"type": "image", "source": source}], isSidechain=False)
    late = {
        "parentUuid": None,
        "isSidechain": False,
        "type": "user",
        "message": first["message"],
    } | first
    path = write_lines(
        tmp_path / f"{SESSION}.jsonl", [late, line("b", "a", "assistant", text("hi"))]
    )
    [session] = read(path.parent)[0]
    assert (session.tool, session.id) == ("claude-code", SESSION)


def test_lines_without_ids_are_a_row(tmp_path):
    rows = [
        line("a", None),
        line("b", None, "assistant", text("hi")),
        line("c", None, content="more"),
    ]
    bare = [{key: row[key] for key in ("type", "message", "timestamp")} for row in rows]
    for row in bare:
        row["message"].pop("id", None)
    write_lines(tmp_path / "exported.jsonl", bare)
    [session] = read(tmp_path)[0]
    assert context(log(one([session]))) == [
        ("user", "hello"),
        ("assistant", "hi"),
        ("user", "more"),
    ]


def test_a_file_without_a_conversation_is_no_session(tmp_path):
    write_lines(
        tmp_path / "x.jsonl", [{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}]
    )
    assert read(tmp_path)[0] == []


def test_what_nobody_understands_is_counted_by_type_and_version(tmp_path):
    odd = {"type": "odd-link", "sessionId": "s", "version": "2.1.9"}
    _, report = read(write_lines(tmp_path / "x.jsonl", [line("a", None), odd, odd]))
    assert report.unknown == {"odd-link (claude-code 2.1.9)": 2}


def test_a_result_belongs_to_the_last_call_with_its_id_before_it(tmp_path):
    def do(id, parent, message):
        use = {"type": "tool_use", "id": "call_0", "name": "run", "input": {}}
        return line(id, parent, "assistant", [use], id=message)

    records = [line("a", None), do("b", "a", "m1"), done("r", "b", "call_0")]
    records += [do("c", "r", "m2"), done("s", "c", "call_0")]
    thread = thread_of(tmp_path, *records)
    events = log(thread)
    assert [event.kind for event in events] == ["user", *["tool_call", "tool_result"] * 2]
    assert len(context(events)) == 5
