"""Every read of an SQLite store, each with its statement.

The events of one agent are stored together, in the order of their ids (`schema.build_event_id`).
"""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backstory.log.events import Event, OutlineRow, StoredRow
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.storage.agent_errors import build_deletion_error, check_exists
from backstory.storage.positions import LineageStep, WalkStep, build_lineage, build_walk
from backstory.storage.protocol import (
    EVERY_AGENT,
    EVERY_EVENT,
    AgentQuery,
    AgentRecord,
    EventCount,
    EventFilter,
    KeyPosition,
    Piece,
    Pieces,
    RemovalRecord,
    SourceRecord,
    Walk,
)
from backstory.storage.sql import RowShape, SqlConditions
from backstory.storage.sqlite.frames import CONTENT, CONTENT_OR_NULL, DATA, DATA_OR_NULL, SIZE
from backstory.storage.sqlite.listing import (
    COMMON,
    COUNT_PREFIX,
    HEAD,
    add_choice,
    build_agent_conditions,
    build_listing,
)
from backstory.storage.sqlite.schema import (
    IS_OWN,
    LAST_SEQ,
    build_event_id,
    write_agent,
    write_event_id,
    write_seq,
)

Bindings = Sequence[Any] | Mapping[str, Any]

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
ONLY_MARKS = frozenset({"mark"})
ONLY_NOTES = frozenset({"note"})
MARKS_INDEX = "INDEXED BY marks"
NOTES_INDEX = "INDEXED BY notes"
NOT_ALWAYS_SHOWN = "e.kind NOT IN ({})".format(", ".join(f"'{kind}'" for kind in ALWAYS_SHOWN))


