"""`make bench-peers`: the peers side by side in one run, as one table in Markdown.

    python -m benchmarks.peers --jobs restore,fork --peers backstory,langgraph --sizes 2

BENCH_FOLDER=FOLDER measures on the disk of that folder, instead of in the folder for temporary files.
"""

import argparse
import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import apsw

import backstory
from benchmarks.peers import environments
from benchmarks.peers.environments import say
from benchmarks.peers.figures import table
from benchmarks.peers.measurement import JOBS, MESSAGES, REASONS, Measurement
from benchmarks.peers.peers import PEERS

FOLDER = os.environ.get("BENCH_FOLDER") or None
PREFIX = "backstory-peers-"


def main() -> None:
    """Measure what was asked for. A run that is stopped prints what it has by then."""
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders are removed
    names = arguments.peers or list(PEERS)
    environments.prepare(names)
    for name in names:
        check(name)
    print(f"{describe_machine()}. Versions: {', '.join(list_versions(names))}.\n")
    jobs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=PREFIX) as folder:
        measurement = Measurement(folder, names, arguments.sizes or len(MESSAGES))
        try:
            for number, job in enumerate(arguments.jobs or JOBS, 1):
                say(f"{number}: {job}")
                jobs[job] = measurement.job(job)
                if arguments.json:
                    Path(arguments.json).write_text(json.dumps(jobs, indent=1) + "\n")
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            measurement.close()
            print(table(jobs, {name: PEERS[name].title for name in names}))


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=some_of(JOBS), help=f"some of {', '.join(JOBS)}")
    parser.add_argument("--peers", type=some_of(PEERS), help=f"some of {', '.join(PEERS)}")
    parser.add_argument(
        "--sizes",
        type=int,
        choices=range(1, len(MESSAGES) + 1),
        metavar=f"1-{len(MESSAGES)}",
        help="how many of the sizes, smallest first; 3 includes 10,000 messages (default: all)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the numbers to a file, after each job"
    )
    return parser.parse_args()


def some_of(known: dict[str, Any]) -> Callable[[str], list[str]]:
    """Return a function that reads a list of names with commas."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return names

    return read


def check(name: str) -> None:
    """Refuse to measure a peer that does not give back what was put in."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        found = environments.run(name, "contract", folder, 0)
    problems = found.get("problems") or [found[reason] for reason in REASONS if reason in found]
    if problems:
        raise SystemExit("\n  ".join([f"{name} does not keep its contract:", *problems]))


def list_versions(names: list[str]) -> list[str]:
    """Return the versions of all libraries."""
    return [f"backstory {backstory.__version__}", *environments.versions(names)]


def describe_machine() -> str:
    """Return the date and what the machine has."""
    ours, theirs = apsw.sqlite_lib_version(), sqlite3.sqlite_version
    sqlite = f"SQLite {ours} (backstory and the bare table) and {theirs} (the others)"
    return f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, {sqlite}"


if __name__ == "__main__":
    main()
