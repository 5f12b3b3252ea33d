"""Ctrl-C at the worst moment: a store can still be used, by every thread."""

import threading

import pytest

import backstory
from backstory.storage.fork_lock import ForkGate
from backstory.storage.memory import backend as memory_backend


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_no_lock_is_taken_that_ctrl_c_could_leave_locked(backend, new_url, monkeypatch):
    """The `__enter__` of a condition is written in Python, so a signal can come within it."""

    def interrupted(condition):
        condition.acquire()
        raise KeyboardInterrupt

    with backstory.open(new_url(backend)) as store:
        agent = store.start()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Condition, "__enter__", interrupted)
            agent.user("a")
            assert len(agent.events()) == 1


def test_ctrl_c_at_a_gate_leaves_no_one_inside(monkeypatch):
    gate = ForkGate()

    class Interrupted:
        def __enter__(self):
            lock.acquire()

        def __exit__(self, *_):
            lock.release()
            monkeypatch.undo()
            raise KeyboardInterrupt

    lock = gate._lock
    monkeypatch.setattr(gate, "_lock", Interrupted())
    with pytest.raises(KeyboardInterrupt), gate:
        pass
    assert not gate._inside
    assert not lock.locked()


def test_ctrl_c_within_a_batch_leaves_nothing_of_it(monkeypatch):
    def interrupted(*_):
        if agent.head:  # one event of the batch is there
            raise KeyboardInterrupt
        return bytes(16)

    with backstory.open(":memory:") as store:
        agent = store.start()
        with monkeypatch.context() as patched:
            patched.setattr(memory_backend, "digest_of", interrupted)
            with pytest.raises(KeyboardInterrupt):
                agent.extend([("user", "a"), ("clear",), ("user", "b")])
        assert agent.events() == []
        agent.user("c")
        assert store.verify() == []
