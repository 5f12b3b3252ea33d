"""The real program in a pseudo-terminal, with a terminal emulator in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyte

from tests import programs
from tests.processes import PATIENCE, wait_until

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
SIZE = (
    "columns",
    "lines",
)  # readline sets them in a worker of pytest-xdist, and the chat would believe them
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name.lower() not in PROXIES + SIZE
    and not name.startswith(("BACKSTORY_", "OPENAI_", "ANTHROPIC_"))
}


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing is configured."""
    places = {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    return CLEAN | places | {"TERM": "xterm-256color", "NO_PROXY": "*", "LANG": "C.UTF-8"} | more


STATUS = re.compile(r" · [\d,/]+ tokens( · ⚑ .*)?$")
BUSY = " s · Ctrl-C stops"  # in the status line, while something is done
OPENED, CLOSED = b"\x1b[?2004h", b"\x1b[?2004l"  # what the editor says to the terminal


class Screen(pyte.Screen):  # type: ignore[misc]
    """A screen that keeps the text of what is scrolled away."""

    def __init__(self, columns: int, lines: int, reply: Callable[[str], None]) -> None:
        self.above: list[str] = []
        self._reply = reply  # to questions such as where the cursor is
        super().__init__(columns, lines)

    def write_process_input(self, data: str) -> None:
        self._reply(data)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.above.append(self._text(0))
        super().index()

    def reflow(self, columns: int) -> None:
        """Become narrower, as terminals do: lines that are too long are broken, and push others up."""
        rows = [self._text(y) or " " for y in range(self.cursor.y + 1)]
        pieces = [row[at : at + columns] for row in rows for at in range(0, len(row), columns)]
        column = self.cursor.x % columns
        self.above += [piece.rstrip() for piece in pieces[: -self.lines]]
        self.resize(self.lines, columns)
        self.erase_in_display(2)
        for y, piece in enumerate(pieces[-self.lines :]):
            self.cursor_position(y + 1, 1)
            self.draw(piece)
        self.cursor_to_column(column + 1)

    def _text(self, y: int) -> str:
        return "".join(self.buffer[y][x].data for x in range(self.columns)).rstrip()

    def text(self) -> str:
        return "\n".join((*self.above, *(self._text(y) for y in range(self.lines))))


class Terminal:
    """A program on a screen of so many columns."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: dict[str, str],
        columns: int = 80,
        lines: int = 40,
        **more: Any,
    ) -> None:
        self._master, slave = pty.openpty()
        self._resize(columns, lines)
        self.screen = Screen(columns, lines, self.type)
        self._stream = pyte.ByteStream(self.screen)
        self._news = threading.Condition()
        self.raw = b""
        self._child = programs.start(
            *arguments, files=(slave, slave, slave), cwd=cwd, env=env, **more
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def narrow(self, columns: int) -> None:
        """Make the window narrower, when all that was meant for the wider one is drawn."""
        with self._news:
            while select.select([self._master], [], [], 0)[0]:
                self._news.wait(0.01)
            self._resize(columns, self.screen.lines)
            self.screen.reflow(columns)

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._master, 65536)
            except OSError:  # nobody is at the other end any more
                return
            with self._news:
                self.raw += block
                self._stream.feed(block)
                self._news.notify_all()

    @property
    def text(self) -> str:
        """All that is on the screen, and what was scrolled away above it."""
        with self._news:
            return self.screen.text()

    def wait(self, wanted: str | Callable[[str], Any], seconds: float = PATIENCE) -> str:
        """Wait until a text is on the screen."""
        check = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            has_ended = self._child.poll() is not None
            if has_ended:
                self._reader.join()
            text = self.text
            if check(text):
                return text
            assert not has_ended, f"the program ended without {wanted!r}:\n{text}"
            with self._news:
                self._news.wait(0.05)  # some checks are about more than the screen
        raise AssertionError(f"no {wanted!r} within {seconds} s on\n{self.text}")

    def ready(self) -> str:
        """Wait until the person can type: the last line is the editor's."""
        return self.wait(
            lambda text: self.is_open() and STATUS.search(text.rstrip().rpartition("\n")[2])
        )

    def wait_for_bytes(self, size: int) -> None:
        """Wait until the program has said so much, or the person can type."""
        self.wait(lambda _: len(self.raw) >= size or self.is_open())

    def answered(self, text: str) -> str:
        """Wait until an answer is there, is in the log, and the person can type again."""
        self.wait(text)
        return self.ready()

    def is_open(self) -> bool:
        return self.raw.rfind(OPENED) > self.raw.rfind(CLOSED)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send(self, text: str) -> None:
        """Type a line, and send it."""
        before = self.ready().count(text[-20:])  # a hint may name the command that is typed
        self.type(text)
        self.wait(lambda shown: shown.count(text[-20:]) > before)
        self.enter()

    def enter(self) -> None:
        """Send what is in the editor, and wait until it has gone."""
        # To draw something above the editor, the program closes it and opens it again. If Enter
        # came between the two, nothing would be closed.
        self.wait(lambda _: self.is_open())
        opened = self.raw.rfind(OPENED)
        self.type("\r")
        self.wait(lambda _: self.raw.find(CLOSED, opened) >= 0)

    def allow(self, answer: str = "y") -> None:
        """Answer the question whether something may run."""
        self.wait(lambda text: edited(text).endswith("why not)"))
        self.type(f"{answer}\r")

    def erase(self) -> None:
        """Empty the editor, in which one line stands."""
        self.ready()
        self.type("\x15")
        self.wait(lambda text: edited(text) == "")

    def kill(self) -> None:
        """As a power cut would."""
        self._child.kill()
        self._child.wait()

    def processes(self) -> list[psutil.Process]:
        """What the program has started."""
        return psutil.Process(self._child.pid).children(recursive=True)

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def hang_up(self) -> None:
        """As closing the window does."""
        self.type("x")  # its echo wakes the reader, which would keep the terminal open
        master, self._master = self._master, -1
        os.close(master)

    def leave(self) -> int:
        self.ready()
        self.type("\x04")
        return self.ended()

    def ended(self) -> int:
        code = self._child.wait(PATIENCE)
        self._reader.join()
        return code

    def close(self) -> None:
        if self._child.poll() is None:
            self.kill()
        self._reader.join()
        if self._master >= 0:
            os.close(self._master)


def kinds(agent: Any) -> list[str]:
    return [event.kind for event in agent.context().messages if event.kind != "note"]


def contents(agent: Any) -> list[str | None]:
    """What is said in an agent's context."""
    return [event.content for event in agent.context().messages if event.kind != "note"]


def edited(text: str) -> str:
    """The last line in the editor."""
    *_, line, status = ["", "", *(line for line in text.split("\n") if line.strip())]
    return line.removeprefix(">").strip() if STATUS.search(status) or BUSY in status else ""


def prompts_on(text: str) -> list[str]:
    """What the person said, as the screen has it."""
    return re.findall(r"^> (.+?)\s*$", text, re.MULTILINE)


def page_of(text: str) -> str:
    """What was drawn since the last move."""
    return re.split(r"^── .* ─+$", text, flags=re.MULTILINE)[-1]


def wait_for(path: Path) -> None:
    wait_until(path.exists)
