"""Measuring on a noisy machine: both sides by turns, and the ratio of their medians."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a table: what was measured, against what, and the target."""

    what: str
    against: str
    ours: float
    floor: float
    limit: float | None
    unit: str = "ms"

    @property
    def ratio(self) -> float:
        return self.ours / self.floor

    def numbers(self) -> dict[str, str | float | None]:
        """The row for machines."""
        return {**self._asdict(), "ratio": self.ratio}


def by_turns(ours: Callable[[], object], floor: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The medians, in milliseconds, of two pieces of work done by turns."""
    ours(), floor()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, taken in zip((ours, floor), times, strict=True):
            gc.collect()
            start = time.perf_counter()
            work()
            taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[0]), statistics.median(times[1])


def table(title: str, rows: list[Row]) -> str:
    """The rows as text."""
    width = max(len(f"{row.what}, against {row.against}") for row in rows)
    lines = [title, "=" * len(title), f"{'':{width}}  {'ours':>11}  {'floor':>11}  ratio  target"]
    for row in rows:
        what = f"{row.what}, against {row.against}"
        limit = "" if row.limit is None else f"{row.limit:.2f} {'ok' if row.ratio <= row.limit else 'MISSED'}"
        ours, floor = (f"{value:,.3f} {row.unit}" for value in (row.ours, row.floor))
        lines.append(f"{what:{width}}  {ours:>11}  {floor:>11}  {row.ratio:5.2f}  {limit}")
    return "\n".join(lines)
