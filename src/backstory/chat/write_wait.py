"""A write that may have to wait for others: a line says so, and Ctrl-C gives up before anything is
written."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOON = 1.0  # seconds until a line says so
WAITING = "waiting for the store: someone else is writing (Ctrl-C gives up)"


def aloud(write: Callable[[], T], tell: Callable[[str], None]) -> T:
    """Run a write, and say so if it has to wait."""
    told = threading.Timer(SOON, tell, (WAITING,))
    told.daemon = True
    told.start()
    try:
        return write()
    finally:
        told.cancel()
