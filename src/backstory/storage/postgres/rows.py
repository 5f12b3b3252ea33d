"""Every statement that reads from a PostgreSQL store. `storage.sql.SqlReader` runs the statements
that have no method here.

The *place* of a session is the number in the last group of its id (`ids.parse_place`). All agents
and events of a session have its place, and the keys of their tables begin with it. Every statement
that a conversation needs names one place, so these tables can be distributed by it.

Names are qualified, so the connection's search path does not matter. Of an event's meaning, this
module knows only its base, its key, and whether it is a mark or a note.

OFFSET 0 makes the planner look up one agent or one range at a time by its key: it cannot know how
few of a session's rows are selected, and would read them all.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, ClassVar

from backstory.log.events import Event, StoredRow
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.storage.ids import parse_place
from backstory.storage.postgres.listing import (
    OLDEST_FIRST,
    build_agent_conditions,
    build_listing,
    can_match,
    is_complete_id,
)
from backstory.storage.postgres.schema import INDEXED_CHARACTERS, build_beginning_sql
from backstory.storage.postgres.server import Cursor, Params
from backstory.storage.protocol import (
    EVERY_AGENT,
    EVERY_EVENT,
    AgentQuery,
    AgentRecord,
    EventFilter,
    Pieces,
)
from backstory.storage.sql import Bindings, EventConditions, SqlReader

IS_AGENT = "place = %(place)s::bigint AND no = %(no)s AND deleted IS NULL"
# The fields of an Event, in the same order.
EVENT_COLUMNS = "seq, kind, content, data, created_at, key"
EVENT_SIZE = """coalesce(pg_catalog.octet_length(content), 0)
                + coalesce(pg_catalog.octet_length(data), 0)"""
PIECES = """ROWS FROM (
            pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
            pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)"""
IN_PIECE = "place = %(place)s::bigint AND agent = p.no AND seq BETWEEN p.low AND p.high"
# If the agent was deleted after its pieces were looked up, nothing is read, not even what it
# inherited.
IS_ALIVE = f"EXISTS (SELECT 1 FROM backstory.agents WHERE {IS_AGENT})"
# Of the agent with the number p.no.
OWNER_ID = """(SELECT a.id::text FROM backstory.agents a
            WHERE a.place = %(place)s::bigint AND a.no = p.no)"""


def run_statement(cursor: Cursor, sql: str, bindings: Bindings | None) -> list[Any]:
    """Run a statement and return its rows, if it returns any."""
    cursor.execute(sql, bindings)
    if cursor.rownumber is None:
        return []
    return cursor.fetchall()


def identify(agent: AgentRecord) -> Params:
    """Return the parameters that identify an agent in a statement."""
    return {"place": parse_place(agent.session), "no": agent.pk}


def write_pieces(pieces: Pieces) -> Params:
    """Return the parameters that identify pieces of one place in a statement (`PIECES`)."""
    return {
        "nos": to_array(piece.owner for piece in pieces),
        "lows": to_array(piece.low for piece in pieces),
        "highs": to_array(piece.high for piece in pieces),
    }


def to_array(numbers: Iterable[int]) -> str:
    """Return numbers as the text of an array. psycopg would choose the type of a list by its
    numbers, and prepare a statement for each type."""
    return "{" + ",".join(map(str, numbers)) + "}"


class PostgresReader(SqlReader):
    """Every read of a PostgreSQL store. A subclass decides how a statement is run."""

    def _bind_agent(self, agent: AgentRecord) -> Bindings:
        return identify(agent)

    def _bind_pieces(self, pieces: Pieces) -> Bindings:
        return write_pieces(pieces)

    def _bind_keys(self, keys: Sequence[str]) -> Bindings:
        beginnings = [key[:INDEXED_CHARACTERS] for key in keys]
        return {"keys": list(set(keys)), "beginnings": beginnings}

    # --- agents ---

    SESSION_OF_ENTRY = """
        SELECT session::text FROM backstory.directory
        WHERE place = %(place)s::bigint AND id = %(id)s::uuid"""

    def list_agents(self, query: AgentQuery = EVERY_AGENT) -> list[AgentRecord]:
        id = query.id_prefix
        if id is None or query.session is not None or not is_complete_id(id):
            return self._list_in_place(query)
        place = parse_place(id)
        agents = self._list_in_place(query, place)
        if agents:
            return agents
        # The id of an agent that was forked with a key does not contain its place.
        entries = self._run(self.SESSION_OF_ENTRY, {"place": place, "id": id})
        if not entries:
            return []
        [(session,)] = entries
        return self._list_in_place(query, parse_place(session))

    def _list_in_place(self, query: AgentQuery, place: int | None = None) -> list[AgentRecord]:
        listing = build_listing(query, place)
        return [] if listing is None else self._run(*listing, AgentRecord)

    # Not by our function of this name: `verify` works without it, too.
    READ_CLOCK = """
        SELECT (1000000 * pg_catalog.extract('epoch', pg_catalog.statement_timestamp()))::bigint"""

    def read_clock(self) -> int:
        [(now_us,)] = self._run(self.READ_CLOCK)
        return int(now_us)

    READ_HEAD = f"SELECT head FROM backstory.agents WHERE {IS_AGENT}"

    # --- lineages ---

    # Each step goes to the newest event with a base at or below `next`. The events between are
    # live, and the walk continues at the base; without such an event, it continues in the parent.
    # The first step is empty: it gives the head if nothing is live. UNION drops a step that was
    # taken before, so in a damaged store the walk ends instead of running for ever.
    #
    # An index scan reads complete pages of the range. If jumps are close together, each would be
    # read a hundred times, so the statement looks at the nearby positions first.
    NEWEST_MOVE = """
                SELECT e.seq, e.base FROM backstory.events e
                WHERE e.place = %(place)s::bigint AND e.agent = a.no AND e.base IS NOT NULL
                    AND e.seq > {low} AND e.seq <= {high}
                ORDER BY e.seq DESC LIMIT 1"""
    NEARBY = 16  # positions
    NEARBY_MOVE = NEWEST_MOVE.format(
        low=f"greatest(a.fork_seq, walk.next - {NEARBY})", high="walk.next"
    )
    EARLIER_MOVE = NEWEST_MOVE.format(low="a.fork_seq", high=f"walk.next - {NEARBY}")
    WALK = f"""
        WITH RECURSIVE
        here AS ({READ_HEAD}),
        walk (no, low, high, base, next, next_no) AS (
            SELECT NULL::int, 1, 0, NULL::int, coalesce(%(at)s::int, head), %(no)s::int FROM here
            UNION
            SELECT a.no, coalesce(move.seq, a.fork_seq + 1), walk.next, move.base,
                CASE WHEN move.seq IS NULL THEN least(walk.next, a.fork_seq) ELSE move.base END,
                CASE WHEN move.seq IS NULL THEN a.parent ELSE a.no END
            FROM walk
            CROSS JOIN LATERAL (
                SELECT no, parent, fork_seq FROM backstory.agents
                WHERE place = %(place)s::bigint AND no = walk.next_no OFFSET 0) a
            LEFT JOIN LATERAL (
                ({NEARBY_MOVE})
                UNION ALL
                ({EARLIER_MOVE})
                LIMIT 1) move ON true
            WHERE walk.next > 0)
        SELECT walk.no, low, high, base, next, here.head FROM here, walk"""

    LINEAGE = f"""
        WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
            SELECT no, fork_seq + 1, head, parent, fork_seq FROM backstory.agents
            WHERE {IS_AGENT}
            UNION
            SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
            FROM line
            CROSS JOIN LATERAL (
                SELECT no, parent, fork_seq FROM backstory.agents
                WHERE place = %(place)s::bigint AND no = line.parent OFFSET 0) a
            WHERE line.fork_seq > 0)
        SELECT no, low, high, fork_seq FROM line"""

    # Find the agent that wrote at that time, then bisect. Read an agent whose times have dropped
    # backwards, and continue in its parent if none of its events is old enough.
    FIND_POSITION = f"""
        WITH RECURSIVE
        line (no, parent, fork_seq, high, created_at, times_dropped) AS (
            SELECT no, parent, fork_seq, head, created_at, times_dropped FROM backstory.agents
            WHERE {IS_AGENT}
            UNION
            SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at, a.times_dropped
            FROM line
            CROSS JOIN LATERAL (
                SELECT no, parent, fork_seq, created_at, times_dropped FROM backstory.agents
                WHERE place = %(place)s::bigint AND no = line.parent OFFSET 0) a
            WHERE line.fork_seq > 0 AND (line.created_at > %(moment)s OR line.times_dropped)),
        halves (no, low, high) AS (
            SELECT no, fork_seq, high FROM line
            WHERE created_at <= %(moment)s AND NOT times_dropped
            UNION
            SELECT h.no,
                CASE WHEN e.created_at <= %(moment)s THEN (h.low + h.high + 1) / 2 ELSE h.low END,
                CASE WHEN e.created_at <= %(moment)s THEN h.high
                    ELSE (h.low + h.high + 1) / 2 - 1 END
            FROM halves h
            LEFT JOIN backstory.events e ON e.place = %(place)s::bigint AND e.agent = h.no
                AND e.seq = (h.low + h.high + 1) / 2
            WHERE h.low < h.high)
        SELECT pg_catalog.max(p.position) FROM (
            SELECT low FROM halves WHERE low = high
            UNION ALL
            SELECT fork_seq FROM line WHERE times_dropped AND created_at <= %(moment)s
            UNION ALL
            SELECT (
                SELECT e.seq FROM backstory.events e
                WHERE e.place = %(place)s::bigint AND e.agent = line.no
                    AND e.seq > line.fork_seq AND e.seq <= line.high
                    AND e.created_at <= %(moment)s
                ORDER BY e.seq DESC LIMIT 1)
            FROM line WHERE times_dropped) p (position)"""

    # --- events of one lineage ---

    READ_EVENTS = f"""
        SELECT e.* FROM {PIECES}
        CROSS JOIN LATERAL (
            SELECT {EVENT_COLUMNS} FROM backstory.events
            WHERE {IN_PIECE} AND {{where}} OFFSET 0) e
        WHERE {IS_ALIVE}"""
    READ_NEWEST_EVENTS = f"""
        SELECT e.* FROM {PIECES}
        CROSS JOIN LATERAL (
            SELECT {EVENT_COLUMNS} FROM backstory.events
            WHERE {IN_PIECE} AND {{where}} ORDER BY seq DESC LIMIT 1) e
        WHERE {IS_ALIVE}"""

    def read_events(
        self, agent: AgentRecord, pieces: Pieces, where: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        conditions = PostgresEventConditions(where)
        sql = self.READ_NEWEST_EVENTS if where.newest_only else self.READ_EVENTS
        sql = sql.format(where=conditions.join())
        events = self._run_in_pieces(Event, sql, agent, pieces, conditions.bindings)
        events.sort(key=itemgetter(0))  # one pass, because they are nearly always in order
        return events[-1:] if where.newest_only else events

    OUTLINE = f"""
        SELECT e.* FROM {PIECES}
        CROSS JOIN LATERAL (
            SELECT seq, kind, {EVENT_SIZE}, created_at, base FROM backstory.events
            WHERE {IN_PIECE} OFFSET 0) e
        WHERE {IS_ALIVE}"""

    COUNT_EVENTS = f"""
        SELECT a.id::text, c.kind, c.events, c.bytes FROM (
            SELECT place, agent, kind, pg_catalog.count(*), pg_catalog.sum({EVENT_SIZE})::bigint
            FROM backstory.events GROUP BY place, agent, kind
            ) c (place, agent, kind, events, bytes)
        JOIN backstory.agents a ON a.place = c.place AND a.no = c.agent"""

    # All columns of the unique index are compared, so that the planner knows that it finds one
    # event at most. `agent + 0` is one of them, and the primary key does not serve it: with `agent`
    # or a range of positions, the planner would rather read all events of an agent.
    FIND_KEYS_IN_PIECES = f"""
        SELECT k.key, {OWNER_ID}, e.seq FROM {PIECES}
        CROSS JOIN pg_catalog.unnest(%(keys)s::text[]) AS k (key)
        CROSS JOIN LATERAL (
            SELECT seq FROM backstory.events
            WHERE place = %(place)s::bigint AND agent + 0 = p.no AND key = k.key
                AND {build_beginning_sql("key")} = {build_beginning_sql("k.key")}
                AND pg_catalog.hashtextextended(key, 0) = pg_catalog.hashtextextended(k.key, 0)
            OFFSET 0) e
        WHERE e.seq BETWEEN p.low AND p.high AND {IS_ALIVE}"""
    FIND_KEYS_EVERYWHERE = f"""
        SELECT e.key, a.id::text, e.seq FROM backstory.events e
        JOIN backstory.agents a ON a.place = e.place AND a.no = e.agent
        WHERE e.key = ANY(%(keys)s::text[])
            AND {build_beginning_sql("e.key")} = ANY(%(beginnings)s::text[])"""

    # --- rows of any agents ---

    READ_ROWS = f"""
        SELECT {EVENT_COLUMNS}, base, digest, salt FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(after)s
        ORDER BY seq LIMIT %(limit)s"""

    def read_rows(self, agent: AgentRecord, after: int, limit: int) -> list[StoredRow]:
        params = {**identify(agent), "after": after, "limit": limit}
        return self._run(self.READ_ROWS, params, StoredRow)

    READ_OWNED = f"""
        SELECT a.id::text, e.* FROM backstory.agents a
        CROSS JOIN LATERAL (
            SELECT {EVENT_COLUMNS}, base, digest, salt FROM backstory.events
            WHERE place = a.place AND agent = a.no AND {{where}}) e
        WHERE {{agents}} ORDER BY {OLDEST_FIRST}, e.seq"""
    READ_NEWEST_OWNED = f"""
        SELECT a.id::text, e.* FROM backstory.agents a
        CROSS JOIN LATERAL (
            SELECT {EVENT_COLUMNS}, base, digest, salt FROM backstory.events
            WHERE place = a.place AND agent = a.no AND {{where}} ORDER BY seq DESC LIMIT 1) e
        WHERE {{agents}} ORDER BY {OLDEST_FIRST}"""

    def read_owned(self, agents: AgentQuery, where: EventFilter) -> list[tuple[str, StoredRow]]:
        if not can_match(agents):
            return []
        of_agents = build_agent_conditions(agents)
        of_events = PostgresEventConditions(where)
        sql = self.READ_NEWEST_OWNED if where.newest_only else self.READ_OWNED
        sql = sql.format(agents=of_agents.join(), where=of_events.join())
        return self._run_owned(sql, {**of_agents.bindings, **of_events.bindings})

    # --- sources ---

    LIST_SOURCES = """
        SELECT tool, id, agent::text, cursor FROM backstory.sources
        WHERE {where} ORDER BY id COLLATE "C", tool COLLATE "C" """
    SOURCE_CONDITIONS: ClassVar = {
        "tool": "tool = %(tool)s::text",
        "id": "id = %(id)s::text",
        "prefix": "pg_catalog.starts_with(id, %(prefix)s::text)",
    }

    # --- removals ---

    LIST_REMOVALS = """
        SELECT id::text, removed_at, action, session::text, agent::text, positions, events, author,
            reason
        FROM backstory.removals r ORDER BY r.removed_at, r.id"""


# --- conditions on events ---

# Looks up a note by the index on the beginnings of names.
IS_NAMED = f"""content = %(note_name)s::text AND {build_beginning_sql("content")}
                = {build_beginning_sql("%(note_name)s::text")}"""


class PostgresEventConditions(EventConditions):
    """The conditions of PostgreSQL, for `backstory.events`."""

    def add_kinds(self, kinds: list[str]) -> None:
        self.add("kind = ANY(%(kinds)s::text[])", kinds=kinds)

    def add_note_names(self, names: list[str]) -> None:
        if len(names) == 1:
            self.add(IS_NAMED, note_name=names[0])
        else:
            self.add("content = ANY(%(note_names)s::text[])", note_names=names)

    def add_names_of_notes(self, names: list[str]) -> None:
        self.add("(kind <> 'note' OR content = ANY(%(note_names)s::text[]))", note_names=names)

    def add_irregular(self) -> None:
        self.add(
            "(base IS NOT NULL OR kind <> ALL(%(always_shown)s::text[]))",
            always_shown=sorted(ALWAYS_SHOWN),
        )
