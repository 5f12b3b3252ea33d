"""Copies of one session: older ones, damaged ones, two that were continued, and what a person added."""

import json
import sys
from collections import Counter

import pytest

import backstory
from backstory.transcripts import export_transcript
from tests.transcripts.reading import write_lines
from tests.transcripts.test_again import added, touched
from tests.transcripts.test_growth import request
from tests.transcripts.test_import import (
    SESSION,
    answer,
    call,
    line,
    main,
    result,
    said,
    text,
    user,
)

NAME = f"{SESSION}.jsonl"
TALK = [
    user("u1", "one", None, 1),
    answer("a1", text("first"), "u1", 2),
    user("u2", "two", "a1", 3),
    answer("a2", text("second"), "u2", 4),
    user("u3", "three", "a2", 5),
    answer("a3", text("third"), "u3", 6),
    user("u4", "four", "a3", 7),
    answer("a4", text("fourth"), "u4", 8),
]
WORDS = ["one", "first", "two", "second", "three", "third", "four", "fourth"]
WORK = [
    user("u1", "go", None, 1),
    answer("a1", text("Let me look."), "u1", 2, "m1"),
    answer("a2", call("c1", path="a"), "a1", 3, "m1"),
    answer("a3", call("c2", path="b"), "a2", 4, "m1"),
    result("r1", "c1", "found", "a2", 5),
    result("r2", "c2", "missing", "a3", 6),
    answer("a4", text("I have it."), "r2", 7, "m2"),
    user("u2", "thanks", "a4", 8),
    answer("a5", text("You are welcome."), "u2", 9, "m3"),
]
LINES_IN_THE_MIDDLE = range(1, len(WORK) - 1)


@pytest.fixture
def store():
    with backstory.open(":memory:") as store:
        yield store


def import_alone(path):
    """The request of a session in a store of its own."""
    with backstory.open(":memory:") as store:
        added(store, path)
        return request(main(store))


def count_spoken(agent):
    """How often the context has each text, call and result."""
    spoken = agent.context().messages
    return Counter((event.kind, event.content, (event.data or {}).get("id")) for event in spoken)


def list_ids(agent, kind):
    """The ids of the calls, or of the results, in the context."""
    return sorted(event.data["id"] for event in agent.context().messages if event.kind == kind)


# ---------------------------------------------------------------- older and damaged copies


@pytest.mark.parametrize("length", range(1, len(TALK)))
def test_an_older_copy_leaves_the_context_as_it_is(store, tmp_path, length):
    whole = write_lines(tmp_path / "live" / NAME, TALK)
    older = write_lines(tmp_path / "backup" / NAME, TALK[:length])
    assert added(store, whole) == len(TALK)
    head = main(store).head
    assert added(store, older) == 0
    assert said(main(store)) == WORDS
    assert not store.import_transcripts(touched(whole), settle=0).has_news
    assert main(store).head == head


@pytest.mark.parametrize("lost", LINES_IN_THE_MIDDLE)
def test_a_copy_that_lacks_a_line_takes_nothing_away(store, tmp_path, lost):
    whole = write_lines(tmp_path / "live" / NAME, WORK)
    damaged = write_lines(tmp_path / "copy" / NAME, WORK[:lost] + WORK[lost + 1 :])
    added(store, whole)
    before = request(main(store))
    added(store, damaged)
    assert request(main(store)) == before
    assert added(store, touched(damaged), touched(whole)) == 0
    assert request(main(store)) == before


@pytest.mark.parametrize("lost", LINES_IN_THE_MIDDLE)
def test_the_whole_file_adds_the_line_that_a_copy_lacked(store, tmp_path, lost):
    whole = write_lines(tmp_path / "live" / NAME, WORK)
    damaged = write_lines(tmp_path / "copy" / NAME, WORK[:lost] + WORK[lost + 1 :])
    added(store, damaged)
    added(store, whole)
    assert request(main(store)) == import_alone(whole)
    assert added(store, touched(damaged), touched(whole)) == 0


def test_what_is_written_again_as_a_copy_is_reported(store, tmp_path):
    path = tmp_path / NAME
    store.import_transcripts(write_lines(path, [TALK[0], *TALK[2:4]]), settle=0)
    outcome = store.import_transcripts(write_lines(path, TALK[:4]), settle=0)
    assert said(main(store)) == WORDS[:4]
    [note] = outcome.merge_reports().notes
    assert note.what.startswith("2 entries are there again as copies")


def write_pi_file(path, texts):
    """A session of pi's first version, which has no ids."""
    header = {"type": "session", "id": "s1", "timestamp": "2025-11-20T00:00:00Z", "cwd": "/w"}
    entries = []
    for number, words in texts:
        message = {"role": "user", "content": words}
        time = f"2025-11-20T00:00:{number:02}Z"
        entries.append({"type": "message", "timestamp": time, "message": message})
    return write_lines(path, [header, *entries])


