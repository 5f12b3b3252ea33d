"""Nothing acknowledged is ever lost: writers are killed in the middle, and so is the server.

Also here: many processes on one store at once.
"""

import itertools
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

import backstory
from tests import postgres_server
from tests.processes import wait_until
from tests.slow import more

KILLS = more(20, slow=100)
SERVER_KILLS = more(3, slow=10)
ENOUGH = 20  # lines between two kills of the server
AT_ONCE = 2  # writers that run side by side
HANGS = 600  # seconds: only a process that hangs takes so long


def start_writer(url, agent, seed, count="", out=subprocess.PIPE):
    command = [sys.executable, "-m", "tests.writer", url, agent.id, str(seed), str(count)]
    return subprocess.Popen(command, stdout=out, text=True, cwd=Path(__file__).parents[2])


def read_lines(process, count):
    """Return the next lines of a process. So it is killed after some progress, on any machine."""
    return [process.stdout.readline() for _ in range(count)]


def acknowledged(lines):
    """What the lines of a writer promise; the last one may be cut off."""
    whole = [line[:-1] for line in lines if line.endswith("\n") and line != "ready\n"]
    return {int(seq): content for seq, _, content in (line.partition(" ") for line in whole)}


def check(store, agent, promised):
    events = {event.seq: event.content or event.kind for event in agent.events()}
    assert list(events) == list(range(1, len(events) + 1))
    lost = {seq: content for seq, content in promised.items() if events.get(seq) != content}
    assert lost == {}
    assert store.verify() == []


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_was_acknowledged(durable_url):
    moments = random.Random(20261115)
    promised = {}
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        for round in range(KILLS // AT_ONCE):
            writers = [start_writer(durable_url, agent, f"{round}.{n}") for n in range(AT_ONCE)]
            for writer in writers:
                assert writer.stdout.readline() == "ready\n"
                promised |= acknowledged(read_lines(writer, moments.randrange(ENOUGH)))
            for writer in writers:
                writer.send_signal(signal.SIGKILL)
                time.sleep(moments.uniform(0.0, 0.01))
            for writer in writers:
                promised |= acknowledged(writer.stdout.readlines())
                writer.stdout.close()
                assert writer.wait() == -signal.SIGKILL
            if round % 10 == 0:
                check(store, agent, promised)
        check(store, agent, promised)
    assert len(promised) > KILLS


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_was_acknowledged(tmp_path):
    """Its own server, with the settings that a server has by default: what it wrote is on the disk."""
    with postgres_server.started() as keeper:
        url = postgres_server.address(keeper.port)
        with backstory.open(url) as store:
            agent = store.start("main")
        outputs = [tmp_path / f"writer-{n}" for n in range(AT_ONCE)]
        writers = []
        for n, path in enumerate(outputs):
            with path.open("w") as out:
                writers.append(start_writer(url, agent, n, out=out))
        for _ in range(SERVER_KILLS):
            wait_for_more(outputs)
            postgres_server.kill(keeper.folder)
            assert postgres_server.address(keeper.port) == url  # it is started again
        wait_for_more(outputs)
        gave_up = [writer for writer in writers if writer.poll() is not None]
        for writer in writers:
            writer.kill()
            writer.wait()
        assert gave_up == []
        promised = {}
        for path in outputs:
            promised |= acknowledged(path.read_text().splitlines(keepends=True))
        with backstory.open(url) as store:
            check(store, store.agent("main"), promised)
        assert len(promised) > SERVER_KILLS * AT_ONCE * ENOUGH


def wait_for_more(outputs):
    """Wait until each writer has written a good deal more than it had."""
    before = [path.read_text().count("\n") for path in outputs]
    wait_until(
        lambda: all(
            path.read_text().count("\n") > lines + ENOUGH
            for path, lines in zip(outputs, before, strict=True)
        )
    )


REMOVER = """
import itertools, sys, backstory
with backstory.open(sys.argv[1]) as store:
    print("ready", flush=True)
    for n in itertools.count():
        agent = store.ensure(f"{sys.argv[2]}/{n}")
        agent.extend([("user", f"secret {m}") for m in range(30)])
        agent.fork(at=10)
        print("extended", n, flush=True)
        agent.compact("a summary", keep=20)
        store.search("secret")
        print("made", n, flush=True)
        agent.erase(range(1, 21), why="asked")
        print("erased", n, flush=True)
        store.delete(agent)
        print("deleted", n, flush=True)
"""


def check_removal(store, name, promised):
    """Each step happened wholly or not at all, and at least what was acknowledged."""
    for n in itertools.count():
        steps = {step for step, nth in promised if nth == str(n)}
        try:
            agent = store.agent(key=f"{name}/{n}")
        except backstory.AgentNotFound:
            if "made" not in steps:
                return
            continue
        assert "deleted" not in steps
        # The batch, and the compaction: a clear, the summary and twenty copies. Each is there, or it is not.
        assert agent.head in {0, 30, 52}
        assert agent.head >= (52 if "made" in steps else 30 if "extended" in steps else 0)
        erased = [event for event in agent.events() if "erased" in (event.data or {})]
        assert len(erased) in (
            0,
            30 if "made" in steps else 0,
        )  # and ten copies that the compaction made
        assert erased or "erased" not in steps


@pytest.mark.slow
def test_a_killed_deletion_or_erasure_is_done_or_not_begun(durable_url):
    moments = random.Random(20261116)
    with backstory.open(durable_url) as store:
        for round in range(KILLS // 2):
            command = [sys.executable, "-c", REMOVER, durable_url, str(round)]
            remover = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert remover.stdout.readline() == "ready\n"
            lines = read_lines(remover, moments.randrange(9))  # four lines are one agent
            time.sleep(moments.uniform(0.0, 0.03))
            remover.send_signal(signal.SIGKILL)
            lines += remover.stdout.readlines()
            promised = [tuple(line.split()) for line in lines if line.endswith("\n")]
            remover.stdout.close()
            assert remover.wait() == -signal.SIGKILL
            check_removal(store, str(round), promised)
        for agent in store.agents():
            if agent.fork_seq:
                assert len(agent.context().messages) == agent.head == 10
        assert store.verify() == []
        assert len(store.search("secret", limit=1)) <= 1


FIXTURES = Path(__file__).parents[1] / "fixtures"
# Events for the agent named "empty", so that a migration takes a while.
GROWTH_SQLITE = """
    INSERT INTO events (id, kind, content, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
    SELECT (no << 32) + i, 'user', 'message ' || i, created_at + i FROM n, agents WHERE name = 'empty'"""
GROWTH_POSTGRES = """
    INSERT INTO backstory.events
    SELECT session, created_at, no, i, NULL, 'user', 'message ' || i, NULL
    FROM backstory.agents, generate_series(1, 5000) i WHERE name = 'empty';
    UPDATE backstory.agents SET head = 5000 WHERE name = 'empty'"""
COLUMNS_POSTGRES = """
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = 'backstory' AND table_name = 'events'"""

MIGRATOR = """
import sys, backstory
print("ready", flush=True)
backstory.open(sys.argv[1]).close()
print("migrated", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_killed_migration_is_done_or_not_begun(backend, tmp_path, new_database):
    moments = random.Random(20261117)
    for round in range(KILLS // 2):
        url, events = older_store(backend, tmp_path / f"{round}.db", new_database)
        command = [sys.executable, "-c", MIGRATOR, url]
        migrator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert migrator.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.0, 0.6))
        migrator.send_signal(signal.SIGKILL)
        done = migrator.stdout.read() == "migrated\n"
        migrator.stdout.close()
        migrator.wait()
        newest = 4
        assert version_of(backend, url) in ({newest} if done else {1, newest})
        with backstory.open(url) as store:
            assert sum(agent.head - agent.fork_seq for agent in store.agents()) == events
            assert store.verify() == []


def older_store(backend, path, new_database):
    """A store of the first version that takes a while to migrate, and how many events it has."""
    if backend == "sqlite":
        shutil.copy(FIXTURES / "store-1.sqlite", path)
        with closing(apsw.Connection(str(path))) as db:
            db.execute(GROWTH_SQLITE)
            return str(path), db.execute("SELECT count(*) FROM events").fetchone()[0]
    url = new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute((FIXTURES / "store-1.postgres.sql").read_text())
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(GROWTH_POSTGRES)
        return url, db.execute("SELECT count(*) FROM backstory.events").fetchone()[0]


def version_of(backend, url):
    """What a store says of its version; the tables have to be those of that version."""
    if backend == "sqlite":
        with closing(apsw.Connection(url)) as db:
            columns = [row[1] for row in db.execute("PRAGMA table_info(events)")]
            version = db.pragma("user_version")
    else:
        with psycopg.connect(url) as db:
            # The server may still commit the killed program's migration: both reads see one moment.
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            columns = [row[0] for row in db.execute(COLUMNS_POSTGRES)]
            [(version,)] = db.execute("SELECT version FROM backstory.meta").fetchall()
    assert ("digest" in columns) is (version > 1)
    return version


READER = """
import sys, backstory
with backstory.open(sys.argv[1]) as store:
    agent, seen = store.agent(sys.argv[2]), 0
    while seen < int(sys.argv[3]):
        head = agent.head
        assert head >= seen, "the head went back"
        seen = head
        events = agent.events()
        assert [e.seq for e in events] == list(range(1, len(events) + 1))
        agent.context()
"""


@pytest.mark.slow
def test_eight_processes_on_one_store_make_no_error_and_leave_no_gap(durable_url):
    appends = 500
    with backstory.open(durable_url) as store:
        agent = store.start("main")
        writers = [start_writer(durable_url, agent, seed, appends) for seed in range(6)]
        reader = [sys.executable, "-c", READER, durable_url, agent.id, str(6 * appends)]
        readers = [subprocess.Popen(reader) for _ in range(2)]
        promised = {}
        for writer in writers:
            out, _ = writer.communicate(timeout=HANGS)
            assert writer.returncode == 0
            promised |= acknowledged(out.splitlines(keepends=True))
        for process in readers:
            assert process.wait(timeout=HANGS) == 0
        assert len(promised) == agent.head >= 6 * appends
        check(store, agent, promised)


FORKING_DURING_A_WAIT = """
import os, sys, threading, time, warnings, backstory
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: forking with threads running
with backstory.open(sys.argv[1]) as store:
    agent = store.start("main")
    watch = store._backend.watch()
    waits = threading.Event()
    stop = threading.Event()

    def wait():
        while not stop.is_set():
            waits.set()
            watch.wait(60)
            watch.take_wakeup()

    waiter = threading.Thread(target=wait)
    waiter.start()
    for n in range(6):
        waits.wait()
        pid = os.fork()
        if pid == 0:
            watch.wait(0)
            agent.user(f"child {n}")
            store.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        waits.clear()
        watch.wake()
    stop.set()
    watch.wake()
    waiter.join()
    agent.user("parent")
    assert agent.head == 7
"""


FORKING = """
import os, sys, threading, warnings, backstory
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: forking with threads running
with backstory.open(sys.argv[1]) as store:
    agent = store.start("main")
    busy = store.start("busy")
    stop = threading.Event()

    def write():
        while not stop.is_set():
            busy.user("x")

    writers = [threading.Thread(target=write) for _ in range(int(sys.argv[2]))]
    for writer in writers:
        writer.start()
    children = []
    for n in range(6):
        pid = os.fork()
        if pid == 0:
            for m in range(10):
                agent.user(f"child {n} {m}")
            store.close()
            os._exit(0)
        children.append(pid)
    for m in range(10):
        agent.user(f"parent {m}")
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    stop.set()
    for writer in writers:
        writer.join()
    assert agent.head == 70
    assert store.verify() == []
"""


READING = """
import os, sys, threading, warnings, backstory
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on: forking with threads running
with backstory.open(sys.argv[1]) as store:
    agent = store.start("main")
    agent.extend([("user", "x" * 200)] * 300)
    stop = threading.Event()

    def read():
        while not stop.is_set():
            agent.events(), store.agents()

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for n in range(int(sys.argv[2])):
        pid = os.fork()
        if pid == 0:
            agent.events(), agent.user("child")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for reader in readers:
        reader.join()
    assert agent.head == 300 + int(sys.argv[2])
"""


@pytest.mark.slow
def test_a_child_never_waits_for_a_lock_of_a_reading_thread(durable_url):
    forks = more(60, slow=400)
    subprocess.run(
        [sys.executable, "-c", READING, durable_url, str(forks)], check=True, timeout=HANGS
    )


def test_a_child_closes_a_store_while_a_thread_of_the_parent_waits_for_commits(durable_url):
    subprocess.run(
        [sys.executable, "-c", FORKING_DURING_A_WAIT, durable_url], check=True, timeout=HANGS
    )


@pytest.mark.parametrize("writers", [0, 2])
def test_a_store_may_be_used_on_both_sides_of_a_fork(durable_url, writers):
    """Even while other threads of the parent are in the middle of writing."""
    subprocess.run(
        [sys.executable, "-c", FORKING, durable_url, str(writers)], check=True, timeout=HANGS
    )
