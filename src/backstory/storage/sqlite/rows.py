"""Every statement that reads from an SQLite store. `storage.sql.SqlReader` runs the statements
that have no method here.

The events of one agent are stored together, in the order of their ids (`schema.build_event_id`).
"""

import json
import time
from collections.abc import Sequence
from typing import ClassVar

from backstory.log.events import Event, StoredRow
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.storage.protocol import (
    EVERY_AGENT,
    EVERY_EVENT,
    AgentQuery,
    AgentRecord,
    EventFilter,
    Pieces,
)
from backstory.storage.sql import (
    ONLY_MARKS,
    ONLY_NOTES,
    Bindings,
    EventConditions,
    SqlConditions,
    SqlReader,
)
from backstory.storage.sqlite.frames import CONTENT, CONTENT_OR_NULL, DATA, DATA_OR_NULL, SIZE
from backstory.storage.sqlite.listing import (
    COMMON,
    COUNT_PREFIX,
    add_choice,
    build_agent_conditions,
    build_listing,
)
from backstory.storage.sqlite.schema import (
    HEAD,
    IS_OWN,
    LAST_SEQ,
    build_agent_sql,
    build_event_id,
    build_event_id_sql,
    build_seq_sql,
)

# The fields of an Event, in the same order.
EVENT_COLUMNS = f"e.seq, e.kind, {CONTENT}, {DATA}, e.created_at, e.key"
# All columns, of damaged events, too.
ROW_COLUMNS = f"""e.seq, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL}, e.created_at, e.key,
    e.base, e.digest, e.salt"""

# The ranges of event ids are one JSON object, {"first id": last id, …}, because json_each's own
# columns cost a third of what json_extract would. CROSS JOIN keeps the order of the ranges.
RANGES = "json_each(:ranges) r CROSS JOIN events e"
IN_RANGE = "e.id BETWEEN CAST(r.key AS INTEGER) AND r.value"
# If the agent was deleted after its pieces were read, nothing is returned, not even what it
# inherited.
IS_ALIVE = "EXISTS (SELECT 1 FROM agents WHERE no = :no AND deleted IS NULL)"
MARKS_INDEX = "INDEXED BY marks"
NOTES_INDEX = "INDEXED BY notes"
NOT_ALWAYS_SHOWN = "e.kind NOT IN ({})".format(", ".join(f"'{kind}'" for kind in ALWAYS_SHOWN))


