"""Imports of what was imported before: names that come later, answers that grow, copies, what was erased."""

import json
import os

import pytest

import backstory
from backstory.transcripts import export_transcript
from backstory.transcripts.claude_code.tree import ClaudeTree
from tests.storage.held import held
from tests.transcripts.reading import write_lines
from tests.transcripts.test_import import (
    REWOUND,
    SESSION,
    answer,
    call,
    line,
    main,
    result,
    said,
    settle,
    text,
    user,
)

OTHER = "0c5f2f0e-0000-4000-8000-0000000000b2"


def added(store, *paths):
    return sum(session.new_events for session in store.import_transcripts(paths, settle=0).sessions)


def touched(path):
    """A file that looks as if it had changed."""
    os.utime(path, (1, 1))
    return path


# ---------------------------------------------------------------- names


def test_an_agent_is_called_after_a_title_that_came_later_unless_a_person_named_it(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    title = {"type": "custom-title", "customTitle": "Parser"}
    added(store, write_lines(path, REWOUND[:2]))
    assert main(store).name == "claude-code"
    added(store, write_lines(path, [*REWOUND[:4], title]))
    assert main(store).name == "Parser"
    added(store, write_lines(path, [*REWOUND, title, title | {"customTitle": "Lexer"}]))
    assert (main(store).name, store.agent("Lexer")) == ("Lexer", main(store))
    main(store).rename("mine")
    added(store, write_lines(path, [*REWOUND, title]))
    assert (main(store).name, main(store).about["title"]) == ("mine", "Parser")


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ("", "claude-code-refactoring"),
        ("api", "api-work"),
        ("api", "api-2"),  # there is no other agent that it could have been told apart from
        ("api", "claude-code"),
    ],
)
def test_a_name_that_a_person_gave_is_not_taken_for_ours(store, tmp_path, before, given):
    path = tmp_path / f"{SESSION}.jsonl"
    title = {"type": "custom-title", "customTitle": before}
    added(store, write_lines(path, [*REWOUND[:2], title]))
    main(store).rename(given)
    added(store, write_lines(path, [*REWOUND, title | {"customTitle": "Lexer"}]))
    assert (main(store).name, main(store).about["title"]) == (given, "Lexer")


@pytest.mark.parametrize("title", ["Fix the bug ", "Long " * 1_000])
def test_a_title_that_is_stored_in_another_form_is_not_new_each_time(store, tmp_path, title):
    path = tmp_path / f"{SESSION}.jsonl"
    titled = {"type": "custom-title", "customTitle": title}
    added(store, write_lines(path, [*REWOUND[:2], titled]))
    given = f"{main(store).name}-2"
    main(store).fork(name="another")
    main(store).rename(given)
    added(store, write_lines(path, [*REWOUND, titled]))
    assert main(store).name == given


