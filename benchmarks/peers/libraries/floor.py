"""The floors: the bare drivers on one plain table, with nothing but the job.

A driver is imported by the floor that needs it: what a new process costs is measured, too.
"""

import os
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.conversations import Turn
from benchmarks.peers.peer import NotOffered, Peer

Row = tuple[str, str, str | None, str | None]

TABLE = """
    CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY, session TEXT, kind TEXT, text TEXT, call TEXT, tool TEXT);
    CREATE INDEX IF NOT EXISTS by_session ON messages (session, id)"""
INSERT = "INSERT INTO messages (session, kind, text, call, tool) VALUES (?, ?, ?, ?, ?)"
SELECT = "SELECT id, kind, text, call, tool FROM messages WHERE session = ? ORDER BY id"
FIRST = "SELECT id, kind, text, call, tool FROM messages WHERE session = ? ORDER BY id LIMIT ?"
DELETE = """
    DELETE FROM messages WHERE session = ?1 AND id >
        (SELECT id FROM messages WHERE session = ?1 ORDER BY id LIMIT 1 OFFSET ?2 - 1)"""
COPY = """
    INSERT INTO messages (session, kind, text, call, tool)
    SELECT ?, kind, text, call, tool FROM messages WHERE session = ? ORDER BY id LIMIT ?"""


class Rows(Peer):
    """What both floors have in common: messages are rows."""

    def native(self, turn: Turn) -> list[Row]:
        return [(kind, text, call or None, tool or None) for kind, text, call, tool in turn]

    def texts(self, restored: Sequence[Any]) -> list[str]:
        return [row[2] for row in restored]

    def request(self, session: str) -> None:
        """Makes no requests."""
        raise NotOffered("makes no requests")


class BareTable(Rows):
    """A table as you would write it yourself: the same driver as backstory, WAL and synchronous = FULL."""

    def __init__(self, place: str) -> None:
        import apsw

        self.db = apsw.Connection(os.path.join(place, "bare.db"))
        self.db.set_busy_timeout(60_000)
        self.db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self.db.execute(TABLE)

    def append(self, session: str, turn: list[Row]) -> None:
        """One INSERT per message, one commit per turn."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany(INSERT, [(session, *row) for row in turn])
        self.db.execute("COMMIT")

    def fill(self, session: str, turns: list[list[Row]]) -> None:
        self.append(session, [row for turn in turns for row in turn])

    def restore(self, session: str) -> list[Any]:
        """One SELECT, rows as tuples."""
        return self.db.execute(SELECT, (session,)).fetchall()

    def rewind(self, session: str, to: int) -> None:
        """One DELETE; the rest is gone."""
        self.db.execute(DELETE, (session, to))

    def fork(self, session: str, at: int, name: str) -> str:
        """One INSERT … SELECT that copies every row."""
        self.db.execute(COPY, (name, session, at))
        return name

    def as_of(self, session: str, point: int) -> list[Any]:
        """One SELECT with a LIMIT: right only if nothing was ever rewound."""
        return self.db.execute(FIRST, (session, point)).fetchall()

    def close(self) -> None:
        self.db.close()
