"""The outline of a log: its events without their texts. Pure."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from backstory.log.events import to_datetime

DataRow = tuple[int, str, str | None]  # the position, kind and data of an event


class OutlineRow(NamedTuple):
    """One event of a lineage without its text."""

    seq: int
    kind: str
    size: int  # the bytes of its content and data
    created_us: int
    base: int | None  # the position that it continues; None: the one before

    @property
    def created_at(self) -> datetime:
        """When it was written, in UTC."""
        return to_datetime(self.created_us)


# A row that a database returned, in the order of `OutlineRow`'s columns. `tuple.__new__` runs no Python code,
# `OutlineRow(…)` would.
outline_row: Callable[[Iterable[Any]], OutlineRow] = partial(tuple.__new__, OutlineRow)


def outline_rows(rows: Iterable[tuple[Any, ...]]) -> list[OutlineRow]:
    """Rows that a database returned."""
    return list(map(outline_row, rows))
