"""Removing rows from an SQLite store, within a write transaction.

What to remove is decided in `backstory.maintenance.removal`. SQLite overwrites freed pages with zeros
(`secure_delete`, on every connection), and the backend empties the write-ahead log afterwards.
"""

from collections.abc import Sequence

from backstory.log.events import Stored, stored_rows
from backstory.storage.ids import new_id
from backstory.storage.protocols import PLACEHOLDER, AgentRecord, Wanted, tombstone_name
from backstory.storage.sqlite import index
from backstory.storage.sqlite.frames import DATA_LEFT
from backstory.storage.sqlite.rows import SEQ, WHOLE, SqliteRows

NAMING = f"""
    SELECT {WHOLE} FROM events e
    WHERE e.id BETWEEN ? AND ? AND instr({DATA_LEFT}, ?) > 0 ORDER BY e.id"""
BLANK = "UPDATE events SET content = ?, data = ?, packed = NULL, size = NULL WHERE id = ?"
CUT = "DELETE FROM events WHERE id BETWEEN ? AND ?"
BURY = """
    UPDATE agents SET name = :name, key = NULL, about = NULL, deleted = coalesce(deleted, :now),
        fork_seq = iif(:inherits, fork_seq, 0)
    WHERE no = :no"""
REMOVE = "DELETE FROM agents WHERE no = ?"
FORGET_SOURCES = "DELETE FROM sources WHERE agent = ?"
LAST_NUMBER = "SELECT max(no) FROM agents"
HOLD_NUMBER = f"""
    INSERT INTO agents (no, id, session, name, fork_seq, born_seq, spawned, created_at, deleted)
    VALUES (:no, :id, :no, '{PLACEHOLDER}', 0, 0, 0, :now, :now)"""
LET_GO = f"DELETE FROM agents WHERE name = '{PLACEHOLDER}' AND no < (SELECT max(no) FROM agents)"


class SqliteRemoval(SqliteRows):
    """Removes rows within a transaction of the backend."""

    def held(self, session: str) -> list[AgentRecord]:
        return self.agents(Wanted(session=session, deleted=True))

    def naming(self, agent: AgentRecord, after: int, text: str) -> list[Stored]:
        first = (agent.pk << 32) + after + 1
        return stored_rows(self._all(NAMING, (first, (agent.pk << 32) + SEQ, text)))

    def blank(self, agent: AgentRecord, seq: int, content: str | None, data_json: str) -> None:
        if index.exists(self._db):
            index.forget(self._db, agent.pk, seq, seq)
        self._db.execute(BLANK, (content, data_json, (agent.pk << 32) + seq))

    def cut(self, agent: AgentRecord, last: int) -> None:
        if index.exists(self._db):
            index.forget(self._db, agent.pk, last + 1, SEQ)
            index.end_at(self._db, agent.pk, last)
        self._db.execute(CUT, ((agent.pk << 32) + last + 1, (agent.pk << 32) + SEQ))

    def bury(self, agent: AgentRecord, now: int, *, inherits: bool) -> None:
        self._db.execute(FORGET_SOURCES, (agent.id,))
        name = tombstone_name(agent.id)
        self._db.execute(BURY, {"no": agent.pk, "name": name, "now": now, "inherits": inherits})

    def remove(self, agents: Sequence[AgentRecord], now: int) -> None:
        # Handles of a deleted agent still have its number, so the next agent must not get it.
        [(last,)] = self._db.execute(LAST_NUMBER).fetchall()
        self._db.execute("PRAGMA defer_foreign_keys = ON")
        self._db.executemany(REMOVE, [(agent.pk,) for agent in agents])
        self._db.executemany(FORGET_SOURCES, [(agent.id,) for agent in agents])
        if any(agent.pk == last for agent in agents):
            self._db.execute(HOLD_NUMBER, {"no": last, "id": new_id(), "now": now})
        self._db.execute(LET_GO)
