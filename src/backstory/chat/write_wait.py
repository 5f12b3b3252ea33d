"""A write that someone else may hold up: the person is told, and Ctrl-C gives it up before it is written."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOON = 1.0  # seconds until the person is told
WAITING = "waiting for the store: someone else is writing (Ctrl-C gives up)"


def aloud(write: Callable[[], T], tell: Callable[[str], None]) -> T:
    """Do a write, and tell the person if it has to wait."""
    told = threading.Timer(SOON, tell, (WAITING,))
    told.daemon = True
    told.start()
    try:
        return write()
    finally:
        told.cancel()
