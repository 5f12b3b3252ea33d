"""Locks, gates and signals that survive a fork of the process, and Ctrl-C.

A child process gets a copy of every lock as it was at the moment of the fork: a lock that another
thread had taken would stay locked for ever. So a fork waits until it has taken the locks itself.

Only a lock of the interpreter is entered and left in one step. Within an `__enter__` that is
written in Python, as that of `threading.Condition` is, Ctrl-C can come when the lock is taken and
nothing releases it.
"""

import os
import threading
import time
from _thread import RLock
from collections.abc import Hashable
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

T = TypeVar("T")


class ForkSafeLock(RLock):  # type: ignore[misc]  # typeshed calls RLock final; CPython does not
    """A re-entrant lock that is free in parent and child after a fork."""

    def __init__(self) -> None:
        _locks[self] = None


class ForkGate:
    """A gate that many threads may be inside at once, but none while the process forks: a library
    that is called inside may take locks, which would stay locked in the child for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}  # how often each thread has entered
        self._is_forking = False
        _gates[self] = None

    def __enter__(self) -> None:
        thread = threading.get_ident()
        is_inside = False
        try:
            with self._lock:
                while self._is_forking and thread not in self._inside:
                    self._changed.wait()
                self._inside[thread] = self._inside.get(thread, 0) + 1
                is_inside = True
        except BaseException:
            if is_inside:
                self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._inside[thread] -= 1
            if self._inside[thread] == 0:
                del self._inside[thread]
                self._changed.notify_all()

    def close(self) -> None:
        """Admit nobody, and wait until all other threads have left. The gate's lock is taken until
        `open`."""
        thread = threading.get_ident()
        self._changed.acquire()
        self._is_forking = True
        while self._inside.keys() - {thread}:
            self._changed.wait()

    def open(self) -> None:
        """Admit everybody again."""
        self._is_forking = False
        self._changed.notify_all()
        self._changed.release()


class CommitSignal:
    """Counts the commits of this process to a store, and wakes the threads that wait for the next
    one. It does not tell what was committed: a thread that was waiting reads the store to find
    out."""

    def __init__(self) -> None:
        self.renew()
        self.count = 0
        _signals.add(self)

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


_locks: WeakKeyDictionary[ForkSafeLock, None] = WeakKeyDictionary()
_gates: WeakKeyDictionary[ForkGate, None] = WeakKeyDictionary()
_signals: WeakSet[CommitSignal] = WeakSet()
_shared_signals: WeakValueDictionary[Hashable, CommitSignal] = WeakValueDictionary()

_fork_lock = RLock()  # one thread forks at a time
_taken_locks: list[ForkSafeLock] = []  # by the fork that is under way
_closed_gates: list[ForkGate] = []


def _take_all_locks() -> None:
    _fork_lock.acquire()
    for lock in _list_alive(_locks):
        lock.acquire()
        _taken_locks.append(lock)
    for gate in _list_alive(_gates):
        gate.close()
        _closed_gates.append(gate)


def _list_alive(registry: WeakKeyDictionary[T, None]) -> list[T]:
    """Return what is registered now. Other threads may register more at any time, also while the
    fork waits for a gate. `keyrefs` copies in one step; iterating would fail."""
    found = [reference() for reference in registry.keyrefs()]
    return [one for one in found if one is not None]


def _release_all_locks() -> None:
    # Exactly what was taken: a store that another thread has opened since is not among it.
    while _closed_gates:
        _closed_gates.pop().open()
    while _taken_locks:
        _taken_locks.pop().release()
    _fork_lock.release()


def _renew_signals() -> None:
    # Another thread of the parent may have taken a lock of a signal when the process was copied.
    for signal in list(_signals):
        signal.renew()


def _start_child() -> None:
    _release_all_locks()
    _renew_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_take_all_locks, after_in_parent=_release_all_locks, after_in_child=_start_child
    )
