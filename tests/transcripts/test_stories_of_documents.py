"""Random stories in documents and databases come back, and one that grows ends where a fresh import would."""

import os
from itertools import groupby
from random import Random

import pytest
from hypothesis import given

import backstory
from tests.transcripts.reading import context, everything, log, one, read
from tests.transcripts.stories import Story, seeds, tree
from tests.transcripts.writers_documents import KEEPERS

NAMELESS = {"openai-chat", "swe-agent", "aider"}  # a conversation that went on is another one


@pytest.fixture(params=KEEPERS)
def name(request):
    return request.param


def story_for(name, random, **options):
    """A story that the format can tell: the words of aider are lines, and it has no calls."""
    story = Story(random, **KEEPERS[name].options | options)
    if name in ("crush", "goose"):  # the context begins at the summary
        for turn in story.turns:
            turn.kept = []
    if name == "aider":  # prompts and answers by turns: two of one author would be one
        turns = [next(run) for _, run in groupby(story.turns, key=lambda turn: turn.kind)]
        for turn, before in zip(turns, [None, *turns], strict=False):
            turn.parent, turn.calls = before, []
            turn.text = " ".join((turn.text or story.text("a")).split())
        story.turns, story.leaf = turns, turns[-1]
    return story


def plain(lines):
    """Lines without the ids of calls, which some formats have none of, and results in any order."""
    return [line if line[0] in ("user", "assistant") else (line[0], *line[2:]) for line in lines]


def by_author(lines):
    """What was said between two prompts, in any order: each format has calls and results in its own."""
    runs = [[]]
    for line in plain(lines):
        runs = [*runs, [line], []] if line[0] == "user" else [*runs[:-1], [*runs[-1], line]]
    return [sorted(map(str, run)) for run in runs if run]


@tree
@given(seed=seeds)
def test_a_story_comes_back_with_its_context_and_all_that_was_left_behind(tmp_path, name, seed):
    story = story_for(name, Random(seed))
    events = log(one(read(KEEPERS[name].write(story.turns, tmp_path))[0]))
    assert by_author(context(events)) == by_author(story.leaf.context())
    assert sorted(plain(everything(events))) == sorted(plain(story.everything()))


@tree
@given(seed=seeds)
def test_one_that_grows_ends_in_the_store_where_a_fresh_import_would(tmp_path, name, seed):
    if name in NAMELESS:
        pytest.skip("has no ids")
    random = Random(seed)
    story = story_for(name, random)
    ends = sorted(random.sample(range(1, len(story.turns) + 1), min(3, len(story.turns))))
    with backstory.open(":memory:") as store:
        for number, end in enumerate([*ends, len(story.turns)]):
            path = KEEPERS[name].write(story.turns[:end], tmp_path)
            os.utime(path, (1_772_600_000 + number, 1_772_600_000 + number))
            store.import_transcripts(path)
        before = store.agents()[0].head
        os.utime(path)
        store.import_transcripts(path, settle=0)
        [agent] = store.agents()
        assert agent.head == before
        events = [event for event in agent.events() if event.kind not in ("jump", "clear", "note")]
        assert by_author(told(agent.context().messages)) == by_author(story.leaf.context())
        new = [event for event in events if "copy_of" not in (event.data or {})]
        assert sorted(plain(told(new))) == sorted(plain(story.everything()))
        assert not store.verify()


@tree
@given(seed=seeds)
def test_what_vanishes_from_a_source_stays_in_the_log_and_what_took_its_place_is_live(
    tmp_path, name, seed
):
    if name in NAMELESS or name == "atif":
        pytest.skip("nothing vanishes, or nothing is known by its id")
    random = Random(seed)
    story = story_for(name, random, rewinds="back")
    ends = sorted(random.sample(range(1, len(story.turns) + 1), min(3, len(story.turns))))
    seen = {}
    with backstory.open(":memory:") as store:
        for number, end in enumerate([*ends, len(story.turns)]):
            way = story.turns[end - 1].way()  # what was taken back is deleted
            seen |= {turn.number: turn for turn in way if turn.kind != "compaction"}
            path = KEEPERS[name].write(way, tmp_path)
            os.utime(path, (1_772_600_000 + number, 1_772_600_000 + number))
            store.import_transcripts(path)
        [agent] = store.agents()
        assert by_author(told(agent.context().messages)) == by_author(story.leaf.context())
        kept = set(plain(told(agent.events())))
        assert kept.issuperset(plain(line for turn in seen.values() for line in turn.said()))
        assert not store.verify()


def told(events):
    names = {"tool_call": "call", "tool_result": "result"}
    for event in events:
        if event.kind in names:
            said = () if event.kind == "tool_call" else (event.content,)
            yield (names[event.kind], event.data["id"], *said)
        elif event.kind in ("user", "assistant"):
            yield event.kind, event.content
