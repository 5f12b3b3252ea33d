"""An SQLite store on both sides of a fork: the child has its own locks on the file.

Without them, the next process that closes the store would remove the log that the child writes to.
"""

import os
import subprocess
import sys
import threading
from contextlib import closing

import pytest

import backstory
from backstory.storage.locks import opening_gate
from backstory.storage.sqlite.backend import SqliteBackend
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

RESTORE = "import backstory, sys; backstory.restore(sys.argv[1], sys.argv[2])"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def read_contents(path):
    with backstory.open(path) as store:
        assert store.verify() == []
        return [event.content for event in store.agent("main").events()]


class Child:
    """A forked process that takes steps when it is told to."""

    def __init__(self, *steps):
        orders, self._orders = os.pipe()
        self._results, results = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._orders)
            for step in steps:
                os.read(orders, 1)
                try:
                    step()
                    os.write(results, b"+")
                except BaseException:
                    os.write(results, b"-")
            os._exit(0)
        os.close(orders)
        os.close(results)

    def take_step(self):
        """Let the child take its next step. Return True if that raised nothing."""
        os.write(self._orders, b".")
        return os.read(self._results, 1) == b"+"

    def end(self):
        os.close(self._orders)
        os.close(self._results)
        assert os.waitpid(self._pid, 0)[1] == 0


@pytest.mark.parametrize("opens_again", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_the_log_of_a_child_stays_when_others_close_the_store(path, opens_again, follows):
    store = backstory.open(path)
    agent = store.start("main")
    agent.user("parent")
    follower = agent.follow() if follows else None
    stores = [store]

    def open_again():
        if opens_again:
            stores.append(backstory.open(path))

    def append():
        stores[-1].agent("main").user("child")

    child = Child(open_again, append, append, append)
    assert child.take_step()
    assert child.take_step()
    if follower is not None:
        follower.close()
    store.close()
    assert read_contents(path) == ["parent", "child"]  # and closes the store
    assert child.take_step()
    assert read_contents(path) == ["parent", "child", "child"]
    assert child.take_step()
    child.end()
    assert read_contents(path) == ["parent", "child", "child", "child"]


def test_a_restore_finds_that_a_child_uses_the_store(path, tmp_path):
    store = backstory.open(path)
    agent = store.start("main")
    store.backup(tmp_path / "backup.db")
    child = Child(lambda: agent.user("child"), lambda: agent.user("again"))
    assert child.take_step()
    store.close()
    order = [sys.executable, "-c", RESTORE, str(tmp_path / "backup.db"), str(path)]
    assert "is in use" in subprocess.run(order, capture_output=True, text=True).stderr
    assert child.take_step()
    child.end()
    assert read_contents(path) == ["child", "again"]


def test_a_parent_continues_after_others_have_removed_the_log(path):
    with backstory.open(path) as store:
        agent = store.start("main")
        follower = agent.follow(timeout=60)
        Child().end()
        assert read_contents(path) == []
        assert not path.with_name("history.db-wal").exists()
        agent.user("parent")
        assert next(follower).content == "parent"
        assert read_contents(path) == ["parent"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_that_was_restored_during_a_fork_is_not_mixed(path, tmp_path, read_only):
    with backstory.open(path) as store:
        store.start("main").user("one")
        store.backup(tmp_path / "backup.db")
    with closing(backstory.open(path, read_only=read_only)) as store:
        agent = store.agent("main")
        store._backend.prepare_fork()
        backstory.restore(tmp_path / "backup.db", path)
        with pytest.raises(backstory.StorageError, match="was moved or deleted"):
            agent.events()


def test_a_fork_waits_for_a_store_that_another_thread_opens(path, monkeypatch):
    is_opening, may_open = threading.Event(), threading.Event()
    original = SqliteBackend._open_first
    opened = []

    def open_in_steps(backend):
        is_opening.set()
        first = original(backend)
        may_open.wait()
        return first

    def continue_during_fork():
        wait_until(lambda: opening_gate._is_forking)
        may_open.set()

    with monkeypatch.context() as patched:
        patched.setattr(SqliteBackend, "_open_first", open_in_steps)
        opening = threading.Thread(target=lambda: opened.append(backstory.open(path)))
        opening.start()
        is_opening.wait()
    threading.Thread(target=continue_during_fork).start()
    stores = []
    child = Child(
        lambda: stores.append(backstory.open(path)),
        lambda: stores[0].ensure("main").user("child"),
        lambda: stores[0].ensure("main").user("child"),
    )
    opening.join()
    assert child.take_step()
    assert child.take_step()
    opened[0].close()
    with backstory.open(path) as store:
        assert store.ensure("main").head == 1
    assert child.take_step()
    child.end()
    with backstory.open(path) as store:
        assert store.ensure("main").head == 2


OPEN_UNTIL_A_LINE = """
import backstory, sys
with backstory.open(sys.argv[1]) as store:
    print(store.agents(), flush=True)
    input()
"""


def test_a_store_is_written_after_a_fork_and_the_end_of_another_process(path):
    """The other process removes the log, which the parent had seen before its fork."""
    with backstory.open(path) as store:
        agent = store.start("main")
        command = [sys.executable, "-c", OPEN_UNTIL_A_LINE, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            other.communicate(b"\n")
        assert not path.with_name(path.name + "-wal").exists()
        path.with_name("takes-the-number").touch()  # so that the new log gets another one
        agent.user("after the fork")
    assert read_contents(path) == ["after the fork"]
