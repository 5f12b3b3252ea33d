"""Measuring on a noisy machine: both sides by turns, and the ratio of medians or best times."""

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


Work = Callable[[], object]


def by_turns(ours: Work, floor: Work, rounds: int) -> tuple[float, float]:
    """The medians, in milliseconds, of two pieces of work done by turns."""
    ours_took, floor_took = _times(ours, floor, rounds, time.perf_counter)
    return statistics.median(ours_took), statistics.median(floor_took)


def best_by_turns(ours: Work, floor: Work, rounds: int) -> tuple[float, float]:
    """The shortest CPU times: for work that waits for nothing, on a machine that others use too."""
    ours_took, floor_took = _times(ours, floor, rounds, time.process_time)
    return min(ours_took), min(floor_took)


def _times(
    ours: Work, floor: Work, rounds: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    ours(), floor()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, taken in zip((ours, floor), times, strict=True):
            gc.collect()
            start = clock()
            work()
            taken.append((clock() - start) * 1000)
    return times


def best_on_both_clocks(
    ours: Work, floor: Work, rounds: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The best times of two pieces of work done by turns, in milliseconds: first those of a clock on the
    wall, then those of the processor, which other programs disturb less."""
    ours(), floor()
    walls: tuple[list[float], list[float]] = ([], [])
    processors: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    for _ in range(rounds):
        for work, wall, processor in zip((ours, floor), walls, processors, strict=True):
            started, began = time.perf_counter(), time.process_time()
            work()
            processor.append((time.process_time() - began) * 1000)
            wall.append((time.perf_counter() - started) * 1000)
    return (min(walls[0]), min(walls[1])), (min(processors[0]), min(processors[1]))


def table(title: str, rows: list[Row]) -> str:
    """The rows as text."""
    width = max(len(f"{row.what}, against {row.against}") for row in rows)
    lines = [title, "=" * len(title), f"{'':{width}}  {'ours':>11}  {'floor':>11}  ratio  target"]
    for row in rows:
        what = f"{row.what}, against {row.against}"
        limit = (
            ""
            if row.limit is None
            else f"{row.limit:.2f} {'ok' if row.ratio <= row.limit else 'MISSED'}"
        )
        ours, floor = (f"{value:,.3f} {row.unit}" for value in (row.ours, row.floor))
        lines.append(f"{what:{width}}  {ours:>11}  {floor:>11}  {row.ratio:5.2f}  {limit}")
    return "\n".join(lines)
