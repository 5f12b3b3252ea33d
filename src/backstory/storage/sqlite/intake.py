"""The import's door of the SQLite backend: rows as they were elsewhere, in one write transaction.

It writes what it is given. Whether that keeps the law is settled before, in `backstory.jobs.transfer`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from backstory.errors import NameTaken
from backstory.storage.protocols import AgentRecord, NewAgent, Stored

INSERT_AGENT = """
    INSERT INTO agents (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at)
    SELECT n.no, :id, coalesce((SELECT no FROM agents WHERE id = :session), n.no), :name, :parent_key,
        :fork_seq, :born_seq, :spawned, :created_us
    FROM (SELECT coalesce(max(no), 0) + 1 AS no FROM agents) n"""
INSERT_EVENT = "INSERT INTO events (id, kind, content, data, created_at, base) VALUES (?, ?, ?, ?, ?, ?)"


class SqliteIntake:
    """Takes in agents and events within a transaction that the backend holds."""

    def __init__(
        self,
        db: apsw.Connection,
        agents: Callable[..., list[AgentRecord]],
        stored: Callable[..., list[tuple[Any, ...]]],
    ) -> None:
        self._db = db
        self._agents = agents
        self._stored = stored

    def agents(self, session: str) -> list[AgentRecord]:
        return self._agents(self._db, session=session)

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        try:
            self._db.execute(INSERT_AGENT, {**new._asdict(), "created_us": created_us})
        except apsw.ConstraintError as error:
            if "agents.name" in str(error):
                raise NameTaken.of(new.name) from error
            raise
        [record] = self._agents(self._db, prefix=new.id)
        return record

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        return self._stored(self._db, agent, after, limit)

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        self._db.executemany(INSERT_EVENT, ((agent.key << 32 | seq, *rest) for seq, *rest in rows))
