"""The server backend: PostgreSQL 14 or newer, through psycopg and its pool.

Every table's key begins with the session, and every statement that a conversation runs on
names one session, so that the tables can be spread over many servers by it (see Citus below).
An append is one statement. Not here: any meaning of an event beyond its base and whether it is
a mark.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from backstory.core.events import Event, from_rows
from backstory.core.terms import Query
from backstory.errors import (
    CannotOpen,
    Conflict,
    ConnectionLost,
    NameTaken,
    StorageError,
)
from backstory.storage.postgres import index as postgres_index
from backstory.storage.postgres.intake import PostgresIntake
from backstory.storage.postgres.server import (
    HAS_CITUS,
    ONE_MIGRATES,
    PATIENCE,
    Clash,
    Connection,
    check_if_silent,
    conninfo,
    migrate,
    translation,
    without_password,
)
from backstory.storage.protocols import (
    AgentRecord,
    Census,
    Found,
    NewAgent,
    Piece,
    Settled,
    Walk,
    asking_for,
    live,
    lost,
    pieces_of,
)

MOST_CONNECTIONS = 32
BATCH = 5_000  # events in one statement; a larger append is several, in one transaction

AGENTS = """
    SELECT a.no, a.id, a.session, a.name, p.id::text, a.fork_seq, a.born_seq, a.spawned,
        a.created_at, a.head, a.updated_at
    FROM agents a LEFT JOIN agents p ON p.session = a.session AND p.no = a.parent
    WHERE {conditions}
    ORDER BY a.created_at, a.id"""
AGENT_CONDITIONS = {
    "low": "a.id >= %(low)s::uuid",
    "high": "a.id <= %(high)s::uuid",
    "session": "a.session = %(session)s::uuid",
    "name": "a.name = %(name)s::text",
}

INSERT_AGENT = """
    INSERT INTO agents
    SELECT %(session)s::uuid,
        (SELECT coalesce(max(no), 0) + 1 FROM agents WHERE session = %(session)s::uuid),
        %(id)s::uuid, %(name)s, %(parent_key)s, %(fork_seq)s::int, %(born_seq)s, %(spawned)s,
        since.at, %(fork_seq)s::int, since.at
    FROM (SELECT greatest(%(now)s::bigint, (
            SELECT created_at FROM events
            WHERE session = %(session)s::uuid AND agent = %(parent_key)s::int
                AND seq = %(fork_seq)s::int)) AS at) since
    RETURNING no"""

RENAME = "UPDATE agents SET name = %(name)s WHERE session = %(session)s::uuid AND no = %(no)s"
HEAD = "SELECT head FROM agents WHERE session = %(session)s::uuid AND no = %(no)s"

# The row of the agent is the lock: writers queue at the UPDATE, and each sees the head that the
# one before it left. Most appends are of one event: arrays, and a third part of the statement,
# would cost those half as much again.
MOVE = """
    WITH moved AS (
        UPDATE agents SET head = head + {count}, updated_at = greatest(updated_at, %(now)s)
        WHERE session = %(session)s::uuid AND no = %(no)s
            AND (%(expected)s::int IS NULL OR head = %(expected)s::int)
        RETURNING head - {count} AS before, updated_at)"""
INSERT = "INSERT INTO events (session, agent, created_at, seq, kind, content, data, base)"
APPEND_ONE = f"""{MOVE.format(count="1")}
    {INSERT}
    SELECT %(session)s::uuid, %(no)s, updated_at, before + 1,
        %(kind)s::text, %(content)s::text, %(data)s::text, %(base)s::int
    FROM moved
    RETURNING seq - 1, created_at"""
APPEND_MANY = f"""{MOVE.format(count="cardinality(%(kind)s::text[])")},
    written AS (
        {INSERT}
        SELECT %(session)s::uuid, %(no)s, updated_at, before + nth, kind, content, data, base
        FROM moved, unnest(%(kind)s::text[], %(content)s::text[], %(data)s::text[], %(base)s::int[])
            WITH ORDINALITY AS new (kind, content, data, base, nth))
    SELECT before, updated_at FROM moved"""

# From each step go to the newest event with a base at or below `next`: what lies between is
# live, and the walk goes on from the base; without one, it goes on in the parent. UNION drops
# a step that was taken before, so a damaged store ends the walk instead of running for ever.
# OFFSET 0, here and below, makes the planner look up one agent or one range at a time by its key:
# it cannot know how few of a session's rows are wanted, and would rather read them all.
WALK = """
    WITH RECURSIVE
    here AS (SELECT head FROM agents WHERE session = %(session)s::uuid AND no = %(no)s),
    walk (no, low, high, base, next_no, next) AS (
        SELECT NULL::int, 1, 0, NULL::int, %(no)s::int, coalesce(%(at)s::int, head) FROM here
        UNION
        SELECT a.no, coalesce(j.seq, a.fork_seq + 1), walk.next, j.base,
            CASE WHEN j.seq IS NULL THEN a.parent ELSE a.no END,
            CASE WHEN j.seq IS NULL THEN least(walk.next, a.fork_seq) ELSE j.base END
        FROM walk
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM agents
            WHERE session = %(session)s::uuid AND no = walk.next_no OFFSET 0) a
        LEFT JOIN LATERAL (
            SELECT e.seq, e.base FROM events e
            WHERE e.session = %(session)s::uuid AND e.agent = a.no AND e.base IS NOT NULL
                AND e.seq > a.fork_seq AND e.seq <= walk.next
            ORDER BY e.seq DESC LIMIT 1) j ON true
        WHERE walk.next > 0)
    SELECT here.head, walk.no, low, high, base, next FROM here, walk"""

LINEAGE = """
    WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
        SELECT no, fork_seq + 1, head, parent, fork_seq FROM agents
        WHERE session = %(session)s::uuid AND no = %(no)s
        UNION
        SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM agents
            WHERE session = %(session)s::uuid AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0)
    SELECT no, low, high, NULL, fork_seq FROM line"""

# Times never run backwards in a lineage: find the agent that wrote at that time, then halve.
POSITION_AT = """
    WITH RECURSIVE
    line (no, parent, fork_seq, high, created_at) AS (
        SELECT no, parent, fork_seq, head, created_at FROM agents
        WHERE session = %(session)s::uuid AND no = %(no)s
        UNION
        SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq, created_at FROM agents
            WHERE session = %(session)s::uuid AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0 AND line.created_at > %(moment)s),
    halves (no, low, high) AS (
        SELECT no, fork_seq, high FROM line WHERE created_at <= %(moment)s
        UNION
        SELECT h.no,
            CASE WHEN e.created_at <= %(moment)s THEN (h.low + h.high + 1) / 2 ELSE h.low END,
            CASE WHEN e.created_at <= %(moment)s THEN h.high ELSE (h.low + h.high + 1) / 2 - 1 END
        FROM halves h
        LEFT JOIN events e ON e.session = %(session)s::uuid AND e.agent = h.no
            AND e.seq = (h.low + h.high + 1) / 2
        WHERE h.low < h.high)
    SELECT low FROM halves WHERE low = high"""

READ = """
    SELECT e.* FROM unnest(%(nos)s::int[], %(lows)s::int[], %(highs)s::int[]) AS p (no, low, high)
    CROSS JOIN LATERAL (
        SELECT seq, kind, content, data, created_at FROM events
        WHERE session = %(session)s::uuid AND agent = p.no AND seq BETWEEN p.low AND p.high
        OFFSET 0) e"""
MARKS = READ.replace("p.high\n", "p.high AND kind = 'mark'\n")

STORED = """
    SELECT seq, kind, content, data, created_at, base FROM events
    WHERE session = %(session)s::uuid AND agent = %(no)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""
