"""A file that grew is read on from its tail, and the store gets what the whole file would give."""

import json
import os
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import backstory
from backstory.transcripts import importing, sources
from tests.slow import more
from tests.transcripts.reading import write_lines
from tests.transcripts.stories import Story, seeds
from tests.transcripts.test_growth import compare
from tests.transcripts.test_import import SESSION, answer, call, main, result, said, text, user
from tests.transcripts.test_import import line as line_of
from tests.transcripts.writers import TOOLS

TAILS = ("claude-code", "codex")
WINDOW = 2_000  # bytes, so that files that are as small as those of a test have tails


@pytest.fixture(params=TAILS)
def tool(request):
    return next(one for one in TOOLS.values() if one.format == request.param)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(sources, "WINDOW", WINDOW)


@pytest.fixture
def starts(monkeypatch):
    """Where each reading of a file began; None: at its beginning."""
    found = []
    lines = sources.FileSource.lines

    def note_start(self, report):
        found.append(None if self.tail is None else self.tail.lines)
        return lines(self, report)

    monkeypatch.setattr(sources.FileSource, "lines", note_start)
    return found


CHAT = [user("u0", "hello", None, 0)]
for number in range(1, 60):
    CHAT += [answer(f"a{number}", text(f"answer {number}"), f"u{number - 1}", number)]
    CHAT += [user(f"u{number}", f"prompt {number}", f"a{number}", number)]


def grow(store, path, lines, new):
    """Import some lines, then those and new ones."""
    store.import_transcripts(write_lines(path, lines), settle=0)
    return store.import_transcripts(write_lines(path, [*lines, *new]), settle=0)


def test_a_new_turn_is_read_from_the_tail(store, tmp_path, starts):
    path = tmp_path / f"{SESSION}.jsonl"
    outcome = grow(store, path, CHAT, [answer("a60", text("the end"), "u59", 59)])
    assert starts == [None, len(CHAT)]
    assert [session.new_events for session in outcome.sessions] == [1]
    assert said(main(store))[-2:] == ["prompt 59", "the end"]
    os.utime(path, (1, 1))
    assert not store.import_transcripts(path, settle=0).has_news


def write_copy(path, lines, *, ends=True):
    """Write lines, the last one without its end if the program was killed."""
    write_lines(path, lines)
    if not ends:
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
    return path


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("more", [[], [user("u60", "go on", "u59", 61)]])
def test_a_tail_continues_the_line_of_the_head_and_not_of_a_damaged_copy(
    store, tmp_path, ends, more
):
    whole = tmp_path / "live" / f"{SESSION}.jsonl"
    copy = tmp_path / "copy" / f"{SESSION}.jsonl"
    store.import_transcripts(write_copy(whole, CHAT, ends=ends), settle=0)
    branch = [*CHAT[:100], user("x1", "lost here", "u49", 50), *CHAT[101:]]
    branch[101] = {**branch[101], "parentUuid": "x1"}
    store.import_transcripts(write_lines(copy, branch[:-1]), settle=0)
    before = said(main(store))
    store.import_transcripts(write_copy(whole, [*CHAT, *more], ends=ends), settle=0)
    os.utime(whole, (1, 1))
    assert not store.import_transcripts(whole, settle=0).has_news
    assert said(main(store)) == before + ["go on"] * len(more)


@pytest.mark.parametrize(
    "new",
    [
        [user("x1", "else", "u1", 59)],  # it continues a record before the tail
        [result("r1", "c1", "done", "u59", 59)],  # its call is not in the tail
        [user("x1", "a new context", None, 59)],  # a second root
        [{"type": "last-prompt", "leafUuid": "u1"}],  # it names a record before the tail
    ],
    ids=["rewind", "result", "clear", "leaf"],
)
def test_lines_that_refer_to_something_before_the_tail_read_the_whole_file(
    store, tmp_path, starts, new
):
    path = tmp_path / f"{SESSION}.jsonl"
    first = [*CHAT[:2], answer("c0", call("c1"), "u0", 1), *CHAT[2:]]
    grow(store, path, first, new)
    assert starts == [None, len(first), None]
    with backstory.open(":memory:") as fresh:
        fresh.import_transcripts(path, settle=0)
        compare(store, fresh)


