"""Handles SIGTERM and SIGHUP: first like Ctrl-C, so that the partial answer is recorded, then the chat
ends."""

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


class Shutdown:
    """Handles the signals within its block; `code` is the exit code to use, or 0."""

    def __init__(self) -> None:
        self.code = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        if signal.Signals(number).name == "SIGHUP":
            _let_go_of_the_terminal()
            raise KeyboardInterrupt  # an open editor would redraw and wait for a key
        signal.raise_signal(signal.SIGINT)  # the current reader of the terminal handles it


def _let_go_of_the_terminal() -> None:
    """The terminal is gone: writing to it would fail, now and at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
