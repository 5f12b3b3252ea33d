"""Runs processes with limits on time and output, without the keys of this process's environment.

A process ends with its children, and all of them end with this process, even if it is killed. Only
a child that starts a new session (setsid, a daemon) survives, as intended.
"""

import codecs
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MAX_OUTPUT = 1_000_000  # bytes; a process with more output is ended
STOPPED = "stopped before it was done"
SECRET_NAMES = re.compile(
    r"KEY|TOKEN|SECRET|(?<!ASK)PASS|_PWD$|_PAT$|AUTH(?!OR)|CREDENTIAL|^BACKSTORY_", re.I
)
KEPT = frozenset({"SSH_AUTH_SOCK"})  # where the agent for ssh is; no secret
START_UP_FILES = frozenset({"BASH_ENV", "ENV"})  # name files that a shell runs first
SECRET_VALUES = re.compile(r"://[^/\s:@]*:[^/\s@]+@")  # an address with a password

# A guard in the command's process group reads from a pipe that we hold open and never write to.
# When this process ends, in whatever way, the pipe is closed, and the guard kills the group. Any
# shell can do that.
GUARDED = 'exec 3<&0 </dev/null; (read _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


class ProcessResult(NamedTuple):
    """How a process ended."""

    code: int
    output: str
    ended: str = ""  # why it was ended, if it did not end by itself


class Processes:
    """Runs processes, and can end those that are running."""

    def __init__(self) -> None:
        # Each process, and why it was ended if it was.
        self._running: dict[subprocess.Popen[bytes], str] = {}
        self._starting = threading.Lock()  # so that `kill` does not miss one that is just starting

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        seconds: float,
        emit: Callable[[str], None] | None = None,
    ) -> ProcessResult:
        """Run a command to its end, or to one of its limits. `emit` gets the output, which includes
        errors, while it comes."""
        with self._starting:
            process = start_process(command, folder)
            self._running[process] = ""
        output = OutputReader(process, emit)
        ended = ""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            ended = f"ended after {seconds:g} seconds: the time limit"
        finally:
            end_process(process)  # with its background processes, except those in new sessions
            with self._starting:
                ended = self._running.pop(process) or ended
        text = output.read()
        if output.is_full:
            ended = f"ended after {MAX_OUTPUT:,} bytes: the output limit"
        return ProcessResult(process.returncode, text, ended)

    def kill(self) -> None:
        """End everything that is running."""
        with self._starting:
            running = list(self._running)
            self._running.update(dict.fromkeys(running, STOPPED))
        for process in running:
            end_process(process)


def start_process(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command in its own process group, so that it can be ended with its children."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARDED, "sh", *command],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without keys, tokens and passwords, and without what
    could start a program of the working folder in place of another one."""
    clean = {}
    for name, value in os.environ.items():
        is_secret = SECRET_NAMES.search(name) or SECRET_VALUES.search(value)
        if name in KEPT or not (is_secret or name in START_UP_FILES):
            clean[name] = value
    clean["PATH"] = program_path()
    return clean


def program_path() -> str:
    """Return the absolute folders of PATH; the others depend on the working folder."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, folders)) or os.defpath


class OutputReader:
    """Collects the output of a process in a thread."""

    def __init__(
        self, process: subprocess.Popen[bytes], emit: Callable[[str], None] | None
    ) -> None:
        self.is_full = False
        self._process = process
        self._emit = emit
        self._output = bytearray()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        assert self._process.stdout
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with self._process.stdout as pipe:
            while block := os.read(pipe.fileno(), 65536):
                self._output += block
                if self._emit:
                    self._emit(decoder.decode(block))
                if len(self._output) > MAX_OUTPUT:
                    self.is_full = True
                    end_process(self._process)
                    return

    def read(self) -> str:
        """Return the output, after the process has ended."""
        self._thread.join(2)
        return bytes(self._output[:MAX_OUTPUT]).decode(errors="replace")


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin:
        process.stdin.close()
