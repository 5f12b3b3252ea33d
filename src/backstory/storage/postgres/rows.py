"""The rows of a PostgreSQL store: every statement on agents and events, over one connection.

Every table's key begins with the session, and every statement that a conversation runs on names one session,
so that the tables can be spread over many servers by it. Names are qualified, so that the connection's search
path does not matter. Not here: any meaning of an event beyond its base, its key, and whether it is a mark or
a note.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import psycopg

from backstory.core.events import Event, Stored, from_rows, stored_rows
from backstory.core.outline import OutlineRow, outline_rows
from backstory.errors import Conflict, Invalid
from backstory.storage.postgres.server import Connection
from backstory.storage.protocols import (
    AgentRecord,
    BasedDrafts,
    NewAgent,
    Piece,
    Walk,
    Wanted,
    live,
    lost,
    parent_lost,
    pieces_of,
)

BATCH = 5_000  # events in one call; a larger append is several, in one transaction
# PostgreSQL takes no message, value or row of 1 GB; a client that sends one is cut off. In an array, quotes
# and backslashes take twice as much.
LARGEST_EVENT = 1_000_000_000  # bytes of content and data
LARGEST_BATCH = 250_000_000
SECOND = 1_000_000  # microseconds

COLUMNS = "seq, kind, content, data, created_at, key"

AGENTS = """
    SELECT a.no, a.id::text, a.session::text, a.name, p.id::text, a.fork_seq, a.born_seq, a.spawned,
        a.created_at, a.head, a.updated_at, a.key, a.about, a.deleted
    FROM backstory.agents a LEFT JOIN backstory.agents p ON p.session = a.session AND p.no = a.parent
    WHERE {conditions}
    ORDER BY {order}"""
CONDITIONS = {
    "low": "a.id >= %(low)s::uuid",
    "high": "a.id <= %(high)s::uuid",
    "session": "a.session = %(session)s::uuid",
    "name": "a.name = %(name)s::text",
    "key": "a.key = %(key)s::text",
    "key_prefix": "a.key >= %(key_prefix)s::text AND a.key < %(key_prefix)s::text || U&'\\+10FFFF'",
    "title": "a.about IS NOT NULL AND a.about::jsonb ->> 'title' = %(title)s::text",
    "roots": """a.parent IS NULL AND a.name <> '/' AND (a.deleted IS NULL OR EXISTS (
        SELECT 1 FROM backstory.agents o WHERE o.session = a.session AND o.deleted IS NULL))""",
    "deleted": "a.name <> '/'",
    "since_us": f"a.touched >= %(since_us)s / {SECOND} AND a.updated_at >= %(since_us)s",
    "until_us": f"a.touched <= %(until_us)s / {SECOND} AND a.updated_at < %(until_us)s",
}
# `touched` is the second of `updated_at`, which has no index: so only agents of one second are ever sorted.
LATEST_FIRST = "a.touched DESC, a.updated_at DESC, a.id DESC"
AFTER_LATEST = f"""a.touched <= %(after_us)s / {SECOND}
    AND (a.updated_at, a.id) < (%(after_us)s, %(after_id)s::uuid)"""
BIRTH = "a.created_at, a.id"
AFTER_BIRTH = "(a.created_at, a.id) > (%(after_born)s, %(after_id)s::uuid)"

INSERT_AGENT = """
    INSERT INTO backstory.agents (session, no, id, name, parent, fork_seq, born_seq, spawned,
        created_at, head, updated_at, key, about, touched, deleted, digest)
    SELECT %(session)s::uuid,
        (SELECT coalesce(pg_catalog.max(no), 0) + 1 FROM backstory.agents WHERE session = %(session)s::uuid),
        %(id)s::uuid, %(name)s, %(parent_pk)s, %(fork_seq)s::int, %(born_seq)s, %(spawned)s,
        since.at, %(fork_seq)s::int, since.at, %(key)s, %(about)s, since.at / 1000000,
        %(deleted_us)s, since.digest
    FROM (SELECT greatest(%(now)s::bigint, e.created_at) AS at, e.digest
        FROM (VALUES (1)) one LEFT JOIN backstory.events e ON e.session = %(session)s::uuid
            AND e.agent = %(parent_pk)s::int AND e.seq = %(fork_seq)s::int) since
    WHERE %(fork_seq)s::int = 0 OR since.digest IS NOT NULL
    RETURNING no, backstory.announce()"""

FORKED_AT = """
    SELECT 1 FROM backstory.events
    WHERE session = %(session)s::uuid AND agent = %(parent_pk)s AND seq = %(fork_seq)s"""
ENTER = "INSERT INTO backstory.directory VALUES (%(id)s::uuid, %(session)s::uuid)"
# An agent that was deleted and made again under its key has the same session and number, and another birth.
IS_AGENT = "session = %(session)s::uuid AND no = %(no)s AND created_at = %(born)s AND deleted IS NULL"
RENAME = f"UPDATE backstory.agents SET name = %(name)s WHERE {IS_AGENT} RETURNING no"
ABOUT = f"SELECT about FROM backstory.agents WHERE {IS_AGENT} FOR NO KEY UPDATE"
DESCRIBE = "UPDATE backstory.agents SET about = %(about)s WHERE session = %(session)s::uuid AND no = %(no)s"
HEAD = f"SELECT head FROM backstory.agents WHERE {IS_AGENT}"
HOLD = f"{HEAD} FOR NO KEY UPDATE"

# The row of the agent is the lock: writers queue at it, and each sees the head that the one before it left.
# Most appends are of one event: arrays would cost those half as much again.
APPEND_ONE = """
    SELECT before, at FROM backstory.append_one(%(session)s::uuid, %(no)s, %(born)s, %(expected)s, %(now)s,
        %(kind)s, %(content)s, %(data)s, %(key)s, %(base)s)"""
APPEND_MANY = """
    SELECT before, at FROM backstory.append_many(%(session)s::uuid, %(no)s, %(born)s, %(expected)s, %(now)s,
        %(kind)s::text[], %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[])"""

# From each step go to the newest event with a base at or below `next`: what lies between is
# live, and the walk goes on from the base; without one, it goes on in the parent. UNION drops
# a step that was taken before, so a damaged store ends the walk instead of running for ever.
# OFFSET 0, here and below, makes the planner look up one agent or one range at a time by its key:
# it cannot know how few of a session's rows are wanted, and would rather read them all.
WALK = f"""
    WITH RECURSIVE
    here AS ({HEAD}),
    walk (no, low, high, base, next_no, next) AS (
        SELECT NULL::int, 1, 0, NULL::int, %(no)s::int, coalesce(%(at)s::int, head) FROM here
        UNION
        SELECT a.no, coalesce(j.seq, a.fork_seq + 1), walk.next, j.base,
            CASE WHEN j.seq IS NULL THEN a.parent ELSE a.no END,
            CASE WHEN j.seq IS NULL THEN least(walk.next, a.fork_seq) ELSE j.base END
        FROM walk
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM backstory.agents
            WHERE session = %(session)s::uuid AND no = walk.next_no OFFSET 0) a
        LEFT JOIN LATERAL (
            SELECT e.seq, e.base FROM backstory.events e
            WHERE e.session = %(session)s::uuid AND e.agent = a.no AND e.base IS NOT NULL
                AND e.seq > a.fork_seq AND e.seq <= walk.next
            ORDER BY e.seq DESC LIMIT 1) j ON true
        WHERE walk.next > 0)
    SELECT here.head, walk.no, low, high, base, next FROM here, walk"""

LINEAGE = f"""
    WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
        SELECT no, fork_seq + 1, head, parent, fork_seq FROM backstory.agents
        WHERE {IS_AGENT}
        UNION
        SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM backstory.agents
            WHERE session = %(session)s::uuid AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0)
    SELECT no, low, high, NULL, fork_seq FROM line"""

# Times never run backwards in a lineage: find the agent that wrote at that time, then halve.
POSITION_AT = """
    WITH RECURSIVE
    line (no, parent, fork_seq, high, created_at) AS (
        SELECT no, parent, fork_seq, head, created_at FROM backstory.agents
        WHERE session = %(session)s::uuid AND no = %(no)s
        UNION
        SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq, created_at FROM backstory.agents
            WHERE session = %(session)s::uuid AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0 AND line.created_at > %(moment)s),
    halves (no, low, high) AS (
        SELECT no, fork_seq, high FROM line WHERE created_at <= %(moment)s
        UNION
        SELECT h.no,
            CASE WHEN e.created_at <= %(moment)s THEN (h.low + h.high + 1) / 2 ELSE h.low END,
            CASE WHEN e.created_at <= %(moment)s THEN h.high ELSE (h.low + h.high + 1) / 2 - 1 END
        FROM halves h
        LEFT JOIN backstory.events e ON e.session = %(session)s::uuid AND e.agent = h.no
            AND e.seq = (h.low + h.high + 1) / 2
        WHERE h.low < h.high)
    SELECT low FROM halves WHERE low = high"""

READ = f"""
    SELECT e.* FROM ROWS FROM (
        pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
        pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)
    CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM backstory.events
        WHERE session = %(session)s::uuid AND agent = p.no AND seq BETWEEN p.low AND p.high
        OFFSET 0) e"""
MARKS = READ.replace("p.high\n", "p.high AND kind = 'mark'\n")
NOTES = READ.replace("p.high\n", "p.high AND kind = 'note'\n")
NAMED_NOTES = READ.replace("p.high\n", "p.high AND kind = 'note' AND content = %(name)s::text\n")
OUTLINE = READ.replace(
    COLUMNS,
    "seq, kind, coalesce(pg_catalog.octet_length(content), 0) + "
    "coalesce(pg_catalog.octet_length(data), 0), created_at, base",
)
LAST_NOTE = (
    READ.replace("p.high\n", "p.high AND kind = 'note' AND content = %(name)s::text\n").replace(
        "OFFSET 0", "ORDER BY seq DESC LIMIT 1"
    )
    + " ORDER BY e.seq DESC LIMIT 1"
)
KEYED = READ.replace("p.high\n", "p.high AND key = ANY(%(keys)s::text[])\n")
PLACES = KEYED.replace(COLUMNS, "key, seq")
FOUND = """
    SELECT a.id::text, e.seq FROM backstory.events e
    JOIN backstory.agents a ON a.session = e.session AND a.no = e.agent
    WHERE e.key = %(key)s ORDER BY a.created_at, e.seq"""

STORED = f"""
    SELECT {COLUMNS}, base, digest FROM backstory.events
    WHERE session = %(session)s::uuid AND agent = %(no)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""


