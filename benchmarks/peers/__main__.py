"""`make bench-peers`: the peers side by side in one run; a table, a file of numbers, a picture and a page.

python -m benchmarks.peers --jobs restore,fork --peers backstory,langgraph --sizes 2
"""

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import tempfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import apsw

import backstory
from benchmarks.peers import postgres, rooms
from benchmarks.peers.measuring import JOBS, Measuring
from benchmarks.peers.page import rewrite, text_table
from benchmarks.peers.peers import EMBEDDED, ON_POSTGRES
from benchmarks.peers.rooms import say

DOCS = rooms.PROJECT / "docs"
PICTURES = DOCS / "peers"


def main() -> None:
    """Measure what was asked for."""
    arguments = _arguments()
    if not arguments.draw:
        _measure(arguments)
    if arguments.page or arguments.draw:
        _write_page()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--jobs", type=_some_of([*JOBS, "postgres"]), help=f"some of {', '.join([*JOBS, 'postgres'])}"
    )
    parser.add_argument("--peers", type=_some_of(list(EMBEDDED)), help=f"some of {', '.join(EMBEDDED)}")
    parser.add_argument(
        "--sizes", type=int, default=4, help="how many of the sizes, smallest first (default: all)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    parser.add_argument(
        "--histories", metavar="FOLDER", help="keep the long histories there for the next run"
    )
    parser.add_argument(
        "--page", action="store_true", help="write the numbers, the picture and the page in docs/"
    )
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing; draw the picture and the page again"
    )
    arguments = parser.parse_args()
    if arguments.page and arguments.peers:
        parser.error("the page has all peers: leave --peers or --page out")
    return arguments


def _some_of(known: list[str]) -> Any:
    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} here: use some of {', '.join(known)}")
        return names

    return read


def _measure(arguments: argparse.Namespace) -> None:
    peers = arguments.peers or list(EMBEDDED)
    jobs = arguments.jobs or [*JOBS, "postgres"]
    on_postgres = [name for name in ON_POSTGRES if name.removesuffix("-postgres") in peers]
    everyone = [*peers, *(on_postgres if "postgres" in jobs else [])]
    rooms.prepare(everyone)
    results: dict[str, Any] = {
        **_before(arguments),
        "machine": _machine(),
        "peers": peers,
        "versions": [f"backstory {backstory.__version__}", *rooms.versions(everyone)],
        "how": {name: rooms.run(name, "describe", "", 0) for name in everyone},
    }
    _check(everyone)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        measuring = Measuring(folder, peers, arguments.sizes, arguments.histories)
        try:
            for number, job in enumerate(jobs, 1):
                say(f"{number} of {len(jobs)}: {job}")
                if job == "postgres":
                    results["postgres"] = postgres.measured(on_postgres)
                else:
                    results.setdefault("jobs", {})[job] = measuring.job(job)
                results.setdefault("when", {})[job] = datetime.now().isoformat(" ", "minutes")
                _keep(results, arguments)
        finally:
            measuring.close()
    print(text_table(results))


def _machine() -> str:
    ours, theirs = apsw.sqlite_lib_version(), sqlite3.sqlite_version
    sqlite = f"SQLite {ours} (ours and the bare one) and {theirs} (the others)"
    return f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}, {sqlite}"


def _check(names: list[str]) -> None:
    """Nobody is measured who does not give back what was put in."""
    for name in (name for name in names if name in EMBEDDED):
        with tempfile.TemporaryDirectory() as folder:
            found = rooms.run(name, "contract", folder, 0)
        if found.get("problems") or "failed" in found:
            raise SystemExit(f"{name} does not keep its contract: {found}")


def _before(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the page has already: a job that is measured again takes its own row's place only."""
    numbers = PICTURES / "numbers.json"
    if not (arguments.page and arguments.jobs and numbers.exists()):
        return {}
    found: dict[str, Any] = json.loads(numbers.read_text())
    return found


def _keep(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write what there is after every job: a run that is stopped has not measured for nothing."""
    files = [arguments.json] if arguments.json else []
    for file in [*files, *([PICTURES / "numbers.json"] if arguments.page else [])]:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(json.dumps(results, indent=1) + "\n")


def _write_page() -> None:
    numbers = PICTURES / "numbers.json"
    rewrite(DOCS / "peers.md", json.loads(numbers.read_text()))
    python = rooms.python(("matplotlib",))
    subprocess.run([python, "-m", "benchmarks.peers.plot", numbers, PICTURES], check=True, cwd=rooms.PROJECT)


if __name__ == "__main__":
    main()
