"""Environments and processes: each peer has a virtual environment, and each task a process, of its own.

The newest release of every peer is installed once, into `.venv-peers/`; remove the folder to get newer ones.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.peers.peers import PEERS, package

PROJECT = Path(__file__).parents[2]
ENVIRONMENTS = PROJECT / ".venv-peers"
TIME_LIMIT = 180
"""Seconds for one task, a long history's making included."""

Numbers = dict[str, Any]


def prepare(names: list[str]) -> None:
    """Install what these peers need, as far as it is not there."""
    for needs in dict.fromkeys(PEERS[name].needs for name in names):
        python(needs)


def python(needs: tuple[str, ...]) -> str:
    """The interpreter of the environment with these packages, which is made if it is not there."""
    if not needs:
        return sys.executable
    folder = home(needs)
    found = str(folder / "bin" / "python")
    if not (folder / ".ready").exists():
        say(f"installing {', '.join(needs)}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run(
            [found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs],
            check=True,
        )
        (folder / ".ready").touch()
    return found


def home(needs: tuple[str, ...]) -> Path:
    """Where the environment with these packages is, made or not: the project's own if there are none."""
    if not needs:
        return PROJECT / ".venv"
    first = package(needs)
    others = {
        entry.needs for entry in PEERS.values() if entry.needs and package(entry.needs) == first
    }
    if others - {needs}:
        raise SystemExit(
            f"peers.py: all peers with {first} first share an environment, so give them the same needs"
        )
    return ENVIRONMENTS / first


def versions(names: list[str]) -> list[str]:
    """Every package that was asked for, with its version, as the peers' own environments have it."""
    found = []
    for needs in dict.fromkeys(PEERS[name].needs for name in names if PEERS[name].needs):
        packages = [package((need,)) for need in needs]
        code = f"import importlib.metadata as m; print(*[p + ' ' + m.version(p) for p in {packages}], sep=';')"
        said = subprocess.run(
            [python(needs), "-c", code], capture_output=True, text=True, check=True
        ).stdout
        found += said.strip().split(";")
    return list(dict.fromkeys(found))


def run(name: str, job: str, place: str, size: int, **more: Any) -> Numbers:
    """One task, done in the peer's environment; what went wrong stands where the numbers would."""
    return _ended(started(name, job, place, size, **more))


def started(name: str, job: str, place: str, size: int, **more: Any) -> "subprocess.Popen[str]":
    """A task's process, with pipes to all its ends."""
    task = {"peer": name, "job": job, "place": place, "size": size, **more}
    return subprocess.Popen(
        [
            python(PEERS[name].needs),
            "-W",
            "ignore",
            "-m",
            "benchmarks.peers.worker",
            json.dumps(task),
        ],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_environment(), "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"},
    )


def _environment() -> dict[str, str]:
    """Ours, but compiled modules are kept: an installed library has its own, and a checkout must, too."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _result(process: "subprocess.Popen[str]", out: str, errors: str) -> Numbers:
    """What a task's last line says."""
    if process.returncode == 0 and out.strip():
        with suppress(ValueError):
            numbers: Numbers = json.loads(out.strip().splitlines()[-1])
            return numbers
    said = [line for line in errors.splitlines() if line.strip()]
    return {"failed": said[-1][:200] if said else f"ended with {process.returncode}"}


def all_at_once(processes: "list[subprocess.Popen[str]]") -> list[Numbers]:
    """Wait until every process is ready, let them go together, and return what each one says at its end."""
    # Each has a thread that reads its pipes: a process would stop at a full one.
    with ThreadPoolExecutor(len(processes)) as pool, _killed_if_stopped(processes):
        for process in processes:
            ready(process)
        for process in processes:
            with suppress(BrokenPipeError):  # it has ended, and says why at the end
                assert process.stdin
                process.stdin.write("go\n")
                process.stdin.flush()
        return list(pool.map(_ended, processes))


def ready(process: "subprocess.Popen[str]") -> None:
    """Wait until a process says that it is ready, or ends."""
    assert process.stdout
    for line in process.stdout:
        if line.strip() == "ready":
            return


def _ended(process: "subprocess.Popen[str]") -> Numbers:
    with process, _killed_if_stopped([process]):
        try:
            out, errors = process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            return {"failed": f"took more than {TIME_LIMIT // 60} minutes"}
    return _result(process, out, errors)


@contextmanager
def _killed_if_stopped(processes: "list[subprocess.Popen[str]]") -> Iterator[None]:
    """End the processes if the one that waits for them is interrupted."""
    try:
        yield
    except BaseException:
        for process in processes:
            process.kill()
        raise


def say(line: str) -> None:
    """Report progress on standard error."""
    print(line, file=sys.stderr, flush=True)