def test_a_number_at_the_end_of_a_title_is_a_part_of_it(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    title = {"type": "custom-title", "customTitle": "Release 2024-11-17"}
    added(store, write_lines(path, [*REWOUND[:2], title]))
    added(store, write_lines(path, [*REWOUND, title | {"customTitle": "Release"}]))
    assert main(store).name == "Release"


def test_a_codex_thread_that_is_named_at_its_end_has_that_name(store, tmp_path):
    said = {"type": "message", "role": "user", "content": "hi"}
    records = [
        {"type": "session_meta", "payload": {"id": SESSION, "cwd": "/src"}},
        *({"type": "response_item", "payload": said} for _ in range(600)),
        {
            "type": "event_msg",
            "payload": {"type": "thread_name_updated", "thread_name": "Greeting"},
        },
    ]
    path = write_lines(tmp_path / "rollout.jsonl", records)
    store.import_transcripts(path, settle=0, dry=True)
    added(store, path)
    assert (main(store).name, store.agent("Greeting")) == ("Greeting", main(store))


def test_a_dry_run_renames_nothing(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    added(store, write_lines(path, REWOUND))
    write_lines(path, [*REWOUND, {"type": "custom-title", "customTitle": "Parser"}])
    store.import_transcripts(path, settle=0, dry=True)
    assert main(store).name == "claude-code"


# ---------------------------------------------------------------- what grows, and what was erased


def test_an_answer_that_grows_far_above_the_head_is_completed(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u0", "go", None, 0), answer("a0", text("We"), "u0", 1, "m1")]
    lines += [user(f"u{n}", f"and {n}", "a0" if n == 1 else f"u{n - 1}", 2) for n in range(1, 100)]
    added(store, write_lines(path, lines))
    lines += [answer("a1", text(" can"), "u99", 3, "m1")]
    added(store, write_lines(path, lines))
    assert added(store, touched(path)) == 0
    lines += [answer("a2", text(" do it"), "a1", 4, "m1")]
    added(store, write_lines(path, lines))
    assert added(store, touched(path)) == 0
    spoken = [event.content for event in main(store).context().messages if event.content]
    assert "".join(spoken[:-99]) == "goWe can do it"
    assert spoken[-99:] == [f"and {n}" for n in range(1, 100)]


def test_what_was_erased_does_not_come_back(store, tmp_path):
    path = write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    added(store, path)
    agent = main(store)
    agent.erase([agent.find("a3").seq], why="a secret")
    assert added(store, touched(path)) == 0
    lines = [*REWOUND, answer("a4", text(" and more"), "a3", 7, "msg_a3")]
    added(store, write_lines(path, lines))
    assert "third" not in "".join(event.content or "" for event in main(store).events())


def test_a_result_that_comes_late_stays_in_the_context(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [
        user("u1", "go", None, 1),
        answer("a1", call("c1"), "u1", 2, "m1"),
        answer("a2", call("c2"), "a1", 3, "m1"),
        result("r1", "c1", "one", "a1", 4),
        user("u2", "and now?", "r1", 5),
        answer("a3", text("wait"), "u2", 6),
    ]
    added(store, write_lines(path, lines))
    lines.append(result("r2", "c2", "two", "a2", 7))
    added(store, write_lines(path, lines))
    lines.append(user("u3", "next", "a3", 8))
    assert added(store, write_lines(path, lines)) == 1
    spoken = [event.content for event in main(store).context().messages if event.content]
    assert spoken == ["go", "one", "two", "and now?", "wait", "next"]


def heard(agent):
    """What is in the context of an agent, by kinds, without notes and jumps."""
    return [e.kind for e in agent.context().messages if e.kind not in ("note", "jump")]


WHOLE = ["user", "assistant", "tool_call", "tool_result"]
HASTY = [
    user("u1", "go", None, 1),
    answer("a1", text("Let me"), "u1", 2, "m1"),
    answer("a2", call("c1"), "a1", 3, "m1"),
    result("r1", "c1", "done", "a2", 4),
]


def test_an_answer_that_a_person_noted_something_about_stays_whole(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    added(store, write_lines(path, HASTY[:2]))
    main(store).label("good")
    assert added(store, write_lines(path, HASTY)) == 2
    assert added(store, write_lines(path, [*HASTY, user("u2", "next", "r1", 5)])) == 1
    assert heard(main(store)) == [*WHOLE, "user"]


def test_an_answer_with_a_note_between_and_a_branch_is_not_jumped_away_from(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    added(store, write_lines(path, HASTY[:2]))
    main(store).note("mine", {})
    added(store, write_lines(path, [*HASTY[:3], user("x1", "else", "u1", 4), HASTY[3]]))
    assert heard(main(store)) == WHOLE
    assert added(store, touched(path)) == 0


def test_a_result_behind_a_prompt_that_was_typed_meanwhile_is_continued_without_it(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [*HASTY[:3], user("x1", "typed meanwhile", "a2", 4)]
    added(store, write_lines(path, lines[:3]))
    added(store, write_lines(path, lines))
    added(store, write_lines(path, [*lines, HASTY[3]]))
    assert heard(main(store)) == [*WHOLE, "user"]
    added(store, write_lines(path, [*lines, HASTY[3], answer("a3", text("so"), "r1", 6)]))
    assert heard(main(store)) == [*WHOLE, "assistant"]
    assert added(store, touched(path)) == 0


def test_a_result_that_comes_with_what_continues_it_is_written_there(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [*HASTY[:3], user("x1", "typed meanwhile", "a2", 4)]
    added(store, write_lines(path, lines))
    added(store, write_lines(path, [*lines, HASTY[3], answer("a3", text("so"), "r1", 6)]))
    assert heard(main(store)) == [*WHOLE, "assistant"]
    assert added(store, touched(path)) == 0


@pytest.mark.parametrize("piece", ["a1", "a9"])
def test_an_answer_of_which_a_piece_was_erased_stays_whole(store, tmp_path, piece):
    path = tmp_path / f"{SESSION}.jsonl"
    more = answer("a9", text(" look"), "a1", 3, "m1")
    lines = [*HASTY[:2], more, HASTY[2] | {"parentUuid": "a9"}, HASTY[3]]
    added(store, write_lines(path, lines[:2]))
    added(store, write_lines(path, lines))
    main(store).erase([main(store).find(piece).seq], why="a secret")
    assert added(store, write_lines(path, [*lines, user("u2", "next", "r1", 5)])) == 1
    assert heard(main(store)) == ["user", "assistant", *WHOLE[1:], "user"]


def test_an_exported_file_adds_nothing(store, tmp_path):
    lines = [user("u1", text("one") + text("two"), None, 1), answer("a1", call("c1"), "u1", 2)]
    lines += [
        result("r1", "c1", "done", "a1", 3),
        user("u2", "else", "u1", 4),
        answer("a2", text("so"), "u2", 5),
    ]
    added(store, write_lines(tmp_path / f"{SESSION}.jsonl", lines))
    agent = main(store)
    agent.jump(
        agent.find("result c1").seq
    )  # the live context ends with a result, and that is the last line
    out = export_transcript(store, store.resolve(agent.id), "claude-code").text
    name = json.loads(out.splitlines()[0])["sessionId"]
    path = tmp_path / "out" / f"{name}.jsonl"
    path.parent.mkdir()
    path.write_text(out)
    assert added(store, path) == 0
    with backstory.open(":memory:") as other:
        added(other, path)
        [copy] = other.agents()
        assert [event.content for event in copy.context().messages if event.content][-1] == "done"


def grown_answer(store, path):
    """Import an answer before and after it grew, and return its lines."""
    more = answer("a9", text(" look"), "a1", 3, "m1")
    given = [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "pwd"}}]
    lines = [*HASTY[:2], more, answer("a2", given, "a9", 3, "m1"), HASTY[3]]
    added(store, write_lines(path, lines[:2]))
    added(store, write_lines(path, lines))
    return lines


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_a_compaction_does_not_bring_back_what_was_erased(store, tmp_path, place):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = grown_answer(store, path)
    agent = main(store)
    said = agent.events([place])[0].content or "pwd"
    agent.erase([place], why="a secret")
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u1", "a1", "a9", "a2", "r1"]}}
    boundary = line(
        "b1", None, 7, "system", None, subtype="compact_boundary", logicalParentUuid="r1"
    )
    lines += [
        boundary | {"compactMetadata": kept},
        user("s1", "summary", "b1", 8, isCompactSummary=True),
    ]
    added(store, write_lines(path, lines))
    assert not [e for e in agent.events(after=5) if said in f"{e.content} {e.data}"]
    assert {"tool_call", "tool_result"} <= set(heard(agent))
    assert added(store, touched(path)) == 0
    assert store.verify() == []


THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
GIVEN = [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "hunter3x"}}]
IN_PIECES = [
    user("u1", "go", None, 1),
    answer("a1", text("It is hunter1x"), "u1", 2, "m1"),
    answer("a2", GIVEN, "a1", 3, "m1"),
    answer("a3", text(" or hunter2x"), "a2", 4, "m1"),
    answer("a4", THOUGHT, "a3", 5, "m1"),
    result("r1", "c1", "done", "a2", 6),
]
GROWN = [
    answer("a5", text(" I think"), "a4", 7, "m1"),
    answer("a6", call("c2", it="x"), "a5", 8, "m1"),
]


PIECES = {"a1": "hunter1x", "call c1": "hunter3x", "a3": "hunter2x"}


@pytest.mark.parametrize("first", [3, 4, 6])
@pytest.mark.parametrize("piece", PIECES)
def test_nothing_that_was_erased_is_left_in_the_form_of_another_piece(
    store, url, tmp_path, first, piece
):
    if first == 3 and piece == "a3":
        pytest.skip("it is not there yet")
    path = tmp_path / f"{SESSION}.jsonl"
    added(store, write_lines(path, IN_PIECES[:3]))
    added(store, write_lines(path, IN_PIECES[:first]))
    agent = main(store)
    store.search("hunter")
    agent.erase([agent.find(piece).seq], why="a secret")
    secret = PIECES[piece]
    uuids = [record["uuid"] for record in (*IN_PIECES, *GROWN)]
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": uuids}}
    boundary = line(
        "b1", None, 9, "system", None, subtype="compact_boundary", logicalParentUuid="r1"
    )
    cut = [
        boundary | {"compactMetadata": kept},
        user("s1", "summary", "b1", 10, isCompactSummary=True),
    ]
    for lines in (IN_PIECES, [*IN_PIECES, *GROWN], [*IN_PIECES, *GROWN, *cut]):
        added(store, write_lines(path, lines))
        assert secret.encode() not in held(store, url)
        assert secret not in export_transcript(store, store.resolve(agent.id), "claude-code").text
    assert {"tool_call", "tool_result"} <= set(heard(agent))
    assert added(store, touched(path)) == 0
    assert store.verify() == []


def test_the_form_of_what_a_compaction_kept_does_not_bring_back_what_was_erased(
    store, url, tmp_path
):
    path = tmp_path / f"{SESSION}.jsonl"
    whole = [*THOUGHT, *GIVEN]
    lines = [
        user("u1", "go", None, 1),
        answer("a1", whole, "u1", 2, "m1"),
        result("r1", "c1", "", "a1", 3),
    ]
    added(store, write_lines(path, lines))
    main(store).erase([main(store).find("call c1").seq], why="a secret")
    kept = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u1", "a1", "r1"]}}
    boundary = line("b1", None, 7, "system", None, subtype="compact_boundary", compactMetadata=kept)
    added(
        store,
        write_lines(
            path, [*lines, boundary, user("s1", "summary", "b1", 8, isCompactSummary=True)]
        ),
    )
    assert added(store, touched(path)) == 0
    assert b"hunter3x" not in held(store, url)


# ---------------------------------------------------------------- copies and forks


def test_a_damaged_copy_adds_what_only_it_has_and_does_not_take_the_head(store, tmp_path):
    whole = write_lines(tmp_path / "a" / f"{SESSION}.jsonl", REWOUND)
    extra = user("x1", "only here", "a2", 5)
    copy = write_lines(
        tmp_path / "b" / f"{SESSION}.jsonl", [REWOUND[4], REWOUND[1], REWOUND[2], extra]
    )
    store.import_transcripts(tmp_path, settle=0)
    agent = main(store)
    assert said(agent) == ["one", "first", "two again", "third"]
    assert [event.content for event in agent.events()].count("only here") == 1
    assert added(store, touched(whole), touched(copy)) == 0
    [session] = store.import_transcripts(os.utime(copy, (2, 2)) or tmp_path, settle=0).sessions
    assert (session.new_events, session.open_calls) == (0, 0)
    assert store.verify() == []


def test_a_rewritten_file_with_shuffled_lines_adds_nothing_the_second_time(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    first, last = (
        user("u1", "go", None, 1),
        [result("r1", "c1", "done", "b3", 5), user("u2", "on", "r1", 6)],
    )
    spoken = answer("b1", text("Let me"), "u1", 2, "m1")
    thought = answer(
        "b2", [{"type": "thinking", "thinking": "hm", "signature": "s"}], "b1", 3, "m1"
    )
    called = answer("b3", call("c1"), "b2", 4, "m1")
    added(store, write_lines(path, [first, spoken, thought, called, *last]))
    echo = user("e1", "<command-name>/exit</command-name>", "u1", 6)
    added(store, write_lines(path, [first, thought, spoken, called, last[0], echo]))
    assert added(store, touched(path)) == 0
    assert added(store, touched(path)) == 0


COMPACTED = [
    *REWOUND,
    line("b1", None, 7, "system", None, subtype="compact_boundary", logicalParentUuid="a3"),
    user("s1", "what was said before", "b1", 8, isCompactSummary=True),
    answer("a5", text("we go on"), "s1", 9),
]


def test_a_fork_that_begins_where_its_origin_was_compacted_has_only_its_own_events(store, tmp_path):
    fork = [record | {"sessionId": OTHER} for record in COMPACTED[6:]]
    own = [
        user("f1", "another way", "a5", 20, sessionId=OTHER),
        answer("f2", text("fine"), "f1", 21),
    ]
    # By its name, the fork is read before what it was forked from.
    write_lines(tmp_path / f"{OTHER}.jsonl", [*fork, *own])
    origin = write_lines(tmp_path / f"{SESSION}.jsonl", [*COMPACTED, user("u9", "on", "a5", 10)])
    store.import_transcripts(tmp_path, settle=0)
    agent = store.agent(OTHER)
    assert (agent.parent, agent.head - agent.fork_seq) == (main(store).id, 2)
    assert said(agent) == ["what was said before", "we go on", "another way", "fine"]
    assert said(main(store)) == ["what was said before", "we go on", "on"]
    assert added(store, tmp_path, touched(origin)) == 0


def test_a_fork_that_comes_later_finds_what_it_was_forked_from(store, tmp_path):
    settle(write_lines(tmp_path / f"{SESSION}.jsonl", COMPACTED))
    added(store, tmp_path)
    fork = [record | {"sessionId": OTHER} for record in COMPACTED[6:]]
    write_lines(tmp_path / f"{OTHER}.jsonl", [*fork, user("f1", "another way", "a5", 20)])
    assert added(store, tmp_path) == 1
    assert store.agent(OTHER).parent == main(store).id


def test_a_fork_may_begin_with_records_of_its_own_and_in_the_middle_of_its_origin(store, tmp_path):
    hook = {
        "type": "progress",
        "uuid": "h1",
        "parentUuid": None,
        "timestamp": "2026-03-01T10:00:00.000Z",
    }
    fork = [
        hook,
        REWOUND[4] | {"parentUuid": "h1"},
        REWOUND[5],
        user("f1", "another way", "a3", 20),
    ]
    write_lines(tmp_path / f"{OTHER}.jsonl", fork)
    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    added(store, tmp_path)
    agent = store.agent(OTHER)
    assert (agent.parent, agent.head - agent.fork_seq) == (main(store).id, 1)


def test_a_fork_that_came_before_its_origin_names_it(store, tmp_path):
    copied = [
        record | {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION}}
        for record in REWOUND[:2]
    ]
    fork = write_lines(tmp_path / f"{OTHER}.jsonl", [*copied, user("f1", "elsewhere", "a1", 9)])
    added(store, fork)
    agent = store.agent(OTHER)
    assert (agent.parent, agent.about["forked_from"]) == (None, SESSION)
    added(store, write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND))
    assert store.agent(agent.about["forked_from"]) == main(store)
    assert "forked_from" not in main(store).about
    assert added(store, touched(fork)) == 0
    assert said(store.agent(OTHER)) == ["one", "first", "elsewhere"]


def test_a_fork_that_continues_its_origin_says_so_itself(store, tmp_path):
    copied = [
        record | {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION}}
        for record in REWOUND[:2]
    ]
    write_lines(tmp_path / f"{OTHER}.jsonl", [*copied, user("f1", "elsewhere", "a1", 9)])
    added(store, write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND).parent)
    agent = store.agent(OTHER)
    assert agent.parent == main(store).id
    assert "forked_from" not in agent.about


def test_a_fork_that_an_interrupted_import_did_not_write_comes_with_the_next(
    store, tmp_path, monkeypatch
):
    copied = [record | {"sessionId": OTHER, "forkedFrom": {"sessionId": "x"}} for record in REWOUND]
    fork = touched(write_lines(tmp_path / f"{OTHER}.jsonl", copied))

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("backstory.transcripts.writing.SessionWriter.write", stop)
        with pytest.raises(KeyboardInterrupt):
            added(store, fork)
    added(store, fork)
    assert said(store.agent(OTHER)) == ["one", "first", "two again", "third"]


def test_a_file_that_was_not_tried_after_an_error_is_read_by_the_next_import(
    store, tmp_path, monkeypatch
):
    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    side = {"isSidechain": True, "agentId": "b1"}
    helper = tmp_path / SESSION / "subagents" / "agent-b1.jsonl"
    write_lines(helper, [user("s1", "look", None, 7, **side)])
    read_steps = ClaudeTree.read_steps

    def fail(self):
        raise OSError(5, "Input/output error")
        yield

    monkeypatch.setattr(ClaudeTree, "read_steps", fail)
    assert added(store, tmp_path) == 0
    monkeypatch.setattr(ClaudeTree, "read_steps", read_steps)
    added(store, tmp_path)
    assert said(store.agent(f"{SESSION}/b1")) == ["look"]
