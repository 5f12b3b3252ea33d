"""`make bench-peers`: the peers side by side in one run; a table, a file of numbers, a picture and a page.

python -m benchmarks.peers --jobs restore,fork --peers backstory,langgraph --sizes 2
"""

import argparse
import json
import os
import platform
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import apsw

import backstory
from benchmarks.peers import environments, postgres
from benchmarks.peers.environments import say
from benchmarks.peers.measurement import JOBS, MESSAGES, REASONS, Measurement
from benchmarks.peers.page import FOR_MAINTAINERS, FOR_USERS, rewrite, text_table
from benchmarks.peers.peers import EMBEDDED, ON_POSTGRES

DOCS = environments.PROJECT / "docs"
PICTURES = DOCS / "peers"
NUMBERS = PICTURES / "numbers.json"
FOLDER = os.environ.get("BENCH_FOLDER") or None
PREFIX = "backstory-peers-"
EPILOG = """
BENCH_FOLDER=FOLDER measures on the disk of that folder, instead of in the folder for temporary files.
With make: make bench-peers JSON=numbers.json ARGS="--jobs restore,fork --sizes 2"
"""


def main() -> None:
    """Measure what was asked for; a run that is stopped shows what it has by then."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are removed
    finished: list[str] = []
    try:
        if not arguments.draw:
            _measure(arguments, finished)
        if arguments.page or arguments.draw:
            _write_page()
    except KeyboardInterrupt:
        say(_stopped(arguments, finished))
        sys.exit(130)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--jobs",
        type=_some_of([*JOBS, "postgres"]),
        help=f"some of {', '.join([*JOBS, 'postgres'])}",
    )
    parser.add_argument(
        "--peers", type=_some_of(list(EMBEDDED)), help=f"some of {', '.join(EMBEDDED)}"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        choices=range(1, len(MESSAGES) + 1),
        metavar=f"1-{len(MESSAGES)}",
        help="how many of the sizes, smallest first; 3 includes 10,000 messages (default: all)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    parser.add_argument(
        "--histories", metavar="FOLDER", help="keep the long histories there for the next run"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the numbers, the picture and the pages"
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="measure nothing; write the picture and the pages again from the stored numbers",
    )
    arguments = parser.parse_args()
    for trouble in _troubles(arguments):
        parser.error(trouble)
    return arguments


def _some_of(known: list[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = [name for name in dict.fromkeys(map(str.strip, text.split(","))) if name]
        unknown = [repr(name) for name in names if name not in known]
        if unknown or not names:
            wrong = f"unknown: {', '.join(unknown)}" if unknown else "no name given"
            raise argparse.ArgumentTypeError(f"{wrong}; choose from {', '.join(known)}")
        return names

    return read


def _troubles(arguments: argparse.Namespace) -> Iterator[str]:
    """What would otherwise fail after an hour."""
    if arguments.page and arguments.peers:
        yield "--page needs all peers: leave out --peers or --page"
    if arguments.page and arguments.sizes:
        yield "--page needs all sizes: leave out --sizes or --page"
    if arguments.json and not _is_writable(arguments.json, folder=False):
        yield f"--json: {arguments.json} cannot be written"
    if arguments.histories and not _is_writable(arguments.histories, folder=True):
        yield f"--histories: {arguments.histories} cannot be used as a folder"
    if FOLDER and not (os.path.isdir(FOLDER) and _is_writable(FOLDER, folder=True)):
        yield f"BENCH_FOLDER: {FOLDER} is not a folder that can be written to"


def _is_writable(name: str, *, folder: bool) -> bool:
    """Whether a file or folder can be written, or made in what there is of its path."""
    path = Path(name).absolute()
    there = next(found for found in [path, *path.parents] if found.exists())
    return there.is_dir() == (folder or there != path) and os.access(there, os.W_OK)


def _measure(arguments: argparse.Namespace, finished: list[str]) -> None:
    """Job after job; those that are finished are in the table, whatever becomes of the rest."""
    peers = arguments.peers or list(EMBEDDED)
    jobs = arguments.jobs or [*JOBS, "postgres"]
    on_postgres = [name for name in ON_POSTGRES if name.removesuffix("-postgres") in peers]
    everyone = [*peers, *(on_postgres if "postgres" in jobs else [])]
    environments.prepare(everyone)
    results = {**_before(arguments), "peers": peers, **_circumstances(everyone)}
    _check(everyone)
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=PREFIX) as folder:
        measurement = Measurement(
            folder, peers, arguments.sizes or len(MESSAGES), arguments.histories
        )
        try:
            for number, job in enumerate(jobs, 1):
                say(f"{number} of {len(jobs)}: {job}")
                if job == "postgres":
                    results["postgres"] = postgres.measured(on_postgres)
                else:
                    results.setdefault("jobs", {})[job] = measurement.job(job)
                results.setdefault("when", {})[job] = datetime.now().isoformat(" ", "minutes")
                _keep(results, arguments)
                finished.append(job)
        finally:
            measurement.close()
            if finished:
                print(text_table(results))


def _circumstances(names: list[str]) -> dict[str, Any]:
    """On what is measured, which versions, and how each peer does its jobs."""
    return {
        "machine": _machine(),
        "versions": [f"backstory {backstory.__version__}", *environments.versions(names)],
        "how": {name: environments.run(name, "describe", "", 0) for name in names},
    }


def _stopped(arguments: argparse.Namespace, finished: list[str]) -> str:
    """Where the numbers of an interrupted run are."""
    if not finished:
        return "stopped: no job was finished"
    files = " and ".join(map(str, _files(arguments)))
    where = f"in {files}" if files else "only above; --json FILE keeps them"
    return f"stopped: the numbers of {', '.join(finished)} are {where}"


def _machine() -> str:
    ours, theirs = apsw.sqlite_lib_version(), sqlite3.sqlite_version
    sqlite = f"SQLite {ours} (backstory and the bare table) and {theirs} (the others)"
    return f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, {sqlite}"


def _check(names: list[str]) -> None:
    """Refuse to measure a peer that does not give back what was put in."""
    for name in (name for name in names if name in EMBEDDED):
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
            found = environments.run(name, "contract", folder, 0)
        problems = found.get("problems") or [found[reason] for reason in REASONS if reason in found]
        if problems:
            raise SystemExit("\n  ".join([f"{name} does not keep its contract:", *problems]))


def _before(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the page has already: a job that is measured again takes its own row's place only."""
    if not (arguments.page and arguments.jobs and NUMBERS.exists()):
        return {}
    found: dict[str, Any] = json.loads(NUMBERS.read_text())
    return found


def _keep(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write what there is after every job: a run that is stopped has not measured for nothing."""
    for file in _files(arguments):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")


def _files(arguments: argparse.Namespace) -> list[Path]:
    """Where the numbers go."""
    files = [Path(arguments.json)] if arguments.json else []
    return [*files, NUMBERS] if arguments.page else files


def _write_page() -> None:
    results = json.loads(NUMBERS.read_text())
    rewrite(DOCS / "peers.md", FOR_USERS, results)
    rewrite(environments.PROJECT / "benchmarks" / "README.md", FOR_MAINTAINERS, results)
    python = environments.python(("matplotlib",))
    subprocess.run(
        [python, "-m", "benchmarks.peers.plot", NUMBERS, PICTURES],
        check=True,
        cwd=environments.PROJECT,
    )


if __name__ == "__main__":
    main()
