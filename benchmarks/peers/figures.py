"""What the numbers say: the table's figures and the ratios to ours. Pure: it reads no file."""

from collections.abc import Callable
from typing import Any, NamedTuple

Numbers = dict[str, Any]
OURS = "backstory"


class Figure(NamedTuple):
    """One line of the table: where it is found and how it is written."""

    title: str
    job: str
    size: str
    key: str
    unit: str = "ms"


FIGURES = (
    Figure("1 · append a turn to 10,000 messages, durably", "append", "10000", "ms"),
    Figure(
        "2 · restore 10,000 messages, warm",
        "restore",
        "10000",
        "ms",
    ),
    Figure(
        "2 · restore cold: open, and read from disk",
        "cold",
        "10000",
        "ms",
    ),
    Figure(
        "2 · restore in a new process, imports included",
        "restore",
        "10000",
        "new_ms",
    ),
    Figure("2 · restore as a provider's request, warm", "request", "10000", "ms"),
    Figure(
        "3 · restore 1,000 live messages of 100,000, ten rewinds",
        "dead",
        "100000",
        "ms",
    ),
    Figure("4 · fork 10,000 messages at the end", "fork", "10000", "ms"),
    Figure("4 · bytes for that fork", "fork", "10000", "bytes", "B"),
    Figure("4 · fork in the middle", "fork", "10000", "middle_ms"),
    Figure(
        "4 · bytes for a fork in the middle",
        "fork",
        "10000",
        "middle_bytes",
        "B",
    ),
    Figure("4 · forks made", "fork", "10000", "times", ""),
    Figure("5 · go back by 20 of 10,000 messages", "rewind", "10000", "ms"),
    Figure(
        "6 · bytes on disk per byte of text, 200 turns",
        "disk",
        "200",
        "per_byte",
        "×",
    ),
    Figure(
        "6 · bytes on disk per byte of text, 2,000 turns",
        "disk",
        "2000",
        "per_byte",
        "×",
    ),
    Figure(
        "7 · read the state at message 5,000 of 10,000",
        "as-of",
        "10000",
        "ms",
    ),
    Figure("7 · is that still right after a rewind?", "as-of", "10000", "after a rewind", ""),
    Figure("8 · eight processes append: time per turn", "together", "8", "ms"),
    Figure("8 · turns written", "together", "8", "acknowledged", ""),
    Figure("8 · errors", "together", "8", "errors", ""),
    Figure("8 · written turns missing from a restore", "together", "8", "lost", ""),
    Figure("9 · turns written before five `kill -9`", "kill", "5", "acknowledged", ""),
    Figure("9 · of these, lost", "kill", "5", "lost", ""),
    Figure("10 · interrupted histories that can be sent, of 10", "cut", "0", "taken", ""),
    Figure("10 · their messages that reach the model, of 21", "cut", "0", "seen", ""),
    Figure("coding agent · restore 100 turns", "coding-restore", "100", "ms"),
    Figure(
        "coding agent · bytes on disk per byte of text, 200 turns",
        "coding-disk",
        "200",
        "per_byte",
        "×",
    ),
)
REASONS = ("not_offered", "failed")
"""What stands in place of numbers; who did not do a small size was not asked for a larger one."""


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


def table(jobs: dict[str, Any], titles: dict[str, str]) -> str:
    """Every figure that was measured, as a table in Markdown: a column for each peer, named by `titles`."""
    lines = ["| | " + " | ".join(titles.values()) + " |", "| --- " * (len(titles) + 1) + "|"]
    for figure in FIGURES:
        if figure.job in jobs:
            cells = [cell(jobs, figure, peer) for peer in titles]
            lines.append(f"| {figure.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(jobs: dict[str, Any], figure: Figure, peer: str) -> str:
    """A figure of a peer, with how many times ours it is."""
    shown = written(value(jobs, figure, peer), figure.unit)
    times = ratio(jobs, figure, peer)
    return shown if times is None or peer == OURS else f"{shown} ({times:.2g}×)"
