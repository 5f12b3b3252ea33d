"""The import's door of the PostgreSQL backend: rows as they were elsewhere, in one transaction.

It writes what it is given. Whether that keeps the law is settled before, in `backstory.jobs.transfer`.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from backstory.errors import Conflict, NameTaken
from backstory.storage.protocols import AgentRecord, NewAgent, Stored

Connection = psycopg.Connection[tuple[Any, ...]]

AGENTS = """
    SELECT a.no, a.id, a.session, a.name, p.id::text, a.fork_seq, a.born_seq, a.spawned,
        a.created_at, a.head, a.updated_at
    FROM agents a LEFT JOIN agents p ON p.session = a.session AND p.no = a.parent
    WHERE a.session = %(session)s::uuid ORDER BY a.no FOR UPDATE OF a"""
INSERT_AGENT = """
    INSERT INTO agents
    SELECT %(session)s::uuid, coalesce(max(no), 0) + 1, %(id)s::uuid, %(name)s, %(parent_key)s,
        %(fork_seq)s::int, %(born_seq)s, %(spawned)s, %(created_us)s, %(fork_seq)s::int, %(created_us)s
    FROM agents WHERE session = %(session)s::uuid
    RETURNING no"""
INSERT_EVENTS = "COPY events (session, agent, seq, kind, content, data, created_at, base) FROM STDIN"
MOVE_HEAD = """
    UPDATE agents SET head = %(head)s, updated_at = greatest(updated_at, %(updated_us)s)
    WHERE session = %(session)s::uuid AND no = %(no)s"""
STORED = """
    SELECT seq, kind, content, data, created_at, base FROM events
    WHERE session = %(session)s::uuid AND agent = %(no)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""


class PostgresIntake:
    """Takes in agents and events within a transaction that the backend holds."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def agents(self, session: str) -> list[AgentRecord]:
        rows = self._db.execute(AGENTS, {"session": session}).fetchall()
        return [AgentRecord(no, str(id), str(session), *rest) for no, id, session, *rest in rows]

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        try:
            [(no,)] = self._db.execute(INSERT_AGENT, {**new._asdict(), "created_us": created_us}).fetchall()
        except psycopg.errors.UniqueViolation as error:
            if error.diag.constraint_name == "agents_session_name_key":
                raise NameTaken.of(new.name) from error
            raise Conflict(
                f"someone else is writing agents of session {new.session}", remedy="import again"
            ) from error
        return AgentRecord(
            key=no,
            id=new.id,
            session=new.session,
            name=new.name,
            parent=None,
            fork_seq=new.fork_seq,
            born_seq=new.born_seq,
            spawned=new.spawned,
            created_us=created_us,
            head=new.fork_seq,
            updated_us=created_us,
        )

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        bindings = {"session": agent.session, "no": agent.key, "after": after, "limit": limit}
        return self._db.execute(STORED, bindings).fetchall()

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        with self._db.cursor().copy(INSERT_EVENTS) as copy:
            for row in rows:
                copy.write_row((agent.session, agent.key, *row))
        last = {"session": agent.session, "no": agent.key, "head": rows[-1][0], "updated_us": rows[-1][4]}
        self._db.execute(MOVE_HEAD, last)