class SqliteReader(ABC):
    """Reads agents and events. A subclass decides which connection runs a statement."""

    @abstractmethod
    def _run(self, sql: str, bindings: Bindings = (), shape: RowShape = tuple) -> list[Any]:
        """Run a statement and return its rows as instances of `shape`."""

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

    READ_HEAD = f"SELECT {HEAD} FROM agents a WHERE a.no = ? AND a.deleted IS NULL"

    def read_head(self, agent: AgentRecord) -> int:
        for (head,) in self._run(self.READ_HEAD, (agent.pk,)):
            return int(head)
        raise build_deletion_error(agent)

    # Each step goes to the newest event with a base at or below `next`. What lies between is live,
    # and the walk continues at the base; without such an event, it continues in the parent. UNION
    # drops a step that was taken before, so that the walk ends in a damaged store. The index
    # `jumps` has every event with a base, clears, too.
    FORK_ID = write_event_id("a.no", "a.fork_seq")
    NEXT_ID = write_event_id("a.no", "walk.next")
    WALK = f"""
        WITH RECURSIVE
        here (head) AS MATERIALIZED (
            SELECT {HEAD} FROM agents a WHERE a.no = :no AND a.deleted IS NULL),
        walk (no, low, high, base, next, next_no) AS (
            SELECT NULL, 1, 0, NULL, coalesce(:at, head), :no FROM here
            UNION
            SELECT a.no, coalesce(j.seq, a.fork_seq + 1), walk.next, j.base,
                iif(j.id IS NULL, min(walk.next, a.fork_seq), j.base),
                iif(j.id IS NULL, a.parent, a.no)
            FROM walk
            JOIN agents a ON a.no = walk.next_no
            LEFT JOIN events j INDEXED BY jumps ON j.base IS NOT NULL AND j.id = (
                SELECT e.id FROM events e INDEXED BY jumps
                WHERE e.base IS NOT NULL AND e.id > {FORK_ID} AND e.id <= {NEXT_ID}
                ORDER BY e.id DESC LIMIT 1)
            WHERE walk.next > 0)
        SELECT no, low, high, base, next, here.head FROM here, walk"""

    def walk(self, agent: AgentRecord, at: int | None = None) -> Walk:
        return build_walk(agent, self._run(self.WALK, {"no": agent.pk, "at": at}, WalkStep))

    LINEAGE = f"""
        WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
            SELECT a.no, a.fork_seq + 1, {HEAD}, a.parent, a.fork_seq
            FROM agents a WHERE a.no = :no AND a.deleted IS NULL
            UNION
            SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
            FROM line JOIN agents a ON a.no = line.parent WHERE line.fork_seq > 0)
        SELECT no, low, high, fork_seq FROM line"""

    def read_lineage(self, agent: AgentRecord) -> list[Piece]:
        return build_lineage(agent, self._run(self.LINEAGE, {"no": agent.pk}, LineageStep))

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
            FROM halves h LEFT JOIN events e ON e.id = {write_event_id("h.no", MIDDLE)}
            WHERE h.low < h.high)
        SELECT max(position) FROM (
            SELECT low AS position FROM halves WHERE low = high
            UNION ALL
            SELECT fork_seq FROM line WHERE times_dropped AND created_at <= :moment
            UNION ALL
            SELECT (
                SELECT e.seq FROM events e
                WHERE e.id BETWEEN {write_event_id("line.no", "line.fork_seq + 1")}
                    AND {write_event_id("line.no", "line.high")} AND e.created_at <= :moment
                ORDER BY e.id DESC LIMIT 1)
            FROM line WHERE times_dropped)"""

    def find_position_at_time(self, agent: AgentRecord, moment_us: int) -> int:
        bindings = {"no": agent.pk, "moment": moment_us}
        [(position,)] = self._run(self.FIND_POSITION, bindings)
        if position is None:
            check_exists(self, agent)
            return 0
        return int(position)

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
            WHERE newest.id IS NOT NULL ORDER BY {write_seq("newest.id")} DESC LIMIT 1)"""

    def read_events(
        self, agent: AgentRecord, pieces: Pieces, where: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        conditions = build_event_conditions(where)
        conditions.add(IS_ALIVE)
        sql = self.READ_NEWEST_EVENT if where.newest_only else self.READ_EVENTS
        index = choose_index(where)
        # Without an index, and with that of marks, the events of a piece are read in order.
        order = "ORDER BY e.seq" if index == NOTES_INDEX else ""
        sql = sql.format(index=index, where=conditions.join(), order=order)
        return self._run_in_pieces(Event, sql, agent, pieces, conditions.bindings)

    def _run_in_pieces(
        self,
        shape: RowShape,
        sql: str,
        agent: AgentRecord,
        pieces: Pieces,
        bindings: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[Any]:
        """Run a statement on pieces of an agent's lineage. Raises AgentNotFound if the agent was
        deleted; the statement then returns nothing."""
        named = {**bindings, "ranges": write_ranges(pieces), "no": agent.pk}
        rows = self._run(sql, named, shape)
        if not rows and pieces:
            check_exists(self, agent)
        return rows

    OUTLINE = f"""
        SELECT e.seq, e.kind, {SIZE}, e.created_at, e.base
        FROM {RANGES} WHERE {IN_RANGE} AND {IS_ALIVE}"""

    def read_outline(self, agent: AgentRecord, pieces: Pieces) -> list[OutlineRow]:
        return self._run_in_pieces(OutlineRow, self.OUTLINE, agent, pieces)

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
        of_events = build_event_conditions(where)
        sql = self.READ_NEWEST_OWNED if where.newest_only else self.READ_OWNED
        sql = sql.format(index=choose_index(where), agents=of_agents.join(), where=of_events.join())
        found = []
        for id, *columns in self._run(sql, {**of_agents.bindings, **of_events.bindings}):
            found.append((id, StoredRow._make(columns)))
        return found

    COUNTS = f"a.id, e.kind, count(*), count(e.base), sum({SIZE})"
    COUNT_IN_PIECES = f"""
        SELECT {COUNTS} FROM {RANGES} CROSS JOIN agents a ON a.no = e.agent
        WHERE {IN_RANGE} AND {IS_ALIVE} GROUP BY e.agent, e.kind"""
    COUNT_EVERYWHERE = f"""
        SELECT {COUNTS} FROM events e CROSS JOIN agents a ON a.no = e.agent
        GROUP BY e.agent, e.kind"""

    def count_events(
        self, agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> list[EventCount]:
        if agent is None:
            return self._run(self.COUNT_EVERYWHERE, (), EventCount)
        return self._run_in_pieces(EventCount, self.COUNT_IN_PIECES, agent, pieces)

    FIND_KEYS_IN_PIECES = f"""
        SELECT e.key, a.id, e.seq
        FROM json_each(:keys) k CROSS JOIN json_each(:ranges) r
        CROSS JOIN events e INDEXED BY event_keys CROSS JOIN agents a ON a.no = e.agent
        WHERE e.key = k.value AND e.agent = {write_agent("CAST(r.key AS INTEGER)")}
            AND {IN_RANGE} AND {IS_ALIVE}"""
    FIND_KEYS_EVERYWHERE = """
        SELECT e.key, a.id, e.seq
        FROM json_each(:keys) k CROSS JOIN events e INDEXED BY event_keys
        CROSS JOIN agents a ON a.no = e.agent WHERE e.key = k.value ORDER BY e.id"""

    def find_keys(
        self, keys: Sequence[str], agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> list[KeyPosition]:
        bindings = {"keys": json.dumps(keys)}
        if agent is None:
            return self._run(self.FIND_KEYS_EVERYWHERE, bindings, KeyPosition)
        return self._run_in_pieces(KeyPosition, self.FIND_KEYS_IN_PIECES, agent, pieces, bindings)

    LIST_SOURCES = """
        SELECT tool, id, agent, cursor FROM sources WHERE {where} ORDER BY id, tool"""

    def list_sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        conditions = SqlConditions()
        conditions.add_optional("tool = :tool", tool=tool)
        conditions.add_optional("id = :id", id=id)
        conditions.add_optional("id >= :prefix AND id < :prefix || char(1114111)", prefix=prefix)
        sql = self.LIST_SOURCES.format(where=conditions.join())
        return self._run(sql, conditions.bindings, SourceRecord)

    LIST_REMOVALS = """
        SELECT id, removed_at, action, session, agent, positions, events, author, reason
        FROM removals ORDER BY removed_at, id"""

    def list_removals(self) -> list[RemovalRecord]:
        return self._run(self.LIST_REMOVALS, (), RemovalRecord)


def build_event_conditions(where: EventFilter) -> SqlConditions:
    """Return the conditions that select the events of `where`."""
    conditions = SqlConditions()
    if where.kinds is not None:
        add_kinds(conditions, where.kinds)
    if where.note_names is not None:
        add_note_names(conditions, where)
    if where.data_contains is not None:
        conditions.add(f"instr({DATA_OR_NULL}, :text) > 0", text=where.data_contains)
    if where.moves_only:
        conditions.add(f"(e.base IS NOT NULL OR {NOT_ALWAYS_SHOWN})")
    return conditions


def add_kinds(conditions: SqlConditions, kinds: frozenset[str]) -> None:
    """Add the condition that an event is of one of `kinds`."""
    if kinds in (ONLY_MARKS, ONLY_NOTES):
        [kind] = kinds
        conditions.add(f"e.kind = '{kind}'")  # the condition of the partial index, literally
    else:
        add_choice(conditions, "e.kind", "kind", tuple(sorted(kinds)))


def add_note_names(conditions: SqlConditions, where: EventFilter) -> None:
    """Add the condition that a note has one of the names. Other kinds are not restricted."""
    names = where.note_names or ()
    if where.kinds == ONLY_NOTES:
        add_choice(conditions, "e.content", "note", names)
        return
    other = SqlConditions()
    add_choice(other, "e.content", "note", names)
    conditions.add(f"(e.kind <> 'note' OR {other.join()})", **other.bindings)


def choose_index(where: EventFilter) -> str:
    """Return the index that finds the events of `where`, as a part of the statement."""
    if where.kinds == ONLY_MARKS:
        return MARKS_INDEX
    if where.kinds == ONLY_NOTES and where.note_names:
        return NOTES_INDEX
    return ""


def write_ranges(pieces: Pieces) -> str:
    """Return the ranges of event ids in `pieces`, as a JSON object."""
    ranges = []
    for owner, low, high, _ in pieces:
        ranges.append(f'"{build_event_id(owner, low)}":{build_event_id(owner, high)}')
    return f"{{{','.join(ranges)}}}"
