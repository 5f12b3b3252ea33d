"""Every write to a PostgreSQL store, with its statement above it.

There are two ways to append. `append_one` is a plain statement and a transaction of its own; it
takes two thirds of the time of a function. `append` calls the function `append_many` of the
database: for batches, within a transaction that has locked the agent, and for a distributed store,
where the function runs on the server that has the session.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from backstory.errors import Conflict, NameTaken
from backstory.log.digests import digest_tail
from backstory.log.events import Draft, Event, StoredRow
from backstory.storage.ids import PLACEHOLDER, find_place, name_deleted_agent, new_id
from backstory.storage.postgres import citus, index, schema, server
from backstory.storage.postgres.rows import (
    IS_AGENT,
    READ_HEAD,
    PostgresReader,
    identify,
    run_statement,
)
from backstory.storage.postgres.server import (
    Params,
    PostgresConnection,
    measure_event,
    violates,
)
from backstory.storage.protocol import AgentChange, AgentRecord, Drafts, NewAgent, SourceRecord
from backstory.storage.refusals import build_deletion_error, build_key_error, build_parent_error
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

    LOCK_SESSION = """
        SELECT 1 FROM backstory.agents WHERE place = %(place)s::bigint ORDER BY no FOR UPDATE"""
    LOCK_AGENT = f"{READ_HEAD} FOR NO KEY UPDATE"
    LOCK_IN_TURN = f"""
        {READ_HEAD} AND pg_catalog.pg_advisory_xact_lock({TURN}) IS NOT NULL FOR NO KEY UPDATE"""

    def lock(self, sessions: Sequence[str], agents: Sequence[AgentRecord]) -> None:
        """Lock sessions, then agents, in the order of their ids, so that nobody waits in a circle.
        Raises AgentNotFound if an agent was deleted."""
        if self._cluster.is_distributed:
            citus.limit_waiting(self._db)
        for session in sorted(sessions):
            self._run(self.LOCK_SESSION, {"place": find_place(session)})
        lock_agent = self.LOCK_AGENT
        # The server has room for a few thousand locks of the second kind, and a batch may be for
        # more agents. A distributed store has no plain appends that could overtake.
        if len(agents) == 1 and not self._cluster.is_distributed:
            lock_agent = self.LOCK_IN_TURN
        for agent in sorted(agents, key=lambda agent: agent.id):
            if not self._run(lock_agent, identify(agent)):
                raise build_deletion_error(agent)

    def _lock_index(self) -> bool:
        """Lock the search index before something is removed. Return False if there is none."""
        if self._has_index is None:
            self._run(index.LOCK_INDEX)
            self._has_index = self._run(schema.HAS_SEARCH_INDEX) == [(True,)]
        return self._has_index

    # --- appends ---

    # The server hashes only what the client cannot know in advance: `tail` is `digest_tail`. A
    # NOTIFY makes commits wait for one another, so it is only sent while there are followers
    # (`watch`).
    APPEND_ONE = f"""
        WITH moved AS (
            UPDATE backstory.agents a
            SET head = a.head + 1, updated_at = greatest(a.updated_at, %(now)s::bigint),
                touched = greatest(a.updated_at, %(now)s::bigint) / 1000000,
                digest = pg_catalog.substr(pg_catalog.sha256(
                    coalesce(a.digest, '\\x00000000000000000000000000000000'::bytea)
                    || pg_catalog.int8send(a.head + 1::bigint)
                    || pg_catalog.int8send(greatest(a.updated_at, %(now)s::bigint))
                    || %(tail)b::bytea), 1, 16)
            WHERE a.place = %(place)s::bigint AND a.no = %(no)s::int
                AND a.created_at = %(created)s::bigint AND a.deleted IS NULL
                AND pg_catalog.pg_advisory_xact_lock_shared({TURN}) IS NOT NULL
                AND (%(expected)s::int IS NULL OR a.head = %(expected)s::int)
            RETURNING a.head, a.updated_at, a.digest)
        INSERT INTO backstory.events (
            place, created_at, agent, seq, base, kind, content, data, key, digest)
        SELECT %(place)s::bigint, m.updated_at, %(no)s::int, m.head, %(base)s::int, %(kind)s::text,
            %(content)s::text, %(data)s::text, %(key)s::text, m.digest
        FROM moved m
        RETURNING seq, created_at, CASE WHEN EXISTS (
            SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp())
            THEN pg_catalog.pg_notify('backstory', '') IS NULL END"""

    def append_one(
        self, agent: AgentRecord, draft: Draft, expected: int | None, now_us: int
    ) -> list[Event]:
        """Append one event to a store on one server. Raises like `append`."""
        measure_event(draft.content, draft.data_json)
        params = {
            **identify(agent),
            "expected": expected,
            "now": now_us,
            "kind": draft.kind,
            "content": draft.content,
            "data": draft.data_json,
            "key": draft.key,
            "base": draft.base,
            "tail": digest_tail(draft),
        }
        rows = self._run_append(self.APPEND_ONE, params, agent)
        if not rows:  # read_head raises if the agent was deleted
            raise Conflict.at(agent.name, expected or 0, self.read_head(agent))
        [(seq, created_us, _)] = rows
        return [draft.at(seq, created_us)]

    def append(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int
    ) -> list[Event]:
        batches = split_batches(drafts)
        if len(batches) == 1:
            return self._append_batch(agent, drafts, expected, now_us)
        events: list[Event] = []
        with self._db.transaction():
            for batch in batches:
                events += self._append_batch(agent, batch, expected, now_us)
                expected = events[-1].seq
        return events

    APPEND_MANY = """
        SELECT before, at FROM backstory.append_many(
            %(place)s::bigint, %(no)s, %(created)s, %(expected)s, %(now)s, %(kind)s::text[],
            %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[])"""

    def _append_batch(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int
    ) -> list[Event]:
        if is_too_large(drafts) and not self._cluster.is_distributed:
            [draft] = drafts  # `split_batches` leaves so large an event alone
            return self.append_one(agent, draft, expected, now_us)
        params = {**identify(agent), **build_columns(drafts), "expected": expected, "now": now_us}
        [(before, created_us)] = self._run_append(self.APPEND_MANY, params, agent)
        if before is None:
            raise Conflict.at(agent.name, expected or 0, self.read_head(agent))
        return [draft.at(seq, created_us) for seq, draft in enumerate(drafts, before + 1)]

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
            place, agent, seq, kind, content, data, created_at, key, base, digest)
        FROM STDIN"""
    MOVE_HEAD = """
        UPDATE backstory.agents
        SET head = %(head)s, updated_at = greatest(updated_at, %(updated_us)s),
            touched = greatest(updated_at, %(updated_us)s) / 1000000, digest = %(digest)s
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
        params = {"head": last.seq, "updated_us": last.created_us, "digest": last.digest}
        self._run(self.MOVE_HEAD, {**identify(agent), **params})
        self._run(self.ANNOUNCE)

    # --- agents ---

    INSERT_ENTRY = """
        INSERT INTO backstory.directory
        VALUES (%(place)s::bigint, %(id)s::uuid, %(session)s::uuid)"""
    CREATE = """
        SELECT no, at, parent::text FROM backstory.create_agent(
            %(place)s::bigint, %(id)s::uuid, %(session)s::uuid, %(name)s,
            %(parent_pk)s, %(fork_seq)s, %(born_seq)s, %(spawned)s, %(now)s,
            %(agent_key)s, %(about)s, %(deleted_us)s, %(kind)s::text[], %(content)s::text[],
            %(data)s::text[], %(key)s::text[], %(base)s::int[])"""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int) -> AgentRecord:
        """Also raises Conflict if someone else is creating agents of the session."""
        try:
            return self.insert_agent(new, drafts, now_us)
        except psycopg.errors.UniqueViolation as error:
            if violates(error, "agents_session_name_key"):
                raise NameTaken.of(new.name) from error
            message = f"someone else is writing agents of session {new.session}"
            raise Conflict(message, remedy="import again") from error

    def insert_agent(self, new: NewAgent, drafts: Drafts, now_us: int) -> AgentRecord:
        """Write an agent and its first events, by one call if its id contains the place of its
        session. Raises UniqueViolation if its name, number or id is taken."""
        is_in_directory = find_place(new.id) != find_place(new.session)
        if not is_in_directory and not is_too_large(drafts):
            return self._call_create(new, drafts, now_us)
        with self._db.transaction():
            if is_in_directory:
                entry = {"place": find_place(new.id), "id": new.id, "session": new.session}
                self._run(self.INSERT_ENTRY, entry)
            record = self._call_create(new, (), now_us)
            if drafts:
                self.append(record, drafts, None, now_us)
        return record._replace(head=record.head + len(drafts))

    def _call_create(self, new: NewAgent, drafts: Drafts, now_us: int) -> AgentRecord:
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
        UPDATE backstory.events SET content = %(content)s, data = %(data)s
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        params = {**identify(agent), "seq": seq}
        if self._lock_index():
            self._run(index.FORGET_EVENT, params)
        self._run(self.ERASE, {**params, "content": content, "data": data_json})

    DELETE_EVENTS = """
        DELETE FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(keep)s"""
    MOVE_HEAD_BACK = """
        UPDATE backstory.agents a SET head = %(keep)s, digest = (
            SELECT e.digest FROM backstory.events e
            WHERE e.place = %(place)s::bigint AND e.agent = %(no)s AND e.seq = %(keep)s)
        WHERE a.place = %(place)s::bigint AND a.no = %(no)s"""
    DELETE_SOURCES = "DELETE FROM backstory.sources WHERE agent = %(id)s::uuid"

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        last = agent.fork_seq if keep is None else keep
        params = {**identify(agent), "id": agent.id, "keep": last, "now": now_us}
        if self._lock_index():
            self._run(index.FORGET_AFTER, params)
            self._run(index.FORGET_AGENT if keep is None else index.LIMIT_INDEXED, params)
        self._run(self.DELETE_EVENTS, params)
        self._run(self.DELETE_SOURCES, params)
        if keep is None:
            self._delete_row(agent, params)
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

    LAST_NUMBER = "SELECT pg_catalog.max(no) FROM backstory.agents WHERE place = %(place)s::bigint"
    DELETE_AGENT = "DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND no = %(no)s"
    DELETE_ENTRY = """
        DELETE FROM backstory.directory
        WHERE place = %(entry_place)s::bigint AND id = %(id)s::uuid"""
    DELETE_PLACEHOLDERS = f"""
        DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND name = '{PLACEHOLDER}'
            AND (no < %(last_no)s OR NOT EXISTS (
                SELECT 1 FROM backstory.agents o
                WHERE o.place = %(place)s::bigint AND o.name <> '{PLACEHOLDER}'))"""
    INSERT_PLACEHOLDER = f"""
        INSERT INTO backstory.agents (place, session, no, id, name, fork_seq, born_seq, spawned,
            created_at, head, updated_at, touched, deleted)
        VALUES (%(place)s::bigint, %(session)s::uuid, %(last_no)s, %(new_id)s::uuid,
            '{PLACEHOLDER}', 0, 0, false, %(now)s, 0, %(now)s, 0, %(now)s)"""

    def _delete_row(self, agent: AgentRecord, params: Params) -> None:
        """Delete the row of an agent. Handles of the agent still have its number, so the next agent
        of the session must not get it: a placeholder keeps the number."""
        params = {**params, "entry_place": find_place(agent.id), "session": agent.session}
        [(params["last_no"],)] = self._run(self.LAST_NUMBER, params)
        self._run(self.DELETE_AGENT, params)
        self._run(self.DELETE_ENTRY, params)
        self._run(self.DELETE_PLACEHOLDERS, params)
        [(last_no,)] = self._run(self.LAST_NUMBER, params)
        if last_no is not None and last_no != params["last_no"]:
            self._run(self.INSERT_PLACEHOLDER, {**params, "new_id": new_id()})


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
    return {
        "kind": [draft.kind for draft in drafts],
        "content": [draft.content for draft in drafts],
        "data": [draft.data_json for draft in drafts],
        "key": [draft.key for draft in drafts],
        "base": [draft.base for draft in drafts],
    }
