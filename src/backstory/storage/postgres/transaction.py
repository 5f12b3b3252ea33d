"""Every write to a PostgreSQL store, with its statement above it.

There are two ways to append. The statement APPEND_ONE takes two thirds of the time of a function.
The function `append_many` of the database takes batches and, if the store is distributed, runs on
the server that has the session.

- `PostgresBackend.append` calls `append_one` for one event, and otherwise `append`. No transaction
  was begun, so each statement is one, and `append` begins one if it needs several.
- `storage.write` and `storage.compact` call `append` in the transaction of `begin`, which has
  locked the agent.
- `append` calls `append_one` for an event that is too large for an array.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import psycopg

from backstory.errors import Conflict, NameTaken
from backstory.log.digests import digest_tail
from backstory.log.events import Draft, Event, StoredRow
from backstory.log.times import do_times_drop
from backstory.storage.agent_errors import build_deletion_error, build_key_error, build_parent_error
from backstory.storage.ids import find_place, name_deleted_agent, new_salts
from backstory.storage.postgres import citus, index, schema, server
from backstory.storage.postgres.rows import (
    IS_AGENT,
    READ_HEAD,
    PostgresReader,
    identify,
    run_statement,
)
from backstory.storage.postgres.schema import MINUTE_US
from backstory.storage.postgres.server import (
    Params,
    PostgresConnection,
    measure_event,
    violates,
)
from backstory.storage.protocol import (
    AgentChange,
    AgentRecord,
    Drafts,
    NewAgent,
    RemovalRecord,
    SourceRecord,
)
from backstory.storage.sql import RowShape

# The agent's row is the lock: writers wait for it, and each sees the head that the previous one
# left. But it is not fair: a writer that waits for one version of the row can be overtaken by one
# that finds the next version, again and again. So plain appends share a second lock, which the
# server grants in the order of requests, and a move takes it alone (`LOCK_IN_TURN`): it waits for
# the appends under way, and later ones wait for it. Its number has the agent's number in the upper
# 16 bits, and the place in the others. Agents whose numbers differ by 65,536 share a lock.
TURN = "%(place)s::bigint | (%(no)s::bigint << 48)"


class PostgresTransaction(PostgresReader):
    """Reads and writes over one connection. Within a transaction that the backend began, all is
    committed together. Without one, each call of `append`, `append_one` or `insert_agent` is a
    transaction of its own."""

    def __init__(self, db: PostgresConnection, cluster: citus.Cluster) -> None:
        self._db = db
        self._cluster = cluster
        self._has_index: bool | None = None  # None: the index is not locked yet

    def _run(self, sql: str, params: Params | None = None, shape: RowShape = tuple) -> list[Any]:
        return run_statement(self._db.write_cursor, sql, params, shape)

    # --- locks ---

    LOCK_PLACE = """
        INSERT INTO backstory.places AS p VALUES (%(place)s::bigint, 0)
        ON CONFLICT (place) DO UPDATE SET last_no = p.last_no"""
    LOCK_ALL_AGENTS = """
        SELECT 1 FROM backstory.agents
        WHERE place = %(place)s::bigint AND session = %(session)s::uuid
        ORDER BY id FOR UPDATE"""
    LOCK_AGENT = f"{READ_HEAD} FOR NO KEY UPDATE"
    LOCK_IN_TURN = f"""
        {READ_HEAD} AND pg_catalog.pg_advisory_xact_lock({TURN}) IS NOT NULL FOR NO KEY UPDATE"""

    def _prepare(self, ids: Iterable[str]) -> None:
        """Within a transaction that writes in the places of `ids`: call it before the first lock,
        for a distributed store."""
        if self._cluster.is_distributed:
            citus.prepare_transaction(self._db, map(find_place, ids))

    def lock(self, sessions: Sequence[str], agents: Sequence[AgentRecord]) -> None:
        """Lock sessions, all their agents, then `agents`, in the order that `protocol` says. Raises
        AgentNotFound if one of `agents` was deleted."""
        self._prepare([*sessions, *(agent.session for agent in agents)])
        places = {find_place(session) for session in sessions}
        for place in sorted(places):
            self._run(self.LOCK_PLACE, {"place": place})
        # No agent can be created any more, so this sees and locks all of them.
        for session in sorted(sessions):
            params = {"place": find_place(session), "session": session}
            self._run(self.LOCK_ALL_AGENTS, params)
        lock_agent = self.LOCK_AGENT
        # The server has room for a few thousand locks of the second kind, and a batch may be for
        # more agents. A distributed store has no plain appends that could overtake.
        if len(agents) == 1 and not self._cluster.is_distributed:
            lock_agent = self.LOCK_IN_TURN
        for agent in sorted(agents, key=attrgetter("session", "id")):
            if not self._run(lock_agent, identify(agent)):
                raise build_deletion_error(agent)

    def _lock_index(self) -> bool:
        """Lock the search index before something is removed. Return False if there is none."""
        if self._has_index is None:
            self._run(schema.LOCK_INDEX)
            self._has_index = self._run(schema.HAS_SEARCH_INDEX) == [(True,)]
        return self._has_index

    # --- appends ---

    # The server hashes only what the client cannot know in advance: `tail` is `digest_tail`. A
    # NOTIFY makes commits wait for one another, so it is only sent while there are followers
    # (`watch`).
    NOW = "coalesce(%(now)s::bigint, backstory.read_clock())"
    NEXT_TIME = f"backstory.next_time(a.updated_at, {NOW}, {NOW})"
    APPEND_ONE = f"""
        WITH moved AS (
            UPDATE backstory.agents a
            SET head = a.head + 1, updated_at = {NEXT_TIME}, touched = {NEXT_TIME} / {MINUTE_US},
                times_dropped = a.times_dropped OR {NEXT_TIME} < a.updated_at,
                digest = pg_catalog.substr(pg_catalog.sha256(
                    coalesce(a.digest, '\\x00000000000000000000000000000000'::bytea)
                    || pg_catalog.int8send(a.head + 1::bigint)
                    || pg_catalog.int8send({NEXT_TIME})
                    || %(tail)b::bytea), 1, 16)
            WHERE a.place = %(place)s::bigint AND a.no = %(no)s::int AND a.deleted IS NULL
                AND pg_catalog.pg_advisory_xact_lock_shared({TURN}) IS NOT NULL
                AND (%(expected)s::int IS NULL OR a.head = %(expected)s::int)
            RETURNING a.head, a.updated_at, a.digest)
        INSERT INTO backstory.events (
            place, created_at, agent, seq, base, kind, content, data, key, digest, salt)
        SELECT %(place)s::bigint, m.updated_at, %(no)s::int, m.head, %(base)s::int, %(kind)s::text,
            %(content)s::text, %(data)s::text, %(key)s::text, m.digest, %(salt)b::bytea
        FROM moved m
        RETURNING seq, created_at, CASE WHEN EXISTS (
            SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp())
            THEN pg_catalog.pg_notify('backstory', '') IS NULL END"""

    def append_one(
        self, agent: AgentRecord, draft: Draft, expected: int | None, now_us: int | None = None
    ) -> list[Event]:
        """Append one event to a store on one server, by one statement. Raises like `append`."""
        measure_event(draft.content, draft.data_json)
        [salt] = new_salts(1)
        params = {
            **identify(agent),
            "expected": expected,
            "now": now_us,
            "kind": draft.kind,
            "content": draft.content,
            "data": draft.data_json,
            "key": draft.key,
            "base": draft.base,
            "salt": salt,
            "tail": digest_tail(draft, salt),
        }
        rows = self._run_append(self.APPEND_ONE, params, agent)
        if not rows:
            raise self._build_conflict(agent, expected)
        [(seq, created_us, _)] = rows
        return [draft.at(seq, created_us)]

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        """As in the protocol, also without a transaction. Calls the function once for each batch,
        within one transaction, which is a savepoint if the backend began one."""
        batches = split_batches(drafts)
        if len(batches) == 1:
            return self._append_batch(agent, drafts, expected, now_us)
        events: list[Event] = []
        if now_us is None:
            now_us = self.read_clock()  # one time for all batches
        with self._db.transaction():
            self._prepare([agent.session])
            for batch in batches:
                events += self._append_batch(agent, batch, expected, now_us)
                expected = events[-1].seq
        return events

    APPEND_MANY = """
        SELECT before, at FROM backstory.append_many(
            %(place)s::bigint, %(no)s, %(expected)s, %(now)s, %(kind)s::text[],
            %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[],
            %(salt)b::bytea[], %(tail)b::bytea[])"""

    def _append_batch(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int | None
    ) -> list[Event]:
        """Append events that fit into one call."""
        if is_too_large(drafts) and not self._cluster.is_distributed:
            [draft] = drafts  # `split_batches` leaves so large an event alone
            return self.append_one(agent, draft, expected, now_us)
        params = {**identify(agent), **build_columns(drafts), "expected": expected, "now": now_us}
        [(before, created_us)] = self._run_append(self.APPEND_MANY, params, agent)
        if before is None:
            raise self._build_conflict(agent, expected)
        return [draft.at(seq, created_us) for seq, draft in enumerate(drafts, before + 1)]

    def _build_conflict(self, agent: AgentRecord, expected: int | None) -> Conflict:
        """Return the error for an append that wrote nothing. Raises AgentNotFound if the agent was
        deleted, which is the only reason if no head is expected."""
        head = self.read_head(agent)
        return Conflict.at(agent.name, head if expected is None else expected, head)

    def _run_append(self, sql: str, params: Params, agent: AgentRecord) -> list[Any]:
        """Run a statement that appends. Raises KeyTaken if the index of keys refuses an event."""
        try:
            return self._run(sql, params)
        except psycopg.errors.UniqueViolation as error:
            if not violates(error, "event_keys"):
                raise
            raise build_key_error(agent) from error

    INSERT_EVENTS = """
        COPY backstory.events (
            place, agent, seq, kind, content, data, created_at, key, base, digest, salt)
        FROM STDIN"""
    MOVE_HEAD = f"""
        UPDATE backstory.agents
        SET head = %(head)s, updated_at = %(updated_us)s, touched = %(updated_us)s / {MINUTE_US},
            digest = %(digest)s,
            times_dropped = times_dropped OR %(has_dropped)s OR updated_at > %(first_us)s
        WHERE place = %(place)s::bigint AND no = %(no)s"""
    # Not in RETURNING: Citus does not allow a function that may write there.
    ANNOUNCE = "SELECT backstory.announce()"

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        place = find_place(agent.session)
        with self._db.cursor().copy(self.INSERT_EVENTS) as copy:
            for row in rows:
                measure_event(row.content, row.data_json)  # raises if it is too large
                copy.write_row((place, agent.pk, *row))
        last = rows[-1]
        params = {
            "head": last.seq,
            "first_us": rows[0].created_us,
            "updated_us": last.created_us,
            "has_dropped": do_times_drop(row.created_us for row in rows),
            "digest": last.digest,
        }
        self._run(self.MOVE_HEAD, {**identify(agent), **params})
        self._run(self.ANNOUNCE)

    # --- agents ---

    INSERT_ENTRY = """
        INSERT INTO backstory.directory
        VALUES (%(place)s::bigint, %(id)s::uuid, %(session)s::uuid)"""
    CREATE = """
        SELECT no, at, parent::text FROM backstory.create_agent(
            %(place)s::bigint, %(id)s::uuid, %(session)s::uuid, %(name)s,
            %(parent_pk)s, %(origin_pk)s, %(fork_seq)s, %(born_seq)s, %(spawned)s, %(now)s,
            %(agent_key)s, %(about)s, %(deleted_us)s, %(kind)s::text[], %(content)s::text[],
            %(data)s::text[], %(key)s::text[], %(base)s::int[], %(salt)b::bytea[],
            %(tail)b::bytea[])"""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        """Also raises Conflict if someone else has just created an agent with the same id."""
        try:
            return self.insert_agent(new, drafts, now_us)
        except psycopg.errors.UniqueViolation as error:
            if violates(error, "agents_session_name_key"):
                raise NameTaken.of(new.name) from error
            message = f"someone else is writing agents of session {new.session}"
            raise Conflict(message, remedy="import again") from error

    def insert_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None) -> AgentRecord:
        """Write an agent and its first events, by one call if its id contains the place of its
        session. Raises UniqueViolation if its name or id is taken."""
        is_in_directory = find_place(new.id) != find_place(new.session)
        if not is_in_directory and not is_too_large(drafts):
            return self._call_create(new, drafts, now_us)
        with self._db.transaction():
            self._prepare([new.id, new.session])
            if is_in_directory:
                entry = {"place": find_place(new.id), "id": new.id, "session": new.session}
                self._run(self.INSERT_ENTRY, entry)
            record = self._call_create(new, (), now_us)
            if drafts:
                self.append(record, drafts, None, now_us)
        return record._replace(head=record.head + len(drafts))

    def _call_create(self, new: NewAgent, drafts: Drafts, now_us: int | None) -> AgentRecord:
        params = {**new._asdict(), **build_columns(drafts)}
        params |= {"agent_key": new.key, "place": find_place(new.session), "now": now_us}
        try:
            [(no, created_us, parent)] = self._run(self.CREATE, params)
        except psycopg.errors.ForeignKeyViolation as error:
            raise build_parent_error(new) from error
        record = new.to_record(no, parent, created_us)
        return record._replace(head=new.fork_seq + len(drafts))

    UPDATE = f"""
        UPDATE backstory.agents
        SET name = coalesce(%(name)s::text, name),
            about = nullif(coalesce(%(about)s::text, about), '')
        WHERE {IS_AGENT} RETURNING no"""

    def update_agent(self, agent: AgentRecord, change: AgentChange) -> None:
        try:
            rows = self._run(self.UPDATE, {**identify(agent), **change._asdict()})
        except psycopg.errors.UniqueViolation as error:
            raise NameTaken.of(change.name or agent.name) from error
        if not rows:
            raise build_deletion_error(agent)

    # --- sources ---

    REMEMBER = """
        INSERT INTO backstory.sources AS s (tool, id, agent, cursor) VALUES (%s, %s, %s::uuid, %s)
        ON CONFLICT (id, tool) DO UPDATE
        SET agent = coalesce(excluded.agent, s.agent),
            cursor = coalesce(excluded.cursor, s.cursor)"""

    def remember_sources(self, sources: Sequence[SourceRecord]) -> None:
        with self._db.cursor() as cursor:
            cursor.executemany(self.REMEMBER, sources)

    # --- removals; the server frees the space when it vacuums ---

    ERASE = """
        UPDATE backstory.events SET content = %(content)s, data = %(data)s, salt = NULL
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        params = {**identify(agent), "seq": seq}
        if self._lock_index():
            self._run(index.FORGET_EVENT, params)
        self._run(self.ERASE, {**params, "content": content, "data": data_json})

    REWRITE_DATA = """
        UPDATE backstory.events SET data = %(data)s
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        self._run(self.REWRITE_DATA, {**identify(agent), "seq": seq, "data": data_json})

    DELETE_EVENTS = """
        DELETE FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(keep)s"""
    MOVE_HEAD_BACK = """
        UPDATE backstory.agents a SET head = %(keep)s, digest = (
            SELECT e.digest FROM backstory.events e
            WHERE e.place = %(place)s::bigint AND e.agent = %(no)s AND e.seq = %(keep)s)
        WHERE a.place = %(place)s::bigint AND a.no = %(no)s"""
    DELETE_SOURCES = "DELETE FROM backstory.sources WHERE agent = %(id)s::uuid"
    DELETE_AGENT = "DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND no = %(no)s"
    DELETE_ENTRY = """
        DELETE FROM backstory.directory WHERE place = %(place)s::bigint AND id = %(id)s::uuid"""

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        last = 0 if keep is None else keep  # by the agent's number, whatever head was read
        params = {**identify(agent), "id": agent.id, "keep": last, "now": now_us}
        if self._lock_index():
            self._run(index.FORGET_AFTER, params)
            self._run(index.FORGET_AGENT if keep is None else index.LIMIT_INDEXED, params)
        self._run(self.DELETE_EVENTS, params)
        self._run(self.DELETE_SOURCES, params)
        if keep is None:
            self._run(self.DELETE_AGENT, params)
            self._run(self.DELETE_ENTRY, {"place": find_place(agent.id), "id": agent.id})
        else:
            if last < agent.head:
                self._run(self.MOVE_HEAD_BACK, params)
            self._leave_tombstone(agent, params)

    LEAVE_TOMBSTONE = """
        UPDATE backstory.agents
        SET name = %(name)s, key = NULL, about = NULL, deleted = coalesce(deleted, %(now)s),
            fork_seq = CASE WHEN %(inherits)s THEN fork_seq ELSE 0 END,
            head = CASE WHEN %(inherits)s THEN head ELSE 0 END
        WHERE place = %(place)s::bigint AND no = %(no)s"""

    def _leave_tombstone(self, agent: AgentRecord, params: Params) -> None:
        """Leave the row, because other agents come from it, without name, key and details. An agent
        without own events inherits nothing either."""
        inherits = params["keep"] > agent.fork_seq
        name = name_deleted_agent(agent.id)
        self._run(self.LEAVE_TOMBSTONE, {**params, "name": name, "inherits": inherits})

    RECORD_REMOVAL = """
        INSERT INTO backstory.removals (
            place, id, removed_at, action, session, agent, positions, events, author, reason)
        VALUES (
            %(place)s::bigint, %(id)s::uuid, %(removed_us)s, %(action)s, %(session)s::uuid,
            %(agent_id)s::uuid, %(positions)s, %(events)s, %(by)s, %(reason)s)"""

    def record_removals(self, records: Sequence[RemovalRecord]) -> None:
        for record in records:
            place = find_place(record.session)
            self._run(self.RECORD_REMOVAL, {**record._asdict(), "place": place})


# --- batches ---


def is_too_large(drafts: Drafts) -> bool:
    """Return True if one call cannot take the events as arrays."""
    size = sum(measure_event(draft.content, draft.data_json) for draft in drafts)
    return len(drafts) > server.BATCH or size > server.LARGEST_BATCH


def split_batches(drafts: Drafts) -> list[Drafts]:
    """Return the events in batches that fit into one call. An event that is too large for an array
    is alone in its batch. Raises Invalid if an event is too large for any call."""
    batches: list[Drafts] = []
    start = size = 0
    for nth, draft in enumerate(drafts):
        bytes = measure_event(draft.content, draft.data_json)
        is_full = size + bytes > server.LARGEST_BATCH or nth - start == server.BATCH
        if is_full and nth > start:
            batches.append(drafts[start:nth])
            start, size = nth, 0
        size += bytes
    batches.append(drafts[start:])
    return batches


def build_columns(drafts: Drafts) -> Params:
    """Return events as the parameters of a function: one array for each column."""
    salts = new_salts(len(drafts))
    return {
        "kind": [draft.kind for draft in drafts],
        "content": [draft.content for draft in drafts],
        "data": [draft.data_json for draft in drafts],
        "key": [draft.key for draft in drafts],
        "base": [draft.base for draft in drafts],
        "salt": salts,
        "tail": [digest_tail(draft, salt) for draft, salt in zip(drafts, salts, strict=True)],
    }
