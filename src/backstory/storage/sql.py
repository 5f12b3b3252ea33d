"""The reads that are the same in both SQL databases, and the conditions of their statements."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar

from backstory.log.events import OutlineRow, StoredRow
from backstory.storage.agent_errors import build_deletion_error
from backstory.storage.positions import LineageStep, WalkStep, build_lineage, build_walk
from backstory.storage.protocol import (
    AgentRecord,
    EventCount,
    EventFilter,
    KeyPosition,
    Piece,
    Pieces,
    RemovalRecord,
    SourceRecord,
    Walk,
)

RowShape = type[tuple[Any, ...]]  # a NamedTuple with the columns of a query, or tuple itself
Bindings = Mapping[str, Any]  # the values of a statement, by name
NO_BINDINGS: Bindings = MappingProxyType({})


class SqlReader(ABC):
    """The reads that differ only in their statements. A subclass has these statements; its
    subclasses decide which connection runs them."""

    READ_HEAD: str
    WALK: str
    LINEAGE: str
    FIND_POSITION: str
    OUTLINE: str
    COUNT_EVENTS: str
    FIND_KEYS_IN_PIECES: str
    FIND_KEYS_EVERYWHERE: str
    LIST_SOURCES: str
    SOURCE_CONDITIONS: ClassVar[Mapping[str, str]]
    LIST_REMOVALS: str

    @abstractmethod
    def _run(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        """Run a statement and return its rows as instances of `shape`."""

    @abstractmethod
    def _bind_agent(self, agent: AgentRecord) -> Bindings:
        """Return the bindings that identify an agent."""

    @abstractmethod
    def _bind_pieces(self, pieces: Pieces) -> Bindings:
        """Return the bindings that identify pieces of one session."""

    @abstractmethod
    def _bind_keys(self, keys: Sequence[str]) -> Bindings:
        """Return the bindings of some keys of events."""

    def read_head(self, agent: AgentRecord) -> int:
        for (head,) in self._run(self.READ_HEAD, self._bind_agent(agent)):
            return int(head)
        raise build_deletion_error(agent)

    def walk(self, agent: AgentRecord, at: int | None = None) -> Walk:
        steps = self._run(self.WALK, {**self._bind_agent(agent), "at": at}, WalkStep)
        return build_walk(agent, steps, at)

    def read_lineage(self, agent: AgentRecord) -> list[Piece]:
        return build_lineage(agent, self._run(self.LINEAGE, self._bind_agent(agent), LineageStep))

    def find_position_at_time(self, agent: AgentRecord, moment_us: int) -> int:
        bindings = {**self._bind_agent(agent), "moment": moment_us}
        [(position,)] = self._run(self.FIND_POSITION, bindings)
        if position is None:
            self.read_head(agent)  # raises AgentNotFound if the agent was deleted
            return 0
        return int(position)

    def read_outline(self, agent: AgentRecord, pieces: Pieces) -> list[OutlineRow]:
        rows = self._run_in_pieces(OutlineRow, self.OUTLINE, agent, pieces)
        rows.sort(key=itemgetter(0))
        return rows

    def count_events(self) -> list[EventCount]:
        return self._run(self.COUNT_EVENTS, None, EventCount)

    def find_keys(
        self, keys: Sequence[str], agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> list[KeyPosition]:
        bindings = self._bind_keys(keys)
        if agent is None:
            return self._run(self.FIND_KEYS_EVERYWHERE, bindings, KeyPosition)
        return self._run_in_pieces(KeyPosition, self.FIND_KEYS_IN_PIECES, agent, pieces, bindings)

    def list_sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        conditions = SqlConditions()
        values = {"tool": tool, "id": id, "prefix": prefix}
        conditions.add_known(self.SOURCE_CONDITIONS, values)
        sql = self.LIST_SOURCES.format(where=conditions.join())
        return self._run(sql, conditions.bindings, SourceRecord)

    def list_removals(self) -> list[RemovalRecord]:
        return self._run(self.LIST_REMOVALS, None, RemovalRecord)

    def _run_in_pieces(
        self,
        shape: RowShape,
        sql: str,
        agent: AgentRecord,
        pieces: Pieces,
        bindings: Bindings = NO_BINDINGS,
    ) -> list[Any]:
        """Run a statement on pieces of an agent's lineage. Raises AgentNotFound if the agent was
        deleted; the statement then returns nothing."""
        if not pieces:
            return []
        named = {**self._bind_agent(agent), **self._bind_pieces(pieces), **bindings}
        rows = self._run(sql, named, shape)
        if not rows:
            self.read_head(agent)  # raises AgentNotFound
        return rows

    def _run_owned(self, sql: str, bindings: Bindings) -> list[tuple[str, StoredRow]]:
        """Run a statement whose first column is the id of a row's owner."""
        return [(id, StoredRow._make(columns)) for id, *columns in self._run(sql, bindings)]


# Marks and notes have indexes of their own.
ONLY_MARKS = frozenset({"mark"})
ONLY_NOTES = frozenset({"note"})


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

    def add_known(self, conditions: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Add those of `conditions` whose value is not None. Each has the name of its value, and
        binds it."""
        for name, sql in conditions.items():
            if values[name] is not None:
                self.add(sql, **{name: values[name]})

    def join(self) -> str:
        """Return all conditions as one."""
        return " AND ".join(self._parts) if self._parts else "true"


class EventConditions(SqlConditions, ABC):
    """The conditions that select the events of a filter. A subclass writes them for a database."""

    def __init__(self, where: EventFilter) -> None:
        super().__init__()
        if where.kinds in (ONLY_MARKS, ONLY_NOTES):
            [kind] = where.kinds
            # The condition of the partial index, literally: otherwise it would not be used.
            self.add(f"kind = '{kind}'")
        elif where.kinds is not None:
            self.add_kinds(sorted(where.kinds))
        if where.note_names is not None:
            if where.kinds == ONLY_NOTES:
                self.add_note_names(list(where.note_names))
            else:
                self.add_names_of_notes(list(where.note_names))
        if where.irregular_only:
            self.add_irregular()

    @abstractmethod
    def add_kinds(self, kinds: list[str]) -> None:
        """Add the condition that an event is of one of `kinds`."""

    @abstractmethod
    def add_note_names(self, names: list[str]) -> None:
        """Add the condition that an event, which is a note, has one of the names."""

    @abstractmethod
    def add_names_of_notes(self, names: list[str]) -> None:
        """Add the condition that an event has one of the names if it is a note."""

    @abstractmethod
    def add_irregular(self) -> None:
        """Add the condition that an event has a base, or is not in ALWAYS_SHOWN."""


def make_records(shape: RowShape, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of a query as instances of `shape`."""
    # Only here: `tuple.__new__` runs no Python code for each row. With `_make`, a restore of 10,000
    # messages takes 1.5 times as long as with the bare driver; benchmarks/ allow 1.4.
    return list(map(tuple.__new__, repeat(shape), rows))
