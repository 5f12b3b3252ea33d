"""The rows of an SQLite store: the statements that read and write agents and events, over one connection.

The events of one agent are stored together: an event's id combines the agent's number and the position in one
integer, and the table is clustered by it. Of an event's meaning, this module knows only its base, its key,
and whether it is a mark or a note.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from backstory.errors import Conflict, KeyTaken, NameTaken
from backstory.log.chain import START, digest_of
from backstory.log.events import (
    Columns,
    Event,
    Stored,
    TextAndData,
    columns_in,
    from_rows,
    stored_rows,
)
from backstory.log.gc_pause import pause_gc
from backstory.log.kinds import SPOKEN
from backstory.log.outline import DataRow, OutlineRow, outline_rows
from backstory.storage.protocols import (
    AgentRecord,
    BasedDrafts,
    NewAgent,
    Piece,
    Walk,
    Wanted,
    lost,
    parent_lost,
)
from backstory.storage.sqlite.frames import CONTENT, CONTENT_LEFT, DATA, DATA_LEFT, SIZE
from backstory.storage.sqlite.lineages import HEAD, JUMPS, LINEAGE, POSITION_AT, WALK
from backstory.storage.sqlite.newest import Newest
from backstory.storage.walks import pieces_of, walked

SEQ = 0xFFFFFFFF  # an event's id is its agent's number << 32 | its position
SECOND = 1_000_000  # microseconds

COLUMNS = f"e.id & 4294967295, e.kind, {CONTENT}, {DATA}, e.created_at, e.key"
UPDATED = """coalesce(
    (SELECT e.created_at FROM events e WHERE e.id BETWEEN a.no << 32 AND (a.no << 32) + 4294967295
     ORDER BY e.id DESC LIMIT 1), a.created_at)"""

AGENTS = f"""
    SELECT a.no, a.id, s.id, a.name, p.id, a.fork_seq, a.born_seq, a.spawned, a.created_at, {HEAD},
        {UPDATED} AS updated, a.key, a.about, a.deleted
    FROM agents a {{index}} LEFT JOIN agents s ON s.no = a.session LEFT JOIN agents p ON p.no = a.parent
    WHERE {{conditions}}
    ORDER BY {{order}}"""
# Greater than all keys with the prefix: no key has a thousand characters after it.
AFTER_PREFIX = ":key_prefix || printf('%.1000c', char(1114111))"
CONDITIONS = {
    "prefix": "a.id BETWEEN :prefix AND :prefix || '~'",
    "session": "a.session = (SELECT no FROM agents WHERE id = :session)",
    "sessions": """a.session IN (
        SELECT no FROM agents WHERE id IN (SELECT value FROM json_each(:sessions)))""",
    "name": "a.name = :name",
    "key": "a.key = :key",
    "key_prefix": f"a.key >= :key_prefix AND a.key < {AFTER_PREFIX}",
    "title": "a.about IS NOT NULL AND a.about ->> '$.title' = :title",
    # SQLite folds the case of ASCII only. Any other letter may match a letter of the word, with an accent.
    "telling": """a.about IS NOT NULL
        AND (instr(lower(a.about), :telling) OR length(a.about) < octet_length(a.about))""",
    "roots": """a.parent IS NULL AND a.name <> '/' AND (a.deleted IS NULL OR EXISTS (
        SELECT 1 FROM agents o WHERE o.session = a.no AND o.deleted IS NULL))""",
    "deleted": "a.name <> '/'",
    "since_us": f"a.touched >= :since_us / {SECOND} AND updated >= :since_us",
    "until_us": f"a.touched <= :until_us / {SECOND} AND updated < :until_us",
}
# Conditions that usually match few agents.
SELECTIVE = {"prefix", "session", "sessions", "name", "key", "key_prefix", "title"}
COMMON = 1_000  # agents with the same key prefix; from there on, a page is read in order instead
PREFIXED = f"""
    SELECT count(*) FROM (SELECT 1 FROM agents a INDEXED BY agents_key
        WHERE a.key >= :key_prefix AND a.key < {AFTER_PREFIX} LIMIT :most)"""
# `touched` is `updated` in seconds. Only `touched` has an index, so at most one second is sorted.
LATEST_FIRST = "a.touched DESC, updated DESC, a.no DESC"
AFTER_LATEST = f"a.touched <= :after_us / {SECOND} AND (updated, a.no) < (:after_us, :after_no)"

# A fork is never older than the event at its fork position.
INSERT_AGENT = """
    INSERT INTO agents
        (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at, key, about, touched, deleted)
    SELECT n.no, :id, coalesce((SELECT no FROM agents WHERE id = :session), n.no), :name, :parent_pk,
        :fork_seq, :born_seq, :spawned, max(:created_us, coalesce(n.forked_at, 0)), :key, :about,
        max(:created_us, coalesce(n.forked_at, 0)) / 1000000, :deleted_us
    FROM (SELECT coalesce(max(no), 0) + 1 AS no,
            (SELECT created_at FROM events WHERE id = (:parent_pk << 32) + :fork_seq) AS forked_at
        FROM agents) n
    WHERE :fork_seq = 0 OR n.forked_at IS NOT NULL"""

RENAME = "UPDATE agents SET name = ? WHERE no = ?"
TOUCH = "UPDATE agents SET touched = ? WHERE no = ?"
ABOUT = "SELECT about FROM agents WHERE no = ? AND deleted IS NULL"
DESCRIBE = "UPDATE agents SET about = ? WHERE no = ?"

NEWEST = """
    SELECT id & 4294967295, created_at, digest FROM events
    WHERE id BETWEEN :no << 32 AND (:no << 32) + 4294967295
        AND EXISTS (SELECT 1 FROM agents WHERE no = :no AND deleted IS NULL)
    ORDER BY id DESC LIMIT 1"""
NEWEST_INHERITED = """
    SELECT fork_seq, created_at, (SELECT digest FROM events WHERE id = (a.parent << 32) + a.fork_seq)
    FROM agents a WHERE no = :no AND deleted IS NULL"""
INSERT_EVENT = """
    INSERT INTO events (id, kind, content, data, created_at, key, base, digest)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

