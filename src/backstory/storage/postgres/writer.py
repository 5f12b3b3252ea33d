"""Appends to a PostgreSQL store, and new agents.

There are two ways to append. A *statement* appends one event. It takes two thirds of the time of
the function. The *function* `append_many` of the database takes several events as arrays; what is
too much for one call is split into batches. So `append` and `_append_batch` choose:

| | alone, in a transaction of its own | one of several batches, or in a transaction of `begin` |
| --- | --- | --- |
| one event | the statement, in the queue | the function |
| several events | the function | the function |
| one that is too large for an array | the statement, in the queue | the statement, without it |

The queue is that of the agent (`QUEUE`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

from backstory.errors import Conflict
from backstory.log.chain import digest_tail
from backstory.log.events import Draft, Event
from backstory.log.times import MINUTE_US
from backstory.storage.agent_errors import build_key_error, build_parent_error
from backstory.storage.ids import new_salt, new_salts, parse_place
from backstory.storage.postgres import server
from backstory.storage.postgres.rows import PostgresReader, identify, run_statement
from backstory.storage.postgres.server import (
    Params,
    PostgresConnection,
    measure_event,
    violates,
)
from backstory.storage.protocol import AgentRecord, Drafts, NewAgent
from backstory.storage.sql import RowShape

# The agent's row is the lock: writers wait for it, and each sees the head that the previous one
# left. But it is not fair: a writer that waits for one version of the row can be overtaken by one
# that finds the next version, again and again. So an agent has a second lock, its queue, which the
# server grants in the order of requests:
# - An append of one event outside of a transaction shares it (`APPEND_IN_QUEUE`).
# - A transaction for one agent takes it alone (`LOCK_IN_QUEUE`): moves, keyed appends, compactions.
#   It waits for the appends under way, and later ones wait for it.
# - All others do without it: several events outside of a transaction, transactions for sessions or
#   for several agents, and whatever a transaction writes after it has locked the row.
# The number of the lock has the agent's number in the upper 16 bits, and the place in the others.
# Agents whose numbers differ by 65,536 share a lock.
QUEUE = "%(place)s::bigint | (%(no)s::bigint << 48)"


class PostgresWriter(PostgresReader):
    """Appends events and creates agents over one connection, each call in its own transaction, or
    in the one that is open."""

    def __init__(self, db: PostgresConnection) -> None:
        self._db = db

    def _run(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        return run_statement(self._db.find_cursor(shape), sql, bindings)

    def _prepare(self, ids: Iterable[str]) -> None:
        """Prepare a transaction that writes in the places of `ids`, before its first lock. On one
        server, there is nothing to do."""

    # --- appends ---

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        if len(drafts) > 1:
            return self._append_batches(agent, drafts, expected, now_us)
        [draft] = drafts
        measure_event(draft.content, draft.data_json)  # raises Invalid if it is too large
        return self._append_by_statement(self.APPEND_IN_QUEUE, agent, draft, expected, now_us)

    def _append_batches(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        """Append events without waiting in the queue. Several batches are written in one
        transaction, which is a savepoint if there is one already."""
        batches = split_batches(drafts)
        if len(batches) == 1:
            return self._append_batch(agent, batches[0], expected, now_us)
        if now_us is None:
            now_us = self.read_clock()  # one time for all batches
        events: list[Event] = []
        with self._db.transaction():
            self._prepare([agent.session])
            for batch in batches:
                events += self._append_batch(agent, batch, expected, now_us)
                expected = events[-1].seq
        return events

    # Not in the queue, because the transaction may have locked the row already: a move may be first
    # in the queue, and wait for the row.
    def _append_batch(
        self, agent: AgentRecord, batch: "DraftBatch", expected: int | None, now_us: int | None
    ) -> list[Event]:
        if batch.is_too_large_for_array:
            sql = self.APPEND_WITHOUT_QUEUE
            return self._append_by_statement(sql, agent, batch.drafts[0], expected, now_us)
        return self._append_by_function(agent, batch.drafts, expected, now_us)

    # The server hashes only what the client cannot know in advance: `tail` is `digest_tail`. OFFSET
    # 0 keeps the planner from computing the time wherever `t.at` is written. The last expression is
    # what the function `announce` does, but it locks `followers` before the statement waits for the
    # agent's row, so `watch` knows when it may have missed an append. A call takes as long.
    NOW = "coalesce(%(now)s::bigint, backstory.read_clock())"
    APPEND = f"""
        WITH updated AS (
            UPDATE backstory.agents a
            SET (head, updated_at, touched, times_dropped, digest) = (
                SELECT a.head + 1, t.at, t.at / {MINUTE_US}, a.times_dropped OR t.at < a.updated_at,
                    backstory.link(a.digest, a.head + 1, t.at, %(tail)b::bytea)
                FROM (SELECT backstory.next_time(a.updated_at, {NOW}, {NOW}) AS at OFFSET 0) t)
            WHERE a.place = %(place)s::bigint AND a.no = %(no)s::int AND a.deleted IS NULL
                AND {{wait_in_queue}}
                AND (%(expected)s::int IS NULL OR a.head = %(expected)s::int)
            RETURNING a.head, a.updated_at, a.digest)
        INSERT INTO backstory.events (
            place, created_at, agent, seq, base, kind, content, data, key, digest, salt)
        SELECT %(place)s::bigint, u.updated_at, %(no)s::int, u.head, %(base)s::int, %(kind)s::text,
            %(content)s::text, %(data)s::text, %(key)s::text, u.digest, %(salt)b::bytea
        FROM updated u
        RETURNING seq, created_at, CASE WHEN EXISTS (
            SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp())
            THEN pg_catalog.pg_notify('backstory', '') IS NULL END"""
    WAIT_IN_QUEUE = f"pg_catalog.pg_advisory_xact_lock_shared({QUEUE}) IS NOT NULL"
    APPEND_IN_QUEUE = APPEND.format(wait_in_queue=WAIT_IN_QUEUE)
    APPEND_WITHOUT_QUEUE = APPEND.format(wait_in_queue="true")

    def _append_by_statement(
        self,
        sql: str,
        agent: AgentRecord,
        draft: Draft,
        expected: int | None,
        now_us: int | None,
    ) -> list[Event]:
        """Append one event by a statement."""
        salt = new_salt()
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
        rows = self._run_append(sql, params, agent)
        if not rows:
            raise self._build_conflict(agent, expected)
        [(seq, created_us, _)] = rows
        return [draft.to_event(seq, created_us)]

    APPEND_MANY = """
        SELECT before, at FROM backstory.append_many(
            %(place)s::bigint, %(no)s, %(expected)s, %(now)s, %(kind)s::text[],
            %(content)s::text[], %(data)s::text[], %(key)s::text[], %(base)s::int[],
            %(salt)b::bytea[], %(tail)b::bytea[])"""

    def _append_by_function(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int | None
    ) -> list[Event]:
        """Append events by one call of the function."""
        params = {**identify(agent), **build_columns(drafts), "expected": expected, "now": now_us}
        [(before, created_us)] = self._run_append(self.APPEND_MANY, params, agent)
        if before is None:
            raise self._build_conflict(agent, expected)
        return [draft.to_event(seq, created_us) for seq, draft in enumerate(drafts, before + 1)]

    def _build_conflict(self, agent: AgentRecord, expected: int | None) -> Conflict:
        """Return the error for an append that wrote nothing. Raises AgentNotFound if the agent was
        deleted, which is the only reason if no head is expected."""
        head = self.read_head(agent)
        assert expected is not None
        return Conflict.at(agent.name, expected, head)

    def _run_append(self, sql: str, params: Params, agent: AgentRecord) -> list[Any]:
        """Run a statement that appends. Raises KeyTaken if the index of keys refuses an event."""
        try:
            return self._run(sql, params)
        except psycopg.errors.UniqueViolation as error:
            if not violates(error, "event_keys"):
                raise
            raise build_key_error(agent) from error

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

    def insert_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None) -> AgentRecord:
        """Write an agent and its first events, by one call if its id contains the place of its
        session. Raises UniqueViolation if its name or id is taken."""
        is_in_directory = parse_place(new.id) != parse_place(new.session)
        batches = split_batches(drafts)
        is_one_call = len(batches) == 1 and not batches[0].is_too_large_for_array
        if is_one_call and not is_in_directory:
            return self._call_create(new, drafts, now_us)
        with self._db.transaction():
            self._prepare([new.id, new.session])
            if is_in_directory:
                entry = {"place": parse_place(new.id), "id": new.id, "session": new.session}
                self._run(self.INSERT_ENTRY, entry)
            record = self._call_create(new, (), now_us)
            if drafts:
                self._append_batches(record, drafts, now_us=now_us)
        return record._replace(head=record.head + len(drafts))

    def _call_create(self, new: NewAgent, drafts: Drafts, now_us: int | None) -> AgentRecord:
        params = {**new._asdict(), **build_columns(drafts)}
        params |= {"agent_key": new.key, "place": parse_place(new.session), "now": now_us}
        try:
            [(no, created_us, parent)] = self._run(self.CREATE, params)
        except psycopg.errors.ForeignKeyViolation as error:
            raise build_parent_error(new) from error
        record = new.to_record(no, parent, created_us)
        return record._replace(head=new.fork_seq + len(drafts))


# --- batches ---


class DraftBatch(NamedTuple):
    """Events that are appended at once."""

    drafts: Drafts
    bytes: int

    @property
    def is_too_large_for_array(self) -> bool:
        """True if it is one event that the function cannot take."""
        return self.bytes > server.LARGEST_BATCH


def split_batches(drafts: Drafts) -> list[DraftBatch]:
    """Return the events in batches, at least one. An event that is too large for an array is alone
    in its batch. Raises Invalid if an event is too large for PostgreSQL."""
    batches: list[DraftBatch] = []
    start = size = 0
    for nth, draft in enumerate(drafts):
        bytes = measure_event(draft.content, draft.data_json)
        is_full = size + bytes > server.LARGEST_BATCH or nth - start == server.EVENTS_PER_CALL
        if is_full and nth > start:
            batches.append(DraftBatch(drafts[start:nth], size))
            start, size = nth, 0
        size += bytes
    batches.append(DraftBatch(drafts[start:], size))
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
