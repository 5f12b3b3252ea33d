"""Continuing where reading stopped: a file of lines that has grown is not read again from its beginning.
Pure.

A checkpoint is at a line after which the file does not refer to anything before it. Reading from there gives
the same units as reading from the beginning, and the units that the store has show where the new ones go. If
the tail is not enough, `ReadWhole` is raised, and the file is read as if for the first time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

ROWS = 40  # records after a checkpoint, at least: what a new line is likely to refer to
FAR = 100_000  # records before the end; a checkpoint is not looked for any earlier


class ReadWhole(Exception):
    """The tail of a file cannot be understood without what comes before it."""


class Reach(NamedTuple):
    """How far a file was read: its whole lines."""

    offset: int
    lines: int


@dataclass(frozen=True)
class Checkpoint:
    """Where reading a thread's file can continue, and what has to be known there."""

    path: str
    place: Any  # of the record at the checkpoint
    lines: int  # before it
    reach: Reach
    session: str
    thread: str | None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tail:
    """A stored checkpoint: how many lines were read when it was made, and what was known there."""

    session: str
    thread: str | None
    read: int  # the number of lines that were read; later lines are new
    state: dict[str, Any]


def last_checkpoint(
    least: Callable[[int], int],
    most: Sequence[int],
    is_fitting: Callable[[int], bool],
    *,
    is_tail: bool,
) -> int | None:
    """The last record at which reading can continue, at least `ROWS` before the end; None if there is none.

    `least` and `most`: the first and the last record that each record refers to, including itself (`most` is
    a range if none refers to a later one); what the record at the checkpoint continues may come before it.
    `is_fitting`: whether a record may be the first of a tail. A file that was read as a tail can continue at
    its first record.
    """
    count = len(most)
    # The last record that this one or one before it refers to.
    reach = most if isinstance(most, range) else list(accumulate(most, max))
    lowest = count
    for number in range(count - 1, max(count - FAR, 0), -1):
        if (
            number <= count - ROWS
            and lowest >= number
            and reach[number - 1] < number
            and is_fitting(number)
        ):
            return number
        lowest = min(lowest, least(number))
    return 0 if is_tail else None
