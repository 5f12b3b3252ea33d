"""Removing rows from a PostgreSQL store, within one transaction.

What to remove is decided in `backstory.maintenance.removal`. The server frees the space when it vacuums.
"""

from collections.abc import Sequence
from typing import Any

from backstory.log.events import Stored, stored_rows
from backstory.storage.ids import new_id, place_of
from backstory.storage.postgres import index
from backstory.storage.postgres.rows import COLUMNS, PostgresRows, of
from backstory.storage.protocols import PLACEHOLDER, AgentRecord, Wanted, tombstone_name

HOLD = "SELECT 1 FROM backstory.agents WHERE place = %(place)s::bigint ORDER BY no FOR UPDATE"
NAMING = f"""
    SELECT {COLUMNS}, base, digest FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(after)s
        AND pg_catalog.strpos(data, %(text)s) > 0 ORDER BY seq"""
BLANK = """
    UPDATE backstory.events SET content = %(content)s, data = %(data)s
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""
CUT = """
    DELETE FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(last)s"""
END_AT = """
    UPDATE backstory.agents a SET head = %(last)s, digest = (
        SELECT e.digest FROM backstory.events e
        WHERE e.place = %(place)s::bigint AND e.agent = %(no)s AND e.seq = %(last)s)
    WHERE a.place = %(place)s::bigint AND a.no = %(no)s"""
BURY = """
    UPDATE backstory.agents SET name = %(name)s, key = NULL, about = NULL,
        deleted = coalesce(deleted, %(now)s),
        fork_seq = CASE WHEN %(inherits)s THEN fork_seq ELSE 0 END,
        head = CASE WHEN %(inherits)s THEN head ELSE 0 END
    WHERE place = %(place)s::bigint AND no = %(no)s"""
FORGET_SOURCES = "DELETE FROM backstory.sources WHERE agent = ANY(%(ids)s::uuid[])"
LAST_NUMBER = "SELECT pg_catalog.max(no) FROM backstory.agents WHERE place = %(place)s::bigint"
REMOVE = "DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND no = ANY(%(nos)s::int[])"
LEAVE = "DELETE FROM backstory.directory WHERE place = %(place)s::bigint AND id = %(id)s::uuid"
HOLD_NUMBER = f"""
    INSERT INTO backstory.agents (place, session, no, id, name, fork_seq, born_seq, spawned, created_at, head,
        updated_at, touched, deleted)
    VALUES (%(place)s::bigint, %(session)s::uuid, %(no)s, %(id)s::uuid, '{PLACEHOLDER}', 0, 0, false,
        %(now)s, 0, %(now)s, 0, %(now)s)"""
LET_GO = f"""
    DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND name = '{PLACEHOLDER}'
        AND (no < %(last)s OR NOT EXISTS (
            SELECT 1 FROM backstory.agents o
            WHERE o.place = %(place)s::bigint AND o.name <> '{PLACEHOLDER}'))"""


class PostgresRemoval(PostgresRows):
    """Removes rows within a transaction of the backend."""

    def held(self, session: str) -> list[AgentRecord]:
        self._db.execute(HOLD, {"place": place_of(session)})
        self._db.execute(index.ALONE)
        return self.agents(Wanted(session=session, deleted=True))

    def naming(self, agent: AgentRecord, after: int, text: str) -> list[Stored]:
        return stored_rows(self.all(NAMING, {**of(agent), "after": after, "text": text}))

    def blank(self, agent: AgentRecord, seq: int, content: str | None, data_json: str) -> None:
        there = {**of(agent), "seq": seq}
        if self.all(index.EXISTS, {}) == [(True,)]:
            self._db.execute(index.FORGET_ONE, there)
        self._db.execute(BLANK, {**there, "content": content, "data": data_json})

    def cut(self, agent: AgentRecord, last: int) -> None:
        there = {**of(agent), "last": last}
        if self.all(index.EXISTS, {}) == [(True,)]:
            index.forget(self._db, there)
        self._db.execute(CUT, there)
        self._db.execute(END_AT, there)

    def bury(self, agent: AgentRecord, now: int, *, inherits: bool) -> None:
        self._db.execute(FORGET_SOURCES, {"ids": [agent.id]})
        name = tombstone_name(agent.id)
        self._db.execute(BURY, {**of(agent), "name": name, "now": now, "inherits": inherits})

    def remove(self, agents: Sequence[AgentRecord], now: int) -> None:
        if not agents:
            return
        session: dict[str, Any] = {
            "session": agents[0].session,
            "place": place_of(agents[0].session),
        }
        [(last,)] = self.all(LAST_NUMBER, session)
        self._db.execute(REMOVE, {**session, "nos": [agent.pk for agent in agents]})
        ids = {"ids": [agent.id for agent in agents]}
        for agent in agents:
            self._db.execute(LEAVE, {"place": place_of(agent.id), "id": agent.id})
        self._db.execute(FORGET_SOURCES, ids)
        # Handles of a deleted agent still have its number, so the next agent of the session must not get it.
        self._db.execute(LET_GO, {**session, "last": last})
        if self.all(LAST_NUMBER, session)[0][0] not in (None, last):
            self._db.execute(HOLD_NUMBER, {**session, "no": last, "id": new_id(), "now": now})
