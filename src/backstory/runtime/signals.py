"""Defers signals for a moment, and handles those that end a program."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

DEFERRED_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
ENDING_NAMES = ("SIGTERM", "SIGHUP")


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals within the block; the first one that arrived is handled when the block is
    done."""
    heard: list[tuple[int, FrameType | None]] = []
    before = _find_handlers() if threading.current_thread() is threading.main_thread() else {}
    try:
        for number in before:
            signal.signal(number, lambda number, frame: heard.append((number, frame)))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard:
            before[heard[0][0]](*heard[0])


def _find_handlers() -> dict[int, Callable[[int, FrameType | None], Any]]:
    """The signals that have a Python handler; others are left alone."""
    numbers = (getattr(signal, name) for name in DEFERRED_NAMES if hasattr(signal, name))
    handlers = {number: signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


class Shutdown:
    """Handles the signals within its block; `code` is the exit code to use, or 0."""

    def __init__(self) -> None:
        self.code = 0
        # What to call; without it, the signals act like Ctrl-C.
        self.stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (getattr(signal, name) for name in ENDING_NAMES if hasattr(signal, name)):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        if signal.Signals(number).name == "SIGHUP":
            release_terminal()
        if self.stop is not None:
            self.stop()
        else:
            raise KeyboardInterrupt


def release_terminal() -> None:
    """Write nowhere from now on: the terminal is gone, and writing to it would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
