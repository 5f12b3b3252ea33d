"""Locks and gates that survive a fork of the process."""

import os
import threading

import pytest

from backstory.storage.locks import ForkGate, ForkSafeLock
from backstory.storage.signals import CommitSignal, SignalWatch

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class OpeningGate(ForkGate):
    """A gate that another thread keeps busy for as long as it takes to open two more stores."""

    def __init__(self):
        super().__init__()
        self.opened = []

    def close(self):
        super().close()
        thread = threading.Thread(target=self.open_stores)
        thread.start()
        thread.join()

    def open_stores(self):
        for _ in range(2):
            self.opened += [ForkSafeLock(), ForkGate()]


def fork_and_exit(check=lambda: True):
    """Return True if `check` is true in a child process."""
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    _, status = os.waitpid(child, 0)
    return status == 0


def can_be_used(lock, gate):
    """Return True if another thread can take the lock and pass the gate."""
    done = threading.Event()

    def use_both():
        with lock, gate:
            done.set()

    threading.Thread(target=use_both, daemon=True).start()
    return done.wait(5)


def test_a_store_that_is_opened_during_a_fork_leaves_no_lock_taken():
    lock, gate, opening = ForkSafeLock(), ForkGate(), OpeningGate()
    assert fork_and_exit(lambda: can_be_used(lock, gate))
    assert can_be_used(lock, gate)
    assert can_be_used(lock, opening)
    for opened_lock, opened_gate in zip(opening.opened[::2], opening.opened[1::2], strict=True):
        assert can_be_used(opened_lock, opened_gate)


def test_a_second_fork_takes_what_the_first_one_released():
    lock, gate = ForkSafeLock(), ForkGate()
    assert fork_and_exit()
    assert fork_and_exit(lambda: can_be_used(lock, gate))
    assert can_be_used(lock, gate)


def test_a_watch_reports_commits_wakeups_and_its_end_and_nothing_before():
    signal = CommitSignal()
    watch = SignalWatch(signal)
    assert not watch.wait_for_signal(0)
    assert not watch.take_wakeup()
    signal.send()
    assert watch.wait_for_signal(0)
    assert not watch.wait_for_signal(0)  # the commit was reported
    watch.wake()
    assert watch.wait_for_signal(0)
    assert watch.take_wakeup()
    assert not watch.wait_for_signal(0)
    watch.close()
    assert watch.wait_for_signal(0)
    assert not SignalWatch(signal).wait_for_signal(0)  # earlier commits are old
