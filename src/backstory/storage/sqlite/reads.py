"""What an SQLite store answers without writing.

Each method borrows a connection and runs one of the statements in `rows`, `survey` or `sources`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from backstory.log.events import Columns, Event, Stored, TextAndData
from backstory.log.outline import DataRow, OutlineRow
from backstory.storage.protocols import ALL, AgentRecord, Census, Piece, SourceRecord, Walk, Wanted
from backstory.storage.sqlite import sources as sqlite_sources
from backstory.storage.sqlite.audit import found_damage
from backstory.storage.sqlite.file import Place
from backstory.storage.sqlite.rows import CENSUS, SqliteRows, ranges_of
from backstory.storage.sqlite.survey import SqliteSurvey
from backstory.storage.survey import AgentCensus, Irregular, NewestNote

SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"


class SqliteReads(ABC):
    """The reads of the backend, which lends the connections."""

    _place: Place

    @abstractmethod
    def _connection(self) -> AbstractContextManager[apsw.Connection]:
        """A connection for this thread while the block runs."""

    def agents(self, wanted: Wanted = ALL) -> list[AgentRecord]:
        with self._rows() as rows:
            return rows.agents(wanted)

    def head(self, agent: AgentRecord) -> int:
        with self._rows() as rows:
            return rows.head(agent)

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        with self._rows() as rows:
            return rows.walk(agent, at)

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        with self._rows() as rows:
            return rows.lineage(agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        with self._rows() as rows:
            return rows.position_at(agent, moment)

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        with self._rows() as rows:
            return rows.read(agent, pieces)

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        with self._rows() as rows:
            return rows.read_columns(agent, pieces)

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        with self._rows() as rows:
            return rows.read_said(agent, pieces, notes)

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        with self._rows() as rows:
            return rows.texts(agent, pieces, notes)

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        with self._rows() as rows:
            return rows.outline(agent, pieces)

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        with self._rows() as rows:
            return rows.data_of(agent, pieces, kinds)

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        with self._rows() as rows:
            return rows.marks(agent, pieces)

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        with self._rows() as rows:
            return rows.notes(agent, pieces, name)

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        with self._rows() as rows:
            return rows.last_note(agent, pieces, name)

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        with self._rows() as rows:
            return rows.keyed(agent, pieces, keys)

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        with self._rows() as rows:
            return rows.places(agent, pieces, keys)

    def known(self, keys: Sequence[str]) -> set[str]:
        with self._connection() as db:
            return sqlite_sources.known(db, keys)

    def sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        with self._connection() as db:
            return sqlite_sources.listed(db, tool, id, prefix)

    def found(self, key: str) -> list[tuple[str, int]]:
        with self._rows() as rows:
            return rows.found(key)

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        with self._rows() as rows:
            return rows.stored(agent, after, limit)

    @contextmanager
    def _rows(self) -> Iterator[SqliteRows]:
        with self._connection() as db:
            yield SqliteRows(db)

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        with self._connection() as db:
            return SqliteSurvey(db).session_marks(session)

    def heads(self) -> list[tuple[str, int]]:
        with self._connection() as db:
            return SqliteSurvey(db).heads()

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        with self._connection() as db:
            return SqliteSurvey(db).newest_notes(name, key_prefix)

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        with self._connection() as db:
            return SqliteSurvey(db).irregular(regular)

    def censuses(self) -> list[AgentCensus]:
        with self._connection() as db:
            return SqliteSurvey(db).censuses()

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        return [Census(*row) for row in self._query(CENSUS, (ranges_of(pieces),))]

    def damage(self) -> list[str]:
        with self._connection() as db:
            return found_damage(db, self._place)

    def size(self) -> int:
        return int(self._query(SIZE, ())[0][0])

    def _query(self, sql: str, bindings: Any) -> list[Any]:
        with self._connection() as db:
            return db.execute(sql, bindings).fetchall()