def write_goose_file(path, texts):
    """A session of goose's first releases, which have no ids."""
    header = {"working_dir": "/w", "description": "d", "message_count": 1}
    messages = []
    for number, words in texts:
        content = [{"type": "text", "text": words}]
        messages.append({"role": "user", "created": 1704110400 + number, "content": content})
    return write_lines(path, [header, *messages])


@pytest.mark.parametrize("write", [write_pi_file, write_goose_file])
def test_records_without_ids_are_known_by_time_and_content(store, tmp_path, write):
    texts = list(enumerate(["one", "two", "three", "four", "two"]))
    whole = write(tmp_path / "live" / "s1.jsonl", texts)
    damaged = write(tmp_path / "copy" / "s1.jsonl", texts[:1] + texts[2:])
    added(store, damaged)
    added(store, whole)
    [agent] = store.agents()
    assert said(agent) == ["one", "two", "three", "four", "two"]
    assert added(store, touched(damaged), touched(whole)) == 0


# ---------------------------------------------------------------- lines that come late


@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_line_of_an_answer_that_comes_late_repeats_no_call(store, tmp_path, late):
    path = tmp_path / NAME
    added(store, write_lines(path, WORK[:late] + WORK[late + 1 : 7]))
    added(store, write_lines(path, WORK))
    agent = main(store)
    assert list_ids(agent, "tool_call") == ["c1", "c2"]
    assert list_ids(agent, "tool_result") == ["c1", "c2"]
    assert request(agent) == import_alone(path)


def write_chat(folder, *words):
    """An export of ChatGPT: one conversation, in which each node continues the one before."""
    mapping = {}
    parent = None
    for word in words:
        content = {"content_type": "text", "parts": [word]}
        message = {"author": {"role": "user"}, "create_time": ord(word), "content": content}
        mapping[word] = {"parent": parent, "message": message}
        parent = word
    folder.mkdir()
    path = folder / "conversations.json"
    path.write_text(json.dumps([{"title": "Chat", "conversation_id": "c", "mapping": mapping}]))
    return path


def test_a_message_of_a_document_that_comes_late_is_put_before_what_follows_it(store, tmp_path):
    added(store, write_chat(tmp_path / "a", "p", "r", "s"))
    added(store, write_chat(tmp_path / "b", "p", "q", "r", "s"))
    [agent] = store.agents()
    assert said(agent) == ["p", "q", "r", "s"]


# ---------------------------------------------------------------- trees of Claude Code


def test_messages_that_follow_the_boundary_that_kept_them_are_imported_once(store, tmp_path):
    kept = {"anchorUuid": "s1", "uuids": ["a1", "a2", "r1"]}
    boundary = line("b1", None, 3, "system", None, subtype="compact_boundary")
    path = write_lines(
        tmp_path / NAME,
        [
            user("u1", "go", None, 1),
            boundary | {"compactMetadata": {"trigger": "auto", "preservedMessages": kept}},
            user("s1", "what was said before", "b1", 4, isCompactSummary=True),
            answer("a1", text("Let me look."), "s1", 5, "m1"),
            answer("a2", call("c1"), "a1", 6, "m1"),
            result("r1", "c1", "found", "a2", 7),
            answer("a3", text("I have it."), "r1", 8, "m2"),
        ],
    )
    added(store, path)
    assert count_spoken(main(store)) == {
        ("user", "what was said before", None): 1,
        ("assistant", "Let me look.", None): 1,
        ("tool_call", None, "c1"): 1,
        ("tool_result", "found", "c1"): 1,
        ("assistant", "I have it.", None): 1,
    }


def test_answers_that_alternate_on_one_chain_keep_the_inner_call(store, tmp_path):
    path = write_lines(
        tmp_path / NAME,
        [
            user("u1", "go", None, 1),
            answer("a1", text("outer"), "u1", 2, "m1"),
            answer("b1", call("c2"), "a1", 3, "m2"),
            answer("a2", call("c1"), "b1", 4, "m1"),
            result("r2", "c2", "inner result", "b1", 5),
            result("r1", "c1", "outer result", "a2", 6),
            answer("a3", text("done"), "r1", 7, "m3"),
        ],
    )
    added(store, path)
    assert count_spoken(main(store)) == {
        ("user", "go", None): 1,
        ("assistant", "outer", None): 1,
        ("tool_call", None, "c1"): 1,
        ("tool_call", None, "c2"): 1,
        ("tool_result", "outer result", "c1"): 1,
        ("tool_result", "inner result", "c2"): 1,
        ("assistant", "done", None): 1,
    }


# ---------------------------------------------------------------- two that continue