class PostgresRows:
    """Reads and writes over one connection."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def agents(self, wanted: Wanted) -> list[AgentRecord]:
        asked = _listing(wanted)
        return [AgentRecord(*row) for row in self.all(*asked)] if asked else []

    def head(self, agent: AgentRecord) -> int:
        return _head(self.all(HEAD, of(agent)), agent)

    def hold(self, agent: AgentRecord) -> int:
        """Within a transaction: keep others from writing to the agent until it ends."""
        return _head(self.all(HOLD, of(agent)), agent)

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        steps = self.all(WALK, {**of(agent), "at": at})
        if not steps:
            raise lost(agent)
        pieces = pieces_of([step[1:] for step in steps], agent)
        return Walk(steps[0][0], live(pieces))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        steps = self.all(LINEAGE, of(agent))
        if not steps:
            raise lost(agent)
        return pieces_of(steps, agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        found = self.all(POSITION_AT, {**of(agent), "moment": moment})
        return found[0][0] if found else 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(READ, agent, pieces)

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        rows = self.all(OUTLINE, within(agent.session, pieces)) if pieces else []
        return sorted(outline_rows(rows), key=attrgetter("seq"))

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(MARKS, agent, pieces)

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        return self._events(NOTES if name is None else NAMED_NOTES, agent, pieces, name=name)

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        return next(iter(self._events(LAST_NOTE, agent, pieces, name=name)), None)

    def keyed(self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]) -> list[Event]:
        return self._events(KEYED, agent, pieces, keys=list(keys))

    def places(self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]) -> dict[str, int]:
        bindings = {**within(agent.session, pieces), "keys": list(keys)} if pieces else {}
        return dict(self.all(PLACES, bindings)) if pieces else {}

    def found(self, key: str) -> list[tuple[str, int]]:
        return self.all(FOUND, {"key": key})

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        return stored_rows(self.all(STORED, {**of(agent), "after": after, "limit": limit}))

    def insert(self, new: NewAgent, now: int) -> int:
        """Write an agent without events and return its number."""
        if new.key is not None:
            self._db.execute(ENTER, {"id": new.id, "session": new.session})
        try:
            made = self.all(INSERT_AGENT, {**new._asdict(), "now": now})
        except psycopg.errors.ForeignKeyViolation as error:
            raise parent_lost(new) from error
        # The foreign key has waited for whoever was deleting the parent: is the event still there?
        if not made or (new.fork_seq and not self.all(FORKED_AT, new._asdict())):
            raise parent_lost(new)
        return int(made[0][0])

    def rename(self, agent: AgentRecord, name: str) -> None:
        if not self.all(RENAME, {**of(agent), "name": name}):
            raise lost(agent)

    def about(self, agent: AgentRecord) -> str | None:
        """What is kept beside an agent, held until the transaction ends."""
        for (about,) in self.all(ABOUT, of(agent)):
            return None if about is None else str(about)
        raise lost(agent)

    def describe(self, agent: AgentRecord, about: str | None) -> None:
        self._db.execute(DESCRIBE, {**of(agent), "about": about})

    def append(self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int) -> list[Event]:
        first, *more = batches(events)
        if not more:
            placed = self._append(agent, first, expected, now)
        else:
            with self._db.transaction():
                placed = self._append(agent, first, expected, now)
                for batch in more if placed else ():
                    self._append(agent, batch, None, now)
        if placed is None:
            raise Conflict.at(agent.name, expected or 0, self.head(agent))
        before, at = placed
        return [draft.at(seq, at) for seq, (draft, _) in enumerate(events, before + 1)]

    def _append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> tuple[int, int] | None:
        """The head before and the time written, or None where the head is not the expected one."""
        columns = [(*draft, base) for draft, base in events]
        one = len(events) == 1
        new = columns[0] if one else map(list, zip(*columns, strict=True))
        bindings = dict(zip(("kind", "content", "data", "key", "base"), new, strict=True))
        call = APPEND_ONE if one else APPEND_MANY
        [(before, at)] = self.all(call, {**of(agent), **bindings, "expected": expected, "now": now})
        return None if before is None else (before, at)

    def _events(self, sql: str, agent: AgentRecord, pieces: Sequence[Piece], **more: Any) -> list[Event]:
        if not pieces:
            return []
        rows = self.all(sql, {**within(agent.session, pieces), **more})
        # Sorted here, where it costs one pass over a list that is nearly always in order.
        return sorted(from_rows(rows), key=attrgetter("seq"))

    def all(self, sql: str, bindings: dict[str, Any]) -> list[Any]:
        """Run a statement and fetch what it returns."""
        return self._db.execute(sql, bindings, binary=True).fetchall()


def batches(events: BasedDrafts) -> list[BasedDrafts]:
    """The same events in portions that fit into one call. Raises Invalid for one that never will."""
    found: list[BasedDrafts] = []
    start = size = 0
    for place, (draft, _) in enumerate(events):
        bytes = size_of(draft.content, draft.data_json)
        if place > start and (size + bytes > LARGEST_BATCH or place - start == BATCH):
            found.append(events[start:place])
            start, size = place, 0
        size += bytes
    return [*found, events[start:]]


def size_of(content: str | None, data_json: str | None) -> int:
    """About the bytes that an event takes, and exactly where it may matter. Raises Invalid where it is too
    large."""
    texts = [text for text in (content, data_json) if text]
    size = sum(map(len, texts))
    if size * 4 <= LARGEST_EVENT:  # a character is four bytes at most
        return size
    size = sum(len(text.encode()) for text in texts)
    if size > LARGEST_EVENT:
        raise Invalid(
            f"an event of {size:,} bytes is too large for PostgreSQL, which takes {LARGEST_EVENT:,}",
            remedy="keep what is larger in a file, and its path in the event",
        )
    return size


def _listing(wanted: Wanted) -> tuple[str, dict[str, Any]] | None:
    """The statement for a listing: the planner sees what is asked, and no `… IS NULL OR …` around it.
    None where no id can be meant."""
    low, high = id_range(wanted.prefix or "")
    if (wanted.prefix and low is None) or not is_uuid(wanted.session):
        return None
    asked = {**wanted._asdict(), "low": low, "high": high}
    given = {name: asked[name] for name in CONDITIONS if asked[name] not in (None, False)}
    conditions = [CONDITIONS[name] for name in given]
    if not wanted.deleted and not wanted.roots:
        conditions.append("a.deleted IS NULL")
    if wanted.after is not None:
        conditions.append(AFTER_LATEST if wanted.latest_first else AFTER_BIRTH)
        last = wanted.after
        given |= {"after_us": last.updated_us, "after_born": last.created_us, "after_id": last.id}
    sql = AGENTS.format(
        conditions=" AND ".join(conditions), order=LATEST_FIRST if wanted.latest_first else BIRTH
    )
    if wanted.limit is not None:
        sql, given = f"{sql} LIMIT %(limit)s", given | {"limit": wanted.limit}
    return sql, given


def of(agent: AgentRecord) -> dict[str, Any]:
    """What names an agent in a statement."""
    return {"session": agent.session, "no": agent.pk, "born": agent.created_us}


def within(session: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    """What names pieces in a statement."""
    owners, lows, highs, _ = map(list, zip(*pieces, strict=True))
    return {"session": session, "nos": owners, "lows": lows, "highs": highs}


def _head(found: list[tuple[Any, ...]], agent: AgentRecord) -> int:
    if not found:
        raise lost(agent)
    return int(found[0][0])


def id_range(prefix: str) -> tuple[str | None, str | None]:
    """The first and last id that begin like this; None where no id can."""
    digits = prefix.replace("-", "")
    low = digits.ljust(32, "0")
    if not prefix or not is_uuid(low) or not _dashed(low).startswith(prefix):
        return None, None
    return low, digits.ljust(32, "f")


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_uuid(text: str | None) -> bool:
    """Whether PostgreSQL would take this as a uuid (or as none at all)."""
    digits = "0" if text is None else text.replace("-", "")
    return set(digits) <= set("0123456789abcdef") and len(digits) in (1, 32)