class SqliteReader(SqlReader):
    """Reads agents and events. A subclass decides which connection runs a statement."""

    def _bind_agent(self, agent: AgentRecord) -> Bindings:
        return {"no": agent.pk}

    def _bind_pieces(self, pieces: Pieces) -> Bindings:
        return {"ranges": build_ranges_json(pieces)}

    def _bind_keys(self, keys: Sequence[str]) -> Bindings:
        return {"keys": json.dumps(keys)}

    def list_agents(self, query: AgentQuery = EVERY_AGENT) -> list[AgentRecord]:
        sql, bindings = build_listing(query, is_prefix_common=self._has_common_prefix(query))
        agents = []
        for record in self._run(sql, bindings, AgentRecord):
            agents.append(record._replace(spawned=bool(record.spawned)))
        return agents

    def _has_common_prefix(self, query: AgentQuery) -> bool:
        """Return True if `query` is a page of agents with a key prefix that very many agents
        have."""
        if query.key_prefix is None or query.limit is None:
            return False
        bindings = {"key_prefix": query.key_prefix, "limit": COMMON}
        [(count,)] = self._run(COUNT_PREFIX, bindings)
        return bool(count == COMMON)

    def read_clock(self) -> int:
        return time.time_ns() // 1000

    READ_HEAD = f"SELECT {HEAD} FROM agents a WHERE a.no = :no AND a.deleted IS NULL"

    # Each step goes to the newest event with a base at or below `next`. What lies between is live,
    # and the walk continues at the base; without such an event, it continues in the parent. UNION
    # drops a step that was taken before, so that the walk ends in a damaged store. The index
    # `jumps` has every event with a base, clears, too.
    FORK_ID = build_event_id_sql("a.no", "a.fork_seq")
    NEXT_ID = build_event_id_sql("a.no", "walk.next")
    WALK = f"""
        WITH RECURSIVE
        here (head) AS MATERIALIZED (
            SELECT {HEAD} FROM agents a WHERE a.no = :no AND a.deleted IS NULL),
        walk (no, low, high, base, next, next_no) AS (
            SELECT NULL, 1, 0, NULL, coalesce(:at, head), :no FROM here
            UNION
            SELECT a.no, coalesce(move.seq, a.fork_seq + 1), walk.next, move.base,
                iif(move.id IS NULL, min(walk.next, a.fork_seq), move.base),
                iif(move.id IS NULL, a.parent, a.no)
            FROM walk
            JOIN agents a ON a.no = walk.next_no
            LEFT JOIN events move INDEXED BY jumps ON move.base IS NOT NULL AND move.id = (
                SELECT e.id FROM events e INDEXED BY jumps
                WHERE e.base IS NOT NULL AND e.id > {FORK_ID} AND e.id <= {NEXT_ID}
                ORDER BY e.id DESC LIMIT 1)
            WHERE walk.next > 0)
        SELECT no, low, high, base, next, here.head FROM here, walk"""

    LINEAGE = f"""
        WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
            SELECT a.no, a.fork_seq + 1, {HEAD}, a.parent, a.fork_seq
            FROM agents a WHERE a.no = :no AND a.deleted IS NULL
            UNION
            SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
            FROM line JOIN agents a ON a.no = line.parent WHERE line.fork_seq > 0)
        SELECT no, low, high, fork_seq FROM line"""

    # Find the agent that wrote at that time, then bisect. Read an agent whose times have dropped
    # backwards, and continue in its parent if none of its events is old enough.
    MIDDLE = "(h.low + h.high + 1) / 2"
    FIND_POSITION = f"""
        WITH RECURSIVE
        line (no, parent, fork_seq, high, created_at, times_dropped) AS (
            SELECT a.no, a.parent, a.fork_seq, {HEAD}, a.created_at, a.times_dropped
            FROM agents a WHERE a.no = :no AND a.deleted IS NULL
            UNION
            SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at, a.times_dropped
            FROM line JOIN agents a ON a.no = line.parent
            WHERE line.fork_seq > 0 AND (line.created_at > :moment OR line.times_dropped)),
        halves (no, low, high) AS (
            SELECT no, fork_seq, high FROM line WHERE created_at <= :moment AND NOT times_dropped
            UNION
            SELECT h.no,
                iif(e.created_at <= :moment, {MIDDLE}, h.low),
                iif(e.created_at <= :moment, h.high, {MIDDLE} - 1)
            FROM halves h LEFT JOIN events e ON e.id = {build_event_id_sql("h.no", MIDDLE)}
            WHERE h.low < h.high)
        SELECT max(position) FROM (
            SELECT low AS position FROM halves WHERE low = high
            UNION ALL
            SELECT fork_seq FROM line WHERE times_dropped AND created_at <= :moment
            UNION ALL
            SELECT (
                SELECT e.seq FROM events e
                WHERE e.id BETWEEN {build_event_id_sql("line.no", "line.fork_seq + 1")}
                    AND {build_event_id_sql("line.no", "line.high")} AND e.created_at <= :moment
                ORDER BY e.id DESC LIMIT 1)
            FROM line WHERE times_dropped)"""

    READ_EVENTS = f"""
        SELECT {EVENT_COLUMNS} FROM {RANGES} {{index}} WHERE {IN_RANGE} AND {{where}} {{order}}"""
    # Positions increase from piece to piece, so the newest match is in the last piece that has one.
    READ_NEWEST_EVENT = f"""
        SELECT {EVENT_COLUMNS} FROM events e WHERE e.id = (
            SELECT newest.id FROM (
                SELECT (
                    SELECT e.id FROM events e {{index}} WHERE {IN_RANGE} AND {{where}}
                    ORDER BY e.id DESC LIMIT 1) AS id
                FROM json_each(:ranges) r) newest
            WHERE newest.id IS NOT NULL ORDER BY {build_seq_sql("newest.id")} DESC LIMIT 1)"""

    def read_events(
        self, agent: AgentRecord, pieces: Pieces, where: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        conditions = SqliteEventConditions(where)
        conditions.add(IS_ALIVE)
        sql = self.READ_NEWEST_EVENT if where.newest_only else self.READ_EVENTS
        index = choose_index(where)
        # Without an index, and with that of marks, the events of a piece are read in order.
        order = "ORDER BY e.seq" if index == NOTES_INDEX else ""
        sql = sql.format(index=index, where=conditions.join(), order=order)
        return self._run_in_pieces(Event, sql, agent, pieces, conditions.bindings)

    OUTLINE = f"""
        SELECT e.seq, e.kind, {SIZE}, e.created_at, e.base
        FROM {RANGES} WHERE {IN_RANGE} AND {IS_ALIVE}"""

    READ_ROWS = f"""
        SELECT {ROW_COLUMNS} FROM events e
        WHERE e.id BETWEEN ? AND ? ORDER BY e.id LIMIT ?"""

    def read_rows(self, agent: AgentRecord, after: int, limit: int) -> list[StoredRow]:
        first = build_event_id(agent.pk, after + 1)
        last = build_event_id(agent.pk, LAST_SEQ)
        return self._run(self.READ_ROWS, (first, last, limit), StoredRow)

    READ_OWNED = f"""
        SELECT a.id, {ROW_COLUMNS} FROM agents a CROSS JOIN events e {{index}}
        WHERE {{agents}} AND {IS_OWN} AND {{where}} ORDER BY a.no, e.id"""
    READ_NEWEST_OWNED = f"""
        SELECT a.id, {ROW_COLUMNS} FROM agents a CROSS JOIN events e
        WHERE {{agents}} AND e.id = (
            SELECT e.id FROM events e {{index}} WHERE {IS_OWN} AND {{where}}
            ORDER BY e.id DESC LIMIT 1)
        ORDER BY a.no"""

    def read_owned(self, agents: AgentQuery, where: EventFilter) -> list[tuple[str, StoredRow]]:
        of_agents = build_agent_conditions(agents)
        of_events = SqliteEventConditions(where)
        sql = self.READ_NEWEST_OWNED if where.newest_only else self.READ_OWNED
        sql = sql.format(index=choose_index(where), agents=of_agents.join(), where=of_events.join())
        return self._run_owned(sql, {**of_agents.bindings, **of_events.bindings})

    COUNT_EVENTS = f"""
        SELECT a.id, e.kind, count(*), sum({SIZE})
        FROM events e CROSS JOIN agents a ON a.no = e.agent
        GROUP BY e.agent, e.kind"""

    FIND_KEYS_IN_PIECES = f"""
        SELECT e.key, a.id, e.seq
        FROM json_each(:keys) k CROSS JOIN json_each(:ranges) r
        CROSS JOIN events e INDEXED BY event_keys CROSS JOIN agents a ON a.no = e.agent
        WHERE e.key = k.value AND e.agent = {build_agent_sql("CAST(r.key AS INTEGER)")}
            AND {IN_RANGE} AND {IS_ALIVE}"""
    FIND_KEYS_EVERYWHERE = """
        SELECT e.key, a.id, e.seq
        FROM json_each(:keys) k CROSS JOIN events e INDEXED BY event_keys
        CROSS JOIN agents a ON a.no = e.agent WHERE e.key = k.value ORDER BY e.id"""

    LIST_SOURCES = """
        SELECT tool, id, agent, cursor FROM sources WHERE {where} ORDER BY id, tool"""
    SOURCE_CONDITIONS: ClassVar = {
        "tool": "tool = :tool",
        "id": "id = :id",
        "prefix": "id >= :prefix AND id < :prefix || char(1114111)",
    }

    LIST_REMOVALS = """
        SELECT id, removed_at, action, session, agent, positions, events, author, reason
        FROM removals ORDER BY removed_at, id"""


class SqliteEventConditions(EventConditions):
    """The conditions of SQLite, for `events e`."""

    def add_kinds(self, kinds: list[str]) -> None:
        add_choice(self, "e.kind", "kind", kinds)

    def add_note_names(self, names: list[str]) -> None:
        add_choice(self, "e.content", "note", names)

    def add_names_of_notes(self, names: list[str]) -> None:
        has_name = SqlConditions()
        add_choice(has_name, "e.content", "note", names)
        self.add(f"(e.kind <> 'note' OR {has_name.join()})", **has_name.bindings)

    def add_irregular(self) -> None:
        self.add(f"(e.base IS NOT NULL OR {NOT_ALWAYS_SHOWN})")


def choose_index(where: EventFilter) -> str:
    """Return the index that finds the events of `where`, as a part of the statement."""
    if where.kinds == ONLY_MARKS:
        return MARKS_INDEX
    if where.kinds == ONLY_NOTES and where.note_names:
        return NOTES_INDEX
    return ""


def build_ranges_json(pieces: Pieces) -> str:
    """Return the ranges of event ids in `pieces`, as a JSON object."""
    ranges = []
    for owner, low, high, _ in pieces:
        ranges.append(f'"{build_event_id(owner, low)}":{build_event_id(owner, high)}')
    return f"{{{','.join(ranges)}}}"
