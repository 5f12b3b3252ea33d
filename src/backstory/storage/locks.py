"""Locks and gates that survive a fork of the process, and Ctrl-C.

A child process gets a copy of every lock as it was at the moment of the fork: a lock that another
thread had taken would stay locked for ever. So a fork waits until it has taken the locks itself.
Then it calls what must be done before a fork, while no other thread uses a store. What a thread may
use for ever, such as the lock of one that waits for a commit, is renewed in the child.

Only a lock of the interpreter is entered and left in one step. Within an `__enter__` that is
written in Python, as that of `threading.Condition` is, Ctrl-C can come when the lock is taken and
nothing releases it.
"""

import os
import threading
import time
from _thread import RLock
from contextlib import suppress
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

DEFAULT_TIMEOUT = 60.0  # seconds that a call may wait for others


class LockTimeout(Exception):
    """Another thread had the lock for too long."""


class ForkSafeLock(RLock):  # type: ignore[misc]  # typeshed calls RLock final; CPython does not
    """A re-entrant lock that is free in parent and child after a fork."""

    def __init__(self) -> None:
        _locks[self] = None

    def take(self, deadline: float) -> None:
        """Acquire the lock. Raises LockTimeout at `deadline`, in monotonic time.

        A `try` block whose `finally` releases the lock must follow at once. Between the return of a
        method written in Python and a `try` block, Python handles no signals, so Ctrl-C cannot come
        there.
        """
        try:
            is_taken = self.acquire(False)  # in most cases, without reading the clock
            if not is_taken:
                is_taken = self.acquire(timeout=max(0.0, deadline - time.monotonic()))
        except BaseException:  # Ctrl-C while it waited, or just after it got the lock
            with suppress(RuntimeError):  # this thread does not have it
                self.release()
            raise
        if not is_taken:
            raise LockTimeout("another thread has been writing")


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


class ForkListener(Protocol):
    """An object that does something before the process forks."""

    def prepare_fork(self) -> None:
        """Prepare for a fork. All locks are taken, and all gates are closed."""


class Renewable(Protocol):
    """An object with locks or connections that a child process cannot use."""

    def renew(self) -> None:
        """In a child process, replace what threads of the parent may be using."""


_locks: WeakKeyDictionary[ForkSafeLock, None] = WeakKeyDictionary()
_gates: WeakKeyDictionary[ForkGate, None] = WeakKeyDictionary()
_listeners: WeakKeyDictionary[ForkListener, None] = WeakKeyDictionary()
_renewables: WeakKeyDictionary[Renewable, None] = WeakKeyDictionary()

# Inside of it, a file is opened that no store has yet, so that no other gate or lock protects it.
opening_gate = ForkGate()

_fork_lock = RLock()  # one thread forks at a time
_taken_locks: list[ForkSafeLock] = []  # by the fork that is under way
_closed_gates: list[ForkGate] = []


def call_before_fork(listener: ForkListener) -> None:
    """Let a fork call `prepare_fork` of `listener`, as long as that exists."""
    _listeners[listener] = None


def renew_in_child(owner: Renewable) -> None:
    """Let every child process call `renew` of `owner`, as long as that exists."""
    _renewables[owner] = None


def _prepare_fork() -> None:
    _fork_lock.acquire()
    # Locks come first: a thread that has one may have to pass a gate before it releases it.
    _take_locks()
    _close_gate(opening_gate)
    _take_locks()  # of the stores that were being opened
    for gate in _list_alive(_gates):
        if gate is not opening_gate:
            _close_gate(gate)
    for listener in _list_alive(_listeners):
        listener.prepare_fork()


def _take_locks() -> None:
    for lock in _list_alive(_locks):
        if lock not in _taken_locks:
            lock.acquire()
            _taken_locks.append(lock)


def _close_gate(gate: ForkGate) -> None:
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


def _begin_child() -> None:
    _release_all_locks()
    for owner in _list_alive(_renewables):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_prepare_fork,
        after_in_parent=_release_all_locks,
        after_in_child=_begin_child,
    )
