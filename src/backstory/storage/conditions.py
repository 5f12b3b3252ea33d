"""The conditions of an SQL statement that is put together, for both databases."""

from typing import Any


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

    def join(self) -> str:
        """Return all conditions as one."""
        return " AND ".join(self._parts) if self._parts else "true"
