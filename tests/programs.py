"""The real program, started by the tests: quickly from a server that has imported everything, or cold.

Importing the SDKs and the screen takes three seconds of work, and a hundred tests start the program. What
runs is the real program in a process of its own, with its own folder, environment, signals and terminal; only
the modules are there already. Tests of the start itself start it cold, as a person does.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from tests.processes import PATIENCE

ROOT = Path(__file__).parent.parent
COLD = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tests.fork_server import prepare
prepare(int(sys.argv.pop(1)))
from backstory.cli import main
main()
"""
# macOS does not let a forked process ask for its proxies, which every HTTP client does.
CAN_FORK = sys.platform == "linux"

Files = tuple[int, int, int]  # standard input, output and error


class Program:
    """A running program, with the part of Popen's interface that the tests use."""

    def __init__(self, order: dict[str, object], files: Files) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_server(), [b"x"], [theirs.fileno(), *files])
        self._reports = self._socket.makefile()
        self._has_news = select.poll()
        self._has_news.register(self._socket, select.POLLIN)
        self._socket.sendall(f"{json.dumps(order)}\n".encode())
        self.pid = int(self._reports.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._report(0.0)

    def wait(self, timeout: float = PATIENCE) -> int:
        code = self._report(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("the program", timeout)
        return code

    def _report(self, seconds: float) -> int | None:
        if self.returncode is None and self._has_news.poll(seconds * 1000):
            self.returncode = int(self._reports.readline())
            self._reports.close()
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def start(
    *arguments: str,
    files: Files,
    cwd: Path,
    env: dict[str, str],
    largest_file: int = 0,
    cold: bool = False,
) -> Program | subprocess.Popen[bytes]:
    """Start `backstory` with some arguments. If standard input is a terminal, it becomes the program's own.
    `largest_file`: how many bytes a file may have, as on a disk that is nearly full."""
    if CAN_FORK and not cold:
        order = {"arguments": arguments, "cwd": str(cwd), "env": env, "largest_file": largest_file}
        return Program(order, files)
    stdin, stdout, stderr = files
    command = [sys.executable, "-c", COLD, str(ROOT), str(largest_file), *arguments]
    return subprocess.Popen(
        command, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )


class Ended(NamedTuple):
    """What a program that has ended left behind."""

    returncode: int
    stdout: str
    stderr: str


def run(
    *arguments: str,
    given: str | bytes | None = "",
    cwd: Path,
    env: dict[str, str],
    cold: bool = False,
) -> Ended:
    """Run `backstory` to its end, with a text on standard input, or with nothing there."""
    with _input(given) as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        files = (stdin.fileno(), out.fileno(), err.fileno())
        code = start(*arguments, files=files, cwd=cwd, env=env, cold=cold).wait(PATIENCE)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return Ended(code, *texts)


def _input(given: str | bytes | None) -> IO[bytes]:
    if given is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(given.encode() if isinstance(given, str) else given)
    file.seek(0)
    return file


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(server.wait)
    atexit.register(ours.close)  # which is called first
    return ours
