"""Defers signals for a moment, so that an event is written completely and the caller knows it.

This covers Ctrl-C and the other signals that a program handles in order to end cleanly. Python runs handlers
in the main thread only, so in other threads there is nothing to do.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals within the block; the first one that arrived is handled when the block is done."""
    heard: list[tuple[int, FrameType | None]] = []
    before = _taken_over() if threading.current_thread() is threading.main_thread() else {}
    try:
        for number in before:
            signal.signal(number, lambda number, frame: heard.append((number, frame)))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:
            before[heard[0][0]](*heard[0])


def _taken_over() -> dict[int, Callable[[int, FrameType | None], Any]]:
    """The signals that have a Python handler; others are left alone."""
    numbers = (getattr(signal, name) for name in NAMES if hasattr(signal, name))
    handlers = {number: signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in handlers.items() if callable(handler)}
