"""Parts of SQL statements and of their results, for both databases."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

RowShape = type[tuple[Any, ...]]  # a NamedTuple with the columns of a query, or tuple itself


class SqlConditions:
    """Collects the conditions of a statement and the values that they bind by name.

    A statement has only the conditions that apply, because `… IS NULL OR …` misleads the planner.
    """

    def __init__(self) -> None:
        self.bindings: dict[str, Any] = {}
        self._parts: list[str] = []

    def add(self, sql: str, **bindings: Any) -> None:
        """Add a condition."""
        self._parts.append(sql)
        self.bindings.update(bindings)

    def add_optional(self, sql: str, **bindings: Any) -> None:
        """Add a condition, unless the value that it binds is None."""
        if None not in bindings.values():
            self.add(sql, **bindings)

    def join(self) -> str:
        """Return all conditions as one."""
        return " AND ".join(self._parts) if self._parts else "true"


def make_records(shape: RowShape, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of a query as instances of `shape`."""
    # `tuple.__new__` runs no Python code for each row. With `_make`, reading a context of 10,000
    # events takes a tenth longer, and is slower than the limit in benchmarks/ allows.
    return list(map(tuple.__new__, repeat(shape), rows))
