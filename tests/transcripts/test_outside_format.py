"""The format in docs/formats.md, installed as another package would install it."""

import json
import re
from pathlib import Path

import pytest

import backstory
from backstory.errors import Invalid
from backstory.transcripts import format as formats
from backstory.transcripts.exporting import export_transcript
from backstory.transcripts.importing import import_transcripts
from tests.transcripts.reading import write_lines

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
LINES = [
    {"jotter": "j1", "title": "Counting"},
    {"id": "n1", "at": "2026-06-03T08:00:00Z", "by": "user", "text": "count"},
    {
        "id": "n2",
        "at": "2026-06-03T08:00:01Z",
        "by": "model",
        "text": "Look.",
        "calls": [{"id": "c1", "tool": "run", "input": {"n": 1}}],
    },
    {"id": "n3", "at": "2026-06-03T08:00:02Z", "by": "result", "call": "c1", "text": "1"},
    {"id": "n4", "at": "2026-06-03T08:00:03Z", "by": "model", "text": "One."},
    {"id": "n5", "at": "2026-06-03T08:00:04Z", "by": "weather", "text": "sunny"},
]


@pytest.fixture
def jotter(tmp_path, monkeypatch):
    """Install the example: its module, and the metadata that an installer writes."""
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    site = tmp_path / "site"
    info = site / "jotter-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "jotter_format.py").write_text(code)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jotter\nVersion: 1.0\n")
    points = (
        "[backstory.transcripts]\n"
        "jotter = jotter_format:JotterFormat\ncodex = jotter_format:JotterFormat\n"
    )
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(site)
    formats.list_outside_formats.cache_clear()
    formats.load_format.cache_clear()
    yield "jotter"
    formats.list_outside_formats.cache_clear()
    formats.load_format.cache_clear()


def list_contents(agent):
    return [(event.kind, event.content) for event in agent.context().messages]


def test_an_outside_format_is_listed_and_replaces_no_built_in_one(jotter):
    assert formats.list_formats() == [*formats.BUILT_IN, "jotter"]
    assert type(formats.load_format("codex")).__module__.startswith("backstory.")


def test_the_example_reads_a_file_once_and_what_it_grows_by(jotter, tmp_path):
    file = write_lines(tmp_path / "notes.jsonl", LINES[:4])
    with backstory.open(":memory:") as store:
        first = import_transcripts(store, [file], format=jotter)
        write_lines(file, LINES)
        second = import_transcripts(store, [file], format=jotter)
        third = import_transcripts(store, [file], format=jotter)
        [agent] = store.agents()
        assert list_contents(agent) == [
            ("user", "count"),
            ("assistant", "Look."),
            ("tool_call", None),
            ("tool_result", "1"),
            ("assistant", "One."),
        ]
        counts = [sum(one.new_events for one in run.sessions) for run in (first, second, third)]
        assert [count > 0 for count in counts] == [True, True, False]
        assert agent.about["title"] == "Counting"
        assert second.sessions[0].report.unknown == {"by weather (jotter)": 1}


def test_the_example_writes_a_file_that_adds_nothing_when_it_is_imported(jotter, tmp_path):
    file = write_lines(tmp_path / "notes.jsonl", LINES)
    with backstory.open(":memory:") as store:
        import_transcripts(store, [file], format=jotter)
        [agent] = store.agents()
        exported = export_transcript(store, store.resolve(agent.id), jotter)
        (tmp_path / "exported.jsonl").write_text(exported.text)
        again = import_transcripts(store, [tmp_path / "exported.jsonl"], format=jotter)
        assert not again.has_news
        assert len(store.agents()) == 1
    written = [json.loads(line) for line in exported.text.splitlines()]
    assert [line.get("text") for line in written] == [None, "count", "Look.", "1", "One."]
    with backstory.open(":memory:") as other:
        import_transcripts(other, [tmp_path / "exported.jsonl"], format=jotter)
        [copy] = other.agents()
        assert [content for _, content in list_contents(copy)] == [
            "count",
            "Look.",
            None,
            "1",
            "One.",
        ]


def test_an_unknown_format_is_refused_with_the_names_of_the_others(jotter):
    with pytest.raises(Invalid, match="jotter"):
        formats.load_format("scribble")
