"""Taking rows into an SQLite store as they were elsewhere, within a write transaction.

It writes what it is given. Whether that is sound is decided before, in `backstory.jobs.transfer`.
"""

from collections.abc import Sequence

import apsw

from backstory.core.events import Stored
from backstory.storage.protocols import AgentRecord, NewAgent, Wanted
from backstory.storage.sqlite.rows import INSERT_EVENT, SqliteRows


class SqliteIntake:
    """Takes in agents and events within a transaction that the backend holds."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._rows = SqliteRows(db)

    def agents(self, session: str) -> list[AgentRecord]:
        return self._rows.agents(Wanted(session=session))

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        return self._rows.create(new, created_us)

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        return self._rows.stored(agent, after, limit)

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        self._db.executemany(INSERT_EVENT, ((agent.pk << 32 | seq, *rest) for seq, *rest in rows))
        self._rows.touch(agent, 0, rows[-1].created_us)
