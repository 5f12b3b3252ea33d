"""What holds for every format: random trees in its own grammar come back; nothing that is broken raises."""

import json
from itertools import groupby
from random import Random

import pytest
from hypothesis import given

from backstory.transcripts import Entry, Unit, events
from backstory.transcripts.past import Begun, Known, Link
from tests.transcripts.reading import (
    context,
    entry_ids,
    everything,
    log,
    mutated,
    one,
    read,
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


def begun_in(spoken):
    """The answers among some events, each an id, words and a position: the pieces of one put together."""
    found = {}
    for id, words, seq in spoken:
        first, _, length = id.rpartition("+")
        before = found.get(first)
        if before is not None and length == str(len(before.words)):
            found[first] = Begun(before.words + words, (*before.rests, seq))
        else:
            found[id] = Begun(words)
    return found


def as_entry(event):
    return Entry("", event.kind, event.content, event.data, event.time)


def grown(log, thread, *, settled):
    """A log with what a source has come to say since."""
    places = {event.id: event.seq for event in log if event.id is not None}
    head = log[-1].seq if log else 0
    words = begun_in(
        (event.id, event.content, event.seq) for event in log if event.kind == "assistant"
    )

    copies = {}
    for event in log:
        id, _, number = (event.id or "").rpartition("~copy")
        if id in places and number.isdigit():
            copies.setdefault(id, []).append(event.seq)
    known = Known(
        places,
        head,
        log[-1].time if log else None,
        words,
        link=lambda place: Link(log[place - 1].kind, log[place - 1].base),
        is_rewritten="rewritten" in places,
        copies=copies,
        read=lambda places: {place: as_entry(log[place - 1]) for place in places},
    )
    return [*log, *events(thread.steps(), known, settled=settled)]


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


def without_order(lines):
    """A context without the order of what belongs to one answer: late lines come behind results, and the
    beginning of an answer may be a blank."""
    spoken = [line for line in lines if line != ("assistant", "")]
    return [sorted(map(str, run)) for _, run in groupby(spoken, key=lambda line: line[0] == "user")]


def joined(lines):
    """All that was said, and all words as one: an answer that came in pieces is told in pieces."""
    spoken = "".join(sorted(line[1] for line in lines if line[0] == "assistant"))
    return sorted(line for line in lines if line[0] != "assistant"), sorted(spoken)


def test_the_rest_of_an_answer_is_not_sought_in_something_else_that_has_its_id_now():
    """Where the number of a line is the id, a file that was rewritten has other things there."""
    known = Known({"3": 1}, 1, None, begun_in([("3", "", 1)]))
    assert list(events([Unit("3", None, (Entry("3", "user", "hello"),))], known)) == []
