"""Taking rows away from an SQLite store, within a write transaction.

What goes is decided before, in `backstory.jobs.deletion`. The pages that are freed are overwritten with zeros
(`secure_delete`, on every connection), and the backend empties the write-ahead log afterwards.
"""

from collections.abc import Sequence

import apsw

from backstory.core.events import Stored
from backstory.storage.ids import new_id
from backstory.storage.protocols import PLACEHOLDER, AgentRecord, Wanted, tombstone_name
from backstory.storage.sqlite import index
from backstory.storage.sqlite.rows import SEQ, SqliteRows

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


class SqlitePruning:
    """Takes rows away within a transaction that the backend holds."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._rows = SqliteRows(db)

    def agents(self, session: str) -> list[AgentRecord]:
        return self._rows.agents(Wanted(session=session, deleted=True))

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        return self._rows.stored(agent, after, limit)

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
        # A handle of a deleted agent holds its number: the next agent must not get the same.
        [(last,)] = self._db.execute(LAST_NUMBER).fetchall()
        self._db.execute("PRAGMA defer_foreign_keys = ON")
        self._db.executemany(REMOVE, [(agent.pk,) for agent in agents])
        self._db.executemany(FORGET_SOURCES, [(agent.id,) for agent in agents])
        if any(agent.pk == last for agent in agents):
            self._db.execute(HOLD_NUMBER, {"no": last, "id": new_id(), "now": now})
        self._db.execute(LET_GO)
