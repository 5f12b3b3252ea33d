"""Every write to an SQLite store, on the connection of one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from backstory.errors import Conflict, Corrupt, KeyTaken, NameTaken, Remedy
from backstory.log.digests import START, LogEnd, build_rows
from backstory.log.events import Event, StoredRow
from backstory.log.times import LONGEST_LEAD_US, do_times_drop
from backstory.storage.agent_errors import (
    build_deletion_error,
    build_key_error,
    build_parent_error,
    check_exists,
)
from backstory.storage.ids import find_agent_by_id, name_deleted_agent, new_salts
from backstory.storage.protocol import (
    AgentChange,
    AgentRecord,
    Drafts,
    NewAgent,
    RemovalRecord,
    SourceRecord,
)
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, FrameWriter
from backstory.storage.sqlite.index import SearchIndex
from backstory.storage.sqlite.listing import MINUTE
from backstory.storage.sqlite.rows import Bindings, SqliteReader
from backstory.storage.sqlite.schema import IS_OWN, LAST_SEQ, build_event_id, write_event_id


class SqliteTransaction(SqliteReader):
    """Reads and writes within a transaction that the backend began."""

    def __init__(self, db: apsw.Connection) -> None:
        self.has_removed_text = False
        self._db = db

    def _run(self, sql: str, bindings: Bindings = (), shape: RowShape = tuple) -> list[Any]:
        return make_records(shape, self._db.execute(sql, bindings))

    def _run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of `rows`."""
        self._db.executemany(sql, rows)

    @property
    def index(self) -> SearchIndex:
        """The search index, within this transaction."""
        return SearchIndex(self._run)

    # After the id, the columns are the fields of a StoredRow after `seq`, in the same order.
    INSERT_EVENT = """
        INSERT INTO events (id, kind, content, data, created_at, key, base, digest, salt)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        end = self._read_end(agent)
        if expected is not None and expected != end.head:
            raise Conflict.at(agent.name, expected, end.head)
        if now_us is None:
            now_us = self.read_clock()
        rows, new_end = build_rows(end, drafts, now_us, new_salts(len(drafts)))
        columns = [(build_event_id(agent.pk, row.seq), *row[1:]) for row in rows]
        try:
            self._run_many(self.INSERT_EVENT, columns)
        except apsw.ConstraintError as error:
            if "events.key" in str(error):
                raise build_key_error(agent) from error
            raise
        # All rows have one time, so it has dropped if the last one is before the end.
        self._touch_agent(agent, end.last_us, new_end.last_us, new_end.last_us < end.last_us)
        return [row.event for row in rows]

    # Inherited events have the digest that the first own event continues.
    READ_END = f"""
        SELECT coalesce(newest.seq, a.fork_seq), coalesce(newest.created_at, a.created_at),
            coalesce(newest.digest, inherited.digest)
        FROM agents a
        LEFT JOIN events newest ON newest.id = (SELECT max(e.id) FROM events e WHERE {IS_OWN})
        LEFT JOIN events inherited ON inherited.id = {write_event_id("a.parent", "a.fork_seq")}
        WHERE a.no = ? AND a.deleted IS NULL"""

    def _read_end(self, agent: AgentRecord) -> LogEnd:
        """Return the end of the agent's log, which new events continue."""
        for head, last_us, digest in self._run(self.READ_END, (agent.pk,)):
            return LogEnd(head, last_us, digest or START)
        raise build_deletion_error(agent)

    TOUCH = """
        UPDATE agents SET touched = ?, times_dropped = max(times_dropped, ?) WHERE no = ?"""

    def _touch_agent(
        self, agent: AgentRecord, before_us: int, now_us: int, has_dropped: bool
    ) -> None:
        """Record the minute of the last write, which changes far less often than there are writes,
        and whether the time of a later event is before that of an earlier one. A time that drops
        does so by more than a minute."""
        if now_us // MINUTE != before_us // MINUTE:
            self._run(self.TOUCH, (now_us // MINUTE, has_dropped, agent.pk))

    NEXT_NUMBER = "UPDATE numbers SET last_no = last_no + 1 RETURNING last_no"

    def _give_number(self) -> int:
        """Return the number of a new agent. No number is given twice, so the handle of a deleted
        agent finds nothing."""
        for (number,) in self._run(self.NEXT_NUMBER):
            return int(number)
        remedy = Remedy("{} shows what is wrong", "verify")
        raise Corrupt("the last number of an agent is missing", remedy=remedy)

    # A fork is never older than the event at its fork position (`times.next_time`).
    CREATED_AT = f"""iif(
                n.forked_at > :clock_us + {LONGEST_LEAD_US} AND :now_us <= :clock_us,
                :now_us, max(:now_us, coalesce(n.forked_at, 0)))"""
    INSERT_AGENT = f"""
        INSERT INTO agents (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at,
            key, about, touched, deleted)
        SELECT :no, :id, coalesce((SELECT no FROM agents WHERE id = :session), :no), :name,
            :parent_pk, :fork_seq, :born_seq, :spawned, {CREATED_AT},
            :key, :about, {CREATED_AT} / {MINUTE}, :deleted_us
        FROM (SELECT (SELECT created_at FROM events
            WHERE id = {write_event_id(":parent_pk", ":fork_seq")}) AS forked_at) n
        WHERE (:fork_seq = 0 OR n.forked_at IS NOT NULL)
            AND (:origin_pk IS NULL OR EXISTS (
                SELECT 1 FROM agents o JOIN agents s ON s.no = o.session
                WHERE o.no = :origin_pk AND o.deleted IS NULL AND s.id = :session))
        RETURNING no"""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        number = self._give_number()
        clock_us = self.read_clock()
        times = {"now_us": clock_us if now_us is None else now_us, "clock_us": clock_us}
        try:
            inserted = self._run(self.INSERT_AGENT, {**new._asdict(), "no": number, **times})
        except apsw.ConstraintError as error:
            check_agent_constraint(new, error)
            raise
        record = find_agent_by_id(self, new.id, include_deleted=True)
        if not inserted or record is None:
            raise build_parent_error(new)
        if not drafts:
            return record
        last = self.append(record, drafts, None, now_us)[-1]
        return record._replace(head=last.seq, updated_us=last.created_us)

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

    ADD_ROW = """
        INSERT INTO events (
            id, kind, content, data, created_at, key, base, digest, salt, packed, size)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        writer = FrameWriter()
        columns = []
        for row in rows:
            texts = writer.compress(row)
            columns.append(
                (
                    build_event_id(agent.pk, row.seq),
                    row.kind,
                    texts.content,
                    texts.data_json,
                    row.created_us,
                    row.key,
                    row.base,
                    row.digest,
                    row.salt,
                    texts.packed,
                    texts.size,
                )
            )
        self._run_many(self.ADD_ROW, columns)
        times = [self._read_previous_time(agent, rows[0].seq)]
        times += [row.created_us for row in rows]
        self._touch_agent(agent, 0, times[-1], do_times_drop(times))

    PREVIOUS_TIME = """
        SELECT coalesce((SELECT created_at FROM events WHERE id = ?), created_at)
        FROM agents WHERE no = ?"""

    def _read_previous_time(self, agent: AgentRecord, seq: int) -> int:
        """Return the time of the agent's own event before a position or, if there is none, of its
        creation."""
        id = build_event_id(agent.pk, seq - 1)
        [(created_us,)] = self._run(self.PREVIOUS_TIME, (id, agent.pk))
        return int(created_us)

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
        self.has_removed_text = True
        self.index.forget_event(agent.pk, seq)
        self._run(self.ERASE, (content, data_json, build_event_id(agent.pk, seq)))

    # A packed event is unpacked: its content is read before it is written.
    REWRITE_DATA = f"""
        UPDATE events AS e SET content = {CONTENT_OR_NULL}, data = ?, packed = NULL, size = NULL
        WHERE id = ?"""

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        self.has_removed_text = True
        self._run(self.REWRITE_DATA, (data_json, build_event_id(agent.pk, seq)))

    DELETE_EVENTS = "DELETE FROM events WHERE id BETWEEN ? AND ?"
    DELETE_SOURCES = "DELETE FROM sources WHERE agent = ?"
    DELETE_AGENT = "DELETE FROM agents WHERE no = ?"

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        self.has_removed_text = True
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
        self._run_many(self.RECORD_REMOVAL, records)


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
