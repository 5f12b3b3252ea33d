"""The rows of a PostgreSQL store: every statement on agents and events, over one connection.

Every table's key begins with the place of the session, and every statement that a conversation needs names
one place, so the tables can be distributed over many servers by it. Names are qualified, so the connection's
search path does not matter. Of an event's meaning, this module knows only its base, its key, and whether it
is a mark or a note.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import psycopg

from backstory.errors import Conflict
from backstory.log import kinds
from backstory.log.drafts import Draft
from backstory.log.events import (
    Columns,
    Event,
    Stored,
    TextAndData,
    columns_in,
    from_rows,
    stored_rows,
)
from backstory.log.outline import DataRow, OutlineRow, outline_row
from backstory.storage.ids import place_of
from backstory.storage.postgres.agents import listing, whole_id
from backstory.storage.postgres.append import TURN, Placed, call_append
from backstory.storage.postgres.batches import batches, fit_into_arrays, size_of
from backstory.storage.postgres.lineages import HEAD, IS_AGENT, JUMPS, LINEAGE, POSITION_AT, WALK
from backstory.storage.postgres.ranges import MANY, joined_within, within
from backstory.storage.postgres.server import Connection
from backstory.storage.postgres.starts import HAS_ONE_KEY, IS_KEYED, IS_NAMED
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
from backstory.storage.walks import pieces_of, walked

COLUMNS_GIVEN = ("kind", "content", "data", "key", "base")
COLUMNS = "seq, kind, content, data, created_at, key"

ENTER = "INSERT INTO backstory.directory VALUES (%(at)s::bigint, %(id)s::uuid, %(session)s::uuid)"
ENTERED = """
    SELECT session::text FROM backstory.directory
    WHERE place = %(place)s::bigint AND id = %(id)s::uuid"""
RENAME = f"UPDATE backstory.agents SET name = %(name)s WHERE {IS_AGENT} RETURNING no"
ABOUT = f"SELECT about FROM backstory.agents WHERE {IS_AGENT} FOR NO KEY UPDATE"
DESCRIBE = (
    "UPDATE backstory.agents SET about = %(about)s WHERE place = %(place)s::bigint AND no = %(no)s"
)
HOLD = f"{HEAD} FOR NO KEY UPDATE"
HOLD_NEXT = HOLD.replace("FOR", f"AND {TURN.format(shared='', place='%(place)s', no='%(no)s')} FOR")

# For several events. An append of one event (`append`) would take half as long again with arrays.
APPEND_MANY = """
    SELECT before, at FROM backstory.append_many(%(place)s::bigint, %(no)s, %(born)s, %(expected)s, %(now)s,
        %(kind)s::text[], %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[])"""

CREATE = """
    SELECT no, at, parent::text FROM backstory.create_agent(%(place)s::bigint,
        %(id)s::uuid, %(session)s::uuid, %(name)s, %(parent_pk)s, %(fork_seq)s, %(born_seq)s, %(spawned)s,
        %(now)s, %(agent_key)s, %(about)s, %(deleted_us)s,
        %(kind)s::text[], %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[])"""

READ = f"""
    SELECT e.* FROM ROWS FROM (
        pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
        pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)
    CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = p.no AND seq BETWEEN p.low AND p.high
        OFFSET 0) e"""
READ_JOINED = READ.replace(
    "pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)",
    "pg_catalog.unnest(%(highs)s::int[]), pg_catalog.unnest(%(bits)s::bytea[])) AS p (no, low, high, bits)",
).replace(
    "p.high\n", "p.high AND (p.bits IS NULL OR pg_catalog.get_bit(p.bits, seq - p.low) = 1)\n"
)
READ_COLUMNS, READ_COLUMNS_JOINED = (
    sql.replace(COLUMNS, "seq, kind, content, data") for sql in (READ, READ_JOINED)
)
# If the agent was deleted after its pieces were looked up, return nothing, not even what it inherited.
IS_THERE = f" WHERE EXISTS (SELECT 1 FROM backstory.agents WHERE {IS_AGENT})"
SAID = (
    READ.replace("p.high\n", "p.high AND (kind <> 'note' OR content = ANY (%(names)s::text[]))\n")
    + IS_THERE
)
TEXTS = SAID.replace(COLUMNS, "seq, content, data").replace(
    "p.high AND", "p.high AND kind = ANY (%(kinds)s::text[]) AND"
)
MARKS = READ.replace("p.high\n", "p.high AND kind = 'mark'\n")
NOTES = READ.replace("p.high\n", "p.high AND kind = 'note'\n")
NAMED_NOTES = READ.replace("p.high\n", f"p.high AND {IS_NAMED}\n")
OUTLINE = READ.replace(
    COLUMNS,
    "seq, kind, coalesce(pg_catalog.octet_length(content), 0) + "
    "coalesce(pg_catalog.octet_length(data), 0), created_at, base",
)
DATA_OF = READ.replace(COLUMNS, "seq, kind, data").replace(
    "p.high\n", "p.high AND kind = ANY (%(kinds)s::text[])\n"
)
LAST_NOTE = (
    NAMED_NOTES.replace("OFFSET 0", "ORDER BY seq DESC LIMIT 1") + " ORDER BY e.seq DESC LIMIT 1"
)
# Each key is looked up in its index. If the inner query had the range of positions, the planner would read
# all of it, and compare each key there.
KEYED = f"""
    SELECT e.* FROM ROWS FROM (
        pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
        pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)
    CROSS JOIN pg_catalog.unnest(%(keys)s::text[]) AS k (key)
    CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM backstory.events
        WHERE place = %(place)s::bigint AND agent + 0 = p.no AND {IS_KEYED}
        OFFSET 0) e
    WHERE e.seq BETWEEN p.low AND p.high"""
PLACES = KEYED.replace(COLUMNS, "key, seq")
FOUND = f"""
    SELECT a.id::text, e.seq FROM backstory.events e
    JOIN backstory.agents a ON a.place = e.place AND a.no = e.agent
    WHERE {HAS_ONE_KEY.format("e")} ORDER BY a.created_at, e.seq"""

STORED = f"""
    SELECT {COLUMNS}, base, digest FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"""


class PostgresRows:
    """Reads and writes over one connection."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def agents(self, wanted: Wanted) -> list[AgentRecord]:
        id = whole_id(wanted.prefix)
        if id is None or wanted.session is not None:
            return self._listed(wanted)
        return self._listed(wanted, place_of(id)) or self._entered(wanted, id)

    def _listed(self, wanted: Wanted, place: int | None = None) -> list[AgentRecord]:
        asked = listing(wanted, place)
        return [AgentRecord(*row) for row in self.all(*asked)] if asked else []

    def _entered(self, wanted: Wanted, id: str) -> list[AgentRecord]:
        """The agent of an id that does not contain its place."""
        found = self.all(ENTERED, {"place": place_of(id), "id": id})
        return self._listed(wanted, place_of(found[0][0])) if found else []

    def head(self, agent: AgentRecord) -> int:
        return _head(self.all(HEAD, of(agent)), agent)

    def hold(self, agent: AgentRecord, *, in_turn: bool = False) -> int:
        """Within a transaction: keep others from writing to the agent until the transaction ends. `in_turn`:
        after the appends under way, and before those that come later."""
        return _head(self.all(HOLD_NEXT if in_turn else HOLD, of(agent)), agent)

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        asked = of(agent)
        return walked(
            agent,
            at,
            lambda no, at: self.all(WALK, {**asked, "start": no, "at": at}),
            lambda no, at: self.all(JUMPS, {"place": asked["place"], "start": no, "at": at}),
        )

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        steps = self.all(LINEAGE, of(agent))
        if not steps:
            raise lost(agent)
        return pieces_of(steps, agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        found = self.all(POSITION_AT, {**of(agent), "moment": moment})
        return found[0][0] if found else 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        if len(pieces) < MANY:
            return self._events(READ, agent, pieces)
        rows = self.all(READ_JOINED, joined_within(agent.session, pieces))
        return sorted(from_rows(rows), key=attrgetter("seq"))

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        if len(pieces) < MANY:
            rows = self.all(READ_COLUMNS, within(agent.session, pieces)) if pieces else []
        else:
            rows = self.all(READ_COLUMNS_JOINED, joined_within(agent.session, pieces))
        return columns_in(sorted(rows, key=itemgetter(0)))

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        return self._events(SAID, agent, pieces, names=list(notes), **of(agent))

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        if not pieces:
            return []
        more = {"kinds": sorted(kinds.SPOKEN | {"note"}), "names": list(notes)}
        rows = self.all(TEXTS, {**within(agent.session, pieces), **of(agent), **more})
        return [(content, data) for _, content, data in sorted(rows, key=itemgetter(0))]

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        if not pieces:
            return []
        # Created by the driver, so that there is no second list of plain rows.
        with self._db.cursor(binary=True, row_factory=lambda _: outline_row) as rows:
            return sorted(
                rows.execute(OUTLINE, within(agent.session, pieces)).fetchall(), key=itemgetter(0)
            )

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        if not pieces:
            return []
        bindings = within(agent.session, pieces) | {"kinds": list(kinds)}
        return sorted(self.all(DATA_OF, bindings), key=itemgetter(0))

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return self._events(MARKS, agent, pieces)

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        return self._events(NOTES if name is None else NAMED_NOTES, agent, pieces, name=name)

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        return next(iter(self._events(LAST_NOTE, agent, pieces, name=name)), None)

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        return self._events(KEYED, agent, pieces, keys=list(set(keys)))

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        bindings = {**within(agent.session, pieces), "keys": list(set(keys))} if pieces else {}
        return dict(self.all(PLACES, bindings)) if pieces else {}

    def found(self, key: str) -> list[tuple[str, int]]:
        return self.all(FOUND, {"key": key})

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        return stored_rows(self.all(STORED, {**of(agent), "after": after, "limit": limit}))

    def create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        """Write an agent and its first events: in one call, unless its id also goes into the directory."""
        if place_of(new.id) == place_of(new.session) and fit_into_arrays(events):
            return self._create(new, events, now)
        with self._db.transaction():
            record = self.insert(new, now)
            written = self.append(record, events, None, now) if events else []
        return record._replace(head=record.head + len(written))

    def insert(self, new: NewAgent, now: int) -> AgentRecord:
        """Within a transaction: write an agent without events."""
        if place_of(new.id) != place_of(new.session):
            self._db.execute(ENTER, {"at": place_of(new.id), "id": new.id, "session": new.session})
        return self._create(new, (), now)

    def _create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        bindings = {
            **new._asdict(),
            "agent_key": new.key,
            "place": place_of(new.session),
            "now": now,
        }
        try:
            [(no, at, parent)] = self.all(CREATE, {**bindings, **_columns(events)})
        except psycopg.errors.ForeignKeyViolation as error:
            raise parent_lost(new) from error
        return AgentRecord(
            *(
                no,
                new.id,
                new.session,
                new.name,
                parent,
                new.fork_seq,
                new.born_seq,
                new.spawned,
                at,
            ),
            *(new.fork_seq + len(events), at, new.key, new.about, new.deleted_us),
        )

    def rename(self, agent: AgentRecord, name: str) -> None:
        if not self.all(RENAME, {**of(agent), "name": name}):
            raise lost(agent)

    def _about(self, agent: AgentRecord) -> str | None:
        """The description of an agent, locked until the transaction ends."""
        for (about,) in self.all(ABOUT, of(agent)):
            return None if about is None else str(about)
        raise lost(agent)

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        about = change(self._about(agent))
        self._db.execute(DESCRIBE, {**of(agent), "about": about})
        return about

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        if len(events) == 1:
            placed = self._append_event(agent, *events[0], expected, now)
        else:
            placed = self._append_batches(agent, batches(events), expected, now)
        if placed is None:
            raise self.conflict(agent, expected)
        before, at = placed
        return [draft.at(seq, at) for seq, (draft, _) in enumerate(events, before + 1)]

    def conflict(self, agent: AgentRecord, expected: int | None) -> Conflict:
        """The error for an append that found another head; raises if it found no agent."""
        return Conflict.at(agent.name, expected or 0, self.head(agent))

    def _append_event(
        self, agent: AgentRecord, draft: Draft, base: int | None, expected: int | None, now: int
    ) -> Placed | None:
        size_of(draft.content, draft.data_json)
        where = (place_of(agent.session), agent.pk, agent.created_us, expected, now)
        return call_append(self._db, (*where, *draft, base))

    def _append_batches(
        self, agent: AgentRecord, portions: list[BasedDrafts], expected: int | None, now: int
    ) -> Placed | None:
        first, *more = portions
        if not more:
            return self._append_batch(agent, first, expected, now)
        with self._db.transaction():
            placed = self._append_batch(agent, first, expected, now)
            for batch in more if placed else ():
                self._append_batch(agent, batch, None, now)
        return placed

    def _append_batch(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> Placed | None:
        if len(events) == 1:  # perhaps because it is too large for an array
            return self._append_event(agent, *events[0], expected, now)
        bindings = {**of(agent), **_columns(events), "expected": expected, "now": now}
        [(before, at)] = self.all(APPEND_MANY, bindings)
        return None if before is None else (before, at)

    def _events(
        self, sql: str, agent: AgentRecord, pieces: Sequence[Piece], **more: Any
    ) -> list[Event]:
        if not pieces:
            return []
        rows = self.all(sql, {**within(agent.session, pieces), **more})
        # Sorting here costs one pass, because the list is nearly always in order.
        return sorted(from_rows(rows), key=attrgetter("seq"))

    def all(self, sql: str, bindings: dict[str, Any]) -> list[Any]:
        """Run a statement and return its rows."""
        return self._db.execute(sql, bindings, binary=True).fetchall()


def _columns(events: BasedDrafts) -> dict[str, list[Any]]:
    """Events as columns."""
    rows = [(*draft, base) for draft, base in events]
    columns = zip(*rows, strict=True) if rows else ((),) * len(COLUMNS_GIVEN)
    return dict(zip(COLUMNS_GIVEN, map(list, columns), strict=True))


def of(agent: AgentRecord) -> dict[str, Any]:
    """The parameters that identify an agent in a statement."""
    return {"place": place_of(agent.session), "no": agent.pk, "born": agent.created_us}


def _head(found: list[tuple[Any, ...]], agent: AgentRecord) -> int:
    if not found:
        raise lost(agent)
    return int(found[0][0])
