"""The real program in a pseudo-terminal, with a terminal emulator in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name.lower() not in PROXIES and not name.startswith(("BACKSTORY_", "OPENAI_", "ANTHROPIC_"))
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

# The child makes the terminal its own by itself: forking a process with threads is asking for trouble.
LAUNCH = """
import fcntl, resource, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
largest_file = int(sys.argv.pop(1))
if largest_file:  # what a full disk is like, for one process
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
from backstory.cli import main
main()
"""


class Terminal:
    """A program on a screen of so many columns."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: dict[str, str],
        columns: int = 80,
        lines: int = 40,
        largest_file: int = 0,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        command = [sys.executable, "-c", LAUNCH, str(largest_file), *arguments]
        self._child = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self._screen = pyte.HistoryScreen(columns, lines, history=5000, ratio=1.0)
        self._screen.write_process_input = self.type  # where is the cursor, and such questions
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.raw = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._master, 65536)
            except OSError:  # nobody is at the other end any more
                return
            with self._lock:
                self.raw += block
                self._stream.feed(block)

    @property
    def text(self) -> str:
        """All that is on the screen, and what was scrolled away above it."""
        with self._lock:
            above = [
                "".join(line[x].data for x in range(self._screen.columns))
                for line in self._screen.history.top
            ]
            lines = [line.rstrip() for line in (*above, *self._screen.display)]
        return "\n".join(lines)

    def wait(self, wanted: str | Callable[[str], Any], seconds: float = 20) -> str:
        """Wait until a text is on the screen."""
        check = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text
            if check(text):
                return text
            if self._child.poll() is not None:
                time.sleep(0.3)
                text = self.text
                if check(text):
                    return text
                raise AssertionError(f"the program ended without {wanted!r}:\n{text}")
            time.sleep(0.03)
        raise AssertionError(f"no {wanted!r} within {seconds} s on\n{self.text}")

    def ready(self, seconds: float = 20) -> str:
        """Wait until the person can type: the last line is the editor's."""
        return self.wait(lambda text: STATUS.search(text.rstrip().rpartition("\n")[2]), seconds)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send(self, text: str) -> None:
        """Type a line, and send it."""
        self.ready()
        self.type(text)
        self.wait(lambda shown: text[-20:] in shown)
        self.type("\r")
        time.sleep(0.05)

    def kill(self) -> None:
        """As a power cut would."""
        self._child.kill()
        self._child.wait()

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

    def ended(self, seconds: float = 10) -> int:
        code = self._child.wait(seconds)
        self._reader.join(2)
        return code

    def close(self) -> None:
        if self._child.poll() is None:
            self.kill()
        self._reader.join(2)
        if self._master >= 0:
            os.close(self._master)


def kinds(agent: Any) -> list[str]:
    return [event.kind for event in agent.context().messages]


def prompts_on(text: str) -> list[str]:
    """What the person said, as the screen has it."""
    return re.findall(r"^> (.+?)\s*$", text, re.MULTILINE)


def page_of(text: str) -> str:
    """What was drawn since the last move."""
    return re.split(r"^── .* ─+$", text, flags=re.MULTILINE)[-1]


def wait_for(path: Path) -> None:
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)