# CROSS JOIN keeps the order of the pieces. They are passed as one object, {"first id": last id, …}, because
# json_each's own columns cost a third of what json_extract would.
READ = f"""
    SELECT {COLUMNS} FROM json_each(?) p CROSS JOIN events e
    WHERE e.id BETWEEN CAST(p.key AS INTEGER) AND p.value"""
READ_COLUMNS = READ.replace(COLUMNS, f"e.id & 4294967295, e.kind, {CONTENT}, {DATA}")
# If the agent was deleted after its pieces were looked up, return nothing, not even what it inherited.
IS_THERE = " AND EXISTS (SELECT 1 FROM agents WHERE no = ? AND deleted IS NULL)"
SAID = READ + f" AND (e.kind <> 'note' OR e.content IN (SELECT value FROM json_each(?))) {IS_THERE}"
SPOKEN_KINDS = ", ".join(f"'{kind}'" for kind in sorted(SPOKEN | {"note"}))
TEXTS = SAID.replace(COLUMNS, f"{CONTENT}, {DATA}") + f" AND e.kind IN ({SPOKEN_KINDS})"
MARKS = READ.replace("events e", "events e INDEXED BY marks") + " AND e.kind = 'mark'"
NOTES = READ.replace("events e", "events e INDEXED BY notes") + " AND e.kind = 'note'"
OUTLINE = READ.replace(COLUMNS, f"e.id & 4294967295, e.kind, {SIZE}, e.created_at, e.base")
DATA_OF = READ.replace(COLUMNS, f"e.id & 4294967295, e.kind, {DATA}") + (
    " AND e.kind IN (SELECT value FROM json_each(?))"
)
CENSUS = READ.replace(COLUMNS, f"e.kind, count(*), count(e.base), sum({SIZE})") + " GROUP BY e.kind"
LAST_NOTE = f"""
    SELECT {COLUMNS} FROM events e WHERE e.id = (
        SELECT found.id FROM (
            SELECT (
                SELECT max(n.id) FROM events n INDEXED BY notes
                WHERE n.kind = 'note' AND n.content = ?
                    AND n.id BETWEEN CAST(p.key AS INTEGER) AND p.value) AS id
            FROM json_each(?) p) found
        WHERE found.id IS NOT NULL ORDER BY found.id & 4294967295 DESC LIMIT 1)"""
KEYED = f"""
    SELECT {COLUMNS} FROM json_each(?) k CROSS JOIN json_each(?) p
    CROSS JOIN events e INDEXED BY event_keys
    WHERE e.key = k.value AND e.agent = CAST(p.key AS INTEGER) >> 32
        AND e.id BETWEEN CAST(p.key AS INTEGER) AND p.value"""
