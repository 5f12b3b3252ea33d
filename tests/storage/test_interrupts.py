"""A store can still be used by every thread after Ctrl-C at the worst moment."""

import sys
import threading

import pytest

import backstory
from backstory.log import chain
from backstory.storage.locks import ForkGate


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


class Interrupter:
    """Raises KeyboardInterrupt at the nth moment at which Python handles signals in the modules of
    the storage: at the beginning of a function, and when a call of a C function has returned. A
    `with` block enters and leaves a lock of the interpreter without such a moment."""

    def __init__(self, nth):
        self.left = nth

    def __call__(self, frame, event, arg):
        if "/backstory/storage/" not in frame.f_code.co_filename:
            return
        if event not in ("call", "c_return") or frame.f_code.co_name == "__del__":
            return  # an exception in `__del__` would only be printed
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def interrupt(work, nth):
    """Run `work`, with Ctrl-C at its nth moment. Return False if it ended before."""
    interrupter = Interrupter(nth)
    sys.setprofile(interrupter)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return interrupter.left <= 0


CALLS = {
    "append": lambda agent: agent.user("interrupted"),
    "rewind": lambda agent: agent.rewind("here"),
    "read": lambda agent: agent.events(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_a_store_can_be_used_after_ctrl_c_at_any_step(backend, new_url, call):
    with backstory.open(new_url(backend)) as store:
        agent, other = store.start(), store.start()
        agent.mark("here")
        nth = 1
        while interrupt(lambda: CALLS[call](agent), nth):
            nth += 1
            append_in_thread(other)
        assert nth > 10
        assert store.verify() == []


def append_in_thread(agent):
    thread = threading.Thread(target=agent.user, args=("from another thread",), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


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
    seen = []

    def interrupted(previous, seq, *_):
        seen.append(seq)
        if seq == 2:  # one event of the batch has its row
            raise KeyboardInterrupt
        return bytes(16)

    with backstory.open(":memory:") as store:
        agent = store.start()
        with monkeypatch.context() as patched:
            patched.setattr(chain, "link", interrupted)
            with pytest.raises(KeyboardInterrupt):
                agent.extend([("user", "a"), ("clear",), ("user", "b")])
        assert seen == [1, 2]
        assert agent.events() == []
        agent.user("c")
        assert store.verify() == []
