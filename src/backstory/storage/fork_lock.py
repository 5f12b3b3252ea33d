"""Locks that survive a fork of the process.

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


def _acquire_all() -> None:
    for lock in list(_locks):
        lock.__enter__()


def _release_all() -> None:
    for lock in list(_locks):
        lock.__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
