"""Tells the threads of one process at once that something was committed.

It does not say what: a thread that waits reads the store to find out.
"""

import os
import threading
import time
from collections.abc import Hashable
from weakref import WeakSet, WeakValueDictionary

_signals: "WeakSet[CommitSignal]" = WeakSet()
_shared: "WeakValueDictionary[Hashable, CommitSignal]" = WeakValueDictionary()


class CommitSignal:
    """Counts commits, and wakes the threads that wait for the next one."""

    def __init__(self) -> None:
        self.renew()
        self.count = 0
        _signals.add(self)

    def renew(self) -> None:
        """Make new locks. Enter `lock` itself, never `with condition:`, which is written in Python: Ctrl-C in
        the middle of it could leave the lock held for ever."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)

    def send(self) -> None:
        """Say that something was committed."""
        with self.lock:
            self.count += 1
            self.changed.notify_all()


def shared_commit_signal(store: Hashable) -> CommitSignal:
    """The one signal of this process for a store that it may have opened several times."""
    return _shared.setdefault(store, CommitSignal())


class SignalWatch:
    """Watches a store that only this process writes to."""

    def __init__(self, signal: CommitSignal) -> None:
        self._signal = signal
        self._seen = signal.count
        self._woken = False
        self.closed = False

    def wait(self, seconds: float | None) -> None:
        self._signalled(seconds)

    def _signalled(self, seconds: float | None) -> bool:
        """Wait for the signal; False after this many seconds."""
        with self._signal.lock:
            done = self._signal.changed.wait_for(self._is_over, seconds)
            self._seen = self._signal.count
            return done

    def _is_over(self) -> bool:
        return self._signal.count != self._seen or self._woken or self.closed

    def woken(self) -> bool:
        with self._signal.lock:
            woken, self._woken = self._woken, False
            return woken

    def wake(self) -> None:
        with self._signal.lock:
            self._woken = True
            self._signal.changed.notify_all()

    def close(self) -> None:
        with self._signal.lock:
            self.closed = True
            self._signal.changed.notify_all()


def until(deadline: float | None, most: float) -> float:
    """The seconds that are left until a deadline, but not more than `most`."""
    return most if deadline is None else max(0.0, min(most, deadline - time.monotonic()))


def _renew_all() -> None:
    """In a child process: another thread of the parent may have held a lock when it was copied."""
    for signal in list(_signals):
        signal.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
