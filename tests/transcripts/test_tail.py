"""A file that grew is read on where it was left: what the store gets is what the whole file would give."""

import json
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

import backstory
from backstory.transcripts import checkpoints, files
from tests.slow import more
from tests.transcripts.stories import Story, seeds
from tests.transcripts.writers import TOOLS

RESUMED = ("claude-code", "codex", "pi")


@pytest.fixture(params=RESUMED)
def tool(request):
    return next(one for one in TOOLS.values() if one.format == request.param)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Checkpoints in files that are as small as those of a test."""
    monkeypatch.setattr(files, "KEPT", 0)
    monkeypatch.setattr(checkpoints, "ROWS", 4)
    monkeypatch.setattr("backstory.transcripts.codex.reader.ROWS", 4)


@pytest.fixture
def starts(monkeypatch):
    """Where each reading of a file began."""
    found = []
    lines = files.FileSource.lines

    def noted(self, report):
        found.append(self._start.offset)
        return lines(self, report)

    monkeypatch.setattr(files.FileSource, "lines", noted)
    return found


def data_of(tool, story):
    name, lines = tool.write(story)
    return name, "".join(json.dumps(line) + "\n" for line in lines).encode()


def told(store):
    """All agents with all that their logs say."""
    return sorted(
        (
            agent.key,
            [(e.kind, e.content, e.data, e.key) for e in agent.events()],
            sorted(agent.about.items()),
        )
        for agent in store.agents()
    )


def forget(store, path):
    with store.intake() as intake:
        intake.remember("file", str(path), cursor={})


@settings(
    max_examples=more(25, slow=1_000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=seeds)
def test_growth_in_random_steps_gives_what_reading_the_whole_file_each_time_gives(
    tmp_path, tool, seed
):
    random = Random(seed)
    name, data = data_of(tool, Story(random, length=20, **tool.options))
    ends = [*sorted(random.sample(range(1, len(data)), min(5, len(data) - 1))), len(data)]
    settle = random.choice([0, 1e9])
    path = tmp_path / name
    with backstory.open(":memory:") as read_on, backstory.open(":memory:") as read_whole:
        for end in ends:
            path.write_bytes(data[:end])
            read_on.import_transcripts([path], settle=settle)
            forget(read_whole, path)
            read_whole.import_transcripts([path], settle=settle)
        assert told(read_on) == told(read_whole)


def grown(store, path, data, cuts):
    for cut in cuts:
        path.write_bytes(data[:cut])
        store.import_transcripts([path], settle=0)


def halves(data, share=0.8):
    return data.rindex(b"\n", 0, int(len(data) * share)) + 1, len(data)


def test_a_new_turn_is_read_without_what_stands_before_it(tmp_path, tool, starts):
    name, data = data_of(
        tool, Story(Random(3), length=40, **tool.options | {"rewinds": None, "cuts": ()})
    )
    with backstory.open(":memory:") as store, backstory.open(":memory:") as fresh:
        first, last = halves(data)
        grown(store, tmp_path / name, data, [first])
        ends = [number + 1 for number in range(first, last) if data[number : number + 1] == b"\n"]
        starts.clear()
        grown(store, tmp_path / name, data, ends)
        assert starts
        assert min(starts) > first / 2
        for end in (first, *ends):
            forget(fresh, tmp_path / name)
            grown(fresh, tmp_path / name, data, [end])
        assert told(store) == told(fresh)
        assert store.verify() == []


def test_a_file_that_was_rewritten_is_read_from_its_beginning(tmp_path, tool, starts):
    name, data = data_of(
        tool, Story(Random(3), length=40, **tool.options | {"rewinds": None, "cuts": ()})
    )
    with backstory.open(":memory:") as store:
        first, last = halves(data)
        grown(store, tmp_path / name, data, [first])
        starts.clear()
        changed = data[: first - 200].replace(b"parser", b"PARSER") + data[first - 200 :]
        grown(store, tmp_path / name, changed, [last])
        assert min(starts) == 0


def test_a_rewind_to_before_the_bookmark_reads_the_whole_file(tmp_path, starts):
    lines = [line(number, number - 1) for number in range(1, 60)]
    path = tmp_path / "0c5f2f0e-0000-4000-8000-000000000001.jsonl"
    write(path, lines)
    with backstory.open(":memory:") as store:
        store.import_transcripts([path], settle=0)
        starts.clear()
        write(path, [*lines, line(60, 2)])
        store.import_transcripts([path], settle=0)
        assert min(starts) == 0
        [agent] = store.agents()
        assert [m.content for m in agent.context().messages if m.kind == "user"] == [
            "word 1",
            "word 2",
            "word 60",
        ]


def test_a_result_of_a_call_before_the_bookmark_reads_the_whole_file(tmp_path, starts):
    lines = [line(number, number - 1) for number in range(1, 60)]
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    lines[3] |= {
        "type": "assistant",
        "message": {"id": "msg_1", "role": "assistant", "content": [call]},
    }
    path = tmp_path / "0c5f2f0e-0000-4000-8000-000000000001.jsonl"
    write(path, lines)
    with backstory.open(":memory:") as store:
        store.import_transcripts([path], settle=0)
        starts.clear()
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "late"}
        late = line(60, 59) | {"message": {"role": "user", "content": [block]}}
        write(path, [*lines, late])
        store.import_transcripts([path], settle=0)
        assert min(starts) == 0
        [agent] = store.agents()
        assert [e.content for e in agent.events() if e.kind == "tool_result"] == ["late"]


def line(number, parent):
    """A prompt of Claude Code."""
    return {
        "type": "user",
        "uuid": f"{number:08}-0000-4000-8000-000000000000",
        "parentUuid": f"{parent:08}-0000-4000-8000-000000000000" if parent else None,
        "sessionId": "s",
        "timestamp": f"2026-03-01T09:00:{number % 60:02}.000Z",
        "message": {"role": "user", "content": f"word {number}"},
    }


def write(path, lines):
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def test_a_name_that_only_the_index_of_codex_has_is_taken_over(tmp_path):
    tool = next(one for one in TOOLS.values() if one.format == "codex")
    name, data = data_of(tool, Story(Random(5), **tool.options))
    (tmp_path / name).write_bytes(data)
    index = tmp_path / "session_index.jsonl"
    with backstory.open(":memory:") as store:
        store.import_transcripts([tmp_path], settle=0)
        [agent] = store.agents()
        id = agent.about["source"]["session"]
        for number, title in enumerate(("First", "Second")):
            known = {"id": id, "thread_name": title, "updated_at": f"2026-03-01T1{number}:00:00Z"}
            other = {"id": "nobody", "thread_name": "Gone", "updated_at": "2026-03-01T10:00:00Z"}
            write(index, [known, other])
            outcome = store.import_transcripts([index], settle=0)
            assert store.agents()[0].about["title"] == title
            assert len(store.agents()) == 1
            assert outcome.sessions == []
