"""Reading on behind what was read: a file of lines that grew is not read again from its beginning. Pure.

A checkpoint stands at a line behind which the file refers to nothing before it. Read on from there, a file
gives the same units as from its beginning, and those that the store has show where the new ones go. What
cannot be told from the tail raises `ReadWhole`, and the file is read as if nobody had read it before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

ROWS = 40  # records behind a checkpoint, at least: what a new line is likely to refer to
FAR = 100_000  # records before the end: no checkpoint is looked for before them


class ReadWhole(Exception):
    """What the tail of a file says cannot be told without what stands before it."""


class Reach(NamedTuple):
    """How far a file was read: its whole lines."""

    offset: int
    lines: int


@dataclass(frozen=True)
class Checkpoint:
    """Where a thread's file can be read on, and what has to be known there."""

    path: str
    place: Any  # of the record that it stands at
    lines: int  # that stand before it
    reach: Reach
    session: str
    thread: str | None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tail:
    """A checkpoint again: how many lines were read when it was made, and what was known at it."""

    session: str
    thread: str | None
    read: int  # the lines from the beginning of the file that were read; what stands behind them is new
    state: dict[str, Any]


def last_checkpoint(
    least: Callable[[int], int], most: Sequence[int], is_fitting: Callable[[int], bool], *, is_tail: bool
) -> int | None:
    """The last record at which a file can be read on, `ROWS` before its end at least; None: there is none.

    `least` and `most`: the first and the last record that each refers to, itself among them; what the record
    at the checkpoint continues may stand before it. `is_fitting`: whether a record may be the first of a
    tail. What was a tail already can be read on from its first record.
    """
    count = len(most)
    reach = list(accumulate(most, max))  # the last record that this one or one before it refers to
    lowest = count
    for number in range(count - 1, max(count - FAR, 0), -1):
        if number <= count - ROWS and lowest >= number and reach[number - 1] < number and is_fitting(number):
            return number
        lowest = min(lowest, least(number))
    return 0 if is_tail else None
