"""An import that is killed in the middle, again and again: in the end everything is there, and nothing twice.

It dies by its own hand within the writing of a batch, so nothing depends on how fast the machine is.
"""

import signal
import subprocess
import sys
from pathlib import Path

import backstory
from tests.transcripts.reading import write_lines
from tests.transcripts.test_import import (
    REWOUND,
    SESSION,
    answer,
    call,
    result,
    said,
    settle,
    text,
    user,
)

PACKED = """
import os, signal, sys
import backstory
from backstory.transcripts import writing
from backstory.storage.sqlite.frames import FrameWriter
from backstory.storage.sqlite.transaction import SqliteTransaction

folder, path = sys.argv[1:]
writing.BATCH = 5
compress, add = FrameWriter.compress, SqliteTransaction.add_rows
left = [0]

def step():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def compress_and_step(self, row):
    texts = compress(self, row)
    step()  # a row is in a frame, and not yet in the database
    return texts

def add_and_step(self, *given):
    add(self, *given)
    step()  # all rows of a transaction are written, and it is not committed

def imported(url, last=0):
    left[0] = last
    with backstory.open(url) as store:
        store.import_transcripts(path)
    return left[0]

def story(url):
    with backstory.open(url) as store:
        assert store.verify() == [], store.verify()
        return {
            agent.key: [(e.seq, e.kind, e.content, e.data_json, e.key, e.created_us) for e in agent.events()]
            for agent in store.agents()
        }

def in_child(work):  # nothing is shared with the one that dies, as after a real kill
    child = os.fork()
    if not child:
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def goes_on(url):
    story(url)
    imported(url)
    assert story(url) == story(f"{folder}/undisturbed.db")

FrameWriter.compress, SqliteTransaction.add_rows = compress_and_step, add_and_step
points = in_child(lambda: -imported(f"{folder}/undisturbed.db"))
for point in range(1, points + 1):
    url = f"{folder}/{point}.db"
    assert in_child(lambda: imported(url, point)) == -signal.SIGKILL, point
    assert in_child(lambda: goes_on(url)) == 0, point
print(points)
"""

DYING = """
import os, signal, sys
import backstory
from backstory.storage.sqlite.transaction import SqliteTransaction
from backstory.transcripts import writing

url, path, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
writing.BATCH = 2
add_rows = SqliteTransaction.add_rows
added = []

def add_and_die(self, *given):
    add_rows(self, *given)
    added.append(given)
    if len(added) == last:
        os.kill(os.getpid(), signal.SIGKILL)

SqliteTransaction.add_rows = add_and_die
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
    helper = [
        user("s1", "look", None, 7),
        answer("s2", text("a file"), "s1", 8),
        user("s3", "more", "s2", 9),
    ]
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
        agent.key: [
            (event.seq, event.kind, event.content, event.data_json) for event in agent.events()
        ]
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


def test_wherever_a_packed_import_is_killed_the_next_one_goes_on(tmp_path):
    long = "The quick brown fox jumps over the lazy dog. " * 20
    lines = [user("u0", f"0 {long}", None, 0)]
    for n in range(1, 15):
        speaks, words = (user, f"{n} {long}") if n % 2 == 0 else (answer, text(f"{n} {long}"))
        lines.append(speaks(f"u{n}", words, f"u{n - 1 if n != 9 else 3}", n))
    path = settle(write_lines(tmp_path / f"{SESSION}.jsonl", lines))
    command = [sys.executable, "-c", PACKED, str(tmp_path), str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > len(lines)
