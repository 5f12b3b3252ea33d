"""The comparison's own code: the peers that need nothing keep their contract, and the figures add up."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.peers import environments, page
from benchmarks.peers.contract import asked, problems
from benchmarks.peers.conversations import chat, coding, cut, together
from benchmarks.peers.figures import FIGURES, ratio, slope, targets, value, written
from benchmarks.peers.measurement import JOBS, Measurement
from benchmarks.peers.peers import EMBEDDED, PEERS
from tests.wire.stub_server import stub_server

HERE = [name for name, entry in EMBEDDED.items() if not entry.needs]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", HERE)
def test_a_peer_gives_back_what_was_put_in(name, tmp_path):
    assert list(problems(PEERS[name].load(), str(tmp_path))) == []


def test_every_cut_history_of_ours_is_taken_and_none_of_a_plain_file(tmp_path):
    with stub_server() as server:
        taken = [
            len(asked(PEERS[name].load()(str(tmp_path)), f"{server.url}/v1"))
            for name in ("backstory", "json-lines")
        ]
    assert taken == [len(list(cut())), 0]


def test_every_peer_has_its_file():
    for entry in PEERS.values():
        module, _, kind = entry.where.partition(":")
        source = (
            environments.PROJECT / "benchmarks" / "peers" / "libraries" / f"{module}.py"
        ).read_text()
        assert f"class {kind}(" in source


def test_the_conversations_are_the_same_in_every_run():
    assert chat(3) == chat(3)
    assert chat(3) != chat(3, 1)
    assert chat(5)[:3] == chat(3)
    results = [m for turn in coding(50) for m in turn if m.kind == "tool_result"]
    assert all(900 <= len(result.text) <= 50_000 for result in results)
    assert max(len(result.text) for result in results) > 30_000


def test_calls_made_at_once_are_one_group():
    turn = dict(cut())["two calls, the first result"]
    assert [[m.kind for m in group] for group in together(turn)] == [
        ["user"],
        ["tool_call", "tool_call"],
        ["tool_result"],
    ]


@pytest.mark.slow
def test_the_small_sizes_of_every_job_run_through(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_PATIENCE", "0.02")  # that they run is the question, not how fast
    for name, size in (("kill", 2), ("coding-disk", 20)):
        monkeypatch.setitem(JOBS, name, JOBS[name]._replace(sizes=(size,)))
    measurement = Measurement(str(tmp_path), HERE, 1)
    try:
        found = {name: measurement.job(name) for name in JOBS}
    finally:
        measurement.close()
    for name, by_peer in found.items():
        assert all(
            "failed" not in numbers for sizes in by_peer.values() for numbers in sizes.values()
        ), name
    kill, at_once = found["kill"]["backstory"]["2"], found["together"]["backstory"]["1"]
    assert (kill["lost"], at_once["lost"], at_once["errors"]) == (0, 0, 0)
    assert kill["acknowledged"] > 0
    assert found["cut"]["backstory"]["0"]["taken"] == 10


def test_a_slope_is_the_exponent():
    assert slope([(10, 5.0), (100, 50.0), (1000, 500.0)]) == pytest.approx(1)
    assert slope([(10, 1.0), (100, 100.0)]) == pytest.approx(2)
    assert slope([(10, 3.0), (100, 3.0)]) == pytest.approx(0)
    assert slope([(10, 3.0)]) is None


def test_what_is_not_offered_has_a_reason_and_no_ratio():
    jobs = {
        "fork": {"backstory": {"10000": {"ms": 2.0}}, "sdk": {"100": {"not_offered": "no fork"}}}
    }
    figure = next(figure for figure in FIGURES if figure.job == "fork")
    assert value(jobs, figure, "sdk") == "no fork"
    assert ratio(jobs, figure, "sdk") is None
    assert written(2.0, "ms") == "2.00 ms"


@pytest.mark.parametrize(
    ("written", "blocks"),
    [
        (DOCS / "peers.md", page.FOR_USERS),
        (environments.PROJECT / "benchmarks" / "README.md", page.FOR_MAINTAINERS),
    ],
    ids=["users", "maintainers"],
)
def test_the_pages_have_the_numbers_of_the_file(written, blocks, tmp_path):
    numbers = json.loads((DOCS / "peers" / "numbers.json").read_text())
    copy = tmp_path / written.name
    copy.write_text(written.read_text())
    page.rewrite(copy, blocks, numbers)
    assert copy.read_text() == written.read_text()


def test_the_figures_in_the_readme_are_those_of_the_page():
    section = (DOCS.parent / "README.md").read_text().partition("## Why not something simpler?")[2]
    figures = re.findall(r"\d[\d,.]* (?:ms|B)\b", section.partition("\n## ")[0])
    assert len(figures) >= 6
    table = (DOCS / "peers.md").read_text().partition("<!-- jobs -->")[2]
    for figure in figures:
        assert f"| {figure} " in table, figure


def test_a_terminal_gets_what_was_measured_and_nothing_else():
    numbers = json.loads((DOCS / "peers" / "numbers.json").read_text())
    postgres, jobs = numbers.pop("postgres"), numbers.pop("jobs")
    both = page.text_table({**numbers, "jobs": jobs, "postgres": postgres})
    alone = page.text_table({**numbers, "postgres": postgres})
    assert re.split(r"  +", alone.splitlines()[0]) == [
        "PostgreSQL",
        "1 client",
        "8 clients",
        "32 clients",
    ]
    assert both.endswith(f"\n\n{alone}")
    assert len({len(line) for line in alone.splitlines()}) == 1
    one_job = page.text_table({**numbers, "jobs": {"kill": jobs["kill"]}})
    assert [line.split(" · ")[0].strip() for line in one_job.splitlines()[1:]] == ["9", "9"]
    assert page.text_table(numbers) == ""


def test_a_small_run_shows_the_largest_size_that_it_did():
    small = {
        "peers": ["backstory"],
        "jobs": {"restore": {"backstory": {"100": {"ms": 1.0}, "1000": {"ms": 7}}}},
    }
    assert "restore, 1,000 messages (`restore`)    7.00 ms" in page.text_table(small)


def test_who_refuses_the_work_is_not_compared_by_the_rest():
    figure = next(figure for figure in FIGURES if figure.job == "together")
    jobs = {"together": {"backstory": {"8": {"ms": 1.0}}, "llm": {"8": {"ms": 9.0, "errors": 174}}}}
    assert value(jobs, figure, "llm") == 9.0
    assert ratio(jobs, figure, "llm") is None


def test_a_job_that_nobody_offers_is_no_trouble(tmp_path):
    measurement = Measurement(str(tmp_path), ["bare"], 3, str(tmp_path / "histories"))
    assert measurement.job("request")["bare"]["10000"]["not_offered"] == "makes no requests"


def test_the_nearest_is_named_beside_what_was_expected():
    def of(ms):
        return {"10000": {"ms": ms, "first_ms": 1.0, "import_ms": 1.0}}

    results = {
        "peers": ["backstory", "sdk", "llm", "bare"],
        "how": {name: {"persists": name != "llm"} for name in ("sdk", "llm", "bare")},
        "jobs": {
            "restore": {"backstory": of(2.0), "sdk": of(6.0), "llm": of(1.0), "bare": of(1.0)}
        },
    }
    warm = [target for target in targets(results) if "warm" in target.what]
    assert [(each.against, each.found, each.is_reached) for each in warm] == [
        ("sdk", 3.0, True),
        ("bare", 0.5, False),
    ]
