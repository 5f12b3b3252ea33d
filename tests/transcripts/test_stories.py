"""What holds for every format: random trees in its own grammar come back; nothing that is broken raises."""

import json
from itertools import groupby
from random import Random

import pytest
from hypothesis import given

from backstory.transcripts.matching import SPEAKING_KINDS, KnownLog, LogTree
from tests.transcripts.reading import (
    context,
    entry_ids,
    events_of,
    everything,
    log,
    mutated,
    one,
    read,
    steps_of,
    write_lines,
)
from tests.transcripts.stories import Story, seeds, tree
from tests.transcripts.writers import TOOLS

INSTRUCTIONS = ("system", "Be Codex.")


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def without_instructions(lines):
    return [line for line in lines if line != INSTRUCTIONS]


@tree
@given(seed=seeds)
def test_a_story_comes_back_with_its_context_and_with_all_that_was_left_behind(
    tmp_path, tool, seed
):
    story = Story(Random(seed), **tool.options)
    name, lines = tool.write(story)
    events = log(one(read(write_lines(tmp_path / name, lines))[0]))
    assert without_order(without_instructions(context(events))) == without_order(
        story.leaf.context()
    )
    assert sorted(without_blanks(without_instructions(everything(events)))) == sorted(
        without_blanks(story.everything())
    )


@tree
@given(seed=seeds)
def test_what_was_settled_keeps_its_ids_and_words_while_the_file_grows(tmp_path, tool, seed):
    random = Random(seed)
    name, lines = tool.write(Story(random, **tool.options))
    known = {}
    for end in [*sorted(random.sample(range(1, len(lines) + 1), min(4, len(lines)))), len(lines)]:
        write_lines(tmp_path / name, lines[:end])
        for session in read(tmp_path / name)[0]:
            units = [unit for unit in session.threads[0].read_units() if unit.is_complete]
            for entry in [entry for unit in units for entry in unit.entries]:
                assert known.setdefault(entry.id, (entry.kind, entry.content)) == (
                    entry.kind,
                    entry.content,
                )


@tree
@given(seed=seeds)
def test_a_broken_file_is_read_as_far_as_it_goes(tmp_path, tool, seed):
    random = Random(seed)
    name, lines = tool.write(Story(random, **tool.options))
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with mutated(data, random) as broken:
        (tmp_path / name).write_bytes(broken)
    sessions, _ = read(tmp_path / name, format=tool.format)
    for session in sessions:
        for thread in session.threads:
            log(thread)
            entry_ids(thread)


def test_a_torn_last_line_is_waited_for_and_all_before_it_is_there(tmp_path, tool):
    name, lines = tool.write(Story(Random(7), **tool.options))
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (tmp_path / name).write_bytes(data + b'{"type": "mess')
    sessions, report = read(tmp_path / name)
    assert [fault.line for fault in report.torn] == [len(lines) + 1]
    assert not report.damaged
    whole, _ = read(write_lines(tmp_path / f"whole-{name}", lines))
    assert entry_ids(one(sessions)) == entry_ids(one(whole))


def test_each_format_is_recognised_by_its_content_whatever_the_name(tmp_path, tool):
    _, lines = tool.write(Story(Random(3), **tool.options))
    write_lines(tmp_path / "notes.txt", lines)
    [session] = read(tmp_path)[0]
    assert session.tool == tool.format


def known_log(log):
    """A log of tests as the matcher sees it."""
    positions = {}
    for event in log:
        id, tilde, number = (event.id or "").rpartition("~")
        is_copy = tilde and number.isdigit()
        positions.setdefault(id if is_copy else event.id, []).append(event.seq)
    head = log[-1].seq if log else 0
    jumps = [(event.seq, event.base) for event in log if event.kind == "jump"]
    message = head
    while message and log[message - 1].kind not in SPEAKING_KINDS:
        base = log[message - 1].base
        message = message - 1 if base is None else base
    return KnownLog(
        LogTree(jumps),
        head,
        message,
        log[-1].time if log else None,
        head,
        message,
        positions=positions,
    )


def grown(log, thread, *, settled):
    """A log with what a source has come to say since."""
    return [*log, *events_of(steps_of(thread), known_log(log), is_busy=settled)]


@tree
@given(seed=seeds)
def test_a_source_that_grows_ends_where_a_fresh_import_would(tmp_path, tool, seed):
    random = Random(seed)
    story = Story(random, **tool.options)
    name, lines = tool.write(story)
    settled = random.random() < 0.5
    kept = []
    for end in [*sorted(random.sample(range(1, len(lines) + 1), min(5, len(lines)))), len(lines)]:
        write_lines(tmp_path / name, lines[:end])
        for session in read(tmp_path / name)[0]:
            for _ in range(2):  # a second reading adds nothing
                before = len(kept)
                kept = grown(kept, session.threads[0], settled=settled and end < len(lines))
            assert len(kept) == before
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert without_order(without_instructions(context(kept))) == without_order(story.leaf.context())
    assert joined(without_instructions(everything(kept))) == joined(story.everything())


def without_blanks(lines):
    """Lines without blank answers: some tools write blank text in a record of its own."""
    found = []
    for kind, *rest in lines:
        if kind == "assistant":
            rest = [rest[0].strip()]
        if rest != [""]:
            found.append((kind, *rest))
    return found


def without_order(lines):
    """A context without the order of what belongs to one answer: late lines come behind results, and the
    beginning of an answer may be a blank."""
    spoken = without_blanks(lines)
    return [sorted(map(str, run)) for _, run in groupby(spoken, key=lambda line: line[0] == "user")]


def joined(lines):
    """All that was said, and all words as one: an answer that came in pieces is told in pieces."""
    lines = without_blanks(lines)
    spoken = "".join(sorted(line[1] for line in lines if line[0] == "assistant"))
    return sorted(line for line in lines if line[0] != "assistant"), sorted(spoken)
