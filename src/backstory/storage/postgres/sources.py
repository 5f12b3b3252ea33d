"""Where the agents of a PostgreSQL store came from: the table `sources`, and which keys exist."""

from collections.abc import Sequence
from typing import Any

from backstory.storage.postgres.server import Connection
from backstory.storage.postgres.starts import HAS_KEY
from backstory.storage.protocols import SourceRecord

LIST = """
    SELECT tool, id, agent::text, cursor FROM backstory.sources
    WHERE {conditions} ORDER BY id COLLATE "C", tool COLLATE "C"
    """
CONDITIONS = {
    "tool": "tool = %(tool)s::text",
    "id": "id = %(id)s::text",
    "prefix": "pg_catalog.starts_with(id, %(prefix)s::text)",
}
REMEMBER = """
    INSERT INTO backstory.sources AS s (tool, id, agent, cursor) VALUES (%s, %s, %s::uuid, %s)
    ON CONFLICT (id, tool) DO UPDATE
    SET agent = coalesce(excluded.agent, s.agent), cursor = coalesce(excluded.cursor, s.cursor)"""
KNOWN = f"SELECT DISTINCT key FROM backstory.events WHERE {HAS_KEY}"


def listing(tool: str | None, id: str | None, prefix: str | None) -> tuple[str, dict[str, Any]]:
    """The statement for the matching sources, and its parameters."""
    asked = {"tool": tool, "id": id, "prefix": prefix}
    given = {name: value for name, value in asked.items() if value is not None}
    conditions = " AND ".join(CONDITIONS[name] for name in given) or "true"
    return LIST.format(conditions=conditions), given


def remember(db: Connection, sources: Sequence[SourceRecord]) -> None:
    """Record sources; a missing agent or cursor leaves the old value."""
    with db.cursor() as cursor:
        cursor.executemany(REMEMBER, sources)
