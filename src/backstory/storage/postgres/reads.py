"""What a PostgreSQL store answers without writing.

Each method runs one of the statements in `rows`, `survey` or `sources`, and again if the server was lost.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from backstory.errors import ConnectionLost
from backstory.log.events import Columns, Event, Stored, TextAndData
from backstory.log.outline import DataRow, OutlineRow
from backstory.storage.postgres import sources as postgres_sources
from backstory.storage.postgres.audit import found_damage
from backstory.storage.postgres.cluster import SIZE as SIZE_OF_ALL
from backstory.storage.postgres.cluster import is_distributed, reachable_agents
from backstory.storage.postgres.rows import PostgresRows
from backstory.storage.postgres.server import Connection
from backstory.storage.postgres.starts import keys_given
from backstory.storage.postgres.survey import SIZE, PostgresSurvey
from backstory.storage.protocols import ALL, AgentRecord, Census, Piece, SourceRecord, Walk, Wanted
from backstory.storage.survey import AgentCensus, Irregular, NewestNote

T = TypeVar("T")

PAUSES = (0.0, 0.1, 0.5)  # seconds before a read is repeated


class PostgresReads(ABC):
    """The reads of the backend, which lends the connections."""

    _is_distributed: bool

    @abstractmethod
    def _connection(self, *, to_write: bool = False) -> AbstractContextManager[Connection]:
        """A connection while the block runs."""

    def agents(self, wanted: Wanted = ALL) -> list[AgentRecord]:
        try:
            return self._read(lambda rows: rows.agents(wanted))
        except ConnectionLost:
            if not (wanted.partial and self._has_servers()):
                raise
            with self._connection() as db:
                return reachable_agents(db, wanted)

    def head(self, agent: AgentRecord) -> int:
        return self._read(lambda rows: rows.head(agent))

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        return self._read(lambda rows: rows.walk(agent, at))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        return self._read(lambda rows: rows.lineage(agent))

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        return self._read(lambda rows: rows.position_at(agent, moment))

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._read(lambda rows: rows.read(agent, pieces))

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        return self._read(lambda rows: rows.read_columns(agent, pieces))

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        return self._read(lambda rows: rows.read_said(agent, pieces, notes))

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        return self._read(lambda rows: rows.texts(agent, pieces, notes))

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        return self._read(lambda rows: rows.outline(agent, pieces))

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        return self._read(lambda rows: rows.data_of(agent, pieces, kinds))

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        return self._survey(lambda survey: survey.session_marks(session))

    def heads(self) -> list[tuple[str, int]]:
        return self._survey(lambda survey: survey.heads())

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        return self._survey(lambda survey: survey.newest_notes(name, key_prefix))

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        return self._survey(lambda survey: survey.irregular(regular))

    def censuses(self) -> list[AgentCensus]:
        return self._survey(lambda survey: survey.censuses())

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._read(lambda rows: rows.marks(agent, pieces))

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        return self._read(lambda rows: rows.notes(agent, pieces, name))

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        return self._read(lambda rows: rows.last_note(agent, pieces, name))

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        return self._read(lambda rows: rows.keyed(agent, pieces, keys))

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        return self._read(lambda rows: rows.places(agent, pieces, keys))

    def known(self, keys: Sequence[str]) -> set[str]:
        return {key for (key,) in self._query(postgres_sources.KNOWN, keys_given(keys))}

    def sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        return [
            SourceRecord(*row) for row in self._query(*postgres_sources.listing(tool, id, prefix))
        ]

    def found(self, key: str) -> list[tuple[str, int]]:
        return self._read(lambda rows: rows.found(key))

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        return self._read(lambda rows: rows.stored(agent, after, limit))

    def damage(self) -> list[str]:
        return self._read(lambda rows: found_damage(lambda sql: rows.all(sql, {})))

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        return self._survey(lambda survey: survey.census(agent, pieces))

    def size(self) -> int:
        return int(self._query(SIZE_OF_ALL if self._has_servers() else SIZE, {})[0][0])

    def _query(self, sql: str, bindings: dict[str, Any]) -> list[Any]:
        return self._read(lambda rows: rows.all(sql, bindings))

    def _read(self, ask: Callable[[PostgresRows], T]) -> T:
        return self._asked(lambda db: ask(PostgresRows(db)))

    def _survey(self, ask: Callable[[PostgresSurvey], T]) -> T:
        return self._asked(lambda db: ask(PostgresSurvey(db)))

    def _asked(self, ask: Callable[[Connection], T]) -> T:
        """Run a read, and repeat it if the connection is lost, so that reads survive a restart of the server.
        While a server shuts down, more than one connection may be lost."""
        for pause in PAUSES:
            with suppress(ConnectionLost), self._connection() as db:
                return ask(db)
            time.sleep(pause)
        with self._connection() as db:
            return ask(db)

    def _has_servers(self) -> bool:
        """Whether the store is distributed over several servers, which may happen while it is open."""
        if not self._is_distributed:
            with self._connection() as db:
                self._is_distributed = is_distributed(db)
        return self._is_distributed
