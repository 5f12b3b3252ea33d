"""The floors: what the bare drivers need for the same rows, with the same durability.

Each floor keeps messages in one plain table of the shape people write themselves, and does
nothing but the job: no positions, no bases, no checks.
"""

import os
from typing import Any

import apsw
import psycopg

Message = tuple[int, str, str, str | None, int]  # agent, kind, content, data, time


class BareSqlite:
    """apsw on a table with an integer key, WAL and full sync."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.db = apsw.Connection(path)
        self.db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self.db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, agent INTEGER, kind TEXT, content TEXT, "
            "data TEXT, created_at INTEGER)"
        )

    def insert(self, message: Message) -> None:
        self.db.execute(
            "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (?, ?, ?, ?, ?)",
            message,
        )

    def insert_many(self, messages: list[Message]) -> None:
        with self.db:
            self.db.executemany(
                "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (?, ?, ?, ?, ?)",
                messages,
            )

    def fetch_all(self) -> list[Any]:
        return self.db.execute(
            "SELECT id, kind, content, data, created_at FROM messages ORDER BY id"
        ).fetchall()

    def size(self) -> int:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return os.path.getsize(self.path)


class BarePostgres:
    """psycopg on a table with an identity key."""

    def __init__(self, url: str) -> None:
        self.db = psycopg.connect(url, autocommit=True)
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS messages (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "agent bigint, kind text, content text, data text, created_at bigint)"
        )

    def insert(self, message: Message) -> None:
        self.db.execute(
            "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (%s, %s, %s, %s, %s)",
            message,
        )

    def insert_many(self, messages: list[Message]) -> None:
        with self.db.transaction(), self.db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO messages (agent, kind, content, data, created_at) VALUES (%s, %s, %s, %s, %s)",
                messages,
            )

    def fetch_all(self) -> list[Any]:
        return self.db.execute(
            "SELECT id, kind, content, data, created_at FROM messages ORDER BY id", binary=True
        ).fetchall()

    def size(self) -> int:
        found = self.db.execute("SELECT pg_total_relation_size('messages')").fetchone()
        return int(found[0]) if found else 0
