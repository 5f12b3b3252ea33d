"""A write that somebody else may hold up: the person is told, and can give up.

A database waits for other writers in its own code, where Python hears no Ctrl-C. So the write is done in a
thread while the main thread listens. What was given up must not be written later, behind the person's
back: the Ctrl-C is handed on to the thread, where it strikes before anything is committed.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SOON = 1.0  # seconds until the person is told
LAST_MOMENT = 0.3  # seconds for a write that was just being committed
WAITING = "waiting for the store: somebody else is writing (Ctrl-C gives up)"


class Writing:
    """The writes of one chat, one at a time."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._ended = threading.Event()  # not Thread.join: after a Ctrl-C that takes a thread for ended
        self._ended.set()

    def __call__(self, write: Callable[[], T]) -> T:
        """Do a write. Raises what it raises, and KeyboardInterrupt if it was given up."""
        done: list[T] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                done.append(write())
            except BaseException as error:  # all of it is for the thread that waits
                failed.append(error)
            finally:
                ended.set()

        self._wait()  # for one that was given up: it may still stand at the store's door
        ended = self._ended = threading.Event()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            self._wait()
        except KeyboardInterrupt:
            _interrupt(thread)
            ended.wait(LAST_MOMENT)
            if done or failed:
                ended.set()  # it may have struck just before the thread could say so
            if not done:
                raise
        if failed:
            raise failed[0]
        return done[0]

    def _wait(self) -> None:
        if not self._ended.wait(SOON):
            self._tell(WAITING)
            self._ended.wait()


def _interrupt(thread: threading.Thread) -> None:
    """Let KeyboardInterrupt strike in another thread, as soon as it is back from the database's code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
