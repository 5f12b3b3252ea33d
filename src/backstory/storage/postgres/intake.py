"""Adding rows from elsewhere to a PostgreSQL store, unchanged, within one transaction.

It writes what it is given. The rows are checked before: exports in `backstory.maintenance.transfer`,
all others in `backstory.intake`.
"""

from collections.abc import Sequence
from typing import cast

import psycopg

from backstory.errors import Conflict, NameTaken
from backstory.log.events import Stored
from backstory.storage.ids import place_of
from backstory.storage.postgres import sources as postgres_sources
from backstory.storage.postgres.batches import size_of
from backstory.storage.postgres.rows import PostgresRows
from backstory.storage.protocols import AgentRecord, NewAgent, Packed, SourceRecord, Wanted

HOLD = "SELECT 1 FROM backstory.agents WHERE place = %(place)s::bigint FOR UPDATE"
INSERT_EVENTS = """
    COPY backstory.events (place, agent, seq, kind, content, data, created_at, key, base, digest)
    FROM STDIN"""
MOVE_HEAD = """
    UPDATE backstory.agents SET head = %(head)s, updated_at = greatest(updated_at, %(updated_us)s),
        touched = greatest(updated_at, %(updated_us)s) / 1000000, digest = %(digest)s
    WHERE place = %(place)s::bigint AND no = %(no)s"""
ANNOUNCE = (
    "SELECT backstory.announce()"  # Citus does not allow a function that may write in RETURNING
)


class PostgresIntake(PostgresRows):
    """Adds agents and events within a transaction of the backend."""

    def held(self, session: str) -> list[AgentRecord]:
        self._db.execute(HOLD, {"place": place_of(session)})
        return self.agents(Wanted(session=session, deleted=True))

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        try:
            return self.insert(new, created_us)
        except psycopg.errors.UniqueViolation as error:
            # On a shard, only the message names the constraint, followed by the number of the shard.
            said = error.diag.constraint_name or error.diag.message_primary or ""
            if "agents_session_name_key" in said:
                raise NameTaken.of(new.name) from error
            said = f"someone else is writing agents of session {new.session}"
            raise Conflict(said, remedy="import again") from error

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        place = place_of(agent.session)
        with self._db.cursor().copy(INSERT_EVENTS) as copy:
            for row in rows:
                size_of(row.content, row.data_json)  # raises if it is too large
                copy.write_row((place, agent.pk, *row))
        last = rows[-1]
        moved = {"head": last.seq, "updated_us": last.created_us, "digest": last.digest}
        self._db.execute(MOVE_HEAD, {"place": place, "no": agent.pk, **moved})
        self._db.execute(ANNOUNCE)

    def add_packed(self, agent: AgentRecord, rows: Packed) -> None:
        self.add_events(agent, cast("Sequence[Stored]", rows))

    def remember(self, sources: Sequence[SourceRecord]) -> None:
        postgres_sources.remember(self._db, sources)
