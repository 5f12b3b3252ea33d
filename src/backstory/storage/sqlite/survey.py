"""Queries on all agents of an SQLite store at once."""

import json
from collections.abc import Collection
from typing import Any

import apsw

from backstory.log.events import Event
from backstory.storage.sqlite.frames import SIZE
from backstory.storage.sqlite.lineages import HEAD
from backstory.storage.sqlite.rows import COLUMNS, CONDITIONS
from backstory.storage.survey import AgentCensus, Irregular, NewestNote

OWN = "BETWEEN a.no << 32 AND (a.no << 32) + 4294967295"

SESSION_MARKS = f"""
    SELECT a.id, {COLUMNS} FROM agents a CROSS JOIN events e INDEXED BY marks
    WHERE a.session = (SELECT no FROM agents WHERE id = ?) AND e.kind = 'mark' AND e.id {OWN}
    ORDER BY a.no, e.id"""
HEADS = f"SELECT a.id, {HEAD} FROM agents a WHERE a.deleted IS NULL ORDER BY a.no"
NEWEST_NOTES = f"""
    SELECT a.id,
        (SELECT max(j.id) & 4294967295 FROM events j INDEXED BY jumps
         WHERE j.base IS NOT NULL AND j.id {OWN}),
        {COLUMNS}
    FROM agents a LEFT JOIN events e ON e.id = (
        SELECT max(n.id) FROM events n INDEXED BY notes
        WHERE n.kind = 'note' AND n.content = :name AND n.id {OWN})
    WHERE a.deleted IS NULL AND {{condition}} ORDER BY a.no"""
CENSUSES = f"""
    SELECT a.id, e.kind, count(*), count(e.base), sum({SIZE})
    FROM events e CROSS JOIN agents a ON a.no = e.agent GROUP BY e.agent, e.kind"""

IRREGULAR = """
    SELECT a.id, e.seq, e.kind, e.base FROM events e CROSS JOIN agents a ON a.no = e.agent
    WHERE e.base IS NOT NULL OR e.kind NOT IN (SELECT value FROM json_each(?)) ORDER BY e.id"""


class SqliteSurvey:
    """Runs the queries over one connection."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        return [(id, Event(row)) for id, *row in self._db.execute(SESSION_MARKS, (session,))]

    def heads(self) -> list[tuple[str, int]]:
        found: list[Any] = self._db.execute(HEADS).fetchall()
        return found

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        sql = NEWEST_NOTES.format(condition=CONDITIONS["key_prefix"] if key_prefix else "true")
        bindings = {"name": name} | ({"key_prefix": key_prefix} if key_prefix else {})
        return [
            NewestNote(id, None if row[0] is None else Event(row), jump or 0)
            for id, jump, *row in self._db.execute(sql, bindings)
        ]

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        return [
            Irregular(*row) for row in self._db.execute(IRREGULAR, (json.dumps(list(regular)),))
        ]

    def censuses(self) -> list[AgentCensus]:
        return [AgentCensus(*row) for row in self._db.execute(CENSUSES)]
