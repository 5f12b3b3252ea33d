"""Locks and gates that survive a fork of the process.

A child process gets a copy of every lock as it was at that moment: one that another thread held
would stay locked for ever. So a fork waits until it holds the locks itself.
"""

import os
import threading
from weakref import WeakSet

_locks: "WeakSet[ForkableLock]" = WeakSet()


class ForkableLock:
    """A re-entrant lock, free on both sides of a fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class ForkGate:
    """What many threads may be inside of at once, and no thread is inside of while the process forks.

    A library that is called in there may hold locks of its own, which a child would find locked for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside: dict[int, int] = {}  # how deep each thread is inside
        self._is_forking = False
        _gates.add(self)

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while self._is_forking and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    def close(self) -> None:
        """Let no one else in, wait until all others are out, and hold the gate's own lock until `open`."""
        me = threading.get_ident()
        self._changed.acquire()
        self._is_forking = True
        while self._inside.keys() - {me}:
            self._changed.wait()

    def open(self) -> None:
        """Let everybody in again."""
        self._is_forking = False
        self._changed.notify_all()
        self._changed.release()


_gates: "WeakSet[ForkGate]" = WeakSet()


def _acquire_all() -> None:
    for lock in list(_locks):
        lock.__enter__()
    for gate in list(_gates):
        gate.close()


def _release_all() -> None:
    for gate in list(_gates):
        gate.open()
    for lock in list(_locks):
        lock.__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
