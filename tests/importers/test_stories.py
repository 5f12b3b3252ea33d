"""What holds for every format: random trees in its own grammar come back; nothing that is broken raises."""

import json
from random import Random

import pytest
from hypothesis import given

from tests.importers.reading import context, entry_ids, everything, log, mutated, one, read, write_lines
from tests.importers.stories import Story, seeds, tree
from tests.importers.writers import TOOLS

INSTRUCTIONS = ("system", "Be Codex.")


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def without_instructions(lines):
    return [line for line in lines if line != INSTRUCTIONS]


@tree
@given(seed=seeds)
def test_a_story_comes_back_with_its_context_and_with_all_that_was_left_behind(tmp_path, tool, seed):
    story = Story(Random(seed), **tool.options)
    name, lines = tool.write(story)
    events = log(one(read(write_lines(tmp_path / name, lines))[0]))
    assert without_instructions(context(events)) == story.leaf.context()
    assert sorted(without_instructions(everything(events))) == sorted(story.everything())


@tree
@given(seed=seeds)
def test_what_was_settled_keeps_its_ids_and_words_while_the_file_grows(tmp_path, tool, seed):
    random = Random(seed)
    name, lines = tool.write(Story(random, **tool.options))
    known = {}
    for end in [*sorted(random.sample(range(1, len(lines) + 1), min(4, len(lines)))), len(lines)]:
        write_lines(tmp_path / name, lines[:end])
        for session in read(tmp_path / name)[0]:
            units = [unit for unit in session.threads[0].units() if unit.settled]
            for entry in [entry for unit in units for entry in unit.entries]:
                assert known.setdefault(entry.id, (entry.kind, entry.content)) == (entry.kind, entry.content)


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
