"""A transaction in a PostgreSQL store: its locks, and its writes, with their statements."""

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

import psycopg

from backstory.errors import Conflict, NameTaken
from backstory.log.events import Event, StoredRow
from backstory.log.times import MINUTE_US, has_time_drop
from backstory.storage.agent_errors import build_deletion_error
from backstory.storage.ids import name_deleted_agent, parse_place
from backstory.storage.postgres.index import PostgresIndexWriter
from backstory.storage.postgres.rows import IS_AGENT, identify
from backstory.storage.postgres.server import (
    Params,
    measure_event,
    violates,
)
from backstory.storage.postgres.writer import QUEUE, PostgresWriter
from backstory.storage.protocol import (
    AgentChange,
    AgentRecord,
    Drafts,
    NewAgent,
    RemovalRecord,
    SourceRecord,
)


class PostgresTransaction(PostgresWriter):
    """Reads and writes within a transaction that the backend began."""

    @cached_property
    def index(self) -> PostgresIndexWriter:
        """The search index, within this transaction."""
        return PostgresIndexWriter(self._run, self._db)

    # --- locks ---

    LOCK_PLACE = """
        INSERT INTO backstory.places AS p VALUES (%(place)s::bigint, 0)
        ON CONFLICT (place) DO UPDATE SET last_no = p.last_no"""
    LOCK_ALL_AGENTS = """
        SELECT 1 FROM backstory.agents
        WHERE place = %(place)s::bigint AND session = %(session)s::uuid
        ORDER BY id FOR UPDATE"""
    LOCK_AGENT = f"{PostgresWriter.READ_HEAD} FOR NO KEY UPDATE"
    LOCK_IN_QUEUE = f"""
        {PostgresWriter.READ_HEAD} AND pg_catalog.pg_advisory_xact_lock({QUEUE}) IS NOT NULL
        FOR NO KEY UPDATE"""

    def lock(self, sessions: Sequence[str], agents: Sequence[AgentRecord]) -> None:
        """Lock sessions, all their agents, then `agents`, in the order that `protocol` says. Raises
        AgentNotFound if one of `agents` was deleted."""
        self._prepare([*sessions, *(agent.session for agent in agents)])
        places = {parse_place(session) for session in sessions}
        for place in sorted(places):
            self._run(self.LOCK_PLACE, {"place": place})
        # No agent can be created any more, so this sees and locks all of them.
        for session in sorted(sessions):
            params = {"place": parse_place(session), "session": session}
            self._run(self.LOCK_ALL_AGENTS, params)
        # The queue of an agent is an advisory lock. The server has room for a few thousand of them,
        # and a transaction may be for more agents.
        lock_agent = self.LOCK_IN_QUEUE if len(agents) == 1 else self.LOCK_AGENT
        for agent in sorted(agents, key=attrgetter("session", "id")):
            if not self._run(lock_agent, identify(agent)):
                raise build_deletion_error(agent)

    # --- events and agents ---

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        return self._append_batches(agent, drafts, expected, now_us)

    INSERT_EVENTS = """
        COPY backstory.events (
            place, agent, seq, kind, content, data, created_at, key, base, digest, salt)
        FROM STDIN"""
    UPDATE_HEAD = f"""
        UPDATE backstory.agents
        SET head = %(head)s, updated_at = %(updated_us)s, touched = %(updated_us)s / {MINUTE_US},
            digest = %(digest)s,
            times_dropped = times_dropped OR %(has_dropped)s OR updated_at > %(first_us)s
        WHERE place = %(place)s::bigint AND no = %(no)s"""
    # Not in RETURNING: Citus does not allow a function that may write there.
    ANNOUNCE = "SELECT backstory.announce()"

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        place = parse_place(agent.session)
        with self._db.cursor().copy(self.INSERT_EVENTS) as copy:
            for row in rows:
                measure_event(row.content, row.data_json)  # raises if it is too large
                copy.write_row((place, agent.pk, *row))
        last = rows[-1]
        params = {
            "head": last.seq,
            "first_us": rows[0].created_us,
            "updated_us": last.created_us,
            "has_dropped": has_time_drop(row.created_us for row in rows),
            "digest": last.digest,
        }
        self._run(self.UPDATE_HEAD, {**identify(agent), **params})
        self._run(self.ANNOUNCE)

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        """Also raises Conflict if someone else has just created an agent with the same id."""
        try:
            return self.insert_agent(new, drafts, now_us)
        except psycopg.errors.UniqueViolation as error:
            if violates(error, "agents_session_name_key"):
                raise NameTaken.of(new.name) from error
            message = f"someone else is writing agents of session {new.session}"
            raise Conflict(message, remedy="import again") from error

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
        self.index.forget_event(agent, seq)
        params = {**identify(agent), "seq": seq, "content": content, "data": data_json}
        self._run(self.ERASE, params)

    REWRITE_DATA = """
        UPDATE backstory.events SET data = %(data)s
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        self._run(self.REWRITE_DATA, {**identify(agent), "seq": seq, "data": data_json})

    DELETE_EVENTS = """
        DELETE FROM backstory.events
        WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(keep)s"""
    SET_HEAD_BACK = """
        UPDATE backstory.agents a SET head = %(keep)s, digest = (
            SELECT e.digest FROM backstory.events e
            WHERE e.place = %(place)s::bigint AND e.agent = %(no)s AND e.seq = %(keep)s)
        WHERE a.place = %(place)s::bigint AND a.no = %(no)s"""
    DELETE_SOURCES = "DELETE FROM backstory.sources WHERE agent = %(id)s::uuid"
    DELETE_AGENT = "DELETE FROM backstory.agents WHERE place = %(place)s::bigint AND no = %(no)s"
    DELETE_ENTRY = """
        DELETE FROM backstory.directory WHERE place = %(place)s::bigint AND id = %(id)s::uuid"""

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        last = 0 if keep is None else keep
        self.index.forget_rest(agent, last)
        params = {**identify(agent), "id": agent.id, "keep": last, "now": now_us}
        self._run(self.DELETE_EVENTS, params)
        self._run(self.DELETE_SOURCES, params)
        if keep is None:
            self._run(self.DELETE_AGENT, params)
            self._run(self.DELETE_ENTRY, {"place": parse_place(agent.id), "id": agent.id})
        else:
            if last < agent.head:
                self._run(self.SET_HEAD_BACK, params)
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
            place = parse_place(record.session)
            self._run(self.RECORD_REMOVAL, {**record._asdict(), "place": place})