CENSUS = """
    SELECT e.kind, count(*), count(e.base),
        sum(octet_length(coalesce(e.content, '')) + octet_length(coalesce(e.data, '')))
    FROM unnest(%(nos)s::int[], %(lows)s::int[], %(highs)s::int[]) AS p (no, low, high)
    CROSS JOIN LATERAL (
        SELECT kind, base, content, data FROM events
        WHERE session = %(session)s::uuid AND agent = p.no AND seq BETWEEN p.low AND p.high
        OFFSET 0) e
    GROUP BY e.kind"""
SIZE = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'm')"""
STRAYS = """
    SELECT count(*), min('number ' || e.agent || ' of session ' || e.session::text) FROM events e
    WHERE NOT EXISTS (SELECT 1 FROM agents a WHERE a.session = e.session AND a.no = e.agent)"""


class PostgresBackend:
    """A store in the schema `backstory` of a PostgreSQL database. Its keys are the agents' numbers
    in their session."""

    def __init__(self, url: str) -> None:
        try:
            self.url = without_password(url)
            self._conninfo = conninfo(url)
        except (psycopg.Error, ValueError):  # whose messages may repeat a password
            raise CannotOpen(
                "this is not a PostgreSQL address",
                remedy="write postgresql://user:password@host:port/database, with special characters "
                "percent-encoded",
            ) from None
        self._pool = self._opened_pool()
        self._pid = os.getpid()
        self._closed = False

    def _opened_pool(self) -> "ConnectionPool[Connection]":
        with self._translated(CannotOpen):
            # A connection of our own first: the pool would say only that time ran out.
            with psycopg.connect(self._conninfo, autocommit=True) as db:
                migrate(db, self.url)
            return ConnectionPool(
                self._conninfo,
                min_size=1,
                max_size=MOST_CONNECTIONS,
                kwargs={"autocommit": True},
                timeout=PATIENCE,
                check=check_if_silent,
                open=True,
            )

    def create(self, new: NewAgent, events: Settled, now: int) -> AgentRecord:
        while True:
            try:
                with self._connection() as db, db.transaction():
                    bindings = {**new._asdict(), "now": now}
                    [(no,)] = db.execute(INSERT_AGENT, bindings).fetchall()
                    if events:
                        _append(db, {"session": new.session, "no": no}, events, None, now)
            except Clash:
                if self.agents(session=new.session, name=new.name):
                    raise NameTaken.of(new.name) from None
                continue  # someone else made an agent in this session at the same time: next number
            [record] = self.agents(prefix=new.id, session=new.session)
            return record

    def rename(self, agent: AgentRecord, name: str) -> None:
        try:
            self._query(RENAME, {**_of(agent), "name": name})
        except Clash:
            raise NameTaken.of(name) from None

    def agents(
        self, *, prefix: str = "", session: str | None = None, name: str | None = None
    ) -> list[AgentRecord]:
        low, high = _id_range(prefix)
        if (prefix and low is None) or not _is_uuid(session):
            return []
        wanted = {"low": low, "high": high, "session": session, "name": name}
        rows = self._query(*asking_for(AGENTS, AGENT_CONDITIONS, **wanted))
        return [AgentRecord(no, str(id), str(session), *rest) for no, id, session, *rest in rows]

    def head(self, agent: AgentRecord) -> int:
        return _head(self._query(HEAD, _of(agent)), agent)

    def append(self, agent: AgentRecord, events: Settled, expected: int | None, now: int) -> list[Event]:
        with self._connection() as db:
            if len(events) <= BATCH:
                placed = _append(db, _of(agent), events, expected, now)
            else:
                with db.transaction():
                    placed = _append(db, _of(agent), events[:BATCH], expected, now)
                    for start in range(BATCH, len(events) if placed else 0, BATCH):
                        _append(db, _of(agent), events[start : start + BATCH], None, now)
            if placed is None:
                head = _head(db.execute(HEAD, _of(agent)).fetchall(), agent)
                raise Conflict.at(agent.name, expected or 0, head)
            before, at = placed
        return from_rows((seq, *draft, at) for seq, (draft, _) in enumerate(events, before + 1))

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        steps = self._query(WALK, {**_of(agent), "at": at})
        pieces = pieces_of([step[1:] for step in steps], agent)
        return Walk(steps[0][0], live(pieces))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        return pieces_of(self._query(LINEAGE, _of(agent)), agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        found = self._query(POSITION_AT, {**_of(agent), "moment": moment})
        return found[0][0] if found else 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(READ, agent, pieces)

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(MARKS, agent, pieces)

    def _events(self, sql: str, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        if not pieces:
            return []
        rows = self._query(sql, _within(agent.session, pieces))
        # Sorted here, where it costs one pass over a list that is nearly always in order.
        return sorted(from_rows(rows), key=itemgetter(0))

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        return self._query(STORED, {**_of(agent), "after": after, "limit": limit})

    def damage(self) -> list[str]:
        [(strays, where)] = self._query(STRAYS, {})
        return [f"{strays} events belong to agents that do not exist, first {where}"] if strays else []

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        rows = self._query(CENSUS, _within(agent.session, pieces)) if pieces else []
        return [Census(kind, events, moves, int(bytes)) for kind, events, moves, bytes in rows]

    def size(self) -> int:
        return int(self._query(SIZE, {})[0][0])

    def copy_to(self, path: str) -> bool:
        return False

    @contextmanager
    def intake(self) -> Iterator[PostgresIntake]:
        with self._connection() as db, db.transaction():
            yield PostgresIntake(db)

    def indexed(self) -> dict[str, int]:
        if self._query(postgres_index.EXISTS, {}) == [(False,)]:
            self._make_index()
        return dict(self._query(postgres_index.INDEXED, {}))

    def _make_index(self) -> None:
        with self._connection() as db, db.transaction():
            db.execute(ONE_MIGRATES)
            db.execute(postgres_index.CREATE)
            if db.execute(HAS_CITUS).fetchone():
                for statement in postgres_index.DISTRIBUTE.split(";"):
                    db.execute(statement)

    def index(self, agent: AgentRecord, after: int, texts: Sequence[tuple[int, list[str]]]) -> int:
        with self._connection() as db, db.transaction():
            return postgres_index.index(db, _of(agent), agent.fork_seq, after, texts)

    def find(
        self, query: Query, *, kinds: Sequence[str], pieces: Sequence[Piece] | None, session: str, limit: int
    ) -> list[Found]:
        with self._connection() as db:
            return postgres_index.find(db, query, kinds, pieces, session, limit)

    def close(self) -> None:
        if self._pid == os.getpid():  # a parent's connections are not a child's to close
            self._pool.close()
        self._closed = True

    def _query(self, sql: str, bindings: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Run a statement that may be run twice: a server that is restarted is waited for."""
        try:
            return self._fetched(sql, bindings)
        except ConnectionLost:
            return self._fetched(sql, bindings)

    def _fetched(self, sql: str, bindings: dict[str, Any]) -> list[tuple[Any, ...]]:
        with self._connection() as db:
            cursor = db.execute(sql, bindings, binary=True)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._closed:
            raise StorageError(f"the store {self.url!r} is closed", remedy="open it again")
        if self._pid != os.getpid():  # connections must not be shared with a parent process
            self._left_to_parent = self._pool
            self._pid, self._pool = os.getpid(), self._opened_pool()
        with self._translated(StorageError), self._pool.connection() as db:
            yield db

    @contextmanager
    def _translated(self, otherwise: type[StorageError]) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, PoolTimeout) as error:
            raise translation(error, self.url, otherwise) from error


