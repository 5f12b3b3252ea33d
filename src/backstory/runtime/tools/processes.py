"""Runs processes with limits on time and output.

A process ends with its children, and all of them end with this process, even if it is killed. Only a child
that starts a new session (setsid, a daemon) survives, as intended.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MOST_OUTPUT = 1_000_000  # bytes; a process with more output is ended
STOPPED = "stopped before it was done"

# A guard in the command's process group reads from a pipe that we hold open and never write to. When this
# process ends, in whatever way, the pipe is closed, and the guard kills the group. Any shell can do that.
GUARDED = 'exec 3<&0 </dev/null; (read _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


class Done(NamedTuple):
    """How a process ended."""

    code: int
    output: str
    ended: str = ""  # why it was ended, if it did not end by itself


class Processes:
    """Runs processes, and can end those that are running."""

    def __init__(self) -> None:
        self._running: dict[
            subprocess.Popen[bytes], str
        ] = {}  # process -> why it was ended, if it was
        self._starting = (
            threading.Lock()
        )  # so that `kill` does not miss a process that is just starting

    def run(self, command: Sequence[str], folder: Path, seconds: float) -> Done:
        """Run a command to its end, or to one of its limits; errors are part of the output."""
        with self._starting:
            work = _started(command, folder)
            self._running[work] = ""
        output = _Output(work)
        ended = ""
        try:
            work.wait(seconds)
        except subprocess.TimeoutExpired:
            ended = f"ended after {seconds:g} seconds: the time limit"
        finally:
            _end(work)  # its background processes end with it, except those in new sessions
            with self._starting:
                ended = self._running.pop(work) or ended
        text = output.text()
        if output.is_full:
            ended = f"ended after {MOST_OUTPUT:,} bytes: the output limit"
        return Done(work.returncode, text, ended)

    def kill(self) -> None:
        """End everything that is running."""
        with self._starting:
            running = list(self._running)
            self._running.update(dict.fromkeys(running, STOPPED))
        for work in running:
            _end(work)


def _started(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", GUARDED, "sh", *command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # its own group, so that it can be ended with its children
    )


class _Output:
    """The output of a process, collected by a thread."""

    def __init__(self, work: subprocess.Popen[bytes]) -> None:
        self.is_full = False
        self._work = work
        self._gathered = bytearray()
        self._thread = threading.Thread(target=self._gather, daemon=True)
        self._thread.start()

    def _gather(self) -> None:
        assert self._work.stdout
        with self._work.stdout as pipe:
            while block := os.read(pipe.fileno(), 65536):
                self._gathered += block
                if len(self._gathered) > MOST_OUTPUT:
                    self.is_full = True
                    _end(self._work)
                    return

    def text(self) -> str:
        self._thread.join(2)
        return bytes(self._gathered[:MOST_OUTPUT]).decode(errors="replace")


def _end(work: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended already
        os.killpg(work.pid, signal.SIGKILL)
    work.wait()
    if work.stdin:
        work.stdin.close()
