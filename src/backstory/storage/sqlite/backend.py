"""The embedded backend: one SQLite file, through apsw.

The rows of one agent lie together: an event's key packs the agent's number and the position
into one integer, and the table is clustered by it. Not here: any meaning of an event beyond
its base and whether it is a mark.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from backstory.core.events import Event, from_rows
from backstory.core.terms import Query
from backstory.errors import (
    Conflict,
    NameTaken,
    StorageError,
)
from backstory.storage.fork_lock import ForkableLock
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
from backstory.storage.sqlite import index as sqlite_index
from backstory.storage.sqlite.file import connected, identity, prepared, translation
from backstory.storage.sqlite.intake import SqliteIntake

SEQ = 0xFFFFFFFF  # an event's id is its agent's number << 32 | its position

COLUMNS = "e.id & 4294967295, e.kind, e.content, e.data, e.created_at"

HEAD = """max(a.fork_seq, coalesce(
    (SELECT max(e.id) & 4294967295 FROM events e
     WHERE e.id BETWEEN a.no << 32 AND (a.no << 32) + 4294967295), 0))"""

AGENTS = f"""
    SELECT a.no, a.id, s.id, a.name, p.id, a.fork_seq, a.born_seq, a.spawned, a.created_at, {HEAD},
        coalesce((SELECT e.created_at FROM events e
                  WHERE e.id BETWEEN a.no << 32 AND (a.no << 32) + 4294967295
                  ORDER BY e.id DESC LIMIT 1), a.created_at)
    FROM agents a LEFT JOIN agents s ON s.no = a.session LEFT JOIN agents p ON p.no = a.parent
    WHERE {{conditions}}
    ORDER BY a.no"""
AGENT_CONDITIONS = {
    "prefix": "a.id BETWEEN :prefix AND :prefix || '~'",
    "session": "a.session = (SELECT no FROM agents WHERE id = :session)",
    "name": "a.name = :name",
}

INSERT_AGENT = """
    INSERT INTO agents (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at)
    SELECT n.no, :id, coalesce((SELECT no FROM agents WHERE id = :session), n.no), :name, :parent_key,
        :fork_seq, :born_seq, :spawned, max(:now, coalesce(
            (SELECT created_at FROM events WHERE id = (:parent_key << 32) + :fork_seq), 0))
    FROM (SELECT coalesce(max(no), 0) + 1 AS no FROM agents) n"""

RENAME = "UPDATE agents SET name = ? WHERE no = ?"

NEWEST = """
    SELECT id & 4294967295, created_at FROM events WHERE id BETWEEN :no << 32 AND (:no << 32) + 4294967295
    ORDER BY id DESC LIMIT 1"""
NEWEST_INHERITED = "SELECT fork_seq, created_at FROM agents WHERE no = :no"
INSERT_EVENT = "INSERT INTO events (id, kind, content, data, created_at, base) VALUES (?, ?, ?, ?, ?, ?)"

# From each step go to the newest event with a base at or below `next`: what lies between is
# live, and the walk goes on from the base; without one, it goes on in the parent. UNION drops
# a step that was taken before, so a damaged store ends the walk instead of running for ever.
WALK = f"""
    WITH RECURSIVE
    here (head) AS MATERIALIZED (SELECT {HEAD} FROM agents a WHERE a.no = :no),
    walk (no, low, high, base, next_no, next) AS (
        SELECT NULL, 1, 0, NULL, :no, coalesce(:at, head) FROM here
        UNION
        SELECT a.no, coalesce(j.seq, a.fork_seq + 1), walk.next, j.base,
            iif(j.id IS NULL, a.parent, a.no),
            iif(j.id IS NULL, min(walk.next, a.fork_seq), j.base)
        FROM walk
        JOIN agents a ON a.no = walk.next_no
        LEFT JOIN events j ON j.id = (
            SELECT e.id FROM events e INDEXED BY jumps
            WHERE e.base IS NOT NULL
                AND e.id BETWEEN (a.no << 32) + a.fork_seq + 1 AND (a.no << 32) + walk.next
            ORDER BY e.id DESC LIMIT 1)
        WHERE walk.next > 0)
    SELECT here.head, no, low, high, base, next FROM here, walk"""

LINEAGE = f"""
    WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
        SELECT a.no, a.fork_seq + 1, {HEAD}, a.parent, a.fork_seq FROM agents a WHERE a.no = :no
        UNION
        SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
        FROM line JOIN agents a ON a.no = line.parent WHERE line.fork_seq > 0)
    SELECT no, low, high, NULL, fork_seq FROM line"""

# Times never run backwards in a lineage: find the agent that wrote at that time, then halve.
POSITION_AT = f"""
    WITH RECURSIVE
    line (no, parent, fork_seq, high, created_at) AS (
        SELECT a.no, a.parent, a.fork_seq, {HEAD}, a.created_at FROM agents a WHERE a.no = :no
        UNION
        SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at
        FROM line JOIN agents a ON a.no = line.parent
        WHERE line.fork_seq > 0 AND line.created_at > :moment),
    halves (no, low, high) AS (
        SELECT no, fork_seq, high FROM line WHERE created_at <= :moment
        UNION
        SELECT h.no,
            iif(e.created_at <= :moment, (h.low + h.high + 1) / 2, h.low),
            iif(e.created_at <= :moment, h.high, (h.low + h.high + 1) / 2 - 1)
        FROM halves h LEFT JOIN events e ON e.id = (h.no << 32) + (h.low + h.high + 1) / 2
        WHERE h.low < h.high)
    SELECT low FROM halves WHERE low = high"""

# CROSS JOIN keeps the order of the pieces.
READ = f"""
    SELECT {COLUMNS} FROM json_each(?) p CROSS JOIN events e
    WHERE e.id BETWEEN json_extract(p.value, '$[0]') AND json_extract(p.value, '$[1]')"""
MARKS = READ.replace("events e", "events e INDEXED BY marks") + " AND e.kind = 'mark'"

STORED = f"SELECT {COLUMNS}, e.base FROM events e WHERE e.id BETWEEN ? AND ? ORDER BY e.id LIMIT ?"
CENSUS = (
    READ.replace(
        COLUMNS,
        "e.kind, count(*), count(e.base), sum(octet_length(coalesce(e.content, '')) + "
        "octet_length(coalesce(e.data, '')))",
    )
    + " GROUP BY e.kind"
)
SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
STRAYS = "SELECT count(*), min(agent) FROM events WHERE agent NOT IN (SELECT no FROM agents)"


class SqliteBackend:
    """A store in one SQLite file. Its keys are the agents' numbers.

    Threads borrow connections from a small pool; writers of one process queue at a lock, those
    of several processes at SQLite's own.
    """

    def __init__(self, path: str) -> None:
        self.url = os.path.abspath(path)  # the program may change its directory
        self._writing = ForkableLock()
        self._free: list[apsw.Connection] = []
        self._left_to_parent: list[apsw.Connection] = []
        self._pid = os.getpid()
        self._closed = False
        with self._translated():
            self._free.append(prepared(self.url))
        self._file = identity(self.url)

    def create(self, new: NewAgent, events: Settled, now: int) -> AgentRecord:
        with self._write() as db:
            try:
                db.execute(INSERT_AGENT, {**new._asdict(), "now": now})
            except apsw.ConstraintError as error:
                if "agents.name" in str(error):
                    raise NameTaken.of(new.name) from error
                raise
            [record] = _agents(db, prefix=new.id)
            if events:
                _append(db, record, events, None, now)
            return record._replace(head=record.head + len(events))

    def rename(self, agent: AgentRecord, name: str) -> None:
        with self._write() as db:
            try:
                db.execute(RENAME, (name, agent.key))
            except apsw.ConstraintError as error:
                raise NameTaken.of(name) from error

    def agents(
        self, *, prefix: str = "", session: str | None = None, name: str | None = None
    ) -> list[AgentRecord]:
        with self._connection() as db:
            return _agents(db, prefix=prefix, session=session, name=name)

    def head(self, agent: AgentRecord) -> int:
        with self._connection() as db:
            head, _ = _newest(db, agent)
            return head

    def append(self, agent: AgentRecord, events: Settled, expected: int | None, now: int) -> list[Event]:
        with self._write() as db:
            return _append(db, agent, events, expected, now)

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        steps = self._query(WALK, {"no": agent.key, "at": at})
        pieces = pieces_of([step[1:] for step in steps], agent)
        return Walk(steps[0][0], live(pieces))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        return pieces_of(self._query(LINEAGE, {"no": agent.key}), agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        found = self._query(POSITION_AT, {"no": agent.key, "moment": moment})
        return found[0][0] if found else 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(READ, pieces)

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(MARKS, pieces)

    def _events(self, sql: str, pieces: Sequence[Piece]) -> list[Event]:
        with self._connection() as db:
            # Straight from the cursor: no second list of plain rows beside the events.
            return from_rows(db.execute(sql, (_ids(pieces),)))

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        with self._connection() as db:
            return _stored(db, agent, after, limit)

    def damage(self) -> list[str]:
        found = [text for (text,) in self._query("PRAGMA integrity_check", ()) if text != "ok"]
        [(strays, agent)] = self._query(STRAYS, ())
        if strays:
            found.append(f"{strays} events belong to agents that do not exist, first number {agent}")
        return found

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        return [Census(*row) for row in self._query(CENSUS, (_ids(pieces),))]

    def size(self) -> int:
        return int(self._query(SIZE, ())[0][0])

    def copy_to(self, path: str) -> bool:
        """All pages in one step: a read transaction, so that writers go on meanwhile."""
        with self._connection() as db:
            copy = apsw.Connection(path)
            try:
                with copy.backup("main", db, "main") as backup:
                    backup.step(-1)
            finally:
                copy.close()
        return True

    @contextmanager
    def intake(self) -> Iterator[SqliteIntake]:
        with self._write() as db:
            yield SqliteIntake(db, _agents, _stored)

    def indexed(self) -> dict[str, int]:
        with self._connection() as db:
            made = sqlite_index.exists(db)
        if not made:
            with self._write() as db:
                db.execute(sqlite_index.CREATE)
        with self._connection() as db:
            return sqlite_index.indexed(db)

    def index(self, agent: AgentRecord, after: int, texts: Sequence[tuple[int, list[str]]]) -> int:
        with self._write() as db:
            return sqlite_index.index(db, agent.key, agent.fork_seq, after, texts)

    def find(
        self, query: Query, *, kinds: Sequence[str], pieces: Sequence[Piece] | None, session: str, limit: int
    ) -> list[Found]:
        with self._connection() as db:
            ranges = None if pieces is None else _ids(pieces)
            return sqlite_index.find(db, query, kinds, ranges, limit)

    def close(self) -> None:
        self._closed = True
        while self._free and self._pid == os.getpid():
            self._free.pop().close()

    def _query(self, sql: str, bindings: Any) -> list[Any]:
        with self._connection() as db:
            return _all(db, sql, bindings)

    @contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        """A write transaction: all of the block, durably, or nothing."""
        with self._writing, self._connection() as db:
            if identity(self.url) != self._file:
                raise StorageError(
                    f"{self.url!r} was moved or deleted while it was open", remedy="open it again"
                )
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        """A connection for this thread, for as long as the block runs."""
        if self._closed:
            raise StorageError(f"the store {self.url!r} is closed", remedy="open it again")
        if self._pid != os.getpid():
            self._start_again_after_fork()
        with self._translated():
            try:
                db = self._free.pop()
            except IndexError:
                db = connected(self.url, apsw.SQLITE_OPEN_READWRITE)
            try:
                yield db
            finally:
                if self._closed or db.in_transaction:
                    db.close()
                else:
                    self._free.append(db)

    def _start_again_after_fork(self) -> None:
        """SQLite's connections must not cross a fork, not even to be closed: keep the parent's
        where they are, and open new ones."""
        self._pid = os.getpid()
        self._left_to_parent += self._free
        self._free = []

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise translation(error, self.url) from error


def _all(db: apsw.Connection, sql: str, bindings: Any = ()) -> list[Any]:
    return db.execute(sql, bindings).fetchall()


def _agents(
    db: apsw.Connection, *, prefix: str = "", session: str | None = None, name: str | None = None
) -> list[AgentRecord]:
    sql, bindings = asking_for(AGENTS, AGENT_CONDITIONS, prefix=prefix or None, session=session, name=name)
    rows = _all(db, sql, bindings)
    return [AgentRecord(*row)._replace(spawned=bool(row[7])) for row in rows]


def _stored(db: apsw.Connection, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
    first = (agent.key << 32) + after + 1
    return _all(db, STORED, (first, (agent.key << 32) + SEQ, limit))


def _newest(db: apsw.Connection, agent: AgentRecord) -> tuple[int, int]:
    """The agent's head and the time that new events must not be before."""
    for sql in (NEWEST, NEWEST_INHERITED):
        for head, created_at in _all(db, sql, {"no": agent.key}):
            return head, created_at
    raise lost(agent)


def _append(
    db: apsw.Connection, agent: AgentRecord, events: Settled, expected: int | None, now: int
) -> list[Event]:
    head, newest = _newest(db, agent)
    if expected is not None and expected != head:
        raise Conflict.at(agent.name, expected, head)
    now = max(now, newest)
    first_id = (agent.key << 32) + head + 1
    db.executemany(
        INSERT_EVENT, ((id, *draft, now, base) for id, (draft, base) in enumerate(events, first_id))
    )
    return from_rows((seq, *draft, now) for seq, (draft, _) in enumerate(events, head + 1))


def _ids(pieces: Sequence[Piece]) -> str:
    """The ranges of event ids in these pieces, as JSON."""
    ranges = (f"[{(key << 32) + low},{(key << 32) + high}]" for key, low, high, _ in pieces)
    return f"[{','.join(ranges)}]"
