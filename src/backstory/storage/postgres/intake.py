"""Taking rows into a PostgreSQL store as they were elsewhere, within one transaction.

It writes what it is given. Whether that is sound is decided before: in `backstory.jobs.transfer` for exports,
in `backstory.intake` for everything else.
"""

from collections.abc import Sequence

import psycopg

from backstory.core.events import Stored
from backstory.errors import Conflict, NameTaken
from backstory.storage.postgres import sources as postgres_sources
from backstory.storage.postgres.rows import PostgresRows, size_of
from backstory.storage.protocols import AgentRecord, NewAgent, SourceRecord, Wanted

HOLD = "SELECT 1 FROM backstory.agents WHERE session = %(session)s::uuid FOR UPDATE"
INSERT_EVENTS = """
    COPY backstory.events (session, agent, seq, kind, content, data, created_at, key, base, digest)
    FROM STDIN"""
MOVE_HEAD = """
    UPDATE backstory.agents SET head = %(head)s, updated_at = greatest(updated_at, %(updated_us)s),
        touched = greatest(updated_at, %(updated_us)s) / 1000000, digest = %(digest)s
    WHERE session = %(session)s::uuid AND no = %(no)s RETURNING backstory.announce()"""


class PostgresIntake(PostgresRows):
    """Takes in agents and events within a transaction that the backend holds."""

    def held(self, session: str) -> list[AgentRecord]:
        self._db.execute(HOLD, {"session": session})
        return self.agents(Wanted(session=session, deleted=True))

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        try:
            self.insert(new, created_us)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name == "agents_session_name_key":
                raise NameTaken.of(new.name) from error
            said = f"someone else is writing agents of session {new.session}"
            raise Conflict(said, remedy="import again") from error
        [record] = self.agents(Wanted(prefix=new.id, session=new.session, deleted=True))
        return record

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        with self._db.cursor().copy(INSERT_EVENTS) as copy:
            for row in rows:
                size_of(row.content, row.data_json)  # is it too large?
                copy.write_row((agent.session, agent.pk, *row))
        last = rows[-1]
        moved = {"head": last.seq, "updated_us": last.created_us, "digest": last.digest}
        self._db.execute(MOVE_HEAD, {"session": agent.session, "no": agent.pk, **moved})

    def remember(self, sources: Sequence[SourceRecord]) -> None:
        postgres_sources.remember(self._db, sources)
