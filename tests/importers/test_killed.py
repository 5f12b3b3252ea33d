"""An import that is killed in the middle, again and again: in the end everything is there, and nothing twice.

It dies by its own hand within the writing of a batch, so nothing depends on how fast the machine is.
"""

import signal
import subprocess
import sys
from pathlib import Path

import backstory
from tests.importers.reading import write_lines
from tests.importers.test_import import REWOUND, SESSION, answer, call, result, said, settle, text, user

DYING = """
import os, signal, sys
import backstory, backstory.intake
from backstory.importers import thread_writer

url, path, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
thread_writer.BATCH = 2
take = backstory.intake._Commit.take
taken = []

def take_and_die(self, item):
    take(self, item)
    taken.append(item)
    if len(taken) == last:
        os.kill(os.getpid(), signal.SIGKILL)

backstory.intake._Commit.take = take_and_die
with backstory.open(url) as store:
    store.import_transcripts(path)
"""


def transcripts(folder):
    """Two sessions: one with a rewind and a sub-agent, and one that begins like it."""
    task = [
        answer("a4", call("toolu_1", prompt="look"), "a3", 7),
        result("r1", "toolu_1", "seen", "a4", 8, toolUseResult={"agentId": "b1"}),
        answer("a5", text("done"), "r1", 9),
    ]
    helper = [user("s1", "look", None, 7), answer("s2", text("a file"), "s1", 8), user("s3", "more", "s2", 9)]
    marks = {"isSidechain": True, "agentId": "b1"}
    settle(write_lines(folder / f"{SESSION}.jsonl", [*REWOUND, *task]))
    inner = folder / SESSION / "subagents"
    inner.mkdir(parents=True)
    settle(write_lines(inner / "agent-b1.jsonl", [line | marks for line in helper]))
    fork = [line | {"sessionId": "fork"} for line in [*REWOUND[:2], user("f1", "other", "a1", 20)]]
    settle(write_lines(folder / "0c5f2f0e-0000-4000-8000-0000000000f0.jsonl", fork))
    return folder


def logs(store):
    return {
        agent.key: [(event.seq, event.kind, event.content, event.data_json) for event in agent.events()]
        for agent in store.agents()
    }


def test_an_import_that_is_killed_again_and_again_ends_where_a_whole_one_does(tmp_path):
    folder = tmp_path / "transcripts"
    folder.mkdir()
    transcripts(folder)
    url = str(tmp_path / "killed.db")
    lives = 0
    code = -signal.SIGKILL
    while code == -signal.SIGKILL and lives < 30:
        lives += 1
        command = [sys.executable, "-c", DYING, url, str(folder), str(lives)]
        code = subprocess.run(command, check=False, cwd=Path(__file__).parents[2]).returncode
    assert code == 0
    assert lives > 3
    with backstory.open(url) as store, backstory.open(":memory:") as fresh:
        fresh.import_transcripts(folder)
        assert logs(store) == logs(fresh)
        assert said(store.agent(SESSION))[-1] == "done"
        assert store.verify() == []
        assert sum(session.new_events for session in store.import_transcripts(folder).sessions) == 0
