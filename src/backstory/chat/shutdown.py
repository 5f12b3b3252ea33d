"""Being told to end (SIGTERM, SIGHUP): as Ctrl-C first, so that what was said is recorded, then the end."""

import os
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

NAMES = ("SIGTERM", "SIGHUP")  # the second is not everywhere


class Shutdown:
    """Listens as long as it is entered; `code` is the exit code that was asked for, or 0."""

    def __init__(self) -> None:
        self.code = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        if signal.Signals(number).name == "SIGHUP":
            _let_go_of_the_terminal()
            raise KeyboardInterrupt  # an editor would want to draw its end, and wait for a key
        signal.raise_signal(signal.SIGINT)  # whoever has the terminal knows what to do with that


def _let_go_of_the_terminal() -> None:
    """It is gone: what is still written to it would fail, and fail again on the way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
