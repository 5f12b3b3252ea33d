"""Queries on all agents of a PostgreSQL store at once, and queries that count or measure."""

from collections.abc import Collection, Sequence
from typing import Any

from backstory.log.events import Event
from backstory.storage.ids import place_of
from backstory.storage.postgres.agents import CONDITIONS
from backstory.storage.postgres.ranges import within
from backstory.storage.postgres.rows import COLUMNS
from backstory.storage.postgres.server import Connection
from backstory.storage.postgres.starts import IS_NAMED
from backstory.storage.protocols import AgentRecord, Census, Piece
from backstory.storage.survey import AgentCensus, Irregular, NewestNote

E_COLUMNS = ", ".join(f"e.{column}" for column in COLUMNS.split(", "))

SESSION_MARKS = f"""
    SELECT a.id::text, {E_COLUMNS}
    FROM backstory.events e JOIN backstory.agents a ON a.place = e.place AND a.no = e.agent
    WHERE e.place = %(place)s::bigint AND e.kind = 'mark'
        AND a.session = %(session)s::uuid
    ORDER BY e.agent, e.seq"""
HEADS = "SELECT id::text, head FROM backstory.agents WHERE deleted IS NULL ORDER BY created_at, id"
NEWEST_NOTES = f"""
    SELECT a.id::text, j.seq, {E_COLUMNS}
    FROM backstory.agents a
    LEFT JOIN LATERAL (
        SELECT seq FROM backstory.events
        WHERE place = a.place AND agent = a.no AND base IS NOT NULL ORDER BY seq DESC LIMIT 1) j ON true
    LEFT JOIN LATERAL (
        SELECT {COLUMNS} FROM backstory.events
        WHERE place = a.place AND agent = a.no AND {IS_NAMED}
        ORDER BY seq DESC LIMIT 1) e ON true
    WHERE a.deleted IS NULL AND {{condition}} ORDER BY a.created_at, a.id"""
CENSUSES = """
    SELECT a.id::text, c.* FROM (
        SELECT place, agent, kind, pg_catalog.count(*), pg_catalog.count(base),
            pg_catalog.sum(coalesce(pg_catalog.octet_length(content), 0)
                + coalesce(pg_catalog.octet_length(data), 0))::bigint
        FROM backstory.events GROUP BY place, agent, kind) c (place, agent, kind, events, based, bytes)
    JOIN backstory.agents a ON a.place = c.place AND a.no = c.agent"""

IRREGULAR = """
    SELECT a.id::text, e.seq, e.kind, e.base
    FROM backstory.events e JOIN backstory.agents a ON a.place = e.place AND a.no = e.agent
    WHERE e.base IS NOT NULL OR e.kind <> ALL (%(regular)s::text[])
    ORDER BY e.place, e.agent, e.seq"""

CENSUS = """
    SELECT e.kind, pg_catalog.count(*), pg_catalog.count(e.base),
        pg_catalog.sum(pg_catalog.octet_length(coalesce(e.content, ''))
            + pg_catalog.octet_length(coalesce(e.data, '')))
    FROM ROWS FROM (
        pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
        pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)
    CROSS JOIN LATERAL (
        SELECT kind, base, content, data FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = p.no AND seq BETWEEN p.low AND p.high
        OFFSET 0) e
    GROUP BY e.kind"""
SIZE = """
    SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(oid)), 0)::bigint
    FROM pg_catalog.pg_class
    WHERE relnamespace = 'backstory'::regnamespace AND relkind IN ('r', 'm')"""


class PostgresSurvey:
    """Runs the queries over one connection."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        asked = {"session": session, "place": place_of(session)}
        return [(id, Event(row)) for id, *row in self._all(SESSION_MARKS, asked)]

    def heads(self) -> list[tuple[str, int]]:
        return self._all(HEADS, {})

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        sql = NEWEST_NOTES.format(condition=CONDITIONS["key_prefix"] if key_prefix else "true")
        return [
            NewestNote(id, None if row[0] is None else Event(row), jump or 0)
            for id, jump, *row in self._all(sql, {"name": name, "key_prefix": key_prefix})
        ]

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        return [Irregular(*row) for row in self._all(IRREGULAR, {"regular": list(regular)})]

    def censuses(self) -> list[AgentCensus]:
        return [AgentCensus(id, *rest) for id, _, _, *rest in self._all(CENSUSES, {})]

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        rows = self._all(CENSUS, within(agent.session, pieces)) if pieces else []
        return [Census(kind, events, moves, int(bytes)) for kind, events, moves, bytes in rows]

    def _all(self, sql: str, bindings: dict[str, Any]) -> list[Any]:
        return self._db.execute(sql, bindings, binary=True).fetchall()
