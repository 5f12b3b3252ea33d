"""A source that is imported while it grows ends where one import of the finished source does."""

import json
import os
from collections import Counter
from contextlib import contextmanager, suppress
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings

import backstory
from backstory.transcripts import writing
from tests.slow import more
from tests.transcripts.reading import write_lines
from tests.transcripts.stories import Story, seeds
from tests.transcripts.test_import import answer, call, result, text, user
from tests.transcripts.test_import import line as line_of
from tests.transcripts.test_stories_of_documents import NAMELESS, story_for
from tests.transcripts.wild_claude import AGENT, SESSION, Wild
from tests.transcripts.writers import TOOLS
from tests.transcripts.writers_documents import KEEPERS

SETTLE = (0, 1e9)  # everything counts as complete, or only what is followed by something else
growth = settings(
    max_examples=more(60, slow=3_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def request(agent):
    """What a model is given. The text of an answer that came in pieces is as good as in one."""
    return [
        (message["role"], joined(message["content"]))
        for message in agent.conversation().to("anthropic", model="claude-x")["messages"]
    ]


def joined(content):
    blocks = []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if blocks and block["type"] == blocks[-1]["type"] == "text":
            blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + block["text"]}
        else:
            blocks.append(block)
    return blocks


def said(agent):
    """All that was said, live or not, and the letters of all answers: they may be in pieces."""
    events = [event for event in agent.events() if "copy_of" not in (event.data or {})]
    spoken = Counter(
        (event.kind, event.content, (event.data or {}).get("id"))
        for event in events
        if event.kind in ("user", "system", "tool_call", "tool_result")
    )
    return spoken, sorted("".join(event.content for event in events if event.kind == "assistant"))


def line(agent):
    """What is said on the way to the head, clears crossed."""
    rows = {row.seq: row for row in agent.outline()}
    at, found = agent.head, Counter()
    while at > 0:
        kind, base = rows[at].kind, rows[at].base
        if kind in ("user", "system", "tool_call", "tool_result", "clear"):
            event = agent.events([at])[0]
            found[kind, event.content, (event.data or {}).get("id")] += 1
        at = at - 1 if base is None or kind == "clear" else base
    return found


def originals(agent):
    """Where what copies repeat was said first."""
    return {event.data["copy_of"] for event in agent.events() if "copy_of" in (event.data or {})}


def compare(grown, fresh):
    """Two stores that have the same sessions."""
    others = {agent.key: agent for agent in fresh.agents()}
    agents = {agent.key: agent for agent in grown.agents()}
    assert agents.keys() == others.keys()
    for key, agent in agents.items():
        assert request(agent) == request(others[key])
        assert said(agent) == said(others[key])
        assert line(agent) == line(others[key])
        assert all(
            "copy_of" not in (agent.events([place])[0].data or {}) for place in originals(agent)
        )
    assert grown.verify() == []


def forget(store, *paths):
    """Let an import read files again that did not change."""
    with store.intake() as intake:
        for path in paths:
            intake.remember("file", str(path), cursor={})


def ends_of(random, lines):
    """Where a file ends, each time it is imported: after each line, after some, or within lines."""
    whole = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    match random.randrange(3):
        case 0:
            return whole
        case 1:
            return sorted({*random.sample(whole, min(5, len(whole))), whole[-1]})
    return sorted({*random.sample(range(1, whole[-1]), min(8, whole[-1] - 1)), whole[-1]})


def grow(folder, files, random):
    """Import files after each of some steps in which they grow, and once more at the end."""
    settle = random.choice(SETTLE)
    steps = [(path, end) for path, lines in files.items() for end in ends_of(random, lines)]
    if len(files) > 1:  # in any order, but each of them grows
        random.shuffle(steps)
        steps.sort(key=lambda step: step[1] / sum(map(len, files[step[0]])))
    with backstory.open(":memory:") as grown:
        for path, end in steps:
            path.write_bytes(b"".join(files[path])[:end])
            grown.import_transcripts([folder], settle=settle)
        finish(grown, *files)


def finish(grown, *paths):
    """Import finished files. A second time adds nothing, and all is as one import gives it."""
    heads = []
    for _ in range(2):
        forget(grown, *paths)
        grown.import_transcripts(paths, settle=0)
        heads.append({agent.key: agent.head for agent in grown.agents()})
    assert heads[0] == heads[1]
    with backstory.open(":memory:") as fresh:
        fresh.import_transcripts(paths, settle=0)
        compare(grown, fresh)


def encoded(records):
    return [(json.dumps(record) + "\n").encode() for record in records]


@growth
@given(seed=seeds)
def test_a_wild_session_of_claude_code(tmp_path, seed):
    random = Random(seed)
    path = tmp_path / f"{SESSION}.jsonl"
    grow(tmp_path, {path: encoded(Wild(random, length=random.randint(3, 30)).records)}, random)


@growth
@given(seed=seeds)
@example(seed=84)  # an answer that is left out for now was kept by a compaction
@example(seed=214)
def test_a_wild_session_with_a_sub_agent(tmp_path, seed):
    random = Random(seed)
    main = Wild(random, length=random.randint(3, 20), damage=False, spawns=True)
    other = Wild(random, length=random.randint(3, 20), damage=False, agent=AGENT)
    files = {
        tmp_path / f"{SESSION}.jsonl": encoded(main.records),
        tmp_path / f"agent-{AGENT}.jsonl": encoded(other.records),
    }
    for path in files:
        path.unlink(missing_ok=True)
    grow(tmp_path, files, random)


@growth
@given(seed=seeds)
@example(seed=60653)  # gemini: a compaction keeps an answer without text
@pytest.mark.parametrize("name", TOOLS)
def test_a_story_in_lines(tmp_path, name, seed):
    random = Random(seed)
    file, records = TOOLS[name].write(Story(random, **TOOLS[name].options))
    grow(tmp_path, {tmp_path / file: encoded(records)}, random)


@growth
@given(seed=seeds)
@pytest.mark.parametrize("name", [name for name in KEEPERS if name not in NAMELESS])
def test_a_story_in_a_document_or_database(tmp_path, name, seed):
    random = Random(seed)
    story = story_for(name, random)
    length = len(story.turns)
    ends = sorted({*random.sample(range(1, length + 1), min(4, length)), length})
    settle = random.choice(SETTLE)
    with backstory.open(":memory:") as grown:
        for number, end in enumerate(ends):
            path = KEEPERS[name].write(story.turns[:end], tmp_path)
            os.utime(path, (1_772_600_000 + number, 1_772_600_000 + number))
            grown.import_transcripts([path], settle=settle)
        finish(grown, path)


class Killed(BaseException):
    """Nothing that an import could catch."""


@contextmanager
def dying(monkeypatch, commits, batch=1):
    """Let an import die after so many commits, each of so many events."""
    left = [None] * commits

    def commit(writer, whole=writing.ThreadWriter.commit):
        if not left:
            raise Killed
        left.pop()
        whole(writer)

    with monkeypatch.context() as patched, suppress(Killed):
        patched.setattr(writing, "BATCH", batch)
        patched.setattr(writing.ThreadWriter, "commit", commit)
        yield


@growth
@given(seed=seeds)
@example(seed=10)  # a late result, and what a compaction kept of it, go to several branches
@example(seed=47)  # what a compaction kept is told before the original
@example(seed=265)
@example(seed=3_524_003_249)  # a compaction, as a new unit, kept what came late
@example(seed=5654)  # killed on the way back to where the tool is
@example(seed=61)  # killed before results were copied
@example(seed=254)
@example(seed=31_965_332)  # most answers after a result continue a prompt
def test_a_wild_session_whose_imports_are_killed(tmp_path, monkeypatch, seed):
    random = Random(seed)
    path = tmp_path / f"{SESSION}.jsonl"
    lines = encoded(Wild(random, length=random.randint(3, 30)).records)
    settle = random.choice(SETTLE)
    monkeypatch.setattr(writing, "LOOK_UP", random.choice([1, 3, 500]))
    with backstory.open(":memory:") as grown:
        for end in ends_of(random, lines):
            path.write_bytes(b"".join(lines)[:end])
            with dying(monkeypatch, random.randrange(8), random.choice([1, 2, 3])):
                grown.import_transcripts(path, settle=settle)
        finish(grown, path)


@pytest.mark.parametrize("commits", range(1, 5))
def test_copies_that_a_killed_import_did_not_write_are_written_by_the_next(
    tmp_path, monkeypatch, commits
):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [
        user("u1", "go", None, 0),
        answer("a1", call("c1"), "u1", 1, "m1"),
        user("u2", "and", "a1", 2),
        answer("a2", call("c2"), "u2", 3, "m1"),
    ]
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, lines[:3]), settle=0)
        write_lines(path, lines)
        with dying(monkeypatch, commits):
            grown.import_transcripts(path, settle=0)
        finish(grown, path)


THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
KEPT = {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u1", "a1", "a2"]}}
CUT = [
    line_of("b1", None, 3, "system", None, subtype="compact_boundary", compactMetadata=KEPT),
    user("s1", "summary", "b1", 4, isCompactSummary=True),
]


@pytest.mark.parametrize("above", ["a1", "s1"])
@pytest.mark.parametrize("next", [[], [user("u2", "on", "s1", 5)]])
@pytest.mark.parametrize(
    "more", [text(" can"), call("c2"), [*THOUGHT, *call("c2")], [*THOUGHT, *text(" do")]]
)
@pytest.mark.parametrize(
    "first", [text("We"), call("c1"), [*THOUGHT, *text("We")], [*THOUGHT, *call("c1")]]
)
def test_what_an_answer_gets_after_a_compaction_that_kept_it_is_kept_too(
    tmp_path, first, more, next, above
):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [user("u1", "go", None, 1), answer("a1", first, "u1", 2, "m1"), *CUT, *next]
    late = answer("a2", more, above, 6, "m1")
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, lines), settle=0)
        grown.import_transcripts(write_lines(path, [*lines, late]), settle=0)
        finish(grown, path)


def test_a_late_result_is_on_each_branch_once_however_often_they_change(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [
        user("u1", "go", None, 1),
        answer("a1", call("c1"), "u1", 2, "m1"),
        user("x1", "one way", "a1", 3),
        user("y1", "another", "a1", 4),
        result("r1", "c1", "done", "a1", 5),
        user("x2", "this one", "x1", 6),
        user("y2", "or that", "y1", 7),
        user("x3", "this one again", "x2", 8),
        user("y3", "no, that", "y2", 9),
    ]
    with backstory.open(":memory:") as grown:
        for end in range(3, len(lines) + 1):
            grown.import_transcripts(write_lines(path, lines[:end]), settle=0)
        finish(grown, path)


TASK = [user("u1", "go", None, 1), answer("a1", call("c1"), "u1", 2, "m1")]
EXIT = user(
    "x1", "<command-name>/exit</command-name>", "a1", 3
)  # a dead end, until something continues it
MORE = [answer("a2", call("c2"), "a1", 8, "m1"), result("r2", "c2", "two", "a2", 9)]
PROGRESS = {
    "type": "progress",
    "uuid": "p1",
    "parentUuid": "u1",
    "timestamp": "2026-03-01T09:00:09.000Z",
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # What a prompt continues comes later: until then, it seems to be the prompt above it.
        (
            [user("u1", "go", None, 1), user("x1", "this", "u1", 2), user("x2", "that", "p1", 3)],
            [PROGRESS],
        ),
        # A result comes before its call, and the log ends with it.
        ([user("u1", "go", None, 1), result("r1", "c1", "done", "u1", 3)], [TASK[1]]),
        # An answer that the tool went back to grows, then goes on elsewhere.
        ([*TASK, EXIT], [*MORE, user("x2", "that", "x1", 10)]),
    ],
)
def test_what_belongs_elsewhere_is_written_there(tmp_path, before, after):
    path = tmp_path / f"{SESSION}.jsonl"
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, before), settle=0)
        grown.import_transcripts(write_lines(path, [*before, *after]), settle=0)
        finish(grown, path)


