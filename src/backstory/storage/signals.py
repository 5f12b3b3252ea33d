"""Signals that tell the threads of this process that something was committed to a store."""

import threading
import time
from collections.abc import Hashable
from weakref import WeakValueDictionary

from backstory.storage.locks import renew_in_child


class CommitSignal:
    """Counts the commits of this process to a store, and wakes the threads that wait for the next
    one. It does not tell what was committed: a thread that was waiting reads the store to find
    out."""

    def __init__(self) -> None:
        self.renew()
        self.count = 0
        renew_in_child(self)

    def renew(self) -> None:
        """Make new locks. Enter `lock` itself, never `with changed:`, which is written in
        Python."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)

    def send(self) -> None:
        """Wake the threads that wait: something was committed."""
        with self.lock:
            self.count += 1
            self.changed.notify_all()


def get_commit_signal(key: Hashable) -> CommitSignal:
    """Return the one signal of this process for a store that it may have opened several times."""
    return _shared_signals.setdefault(key, CommitSignal())


class SignalWatch:
    """A StoreWatch of a store that only this process writes to."""

    def __init__(self, signal: CommitSignal) -> None:
        self._signal = signal
        self._count = signal.count
        self._is_woken = False
        self.closed = False

    def wait(self, seconds: float | None) -> None:
        self.wait_for_signal(seconds)

    def wait_for_signal(self, seconds: float | None) -> bool:
        """Wait until this process commits, or until the watch is woken or closed. Return False if
        that did not happen within `seconds`."""
        with self._signal.lock:
            has_ended = self._signal.changed.wait_for(self._has_news, seconds)
            self._count = self._signal.count
            return has_ended

    def _has_news(self) -> bool:
        return self._signal.count != self._count or self._is_woken or self.closed

    def take_wakeup(self) -> bool:
        with self._signal.lock:
            is_woken = self._is_woken
            self._is_woken = False
            return is_woken

    def wake(self) -> None:
        with self._signal.lock:
            self._is_woken = True
            self._signal.changed.notify_all()

    def close(self) -> None:
        with self._signal.lock:
            self.closed = True
            self._signal.changed.notify_all()


def limit_wait(deadline: float | None, most: float) -> float:
    """Return the seconds until `deadline`, in monotonic time, but at most `most`."""
    if deadline is None:
        return most
    return max(0.0, min(most, deadline - time.monotonic()))


_shared_signals: WeakValueDictionary[Hashable, CommitSignal] = WeakValueDictionary()
