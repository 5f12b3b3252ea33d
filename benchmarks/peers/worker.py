"""One task in the peer's own environment: `python -m benchmarks.peers.worker TASK`, JSON in and JSON out.

It imports nothing of backstory unless the peer is backstory.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.peers import jobs
from benchmarks.peers.contract import problems
from benchmarks.peers.peer import NotOffered, Peer
from benchmarks.peers.peers import PEERS

FIXTURES = {"fill": jobs.fill, "life": jobs.live, "coding": jobs.fill_coding}
READS = {
    "append": jobs.append,
    "request": jobs.request,
    "restore": jobs.restore,
    "dead": jobs.restore_after_life,
    "coding-restore": jobs.restore_coding,
    "fork": jobs.fork,
    "rewind": jobs.rewind,
    "as-of": jobs.as_of,
    "cut": jobs.cut_off,
}
ON_DISK = {
    "cold": jobs.cold,
    "disk": jobs.disk,
    "coding-disk": jobs.disk_coding,
    "write": jobs.write,
    "found": jobs.found,
}
JOBS: dict[str, Callable[..., jobs.Numbers]] = {**READS, **ON_DISK}


def main() -> None:
    """Do the task that is named; what cannot be done says why instead of a number."""
    try:
        numbers = _done(**json.loads(sys.argv[1]))
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # for whoever runs this by hand
        numbers = {"failed": shortly(error)}
    print(json.dumps(numbers))


def shortly(error: Exception) -> str:
    """What went wrong, in one line: some messages have many."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"[:200].removesuffix(": ")


def _done(peer: str, **task: Any) -> jobs.Numbers:
    start = time.perf_counter()
    kind = PEERS[peer].load()
    imported = (time.perf_counter() - start) * 1000
    try:
        numbers = _do(kind, **task)
    except NotOffered as reason:
        numbers = {"not_offered": str(reason)}
    return {**numbers, "import_ms": imported}


def _do(
    kind: type[Peer], job: str, place: str, size: int, fixture: str = "", **more: Any
) -> jobs.Numbers:
    if job == "describe":
        return {"persists": kind.persists}
    if job == "contract":
        return {"problems": list(problems(kind, place))}
    if job == "make":
        kept = kind(place)
        FIXTURES[fixture](kept, size)
        kept.close()
        return {}
    if not kind.persists:
        kind = _filled(kind, job, fixture, size)
    return JOBS[job](kind, place, size, **more)


def _filled(kind: type[Peer], job: str, fixture: str, size: int) -> type[Peer]:
    """A peer that keeps nothing beyond its process: filled in this one, and handed out when it is opened."""
    if job in ON_DISK:
        raise NotOffered("stores nothing on disk")
    kept = kind("")
    if fixture:
        FIXTURES[fixture](kept, size)
    return type(kind.__name__, (kind,), {"__new__": lambda *_: kept, "__init__": lambda *_: None})


if __name__ == "__main__":
    main()
