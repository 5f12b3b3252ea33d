"""Where the agents of an SQLite store came from: the table `sources`, and which keys exist in the store."""

import json
from collections.abc import Sequence

import apsw

from backstory.storage.protocols import SourceRecord

LIST = "SELECT tool, id, agent, cursor FROM sources WHERE {conditions} ORDER BY id, tool"
CONDITIONS = {
    "tool": "tool = :tool",
    "id": "id = :id",
    "prefix": "id >= :prefix AND id < :prefix || char(1114111)",
}
REMEMBER = """
    INSERT INTO sources (tool, id, agent, cursor) VALUES (?, ?, ?, ?) ON CONFLICT (id, tool) DO UPDATE
    SET agent = coalesce(excluded.agent, agent), cursor = coalesce(excluded.cursor, cursor)"""
KNOWN = """
    SELECT k.value FROM json_each(?) k
    WHERE EXISTS (SELECT 1 FROM events e INDEXED BY event_keys WHERE e.key = k.value)"""


def listed(
    db: apsw.Connection, tool: str | None, id: str | None, prefix: str | None
) -> list[SourceRecord]:
    """The matching sources."""
    asked = {"tool": tool, "id": id, "prefix": prefix}
    given = {name: value for name, value in asked.items() if value is not None}
    conditions = " AND ".join(CONDITIONS[name] for name in given) or "true"
    rows = db.execute(LIST.format(conditions=conditions), given)
    return [SourceRecord(*row) for row in rows]


def known(db: apsw.Connection, keys: Sequence[str]) -> set[str]:
    """Those of these keys that exist in the store."""
    return {str(key) for (key,) in db.execute(KNOWN, (json.dumps(keys),))}


def remember(db: apsw.Connection, sources: Sequence[SourceRecord]) -> None:
    """Record sources; a missing agent or cursor leaves the old value."""
    db.executemany(REMEMBER, sources)