EARLIER = [user("x1", "on one machine", "a2", 11), answer("x2", text("fine"), "x1", 12)]
LATER = [user("y1", "on another", "a2", 21), answer("y2", text("good"), "y1", 22)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 0, 1), (1, 0, 1, 0)])
def test_of_two_continuations_the_later_one_is_the_context_in_any_order(store, tmp_path, order):
    files = [
        write_lines(tmp_path / "a" / NAME, TALK[:4] + EARLIER),
        write_lines(tmp_path / "b" / NAME, TALK[:4] + LATER),
    ]
    for number in order:
        added(store, touched(files[number]))
    agent = main(store)
    assert said(agent) == [*WORDS[:4], "on another", "good"]
    spoken = [event.content for event in agent.events() if event.kind in ("user", "assistant")]
    assert sorted(spoken) == sorted([*WORDS[:4], "on one machine", "fine", "on another", "good"])
    agent.jump(agent.find("x2").seq)
    assert said(agent) == [*WORDS[:4], "on one machine", "fine"]


def test_what_the_tool_adds_is_a_branch_if_a_person_continued(store, tmp_path):
    path = tmp_path / NAME
    added(store, write_lines(path, TALK[:4]))
    agent = main(store)
    agent.user("mine")
    outcome = store.import_transcripts(write_lines(path, TALK), settle=0)
    assert said(agent) == [*WORDS[:4], "mine"]
    [note] = outcome.merge_reports().notes
    assert note.source == str(path)
    assert note.what == "the session was continued here, too: what the tool added is a branch"
    again = store.import_transcripts(touched(path), settle=0)
    assert (again.has_news, again.merge_reports().notes) == (False, [])
    agent.jump(agent.find("a4").seq)
    assert said(agent) == WORDS


# ---------------------------------------------------------------- the cost of branches


def start_agent(store, moves):
    """An agent with 2,000 messages. `moves` of them are left as branches."""
    agent = store.start()
    steps = 2_000
    for number in range(steps):
        agent.user(f"prompt {number}")
        if moves and number % (steps // moves) == steps // moves - 1:
            agent.jump(agent.head - 1)
    return agent


def count_calls(store, agent):
    """How many functions an export calls, those of C included."""
    counts = Counter()

    def count(_frame, event, _argument):
        counts[event] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        export_transcript(store, store.resolve(agent.id), "claude-code")
    finally:
        sys.setprofile(before)
    return counts["call"] + counts["c_call"]


def test_a_branch_does_not_make_an_export_read_the_whole_line_again(store):
    without = count_calls(store, start_agent(store, moves=0))
    assert count_calls(store, start_agent(store, moves=40)) < 1.5 * without


def test_a_text_whose_answer_began_earlier_than_a_copy_knew_takes_the_head(store, tmp_path):
    """The time of a text is that of the first line of its answer, which a copy can lack."""
    blank = answer("a1", text("\n\n"), "u1", 2, "m1")
    lines = [user("u1", "go", None, 1), blank, answer("a2", text("Yes."), "a1", 3, "m1")]
    damaged = write_lines(tmp_path / "copy" / NAME, [lines[0], lines[2]])
    whole = write_lines(tmp_path / "live" / NAME, lines)
    added(store, damaged)
    added(store, whole)
    assert request(main(store)) == import_alone(whole)


def test_a_chat_file_that_grew_is_another_session_and_says_so(store, tmp_path):
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]
    path = write_lines(tmp_path / "chat.jsonl", [{"messages": talk}])
    assert not store.import_transcripts(path).report.notes
    write_lines(path, [{"messages": [*talk, {"role": "user", "content": "more"}]}])
    [note] = store.import_transcripts(path).report.notes
    assert "new sessions" in note.what
    assert len(store.agents()) == 2


def test_a_session_of_an_earlier_version_is_left_alone_and_the_way_out_is_named(store, tmp_path):
    path = write_lines(tmp_path / NAME, TALK[:2])
    added(store, path)
    with store.intake() as intake:  # as earlier versions remembered it
        intake.remember("claude-code", SESSION, cursor={"position": 2, "keys": "old"})
    write_lines(path, TALK)
    outcome = store.import_transcripts(path, settle=0)
    assert said(main(store)) == ["one", "first"]
    [note] = outcome.merge_reports().notes
    assert "delete the session" in note.what
    assert "import it again" in note.what


def test_a_longer_copy_in_another_project_is_the_fork_whatever_else_is_beside_the_original(
    store, tmp_path
):
    other = "0c5f2f0e-0000-4000-8000-0000000000f0"
    later = [record | {"timestamp": "2026-06-01T00:00:00.000Z"} for record in TALK]
    later = [rename(record, "later") for record in later]
    write_lines(tmp_path / "A" / "0.jsonl", later)
    write_lines(tmp_path / "A" / f"{SESSION}.jsonl", TALK)
    copied = [record | {"sessionId": other} for record in TALK]
    added_by_copy = user("f1", "elsewhere", "a4", 20, sessionId=other)
    write_lines(tmp_path / "B" / f"{other}.jsonl", [*copied, added_by_copy])
    store.import_transcripts(tmp_path, settle=0)
    assert main(store).parent is None
    assert store.agent(other).parent == main(store).id


def rename(record, mark):
    """A record with an id and a parent of its own."""
    parent = record["parentUuid"]
    return record | {
        "uuid": f"{mark} {record['uuid']}",
        "parentUuid": parent and f"{mark} {parent}",
    }
