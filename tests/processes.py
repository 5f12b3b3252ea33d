"""Processes that the tests start, signals, and waiting for what takes its time."""

import signal
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 120.0  # seconds: a machine may be busy, and whoever waits this long will not be served


def hear_all_signals() -> None:
    """Make this process and all that it starts hear signals, as they would from a terminal.

    A script that starts the tests in the background leaves Ctrl-C ignored, nohup leaves a hang-up
    ignored, and an ignored signal stays ignored in every process started from here. One that has a
    handler does not.
    """
    for name in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else nothing)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def nothing(number: int, frame: object) -> None:
    """Keep ignoring a signal, in this process only."""


def wait_until(condition: Callable[[], T], what: str = "", seconds: float = PATIENCE) -> T:
    """What a condition returns, once it is true. Only a failure takes the whole time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"still not so after {seconds:.0f} s: {what or condition}"
        time.sleep(0.02)
    return found