def _append(
    db: Connection, agent: dict[str, Any], events: Settled, expected: int | None, now: int
) -> tuple[int, int] | None:
    """The head before and the time written, or None where the head is not the expected one."""
    columns = [(*draft, base) for draft, base in events]
    one = len(events) == 1
    new = columns[0] if one else map(list, zip(*columns, strict=True))
    bindings = dict(zip(("kind", "content", "data", "base"), new, strict=True), expected=expected, now=now)
    found = db.execute(APPEND_ONE if one else APPEND_MANY, {**agent, **bindings}).fetchone()
    return found and (found[0], found[1])


def _of(agent: AgentRecord) -> dict[str, Any]:
    return {"session": agent.session, "no": agent.key}


def _within(session: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    keys, lows, highs, _ = map(list, zip(*pieces, strict=True))
    return {"session": session, "nos": keys, "lows": lows, "highs": highs}


def _head(found: list[tuple[Any, ...]], agent: AgentRecord) -> int:
    if not found:
        raise lost(agent)
    return int(found[0][0])


def _id_range(prefix: str) -> tuple[str | None, str | None]:
    """The first and last id that begin like this; None where no id can."""
    digits = prefix.replace("-", "")
    low = digits.ljust(32, "0")
    if not prefix or not _is_uuid(low) or not _dashed(low).startswith(prefix):
        return None, None
    return low, digits.ljust(32, "f")


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _is_uuid(text: str | None) -> bool:
    """Whether PostgreSQL would take this as a uuid (or as none at all)."""
    digits = "0" if text is None else text.replace("-", "")
    return set(digits) <= set("0123456789abcdef") and len(digits) in (1, 32)
