"""Python's cyclic garbage collector, held off while many objects are made that cannot form cycles.

Use it only around pure computation that calls no code of the host program and never waits.
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Pauses:
    """How many threads are in a pause, and whether the collector has to be switched on behind the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False

    def enter(self) -> None:
        """Switch the collector off, if nobody has."""
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def leave(self) -> None:
        """Switch it on again behind the last thread, if it was on."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()

    def forked(self) -> None:
        """In a forked child the other threads are gone, and would never leave."""
        if self._inside and self._was_enabled:
            gc.enable()
        self._lock = threading.Lock()
        self._inside = 0


_pauses = Pauses()
with suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_pauses.forked)


@contextmanager
def pause_gc() -> Iterator[None]:
    """No collections within the block. The collector starts over and over because objects are made, looks at
    all of them and finds nothing: that is up to a third of the time, and more than linear."""
    _pauses.enter()
    try:
        yield
    finally:
        _pauses.leave()