def test_a_file_that_an_earlier_reader_read_is_read_whole(store, tmp_path, starts, monkeypatch):
    path = tmp_path / f"{SESSION}.jsonl"
    store.import_transcripts(write_lines(path, CHAT), settle=0)
    monkeypatch.setattr(importing, "VERSION", importing.VERSION + 1)
    new = [answer("a60", text("the end"), "u59", 59)]
    store.import_transcripts(write_lines(path, [*CHAT, *new]), settle=0)
    assert starts == [None, None]


def test_a_file_that_was_rewritten_is_read_from_its_beginning(store, tmp_path, starts):
    path = tmp_path / f"{SESSION}.jsonl"
    store.import_transcripts(write_lines(path, CHAT), settle=0)
    other = [line | {"version": "2.2.0"} for line in CHAT]
    new = [answer("a60", text("the end"), "u59", 59)]
    store.import_transcripts(write_lines(path, [*other, *new]), settle=0)
    assert starts == [None, None]
    assert said(main(store))[-1] == "the end"


def attach(id, parent, second):
    """A line that fills the window and is not part of the conversation."""
    return line_of(id, parent, second, "attachment", None, attachment={"content": "f" * WINDOW})


def compare_with_fresh(store, path):
    with backstory.open(":memory:") as fresh:
        fresh.import_transcripts(path, settle=0)
        compare(store, fresh)