def test_a_late_result_is_before_what_is_said_next(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [
        *TASK,
        user("x1", "this", "a1", 3),
        result("r1", "c1", "done", "a1", 4),
        user("x2", "that", "x1", 5),
    ]
    with backstory.open(":memory:") as grown:
        grown.import_transcripts(write_lines(path, lines[:3]), settle=0)
        grown.import_transcripts(write_lines(path, lines), settle=0)
        kinds = [event.kind for event in grown.agents()[0].context().messages]
        finish(grown, path)
    spoken = [kind for kind in kinds if kind != "jump"]
    assert spoken == ["user", "tool_call", "tool_result", "user", "user"]


def test_a_result_that_a_branch_lacks_is_copied_but_not_the_branch(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    branch = [
        user(f"x{n}", f"step {n}", f"x{n - 1}" if n > 1 else "a1", 2 + n) for n in range(1, 6)
    ]
    late = [result("r1", "c1", "done", "a1", 8), user("y1", "another way", "r1", 9)]
    back = [user("x6", "back", "x5", 10)]
    with backstory.open(":memory:") as grown:
        for lines in ([*TASK, *branch], [*TASK, *branch, *late], [*TASK, *branch, *late, *back]):
            grown.import_transcripts(write_lines(path, lines), settle=0)
        finish(grown, path)
