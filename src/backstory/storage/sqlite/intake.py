"""Adding rows from elsewhere to an SQLite store, unchanged, within a write transaction.

It writes what it is given. The rows are checked before: exports in `backstory.maintenance.transfer`,
all others in `backstory.intake`.
"""

from collections.abc import Sequence

from backstory.log.events import Stored
from backstory.storage.protocols import AgentRecord, NewAgent, Packed, SourceRecord, Wanted
from backstory.storage.sqlite import sources as sqlite_sources
from backstory.storage.sqlite.frames import CREATED_US
from backstory.storage.sqlite.rows import INSERT_EVENT, SqliteRows

# An event's id is its position and what the ids of its agent's events begin with. That stands in the
# statement, so that the rows need not be copied.
INSERT_PACKED = """
    INSERT INTO events (id, kind, content, data, created_at, key, base, digest, packed, size)
    VALUES ({first:d} + ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class SqliteIntake(SqliteRows):
    """Adds agents and events within a transaction of the backend."""

    def held(self, session: str) -> list[AgentRecord]:
        return self.agents(Wanted(session=session, deleted=True))

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        return self.create(new, created_us)

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        first = agent.pk << 32
        self._db.executemany(INSERT_EVENT, ((first | row[0], *row[1:]) for row in rows))
        self.touch(agent, 0, rows[-1].created_us)

    def add_packed(self, agent: AgentRecord, rows: Packed) -> None:
        self._db.executemany(INSERT_PACKED.format(first=agent.pk << 32), rows)
        self.touch(agent, 0, rows[-1][CREATED_US])

    def remember(self, sources: Sequence[SourceRecord]) -> None:
        sqlite_sources.remember(self._db, sources)
