"""The comparison with other libraries: its peers keep their contract, and every job runs."""

import subprocess
import sys

import pytest

from benchmarks.peers import environments
from benchmarks.peers.contract import asked, problems
from benchmarks.peers.conversations import chat, coding, cut, together
from benchmarks.peers.figures import FIGURES, cell, ratio, table, value
from benchmarks.peers.measurement import JOBS, Measurement
from benchmarks.peers.peers import PEERS
from tests.wire.stub_server import stub_server

HERE = [name for name, entry in PEERS.items() if not entry.needs]


@pytest.mark.parametrize("name", HERE)
def test_a_peer_returns_what_was_put_in(name, tmp_path):
    assert list(problems(PEERS[name].load(), str(tmp_path))) == []


def test_a_peer_that_loses_a_message_breaks_its_contract(tmp_path):
    class Forgetful(PEERS["json-lines"].load()):
        def restore(self, session):
            return super().restore(session)[:-1]

    assert "append: 5 messages instead of 6" in list(problems(Forgetful, str(tmp_path)))


def test_every_interrupted_history_of_ours_is_accepted_and_none_of_a_plain_file(tmp_path):
    with stub_server() as server:
        accepted = [
            len(asked(PEERS[name].load()(str(tmp_path)), f"{server.url}/v1"))
            for name in ("backstory", "json-lines")
        ]
    assert accepted == [len(list(cut())), 0]


def test_every_peer_has_its_class():
    libraries = environments.PROJECT / "benchmarks" / "peers" / "libraries"
    for entry in PEERS.values():
        module, _, kind = entry.where.partition(":")
        assert f"class {kind}(" in (libraries / f"{module}.py").read_text()


def test_the_conversations_are_the_same_in_every_run():
    assert chat(3) == chat(3)
    assert chat(3) != chat(3, 1)
    results = [m for turn in coding(50) for m in turn if m.kind == "tool_result"]
    assert all(900 <= len(result.text) <= 50_000 for result in results)


def test_calls_made_at_once_are_one_group():
    turn = dict(cut())["two calls, the first result"]
    groups = [[message.kind for message in group] for group in together(turn)]
    assert groups == [["user"], ["tool_call", "tool_call"], ["tool_result"]]


@pytest.mark.slow
def test_every_job_runs_at_its_smallest_size(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_PATIENCE", "0.02")
    for name, size in (("kill", 2), ("coding-disk", 20)):
        monkeypatch.setitem(JOBS, name, JOBS[name]._replace(sizes=(size,)))
    measurement = Measurement(str(tmp_path), HERE, 1)
    try:
        found = {name: measurement.job(name) for name in JOBS}
    finally:
        measurement.close()
    assert "failed" not in str(found)
    kills, together = found["kill"]["backstory"]["2"], found["together"]["backstory"]["1"]
    assert (kills["lost"], together["lost"], together["errors"]) == (0, 0, 0)
    assert found["cut"]["backstory"]["0"]["taken"] == 10


def test_a_cell_says_how_many_times_ours_it_is_or_why_there_is_none():
    fork = next(figure for figure in FIGURES if figure.job == "fork")
    jobs = {
        "fork": {
            "backstory": {"10000": {"ms": 2.0}},
            "llm": {"10000": {"ms": 5.0}},
            "sdk": {"100": {"not_offered": "no fork"}},
        }
    }
    assert cell(jobs, fork, "llm") == "5.00 ms (2.5×)"
    assert cell(jobs, fork, "sdk") == value(jobs, fork, "sdk") == "no fork"
    lines = table(jobs, {"backstory": "backstory", "llm": "llm"}).splitlines()
    assert lines[0] == "| | backstory | llm |"
    assert lines[2] == "| 4 · fork 10,000 messages at the end | 2.00 ms | 5.00 ms (2.5×) |"


def test_a_peer_that_refuses_work_has_no_ratio():
    figure = next(figure for figure in FIGURES if figure.job == "together")
    jobs = {"together": {"backstory": {"8": {"ms": 1.0}}, "llm": {"8": {"ms": 9.0, "errors": 174}}}}
    assert ratio(jobs, figure, "llm") is None


def test_the_command_refuses_an_unknown_job():
    command = [sys.executable, "-m", "benchmarks.peers", "--jobs", "frok"]
    done = subprocess.run(command, cwd=environments.PROJECT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'frok' is none of append" in done.stderr