def test_a_first_prompt_before_the_window_stays_in_the_context(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    first = [user("u1", "first " + "i" * WINDOW, None, 1), attach("x2", "u1", 2)]
    grow(store, path, first, [answer("a3", text("yes"), "x2", 3), user("u4", "next", "a3", 4)])
    assert said(main(store))[0].startswith("first")
    compare_with_fresh(store, path)


def test_a_rewind_to_the_first_line_before_the_window_is_a_branch(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    first = [*CHAT, attach("x1", "u59", 58)]
    grow(store, path, first, [answer("b1", text("another"), "u0", 59)])
    compare_with_fresh(store, path)


KEPT = {
    "messages": {"preservedMessages": {"anchorUuid": "s", "uuids": ["a2"]}},
    "segment": {"preservedSegment": {"anchorUuid": "s", "headUuid": "u1", "tailUuid": "a2"}},
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("padded", range(3))  # the window begins after this line
def test_what_a_compaction_kept_stays_if_the_window_begins_near_it(store, tmp_path, kept, padded):
    path = tmp_path / f"{SESSION}.jsonl"
    boundary = line_of("b", None, 3, "system", None, subtype="compact_boundary")
    boundary |= {"logicalParentUuid": "a2", "compactMetadata": kept}
    first = [user("u1", "p1", None, 1), answer("a2", text("KEPT"), "u1", 2), boundary]
    first[padded]["padding"] = "i" * WINDOW
    first += [user("s", "SUMMARY", "b", 4, isCompactSummary=True), attach("x5", "s", 5)]
    grow(store, path, first, [user("u6", "next", "x5", 6), answer("a7", text("ok"), "u6", 7)])
    assert "KEPT" in said(main(store))
    compare_with_fresh(store, path)


@settings(
    max_examples=more(40, slow=2_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=seeds)
@example(seed=63572)  # a late result in an answer that began before the tail
def test_a_story_that_is_read_from_tails_ends_like_one_that_is_read_whole(tmp_path, tool, seed):
    random = Random(seed)
    name, records = tool.write(Story(random, **tool.options))
    lines = [(json.dumps(record) + "\n").encode() for record in records]
    ends = sorted({*random.sample(range(1, len(lines) + 1), min(6, len(lines))), len(lines)})
    path = tmp_path / name
    with backstory.open(":memory:") as grown, backstory.open(":memory:") as fresh:
        for end in ends:
            path.write_bytes(b"".join(lines[:end]))
            grown.import_transcripts(path, settle=0)
        fresh.import_transcripts(path, settle=0)
        compare(grown, fresh)


@settings(
    max_examples=more(60, slow=3_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=seeds, window=st.sampled_from((1, 200, 600)))
@example(seed=427, window=1)
@example(seed=433, window=1)
def test_a_tail_may_begin_at_any_line(tmp_path, monkeypatch, tool, seed, window):
    monkeypatch.setattr(sources, "WINDOW", window)
    monkeypatch.setattr(sources, "AROUND", 64)
    random = Random(seed)
    name, records = tool.write(Story(random, **tool.options))
    lines = [(json.dumps(record) + "\n").encode() for record in records]
    ends = sorted({*random.sample(range(1, len(lines) + 1), min(6, len(lines))), len(lines)})
    path = tmp_path / name
    with backstory.open(":memory:") as grown:
        for end in ends:
            path.write_bytes(b"".join(lines[:end]))
            grown.import_transcripts(path, settle=0)
        compare_with_fresh(grown, path)


def turn(number, parent, id="call_1"):
    """An answer with a call, and its result."""
    name = f"{id}.{number}"
    return [
        answer(f"a{name}", call(id), parent, number % 60),
        result(f"r{name}", id, f"result {number}", f"a{name}", number % 60),
    ]


def test_a_call_id_that_is_also_before_the_window_is_numbered(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [CHAT[0], *turn(0, "u0"), *CHAT[1:]]
    lines[3] = lines[3] | {"parentUuid": "rcall_1.0"}
    store.import_transcripts(write_lines(path, lines), settle=0)
    parent = "u59"
    for number in range(60, 64):
        lines += turn(number, parent)
        parent = f"rcall_1.{number}"
        store.import_transcripts(write_lines(path, lines), settle=0)
        compare_with_fresh(store, path)
        lines.append(attach(f"x{number}", parent, 1))
        parent = f"x{number}"


def test_what_a_tail_wrote_is_counted_if_another_file_is_read_whole_then(store, tmp_path):
    side = {"isSidechain": True, "agentId": "b1"}
    path = tmp_path / f"{SESSION}.jsonl"
    inner = tmp_path / SESSION / "subagents" / "agent-b1.jsonl"
    helper = [line | side for line in CHAT]
    write_lines(inner, helper)
    grow_main = [answer("n1", text("a"), "u59", 59), user("n2", "b", "n1", 59)]
    store.import_transcripts(write_lines(path, CHAT).parent, settle=0)
    failed = answer("e1", text("API Error"), "u59", 59, isApiErrorMessage=True, **side)
    write_lines(inner, [*helper, answer("n3", text("c"), "u59", 58, **side), failed])
    write_lines(path, [*CHAT, *grow_main])
    before = sum(agent.head for agent in store.agents())
    outcome = store.import_transcripts(tmp_path, settle=0)
    assert said(main(store))[-2:] == ["a", "b"]
    [session] = outcome.sessions
    assert session.new_events == sum(agent.head for agent in store.agents()) - before


def test_a_large_file_that_is_deleted_before_its_tail_is_read_is_reported(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    store.import_transcripts(write_lines(path, CHAT), settle=0)
    write_lines(path, [*CHAT, answer("a60", text("the end"), "u59", 59)])
    other = write_lines(tmp_path / "other.jsonl", [user("o1", "hello", None, 1)])
    importer = importing.Importer(store, [path, other], settle=0)
    path.unlink()
    assert [one.id for one in importer.import_sessions()] == ["other"]
    assert [fault.source for fault in importer.outcome.report.unread] == [path.as_posix()]


def test_a_first_line_that_is_in_the_window_is_read_once(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u0", "short", None, 0), answer("a1", text("long" * WINDOW), "u0", 1)]
    outcome = grow(store, path, lines, [user("u2", "on", "a1", 2)])
    assert outcome.merge_reports().mended == {}


def test_a_clock_that_was_set_back_before_the_window_does_not_hide_what_is_new(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [*CHAT, answer("a60", text("earlier"), "u59", 10)]
    grow(store, path, lines, [user("u60", "next", "a60", 20)])
    assert said(main(store))[-2:] == ["earlier", "next"]
    compare_with_fresh(store, path)


def test_a_title_after_a_window_in_which_nothing_was_said_is_imported(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    prompt = {"type": "last-prompt", "lastPrompt": "hello", "sessionId": SESSION}
    titles = [
        {"type": "custom-title", "customTitle": title, "sessionId": SESSION}
        for title in ("A draft", "A title")
    ]
    grow(store, path, [prompt, *CHAT, attach("x1", "u59", 59), prompt], titles)
    assert main(store).about["title"] == "A title"
