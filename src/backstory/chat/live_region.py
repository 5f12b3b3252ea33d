"""The bottom lines of the screen, redrawn several times a second while an answer comes in.

They are few, and replaced as a whole. When the window becomes narrower, the terminal wraps long lines. So
the rows that they take up are counted before they are erased.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

SECONDS_PER_FRAME = 0.125
ERASE_LINE, LINE_UP = "\x1b[2K", "\x1b[1A"

Lines = list[list[Segment]]


class Frame(NamedTuple):
    """What to draw next: lines that are printed for good, and those that will be redrawn below them."""

    settled: Lines
    moving: Lines


class LiveRegion:
    """Draws what `frame` returns, several times a second, until it is stopped."""

    def __init__(self, console: Console, frame: Callable[[], Frame]) -> None:
        self._console = console
        self._frame = frame
        self._widths: list[int] = []  # of the lines that will be redrawn
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.lock = threading.RLock()  # whoever holds it is not disturbed by a frame

    def start(self) -> None:
        """Begin to draw, where the terminal can."""
        if (
            self._thread is None
            and self._console.is_terminal
            and not self._console.is_dumb_terminal
        ):
            self._stopped.clear()
            self._console.show_cursor(False)
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Erase it, and draw no more."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            self._thread = None
            self._erase()
            self._console.show_cursor(True)

    def print(self, *things: RenderableType) -> None:
        """Print above it."""
        with self.lock:
            self._erase()
            for thing in things:
                self._console.print(thing)

    def _work(self) -> None:
        while not self._stopped.wait(SECONDS_PER_FRAME):
            with (
                self.lock,
                suppress(OSError),
            ):  # the terminal may be gone: whoever reads from it will notice
                self._draw(self._frame())

    def _draw(self, frame: Frame) -> None:
        with self._console.capture() as drawn:
            self._console.print(Drawn(frame.settled))
            self._console.print(Drawn(frame.moving, is_open=True))
        self._replace(drawn.get())
        self._widths = [sum(cell_len(segment.text) for segment in line) for line in frame.moving]

    def _erase(self) -> None:
        if self._widths:
            self._replace("")
            self._widths = []

    def _replace(self, text: str) -> None:
        """Write a text over the lines. The window is measured last, and all is one write: if it changed in
        between, too few or too many lines would be erased."""
        columns = self._console.width
        rows = sum(max(1, -(-width // columns)) for width in self._widths)
        erased = "\r" + (ERASE_LINE + LINE_UP) * (rows - 1) + ERASE_LINE if rows else ""
        self._console.file.write(erased + text)
        self._console.file.flush()


class Drawn:
    """Lines that have been rendered already. `is_open`: the cursor stays behind the last one."""

    def __init__(self, lines: Lines, *, is_open: bool = False) -> None:
        self._lines = lines
        self._is_open = is_open

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for index, line in enumerate(self._lines, 1):
            yield from line
            if index < len(self._lines) or not self._is_open:
                yield Segment.line()
