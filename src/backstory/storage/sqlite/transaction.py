"""Every write to an SQLite store, on the connection of one transaction."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from backstory.errors import Conflict, KeyTaken, NameTaken
from backstory.log.digests import START, LogEnd, build_rows
from backstory.log.events import Event, StoredRow
from backstory.storage.ids import PLACEHOLDER, name_deleted_agent, new_id
from backstory.storage.protocol import (
    AgentChange,
    AgentQuery,
    AgentRecord,
    Drafts,
    NewAgent,
    SourceRecord,
)
from backstory.storage.refusals import build_deletion_error, build_key_error, build_parent_error
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite.frames import FrameWriter
from backstory.storage.sqlite.index import SqliteIndexWriter
from backstory.storage.sqlite.listing import SECOND
from backstory.storage.sqlite.rows import Bindings
from backstory.storage.sqlite.schema import IS_OWN, LAST_SEQ, build_event_id, write_event_id


class SqliteTransaction(SqliteIndexWriter):
    """Reads and writes within a transaction that the backend began. The reads are inherited from
    `rows.SqliteReader`, through the search index."""

    def __init__(self, db: apsw.Connection) -> None:
        self.has_removed_text = False
        self._db = db

    def _run(self, sql: str, bindings: Bindings = (), shape: RowShape = tuple) -> list[Any]:
        return make_records(shape, self._db.execute(sql, bindings))

    def _run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of `rows`."""
        self._db.executemany(sql, rows)

    # After the id, the columns are the fields of a StoredRow after `seq`, in the same order.
    INSERT_EVENT = """
        INSERT INTO events (id, kind, content, data, created_at, key, base, digest)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

    def append(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int
    ) -> list[Event]:
        end = self._read_end(agent)
        if expected is not None and expected != end.head:
            raise Conflict.at(agent.name, expected, end.head)
        rows, new_end = build_rows(end, drafts, now_us)
        columns = [(build_event_id(agent.pk, row.seq), *row[1:]) for row in rows]
        try:
            self._run_many(self.INSERT_EVENT, columns)
        except apsw.ConstraintError as error:
            if "events.key" in str(error):
                raise build_key_error(agent) from error
            raise
        self._touch_agent(agent, end.last_us, new_end.last_us)
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

    TOUCH = "UPDATE agents SET touched = ? WHERE no = ?"

    def _touch_agent(self, agent: AgentRecord, before_us: int, now_us: int) -> None:
        """Record the second of the last write, which changes far less often than there are
        writes."""
        if now_us // SECOND != before_us // SECOND:
            self._run(self.TOUCH, (now_us // SECOND, agent.pk))

    # A fork is never older than the event at its fork position.
    INSERT_AGENT = f"""
        INSERT INTO agents (no, id, session, name, parent, fork_seq, born_seq, spawned, created_at,
            key, about, touched, deleted)
        SELECT n.no, :id, coalesce((SELECT no FROM agents WHERE id = :session), n.no), :name,
            :parent_pk, :fork_seq, :born_seq, :spawned, max(:now_us, coalesce(n.forked_at, 0)),
            :key, :about, max(:now_us, coalesce(n.forked_at, 0)) / {SECOND}, :deleted_us
        FROM (SELECT coalesce(max(no), 0) + 1 AS no,
                (SELECT created_at FROM events
                 WHERE id = {write_event_id(":parent_pk", ":fork_seq")}) AS forked_at
            FROM agents) n
        WHERE :fork_seq = 0 OR n.forked_at IS NOT NULL"""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int) -> AgentRecord:
        try:
            self._run(self.INSERT_AGENT, {**new._asdict(), "now_us": now_us})
        except apsw.ConstraintError as error:
            check_agent_constraint(new, error)
            raise
        created = self.list_agents(AgentQuery(id_prefix=new.id, include_deleted=True))
        if not created:
            raise build_parent_error(new)
        [record] = created
        if not drafts:
            return record
        last = self.append(record, drafts, None, now_us)[-1]
        return record._replace(head=last.seq, updated_us=last.created_us)

    UPDATE_NAME = "UPDATE agents SET name = ? WHERE no = ?"
    UPDATE_ABOUT = "UPDATE agents SET about = ? WHERE no = ?"

    def update_agent(self, agent: AgentRecord, change: AgentChange) -> None:
        self.read_head(agent)  # raises if it was deleted
        if change.name is not None:
            try:
                self._run(self.UPDATE_NAME, (change.name, agent.pk))
            except apsw.ConstraintError as error:
                raise NameTaken.of(change.name) from error
        if change.about is not None:
            self._run(self.UPDATE_ABOUT, (change.about or None, agent.pk))

    ADD_ROW = """
        INSERT INTO events (id, kind, content, data, created_at, key, base, digest, packed, size)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

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
                    texts.packed,
                    texts.size,
                )
            )
        self._run_many(self.ADD_ROW, columns)
        self._touch_agent(agent, 0, rows[-1].created_us)

    REMEMBER_SOURCE = """
        INSERT INTO sources (tool, id, agent, cursor) VALUES (?, ?, ?, ?)
        ON CONFLICT (id, tool) DO UPDATE
        SET agent = coalesce(excluded.agent, agent), cursor = coalesce(excluded.cursor, cursor)"""

    def remember_sources(self, sources: Sequence[SourceRecord]) -> None:
        self._run_many(self.REMEMBER_SOURCE, sources)

    # SQLite overwrites freed pages with zeros (`secure_delete`, on every connection), and the
    # backend empties the write-ahead log after the commit. So no file contains removed text.
    ERASE = "UPDATE events SET content = ?, data = ?, packed = NULL, size = NULL WHERE id = ?"

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        self.has_removed_text = True
        self.forget_words(agent.pk, seq, seq)
        self._run(self.ERASE, (content, data_json, build_event_id(agent.pk, seq)))

    DELETE_EVENTS = "DELETE FROM events WHERE id BETWEEN ? AND ?"
    DELETE_SOURCES = "DELETE FROM sources WHERE agent = ?"

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        self.has_removed_text = True
        last_kept = 0 if keep is None else keep
        self.forget_rest(agent.pk, last_kept)
        first = build_event_id(agent.pk, last_kept + 1)
        last = build_event_id(agent.pk, LAST_SEQ)
        self._run(self.DELETE_EVENTS, (first, last))
        self._run(self.DELETE_SOURCES, (agent.id,))
        if keep is None:
            self._delete_agent(agent, now_us)
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

    LAST_NUMBER = "SELECT max(no) FROM agents"
    DELETE_AGENT = "DELETE FROM agents WHERE no = ?"
    INSERT_PLACEHOLDER = f"""
        INSERT INTO agents (no, id, session, name, fork_seq, born_seq, spawned, created_at, deleted)
        VALUES (:no, :id, :no, '{PLACEHOLDER}', 0, 0, 0, :now, :now)"""
    DELETE_PLACEHOLDERS = f"""
        DELETE FROM agents
        WHERE name = '{PLACEHOLDER}' AND no < (SELECT max(no) FROM agents)"""

    def _delete_agent(self, agent: AgentRecord, now_us: int) -> None:
        """Delete the agent's row. Handles of a deleted agent still have its number, so the next
        agent must not get it: a placeholder reserves the last number."""
        [(last_number,)] = self._run(self.LAST_NUMBER)
        self._run("PRAGMA defer_foreign_keys = ON")
        self._run(self.DELETE_AGENT, (agent.pk,))
        if agent.pk == last_number:
            self._run(self.INSERT_PLACEHOLDER, {"no": last_number, "id": new_id(), "now": now_us})
        self._run(self.DELETE_PLACEHOLDERS)


def check_agent_constraint(new: NewAgent, error: apsw.ConstraintError) -> None:
    """Raise our error for the constraint that a new agent violates, if there is one."""
    message = str(error)
    if "agents.name" in message:
        raise NameTaken.of(new.name) from error
    if new.key is not None and "agents." in message:
        raise KeyTaken.of_agent(new.key) from error
    if "FOREIGN KEY" in message:
        raise build_parent_error(new) from error
