"""A source that is imported while it grows ends where one import of the finished source does."""

import json
import os
from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

import backstory
from backstory.importers import thread_writer
from tests.importers.reading import write_lines
from tests.importers.stories import Story, seeds
from tests.importers.test_import import answer, call, user
from tests.importers.test_stories_of_documents import NAMELESS, story_for
from tests.importers.wild_claude import AGENT, SESSION, Wild
from tests.importers.writers import TOOLS
from tests.importers.writers_documents import KEEPERS
from tests.slow import more

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
            event = agent.event(at)
            found[kind, event.content, (event.data or {}).get("id")] += 1
        at = at - 1 if base is None or kind == "clear" else base
    return found


def compare(grown, fresh):
    """Two stores that have the same sessions."""
    others = {agent.key: agent for agent in fresh.agents()}
    agents = {agent.key: agent for agent in grown.agents()}
    assert agents.keys() == others.keys()
    for key, agent in agents.items():
        assert request(agent) == request(others[key])
        assert said(agent) == said(others[key])
        assert line(agent) == line(others[key])
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
    with backstory.open(":memory:") as grown, backstory.open(":memory:") as fresh:
        for path, end in steps:
            path.write_bytes(b"".join(files[path])[:end])
            grown.import_transcripts([folder], settle=settle)
        heads = []
        for _ in range(2):
            forget(grown, *files)
            grown.import_transcripts([folder], settle=0)
            heads.append({agent.key: agent.head for agent in grown.agents()})
        assert heads[0] == heads[1]
        fresh.import_transcripts([folder], settle=0)
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
    with backstory.open(":memory:") as grown, backstory.open(":memory:") as fresh:
        for number, end in enumerate(ends):
            path = KEEPERS[name].write(story.turns[:end], tmp_path)
            os.utime(path, (1_772_600_000 + number, 1_772_600_000 + number))
            grown.import_transcripts([path], settle=settle)
        heads = []
        for _ in range(2):
            forget(grown, path)
            grown.import_transcripts([path], settle=0)
            heads.append({agent.key: agent.head for agent in grown.agents()})
        assert heads[0] == heads[1]
        fresh.import_transcripts([path], settle=0)
        compare(grown, fresh)


@pytest.mark.parametrize("commits", range(1, 5))
def test_copies_that_a_killed_import_did_not_write_are_written_by_the_next(tmp_path, monkeypatch, commits):
    class Killed(BaseException):
        pass

    def commit(writer, whole=thread_writer.ThreadWriter.commit):
        if not left:
            raise Killed
        left.pop()
        whole(writer)

    path = tmp_path / f"{SESSION}.jsonl"
    lines = [
        user("u1", "go", None, 0),
        answer("a1", call("c1"), "u1", 1, "m1"),
        user("u2", "and", "a1", 2),
        answer("a2", call("c2"), "u2", 3, "m1"),
    ]
    with backstory.open(":memory:") as grown, backstory.open(":memory:") as fresh:
        grown.import_transcripts(write_lines(path, lines[:3]), settle=0)
        left = [None] * commits
        with monkeypatch.context() as patched, suppress(Killed):
            patched.setattr(thread_writer, "BATCH", 1)
            patched.setattr(thread_writer.ThreadWriter, "commit", commit)
            grown.import_transcripts(write_lines(path, lines), settle=0)
        for _ in range(2):
            forget(grown, path)
            again = grown.import_transcripts(path, settle=0)
        assert [found.new_events for found in again.sessions] == [0]
        fresh.import_transcripts(path, settle=0)
        compare(grown, fresh)
