"""Locks and gates that survive a fork of the process, and Ctrl-C.

A child process gets a copy of every lock as it was at that moment: one that another thread held
would stay locked for ever. So a fork waits until it holds the locks itself.

Only a lock of the interpreter's own is entered and left in one step. Within an `__enter__` that is written in
Python, as that of `threading.Condition` is, Ctrl-C can come when the lock is taken and nothing releases it.
"""

import os
import threading
from weakref import WeakSet

_locks: "WeakSet[threading.RLock]" = WeakSet()


def forkable_lock() -> threading.RLock:
    """A re-entrant lock that is free in parent and child after a fork."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


class ForkGate:
    """A gate that many threads may be inside at once, but none while the process forks. A library that is
    called there may hold locks, which would stay locked in the child for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}  # how deep each thread is inside
        self._is_forking = False
        _gates.add(self)

    def __enter__(self) -> None:
        me = threading.get_ident()
        is_inside = False
        try:
            with self._lock:
                while self._is_forking and me not in self._inside:
                    self._changed.wait()
                self._inside[me] = self._inside.get(me, 0) + 1
                is_inside = True
        except BaseException:
            if is_inside:
                self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._changed.notify_all()

    def close(self) -> None:
        """Let no one in, wait until all others are out, and hold the gate's lock until `open`."""
        me = threading.get_ident()
        self._changed.acquire()
        self._is_forking = True
        while self._inside.keys() - {me}:
            self._changed.wait()

    def open(self) -> None:
        """Let everyone in again."""
        self._is_forking = False
        self._changed.notify_all()
        self._changed.release()


_gates: "WeakSet[ForkGate]" = WeakSet()


def _acquire_all() -> None:
    for lock in list(_locks):
        lock.acquire()
    for gate in list(_gates):
        gate.close()


def _release_all() -> None:
    for gate in list(_gates):
        gate.open()
    for lock in list(_locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all
    )
