"""Pauses Python's cyclic garbage collector while many objects are made that cannot form cycles.

It switches the collector off for the whole process. So the library uses it only around computation that
does no I/O and calls no code of the host program. A command has a process of its own and may use it around
more.
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

WORTH_IT = 1_000  # objects; for fewer, the collector would hardly run
_NO_PAUSE = nullcontext()


class PauseCounter:
    """Counts the threads that are in a pause, and switches the collector on again after the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        """Switch the collector off, if this is the first thread."""
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """Switch it on again after the last thread, if it was on before."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()

    def reset_in_child(self) -> None:
        """In a forked child, the other threads are gone and would never leave the pause."""
        if self._inside and self._was_enabled:
            gc.enable()
        self._lock = threading.Lock()
        self._inside = 0


_pauses = PauseCounter()
with suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_pauses.reset_in_child)


def pause_gc(objects: int = WORTH_IT) -> AbstractContextManager[None]:
    """No collections within the block, if about so many objects are made in it that this matters. While
    thousands are made, the collector would run again and again, scan them all and find nothing: up to a third
    of the time, growing faster than linearly."""
    return _pauses if objects >= WORTH_IT else _NO_PAUSE


def made_in_pauses(items: Iterator[T]) -> Iterator[T]:
    """The items, with no collections while each is made, only between them."""
    while True:
        with pause_gc():
            found = list(islice(items, 1))
        if not found:
            return
        yield found[0]
