"""The server of the tests ends with the run that started it, whatever happens to that run."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from tests import databases, postgres_server
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(databases.GIVEN is not None, reason="the server is somebody else's")
ROOT = Path(__file__).parents[1]
RUN = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2"]


@contextmanager
def killed_in_the_end(process: psutil.Popen) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in (process, *process.children(recursive=True)):
                one.kill()
        process.wait()


def folders_of(keeper: psutil.Process) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{postgres_server.PREFIX}{keeper.pid}-*"))


def keepers_of(run: psutil.Process) -> list[psutil.Process]:
    return [child for child in run.children() if "tests.postgres_server" in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has ended just now
        return []


def ended(process: psutil.Process) -> bool:
    """Even if nobody has asked yet how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def postmaster_in(folder: Path) -> psutil.Process | None:
    """The server that is in a folder, once it is ready."""
    with suppress(OSError):
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
        if len(lines) == 8 and lines[7].strip() == "ready":
            return psutil.Process(int(lines[0]))
    return None


def test_a_test_run_that_is_killed_leaves_no_server_and_no_files():
    command = [*RUN, "tests/storage/test_contract.py", "-k", "postgres"]
    run = psutil.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    with killed_in_the_end(run):
        [keeper] = wait_until(lambda: keepers_of(run))
        [folder] = wait_until(lambda: folders_of(keeper))
        server = wait_until(lambda: postmaster_in(folder))
        family = [keeper, *run.children(recursive=True), server, *server.children(recursive=True)]
        run.kill()
        wait_until(lambda: all(map(ended, family)))
    assert not folder.exists()


def test_what_a_killed_keeper_leaves_is_cleaned_up_by_the_next():
    with postgres_server.started() as killed:
        url = postgres_server.address(killed.port)
        folder = killed.folder
        killed.process.kill()
        killed.process.wait()
        psycopg.connect(url).close()  # it goes on without its keeper
        server = postmaster_in(folder)
        with postgres_server.started() as keeper:
            wait_until(lambda: not folder.exists())
            assert ended(server)
            assert keeper.folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_a_keeper_that_is_told_to_end_stops_its_server():
    with postgres_server.started() as keeper:
        postgres_server.address(keeper.port)
        server = postmaster_in(keeper.folder)
        keeper.process.send_signal(signal.SIGTERM)
        assert keeper.process.wait() == 1
        assert ended(server)
        assert not keeper.folder.exists()


def test_a_server_is_started_only_if_someone_asks_and_again_if_it_was_killed():
    with postgres_server.started("shared_buffers=1MB") as keeper:
        assert postmaster_in(keeper.folder) is None
        url = postgres_server.address(keeper.port)
        with psycopg.connect(url) as db:
            assert db.execute("SHOW shared_buffers").fetchone() == ("1MB",)
            assert db.execute("SHOW fsync").fetchone() == ("on",)
        postgres_server.kill(keeper.folder)
        assert postgres_server.address(keeper.port) == url
        psycopg.connect(url).close()


def test_a_server_that_starts_slowly_is_waited_for(monkeypatch, tmp_path):
    library = postgres_server.library().postgres_server
    run = library.pgexec

    def run_too_slowly(name, arguments, **options):
        run(name, arguments, **options)
        if name == "pg_ctl" and "start" in arguments:
            raise subprocess.TimeoutExpired(name, 10)

    monkeypatch.setattr(library, "pgexec", run_too_slowly)
    try:
        url = postgres_server.running(tmp_path / "data", [])
        with psycopg.connect(url) as db:
            assert db.execute("SELECT 1").fetchone() == (1,)
    finally:
        postgres_server.kill(tmp_path)
