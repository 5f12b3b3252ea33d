"""The keyboard during an answer: Esc stops it, as Ctrl-C does; all other keys are kept for the editor."""

import os
import select
import signal
import sys
import termios
import threading
from contextlib import suppress
from typing import Any

from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

ESCAPE = b"\x1b"
# Arrow keys begin with an escape, too, but the rest follows at once.
REST_WITHIN = 0.05  # seconds


class Keyboard:
    """Reads what is typed from `start` to `stop`, without showing it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._typed = b""

    def start(self) -> None:
        """Begin to read, where there is a terminal."""
        if self._thread is not None or not sys.stdin.isatty():
            return
        self._terminal = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._terminal)
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, _key_by_key(self._before))
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading. What was typed is in the editor when it opens."""
        if self._thread is None:
            return
        os.close(self._end)
        self._thread.join()
        self._thread = None
        os.close(self._ended)
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)
        typed, self._typed = self._typed, b""
        if typed:
            hand_over(typed.decode(errors="replace"))

    def _read(self) -> None:
        with suppress(OSError):  # the terminal is gone: the next write will fail
            while self._terminal in self._ready():
                block = os.read(self._terminal, 1024)
                if not block:
                    return
                if block.endswith(ESCAPE) and self._terminal in self._ready(REST_WITHIN):
                    block += os.read(self._terminal, 1024)
                self._typed += block.rstrip(ESCAPE)
                if block.endswith(ESCAPE) and not self._has_ended():
                    _interrupt()

    def _has_ended(self) -> bool:
        """Whether there is nothing left to be stopped."""
        return bool(select.select([self._ended], [], [], 0)[0])

    def _ready(self, seconds: float | None = None) -> list[int]:
        """Whether there is something to read; nothing is once the end has come."""
        ready = select.select([self._terminal, self._ended], [], [], seconds)[0]
        return [] if self._ended in ready else ready


def _key_by_key(mode: list[Any]) -> list[Any]:
    """A terminal mode without echo, in which each key is read at once; Ctrl-C stays a signal."""
    inputs, outputs, controls, local, *speeds, special = mode
    keys = [*special]
    keys[termios.VMIN], keys[termios.VTIME] = 1, 0
    without = ~(termios.ECHO | termios.ICANON)
    return [inputs & ~termios.ICRNL, outputs, controls, local & without, *speeds, keys]


def _interrupt() -> None:
    """Act like Ctrl-C: interrupt the main thread, even while it waits."""
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)


def hand_over(typed: str) -> None:
    """Give what was typed to the editor, after what it has already."""
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    parser.feed_and_flush(typed)
    editor = create_input()
    store_typeahead(editor, [*get_typeahead(editor), *keys])
