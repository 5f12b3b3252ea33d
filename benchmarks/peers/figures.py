"""What the numbers say: the table's figures, the ratios to ours and the slopes. Pure: it reads no file."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Numbers = dict[str, Any]
OURS, FLOOR = "backstory", "bare"


class Figure(NamedTuple):
    """One line of the table: where it is found and how it is written."""

    title: str
    job: str
    size: str
    key: str
    unit: str = "ms"
    how: str = ""
    """Which of the peer's methods does it: its docstring explains the ratio."""
    wanted: float = 1
    """How many times ours the best other one is expected to need."""
    floor: float = 0
    """How many times the floor ours may need at most; 0: nothing is expected."""


FIGURES = (
    Figure("1 · append a turn to 10,000 messages, durably", "append", "10000", "ms", how="append"),
    Figure(
        "2 · restore 10,000 messages, warm",
        "restore",
        "10000",
        "ms",
        how="restore",
        wanted=2.5,
        floor=1.5,
    ),
    Figure(
        "2 · restore cold: open, and read from disk",
        "cold",
        "10000",
        "ms",
        how="restore",
        wanted=2.5,
        floor=1.5,
    ),
    Figure(
        "2 · restore in a new process, imports included",
        "restore",
        "10000",
        "new_ms",
        how="restore",
        wanted=2.5,
        floor=1.5,
    ),
    Figure("2 · restore as a provider's request, warm", "request", "10000", "ms", how="request"),
    Figure(
        "3 · restore 1,000 live messages of 100,000, ten rewinds",
        "dead",
        "100000",
        "ms",
        how="restore",
    ),
    Figure("4 · fork 10,000 messages at the end", "fork", "10000", "ms", how="fork", wanted=50),
    Figure("4 · bytes for that fork", "fork", "10000", "bytes", "B", how="fork", wanted=50),
    Figure("4 · fork in the middle", "fork", "10000", "middle_ms", how="fork", wanted=50),
    Figure(
        "4 · bytes for a fork in the middle",
        "fork",
        "10000",
        "middle_bytes",
        "B",
        how="fork",
        wanted=50,
    ),
    Figure("4 · forks made", "fork", "10000", "times", ""),
    Figure("5 · go back by 20 of 10,000 messages", "rewind", "10000", "ms", how="rewind"),
    Figure(
        "6 · bytes on disk per byte of text, 200 turns",
        "disk",
        "200",
        "per_byte",
        "×",
        how="append",
    ),
    Figure(
        "6 · bytes on disk per byte of text, 2,000 turns",
        "disk",
        "2000",
        "per_byte",
        "×",
        how="append",
    ),
    Figure(
        "7 · read the state at message 5,000 of 10,000",
        "as-of",
        "10000",
        "ms",
        how="as_of",
        wanted=50,
    ),
    Figure("7 · is that still right after a rewind?", "as-of", "10000", "after a rewind", ""),
    Figure("8 · eight processes append: time per turn", "together", "8", "ms", how="append"),
    Figure("8 · turns written", "together", "8", "acknowledged", ""),
    Figure("8 · errors", "together", "8", "errors", ""),
    Figure("8 · written turns missing from a restore", "together", "8", "lost", ""),
    Figure("9 · turns written before five `kill -9`", "kill", "5", "acknowledged", ""),
    Figure("9 · of these, lost", "kill", "5", "lost", ""),
    Figure(
        "10 · interrupted histories that can be sent, of 10", "cut", "0", "taken", "", how="ask"
    ),
    Figure("10 · their messages that reach the model, of 21", "cut", "0", "seen", ""),
    Figure("coding agent · restore 100 turns", "coding-restore", "100", "ms", how="restore"),
    Figure(
        "coding agent · bytes on disk per byte of text, 200 turns",
        "coding-disk",
        "200",
        "per_byte",
        "×",
        how="append",
    ),
)
REASONS = ("not_offered", "failed")
"""What stands in place of numbers; who did not do a small size was not asked for a larger one."""
TIMED = (
    "append",
    "restore",
    "cold",
    "request",
    "dead",
    "fork",
    "rewind",
    "disk",
    "as-of",
    "together",
)
"""The jobs whose cost is drawn over the size."""