PLACES = KEYED.replace(COLUMNS, "e.key, e.id & 4294967295")
FOUND = (
    "SELECT a.id, e.seq FROM events e JOIN agents a ON a.no = e.agent WHERE e.key = ? ORDER BY e.id"
)

WHOLE = (
    f"e.id & 4294967295, e.kind, {CONTENT_LEFT}, {DATA_LEFT}, e.created_at, e.key, e.base, e.digest"
)
STORED = f"SELECT {WHOLE} FROM events e WHERE e.id BETWEEN ? AND ? ORDER BY e.id LIMIT ?"


class SqliteRows:
    """Reads and writes over one connection."""

    def __init__(self, db: apsw.Connection, newest: Newest | None = None) -> None:
        self._db = db
        self._known = newest  # only for a transaction that is one append

    def agents(self, wanted: Wanted) -> list[AgentRecord]:
        sql, bindings = _listing(wanted, common=self._is_common(wanted))
        return [
            AgentRecord(*row)._replace(spawned=bool(row[7])) for row in self._all(sql, bindings)
        ]

    def _is_common(self, wanted: Wanted) -> bool:
        """Whether a page is wanted of agents with a key prefix that very many agents have."""
        if wanted.key_prefix is None or wanted.limit is None:
            return False
        bindings = {"key_prefix": wanted.key_prefix, "most": COMMON}
        return bool(self._all(PREFIXED, bindings)[0][0] == COMMON)

    def head(self, agent: AgentRecord) -> int:
        head, _, _ = self._newest(agent)
        return head

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        def steps_from(no: int, at: int | None) -> list[Any]:
            return self._all(WALK, {"no": agent.pk, "start": no, "at": at})

        return walked(
            agent, at, steps_from, lambda no, at: self._all(JUMPS, {"start": no, "at": at})
        )

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        steps = self._all(LINEAGE, {"no": agent.pk})
        if not steps:
            raise lost(agent)
        return pieces_of(steps, agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        found = self._all(POSITION_AT, {"no": agent.pk, "moment": moment})
        return found[0][0] if found else 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(READ, ranges_of(pieces))

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        return columns_in(self._all(READ_COLUMNS, (ranges_of(pieces),)))

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        return self._events(SAID, ranges_of(pieces), json.dumps(notes), agent.pk)

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        return self._all(TEXTS, (ranges_of(pieces), json.dumps(notes), agent.pk))

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        return outline_rows(self._db.execute(OUTLINE, (ranges_of(pieces),)))

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        return self._all(DATA_OF, (ranges_of(pieces), json.dumps(kinds)))

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(MARKS, ranges_of(pieces))

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        if name is None:
            return self._events(NOTES.replace("INDEXED BY notes", ""), ranges_of(pieces))
        return self._events(NOTES + " AND e.content = ?", ranges_of(pieces), name)

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        found = self._events(LAST_NOTE, name, ranges_of(pieces))
        return found[0] if found else None

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        return self._events(KEYED, json.dumps(keys), ranges_of(pieces))

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        return dict(self._all(PLACES, (json.dumps(keys), ranges_of(pieces))))

    def found(self, key: str) -> list[tuple[str, int]]:
        return self._all(FOUND, (key,))

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        first = (agent.pk << 32) + after + 1
        return stored_rows(self._all(STORED, (first, (agent.pk << 32) + SEQ, limit)))

    def create(self, new: NewAgent, created_us: int) -> AgentRecord:
        """Write an agent without events."""
        try:
            self._db.execute(INSERT_AGENT, {**new._asdict(), "created_us": created_us})
        except apsw.ConstraintError as error:
            if "agents.name" in str(error):
                raise NameTaken.of(new.name) from error
            if new.key is not None and "agents." in str(error):
                raise KeyTaken.of_agent(new.key) from error
            if "FOREIGN KEY" in str(error):
                raise parent_lost(new) from error
            raise
        for record in self.agents(Wanted(prefix=new.id, deleted=True)):
            return record
        raise parent_lost(new)

    def rename(self, agent: AgentRecord, name: str) -> None:
        self._about(agent)  # raises if it is gone
        try:
            self._db.execute(RENAME, (name, agent.pk))
        except apsw.ConstraintError as error:
            raise NameTaken.of(name) from error

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        known = self._known
        end = None if known is None else known.of(self._db, agent.pk)
        head, newest, previous = end or self._newest(agent)
        if expected is not None and expected != head:
            raise Conflict.at(agent.name, expected, head)
        now = max(now, newest)
        rows = _NewRows(agent.pk << 32, head, previous, now)
        self._db.executemany(INSERT_EVENT, rows.of(events))
        self.touch(agent, newest, now)
        if known is not None:
            known.written(agent.pk, (head + len(events), now, rows.digest))
        placed = enumerate(events, head + 1)
        with pause_gc(len(events)):
            return [
                Event((seq, kind, said, data, now, key))
                for seq, ((kind, said, data, key), _) in placed
            ]

    def touch(self, agent: AgentRecord, before: int, now: int) -> None:
        """Record the second of the last write, which changes far less often than there are writes."""
        if now // SECOND != before // SECOND:
            self._db.execute(TOUCH, (now // SECOND, agent.pk))

    def _about(self, agent: AgentRecord) -> str | None:
        for (about,) in self._all(ABOUT, (agent.pk,)):
            return None if about is None else str(about)
        raise lost(agent)

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        about = change(self._about(agent))
        self._db.execute(DESCRIBE, (about, agent.pk))
        return about

    def _newest(self, agent: AgentRecord) -> tuple[int, int, bytes]:
        """The agent's head, the earliest time for new events, and the digest that they continue."""
        for sql in (NEWEST, NEWEST_INHERITED):
            for head, created_at, previous in self._all(sql, {"no": agent.pk}):
                return head, created_at, previous or START
        raise lost(agent)

    def _events(self, sql: str, *bindings: Any) -> list[Event]:
        # Straight from the cursor, so that there is no second list of plain rows.
        return from_rows(self._db.execute(sql, bindings))

    def _all(self, sql: str, bindings: Any) -> list[Any]:
        return self._db.execute(sql, bindings).fetchall()


class _NewRows:
    """The rows of new events with their digests."""

    def __init__(self, first: int, head: int, digest: bytes, now: int) -> None:
        self._first, self._head, self._now = first, head, now
        self.digest = digest  # of the last row so far

    def of(self, events: BasedDrafts) -> Iterator[tuple[Any, ...]]:
        """A generator, because a batch may be long."""
        first, now, digest = self._first, self._now, self.digest
        for seq, ((kind, content, data, key), base) in enumerate(events, self._head + 1):
            digest = digest_of(digest, seq, kind, now, base, key, content, data)
            yield first + seq, kind, content, data, now, key, base, digest
        self.digest = digest


def _listing(wanted: Wanted, *, common: bool = False) -> tuple[str, dict[str, Any]]:
    """The statement for a listing, with only the conditions that apply, because `… IS NULL OR …` misleads the
    planner. If a key prefix is `common`, agents are read in order, because most of them match."""
    asked = wanted._asdict() | {
        "sessions": None if wanted.sessions is None else json.dumps(wanted.sessions)
    }
    given = {name: asked[name] for name in CONDITIONS if asked[name] not in (None, False)}
    conditions = [CONDITIONS[name] for name in given]
    if common:
        conditions = [
            one.replace("a.key >=", "+a.key >=").replace("a.key <", "+a.key <")
            for one in conditions
        ]
    if not wanted.deleted and not wanted.roots:
        conditions.append("a.deleted IS NULL")
    if wanted.after is not None:
        conditions.append(AFTER_LATEST if wanted.latest_first else "a.no > :after_no")
        given |= {"after_no": wanted.after.pk, "after_us": wanted.after.updated_us}
    order = LATEST_FIRST if wanted.latest_first else "a.no"
    # For a page of the latest agents, the planner does not see that it need not read all agents.
    is_page = (
        wanted.latest_first
        and wanted.limit is not None
        and not given.keys() & (SELECTIVE - {"key_prefix"} if common else SELECTIVE)
    )
    index = "INDEXED BY agents_touched" if is_page else ""
    sql = AGENTS.format(index=index, conditions=" AND ".join(conditions), order=order)
    return (sql if wanted.limit is None else f"{sql} LIMIT {wanted.limit:d}"), given


def ranges_of(pieces: Sequence[Piece]) -> str:
    """The ranges of event ids in these pieces, as a JSON object."""
    ranges = [f'"{(owner << 32) + low}":{(owner << 32) + high}' for owner, low, high, _ in pieces]
    return f"{{{','.join(ranges)}}}"


def ids_of(pieces: Sequence[Piece]) -> str:
    """The ranges of event ids in these pieces, as a JSON array, for statements that need their order."""
    ranges = (
        f"[{(piece.owner << 32) + piece.low},{(piece.owner << 32) + piece.high}]"
        for piece in pieces
    )
    return f"[{','.join(ranges)}]"
