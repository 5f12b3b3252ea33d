"""Every write to an SQLite store, on the connection of one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from backstory.errors import Corrupt, KeyTaken, NameTaken, Remedy
from backstory.log.chain import START, LogEnd, build_rows
from backstory.log.events import Event, StoredRow
from backstory.log.times import MINUTE_US, has_time_drop, next_time
from backstory.storage.agent_errors import (
    build_deletion_error,
    build_key_error,
    build_parent_error,
    check_exists,
    check_head,
)
from backstory.storage.ids import name_deleted_agent, new_salts
from backstory.storage.protocol import (
    AgentChange,
    AgentQuery,
    AgentRecord,
    Drafts,
    NewAgent,
    RemovalRecord,
    SourceRecord,
)
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, FrameWriter
from backstory.storage.sqlite.index import SqliteIndex
from backstory.storage.sqlite.rows import SqliteReader
from backstory.storage.sqlite.schema import IS_OWN, LAST_SEQ, build_event_id, build_event_id_sql

# Events that are written at once. They fit into the processor's caches, and the garbage collector
# visits few: with 100,000 at once, `extend` takes a quarter longer.
INSERTED_AT_ONCE = 1_000


class SqliteTransaction(SqliteReader):
    """Reads and writes within a transaction that the backend began."""

    def __init__(self, db: apsw.Connection) -> None:
        self.is_removal = False
        self._db = db

    def _run(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        return make_records(shape, self._db.execute(sql, bindings))

    def _run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of `rows`."""
        self._db.executemany(sql, rows)

    @property
    def index(self) -> SqliteIndex:
        """The search index, within this transaction."""
        return SqliteIndex(self._run)

    # The columns are the values of `build_columns`, in the same order.
    INSERT_EVENT = """
        INSERT INTO events (
            id, kind, content, data, created_at, key, base, digest, salt, packed, size)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        end = self._read_end(agent)
        check_head(agent, end.head, expected)
        if now_us is None:
            now_us = self.read_clock()
        events: list[Event] = []
        for start in range(0, len(drafts), INSERTED_AT_ONCE):
            batch = drafts[start : start + INSERTED_AT_ONCE]
            rows, new_end = build_rows(end, batch, now_us, new_salts(len(batch)))
            self._insert_rows(agent, rows)
            self._record_times(agent, end.last_us, rows)
            events += [row.event for row in rows]
            end = new_end
        return events

    def _insert_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        """Write rows without packing them. Raises KeyTaken if the index of keys refuses one."""
        columns = [build_columns(agent, row) for row in rows]
        try:
            self._run_many(self.INSERT_EVENT, columns)
        except apsw.ConstraintError as error:
            if "events.key" in str(error):
                raise build_key_error(agent) from error
            raise

    # Inherited events have the digest that the first own event continues.
    READ_END = f"""
        SELECT coalesce(newest.seq, a.fork_seq), coalesce(newest.created_at, a.created_at),
            coalesce(newest.digest, inherited.digest)
        FROM agents a
        LEFT JOIN events newest ON newest.id = (SELECT max(e.id) FROM events e WHERE {IS_OWN})
        LEFT JOIN events inherited ON inherited.id = {build_event_id_sql("a.parent", "a.fork_seq")}
        WHERE a.no = ? AND (a.deleted IS NULL OR ?)"""

    def _read_end(self, agent: AgentRecord, *, include_deleted: bool = False) -> LogEnd:
        """Return the end of the agent's log, which new events continue."""
        for head, last_us, digest in self._run(self.READ_END, (agent.pk, include_deleted)):
            return LogEnd(head, last_us, digest or START)
        raise build_deletion_error(agent)

    RECORD_TIMES = """
        UPDATE agents SET touched = ?, times_dropped = max(times_dropped, ?) WHERE no = ?"""

    def _record_times(
        self, agent: AgentRecord, previous_us: int, rows: Sequence[StoredRow]
    ) -> None:
        """Record the minute of the last event, which changes far less often than events are
        written, and whether a time is before that of the previous event."""
        times = [row.created_us for row in rows]
        minute = times[-1] // MINUTE_US
        has_dropped = has_time_drop([previous_us, *times])
        if has_dropped or minute != previous_us // MINUTE_US:
            self._run(self.RECORD_TIMES, (minute, has_dropped, agent.pk))

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        end = self._read_end(agent, include_deleted=True)  # an import also has deleted agents
        writer = FrameWriter()
        columns = []
        for row in rows:
            texts = writer.compress(row)
            stored = row._replace(content=texts.content, data_json=texts.data_json)
            columns.append(build_columns(agent, stored, texts.packed, texts.size))
        self._run_many(self.INSERT_EVENT, columns)
        self._record_times(agent, end.last_us, rows)

    NEXT_NUMBER = "UPDATE numbers SET last_no = last_no + 1 RETURNING last_no"

    def _give_number(self) -> int:
        """Return the number of a new agent. No number is given twice, so the handle of a deleted
        agent finds nothing."""
        for (number,) in self._run(self.NEXT_NUMBER):
            return int(number)
        remedy = Remedy("{} shows what is wrong", "verify")
        raise Corrupt("the last number of an agent is missing", remedy=remedy)

    # The session of a root is the root itself.
    INSERT_AGENT = f"""
        INSERT INTO agents (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at,
            key, about, touched, deleted)
        VALUES (:no, :id, coalesce((SELECT no FROM agents WHERE id = :session), :no), :name,
            :parent_pk, :fork_seq, :born_seq, :spawned, :created_us, :key, :about,
            :created_us / {MINUTE_US}, :deleted_us)"""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        bindings = {
            **new._asdict(),
            "created_us": self._choose_birth_time(new, now_us),
            "no": self._give_number(),
        }
        try:
            self._run(self.INSERT_AGENT, bindings)
        except apsw.ConstraintError as error:
            check_agent_constraint(new, error)
            raise
        [record] = self.list_agents(AgentQuery(id_prefix=new.id, include_deleted=True))
        if not drafts:
            return record
        last = self.append(record, drafts, None, now_us)[-1]
        return record._replace(head=last.seq, updated_us=last.created_us)

    READ_ORIGIN = f"""
        SELECT (SELECT created_at FROM events
                WHERE id = {build_event_id_sql(":parent_pk", ":fork_seq")}),
            :origin_pk IS NULL OR EXISTS (
                SELECT 1 FROM agents o JOIN agents s ON s.no = o.session
                WHERE o.no = :origin_pk AND o.deleted IS NULL AND s.id = :session)"""

    def _choose_birth_time(self, new: NewAgent, now_us: int | None) -> int:
        """Return the time of a new agent's creation. A fork is not older than the event that it is
        forked from. Raises AgentNotFound if that event or the origin of the agent is gone."""
        [(forked_us, has_origin)] = self._run(self.READ_ORIGIN, new._asdict())
        if not has_origin or (new.fork_seq > 0 and forked_us is None):
            raise build_parent_error(new)
        clock_us = self.read_clock()
        wanted_us = clock_us if now_us is None else now_us
        if forked_us is None:
            return wanted_us
        return next_time(forked_us, wanted_us, clock_us)

    UPDATE_NAME = "UPDATE agents SET name = ? WHERE no = ?"
    UPDATE_ABOUT = "UPDATE agents SET about = ? WHERE no = ?"

    def update_agent(self, agent: AgentRecord, change: AgentChange) -> None:
        check_exists(self, agent)
        if change.name is not None:
            try:
                self._run(self.UPDATE_NAME, (change.name, agent.pk))
            except apsw.ConstraintError as error:
                raise NameTaken.of(change.name) from error
        if change.about is not None:
            self._run(self.UPDATE_ABOUT, (change.about or None, agent.pk))

    REMEMBER_SOURCE = """
        INSERT INTO sources (tool, id, agent, cursor) VALUES (?, ?, ?, ?)
        ON CONFLICT (id, tool) DO UPDATE
        SET agent = coalesce(excluded.agent, agent), cursor = coalesce(excluded.cursor, cursor)"""

    def remember_sources(self, sources: Sequence[SourceRecord]) -> None:
        self._run_many(self.REMEMBER_SOURCE, sources)

    # SQLite overwrites freed pages with zeros (`secure_delete`, on every connection), and the
    # backend empties the write-ahead log after the commit. So no file contains removed text.
    ERASE = """
        UPDATE events SET content = ?, data = ?, salt = NULL, packed = NULL, size = NULL
        WHERE id = ?"""

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        self.index.forget_event(agent.pk, seq)
        self._run(self.ERASE, (content, data_json, build_event_id(agent.pk, seq)))

    # A packed event is unpacked: its content is read before it is written.
    REWRITE_DATA = f"""
        UPDATE events AS e SET content = {CONTENT_OR_NULL}, data = ?, packed = NULL, size = NULL
        WHERE id = ?"""

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        self._run(self.REWRITE_DATA, (data_json, build_event_id(agent.pk, seq)))

    DELETE_EVENTS = "DELETE FROM events WHERE id BETWEEN ? AND ?"
    DELETE_SOURCES = "DELETE FROM sources WHERE agent = ?"
    DELETE_AGENT = "DELETE FROM agents WHERE no = ?"

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        last_kept = 0 if keep is None else keep
        self.index.forget_rest(agent.pk, last_kept)
        first = build_event_id(agent.pk, last_kept + 1)
        last = build_event_id(agent.pk, LAST_SEQ)
        self._run(self.DELETE_EVENTS, (first, last))
        self._run(self.DELETE_SOURCES, (agent.id,))
        if keep is None:
            self._run("PRAGMA defer_foreign_keys = ON")
            self._run(self.DELETE_AGENT, (agent.pk,))
        else:
            self._leave_tombstone(agent, keep, now_us)

    # An agent whose own events are all gone inherits nothing, either.
    LEAVE_TOMBSTONE = """
        UPDATE agents SET name = :name, key = NULL, about = NULL, deleted = coalesce(deleted, :now),
            fork_seq = iif(:keep > fork_seq, fork_seq, 0)
        WHERE no = :no"""

    def _leave_tombstone(self, agent: AgentRecord, keep: int, now_us: int) -> None:
        """Take name, key and details out of the agent's row."""
        name = name_deleted_agent(agent.id)
        self._run(self.LEAVE_TOMBSTONE, {"no": agent.pk, "name": name, "keep": keep, "now": now_us})

    # The columns are the fields of a RemovalRecord, in the same order.
    RECORD_REMOVAL = """
        INSERT INTO removals (
            id, removed_at, action, session, agent, positions, events, author, reason)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

    def record_removals(self, records: Sequence[RemovalRecord]) -> None:
        self.is_removal = True
        self._run_many(self.RECORD_REMOVAL, records)


def build_columns(
    agent: AgentRecord, row: StoredRow, packed: bytes | None = None, size: int | None = None
) -> tuple[Any, ...]:
    """Return the values of INSERT_EVENT for a row. `packed` is the frame with its texts, and `size`
    their bytes before they were compressed."""
    seq, kind, content, data_json, created_us, key, base, digest, salt = row
    id = build_event_id(agent.pk, seq)
    return (id, kind, content, data_json, created_us, key, base, digest, salt, packed, size)


def check_agent_constraint(new: NewAgent, error: apsw.ConstraintError) -> None:
    """Raise our error for the constraint that a new agent violates, if there is one."""
    message = str(error)
    if "agents.name" in message:
        raise NameTaken.of(new.name) from error
    is_taken = "agents.key" in message or "agents.id" in message
    if new.key is not None and is_taken:
        raise KeyTaken.of_agent(new.key) from error
    if "FOREIGN KEY" in message:
        raise build_parent_error(new) from error