def value(jobs: dict[str, Any], figure: Figure, peer: str) -> float | str | None:
    """One cell: a number, the reason why there is none, or None where nothing was measured."""
    by_size = jobs.get(figure.job, {}).get(peer)
    if not by_size:
        return None
    last = list(by_size.values())[-1]
    numbers = by_size.get(figure.size) or {key: last[key] for key in REASONS if key in last}
    reason = next((str(numbers[key]) for key in REASONS if key in numbers), None)
    if reason or not numbers:
        return reason
    return DERIVED[figure.key](numbers) if figure.key in DERIVED else numbers.get(figure.key)


def _new_process(numbers: Numbers) -> float | None:
    return None if numbers.get("first_ms") is None else numbers["first_ms"] + numbers["import_ms"]


DERIVED: dict[str, Callable[[Numbers], float | None]] = {
    "new_ms": _new_process,
    "per_byte": lambda numbers: numbers["bytes"] / numbers["said"],
}


def ratio(jobs: dict[str, Any], figure: Figure, peer: str) -> float | None:
    """How many times ours: above 1, ours is ahead. None where there is nothing to compare."""
    theirs, ours = value(jobs, figure, peer), value(jobs, figure, OURS)
    if not figure.unit or not isinstance(theirs, int | float) or not isinstance(ours, int | float):
        return None
    if not ours or jobs[figure.job][peer][figure.size].get("errors"):
        return None  # who refuses most of the work is not to be compared by the rest
    return theirs / ours


def best(results: dict[str, Any], figure: Figure, peers: list[str]) -> tuple[float, str] | None:
    """The smallest ratio among these peers, and whose it is."""
    found = ((ratio(results["jobs"], figure, peer), peer) for peer in peers)
    return min(((times, peer) for times, peer in found if times is not None), default=None)


def rivals(results: dict[str, Any]) -> list[str]:
    """The others that persist, the floor left out."""
    return [
        peer
        for peer in results["peers"]
        if peer not in (OURS, FLOOR) and results["how"][peer]["persists"]
    ]


def cost(job: str, numbers: Numbers) -> float | None:
    """What is drawn over the size: milliseconds, or bytes on disk."""
    found = numbers.get("bytes") if job == "disk" else numbers.get("ms")
    return found if isinstance(found, int | float) else None


def line(jobs: dict[str, Any], job: str, peer: str) -> list[tuple[int, float]]:
    """The points of one line of the picture."""
    points = (
        (int(size), cost(job, numbers)) for size, numbers in jobs.get(job, {}).get(peer, {}).items()
    )
    return [(size, found) for size, found in points if found]


def slope(points: list[tuple[int, float]]) -> float | None:
    """The exponent of the growth, by least squares on the logarithms: 0 constant, 1 linear, 2 quadratic."""
    if len(points) < 2:
        return None
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )


def written(found: float | str | None, unit: str) -> str:
    """A figure for people."""
    if found is None:
        return "—"
    if isinstance(found, str):
        return found
    if unit == "B":
        return f"{found:,.0f} B"
    digits = 0 if found >= 100 or not unit else 1 if found >= 10 else 2
    return f"{found:,.{digits}f}{' ' + unit if unit else ''}"


class Target(NamedTuple):
    """What we set out to reach, and what was measured."""

    what: str
    against: str
    wanted: float
    found: float

    @property
    def is_reached(self) -> bool:
        """Whether it is as good as we wanted."""
        return self.found >= self.wanted


def targets(results: dict[str, Any]) -> list[Target]:
    """Each target with what was measured: the best of the others that persist, the floor, `pgbench`."""
    found = []
    for figure in (figure for figure in FIGURES if figure.unit):
        nearest, floor = (
            best(results, figure, rivals(results)),
            ratio(results["jobs"], figure, FLOOR),
        )
        if nearest:
            found.append(Target(figure.title, nearest[1], figure.wanted, nearest[0]))
        if figure.floor and floor:
            found.append(Target(figure.title, FLOOR, 1 / figure.floor, floor))
    appends = results.get("postgres", {}).get("postgres-append", {})
    for clients, numbers in appends.get("backstory-postgres", {}).items():
        share = numbers.get("a_second", 0) / appends["pgbench"][clients]["a_second"]
        found.append(
            Target(f"PostgreSQL, appends per second, clients: {clients}", "pgbench", 0.6, share)
        )
    return found
