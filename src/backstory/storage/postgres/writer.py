"""Appends to a PostgreSQL store, and new agents.

There are two ways to append. A *statement* appends one event. It takes two thirds of the time of
the function, but a distributed store refuses it. The *function* `append_many` of the database takes
several events as arrays and, if the store is distributed, runs on the server that has the session.

| called | in a transaction of `begin` | one event | several events |
| --- | --- | --- | --- |
| `PostgresWriter.append` | no | the statement, in turn | the function |
| `PostgresTransaction.append` | yes, which has locked the agent | the function | the function |

What is too much for one call of the function is split into batches. An event that is too large for
an array is a batch of its own, which the statement appends, without the turn of the agent.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

from backstory.errors import Conflict
from backstory.log.digests import digest_tail
from backstory.log.events import Draft, Event
from backstory.log.times import MINUTE_US
from backstory.storage.agent_errors import build_key_error, build_parent_error
from backstory.storage.ids import find_place, new_salts
from backstory.storage.postgres import citus, server
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
# that finds the next version, again and again. So plain appends share a second lock, which the
# server grants in the order of requests, and a move takes it alone (`LOCK_IN_TURN`): it waits for
# the appends under way, and later ones wait for it. Its number has the agent's number in the upper
# 16 bits, and the place in the others. Agents whose numbers differ by 65,536 share a lock. The turn
# comes before the row: a transaction that has locked the row does without the turn.
TURN = "%(place)s::bigint | (%(no)s::bigint << 48)"


class PostgresWriter(PostgresReader):
    """Appends events and creates agents over one connection, each call in a transaction of its
    own."""

    def __init__(self, db: PostgresConnection, cluster: citus.Cluster) -> None:
        self._db = db
        self._cluster = cluster

    def _run(self, sql: str, params: Params | None = None, shape: RowShape = tuple) -> list[Any]:
        return run_statement(self._db.write_cursor, sql, params, shape)

    def _prepare(self, ids: Iterable[str]) -> None:
        """Within a transaction that writes in the places of `ids`: call it before the first lock,
        for a distributed store."""
        if self._cluster.is_distributed:
            citus.prepare_transaction(self._db, map(find_place, ids))

    # --- appends ---

    def append(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None = None
    ) -> list[Event]:
        if len(drafts) == 1 and not self._cluster.is_distributed:
            try:
                return self._append_by_statement(self.APPEND_IN_TURN, agent, drafts[0], expected)
            except psycopg.Error as error:
                # If the store was distributed since it was opened, the function can append.
                if not self._cluster.is_cause(error, self._db):
                    raise
        return self.append_in_batches(agent, drafts, expected)

    def append_in_batches(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        """Append events without the turn of the agent. Several batches are written in one
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

    def _append_batch(
        self, agent: AgentRecord, batch: "DraftBatch", expected: int | None, now_us: int | None
    ) -> list[Event]:
        if batch.fits_function or self._cluster.is_distributed:
            return self._append_by_function(agent, batch.drafts, expected, now_us)
        [draft] = batch.drafts
        # The transaction may have locked the row already. Then it is too late for the turn: a move
        # may have it, and wait for the row.
        return self._append_by_statement(self.APPEND_WITHOUT_TURN, agent, draft, expected, now_us)

    # The server hashes only what the client cannot know in advance: `tail` is `digest_tail`. OFFSET
    # 0 keeps the planner from computing the time wherever `t.at` is written. A NOTIFY makes commits
    # wait for one another, so it is only sent while there are followers (`watch`).
    NOW = "coalesce(%(now)s::bigint, backstory.read_clock())"
    APPEND = f"""
        WITH moved AS (
            UPDATE backstory.agents a
            SET (head, updated_at, touched, times_dropped, digest) = (
                SELECT a.head + 1, t.at, t.at / {MINUTE_US}, a.times_dropped OR t.at < a.updated_at,
                    backstory.link(a.digest, a.head + 1, t.at, %(tail)b::bytea)
                FROM (SELECT backstory.next_time(a.updated_at, {NOW}, {NOW}) AS at OFFSET 0) t)
            WHERE a.place = %(place)s::bigint AND a.no = %(no)s::int AND a.deleted IS NULL
                AND {{turn}}
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
    TAKE_TURN = f"pg_catalog.pg_advisory_xact_lock_shared({TURN}) IS NOT NULL"
    APPEND_IN_TURN = APPEND.format(turn=TAKE_TURN)
    APPEND_WITHOUT_TURN = APPEND.format(turn="true")

    def _append_by_statement(
        self,
        sql: str,
        agent: AgentRecord,
        draft: Draft,
        expected: int | None,
        now_us: int | None = None,
    ) -> list[Event]:
        """Append one event to a store on one server, by a statement."""
        measure_event(draft.content, draft.data_json)  # raises if it is too large
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
        rows = self._run_append(sql, params, agent)
        if not rows:
            raise self._build_conflict(agent, expected)
        [(seq, created_us, _)] = rows
        return [draft.at(seq, created_us)]

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
        return [draft.at(seq, created_us) for seq, draft in enumerate(drafts, before + 1)]

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
        is_in_directory = find_place(new.id) != find_place(new.session)
        batches = split_batches(drafts)
        is_one_call = len(batches) == 1 and batches[0].fits_function
        if is_one_call and not is_in_directory:
            return self._call_create(new, drafts, now_us)
        with self._db.transaction():
            self._prepare([new.id, new.session])
            if is_in_directory:
                entry = {"place": find_place(new.id), "id": new.id, "session": new.session}
                self._run(self.INSERT_ENTRY, entry)
            record = self._call_create(new, (), now_us)
            if drafts:
                self.append_in_batches(record, drafts, now_us=now_us)
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


# --- batches ---


class DraftBatch(NamedTuple):
    """Events that are appended at once."""

    drafts: Drafts
    bytes: int

    @property
    def fits_function(self) -> bool:
        """False if it is one event that is too large for an array, and so for the function."""
        return self.bytes <= server.LARGEST_BATCH


def split_batches(drafts: Drafts) -> list[DraftBatch]:
    """Return the events in batches, at least one. An event that is too large for an array is alone
    in its batch. Raises Invalid if an event is too large for PostgreSQL."""
    batches: list[DraftBatch] = []
    start = size = 0
    for nth, draft in enumerate(drafts):
        bytes = measure_event(draft.content, draft.data_json)
        is_full = size + bytes > server.LARGEST_BATCH or nth - start == server.BATCH
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
