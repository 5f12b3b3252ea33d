"""The reference backend: everything in lists, gone with the process.

It does what the other backends do in the simplest way. Read it as the specification of the storage
protocol; the contract tests compare the others with it.

A transaction works on a copy of the tables, in which it copies each agent before it changes it. The
backend takes over the copy when the block ends. So a block that fails leaves nothing behind, and
readers need no lock.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from weakref import WeakSet

from backstory.errors import Busy, KeyTaken, NameTaken, StorageError
from backstory.log.chain import START, LogEnd, build_rows
from backstory.log.events import Event, OutlineRow, StoredRow, parse_object
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.log.terms import FoundEvent, rank_rows
from backstory.log.times import next_time
from backstory.storage.agent_errors import (
    build_deletion_error,
    build_key_error,
    build_parent_error,
    check_head,
)
from backstory.storage.ids import name_deleted_agent, new_salts
from backstory.storage.locks import DEFAULT_TIMEOUT, ForkSafeLock, LockTimeout
from backstory.storage.positions import LineageStep, build_lineage
from backstory.storage.protocol import (
    EVERY_AGENT,
    EVERY_EVENT,
    WHOLE_STORE,
    AgentChange,
    AgentQuery,
    AgentRecord,
    Drafts,
    EventCount,
    EventFilter,
    KeyPosition,
    NewAgent,
    Piece,
    Pieces,
    RemovalRecord,
    SearchQuery,
    SearchScope,
    SourceRecord,
    Walk,
)
from backstory.storage.signals import CommitSignal, SignalWatch


@dataclass
class MemoryAgent:
    """An agent's row, and the rows of the events that it owns."""

    row: AgentRecord  # its head and its last time are those of the creation
    parent_pk: Any
    rows: list[StoredRow]

    @property
    def head(self) -> int:
        """The newest position."""
        return self.row.fork_seq + len(self.rows)

    @property
    def updated_us(self) -> int:
        """The time of the newest own event, or of the creation."""
        return self.rows[-1].created_us if self.rows else self.row.created_us

    @property
    def record(self) -> AgentRecord:
        """The agent as it is listed now."""
        return self.row._replace(head=self.head, updated_us=self.updated_us)

    def select_rows(self, low: int, high: int) -> list[StoredRow]:
        """Return the own rows from position `low` to position `high`."""
        first = self.row.fork_seq + 1
        return self.rows[max(low - first, 0) : max(high - first + 1, 0)]

    def find_newest_move(self, position: int) -> StoredRow | None:
        """Return the newest own row with a base, at or before a position."""
        for row in reversed(self.select_rows(1, position)):
            if row.base is not None:
                return row
        return None


@dataclass
class MemoryTables:
    """The tables of a store."""

    agents: dict[int, MemoryAgent]  # by numbers, of which none is given twice
    sources: dict[tuple[str, str], SourceRecord]  # by id and tool
    removals: list[RemovalRecord]

    def find_agent(self, agent: AgentRecord) -> MemoryAgent:
        """Return the agent of a record. Raises AgentNotFound."""
        found = self.agents.get(agent.pk)
        if found is None or found.row.deleted_us is not None:
            raise build_deletion_error(agent)
        return found

    def build_new_rows(
        self, agent: AgentRecord, drafts: Drafts, expected: int | None, now_us: int
    ) -> list[StoredRow]:
        """Return the rows that `drafts` become after the head. Raises Conflict or KeyTaken."""
        owner = self.find_agent(agent)
        check_head(agent, owner.head, expected)
        new_keys = {draft.key for draft in drafts if draft.key is not None}
        if new_keys:
            own_keys = {row.key for row in owner.rows}
            if not new_keys.isdisjoint(own_keys):
                raise build_key_error(agent)
        end = LogEnd(owner.head, owner.updated_us, self._read_digest(owner, owner.head))
        rows, _ = build_rows(end, drafts, now_us, new_salts(len(drafts)))
        return rows

    def _read_digest(self, agent: MemoryAgent, position: int) -> bytes:
        """Return the digest at a position of an agent's lineage."""
        if position == 0:
            return START
        if position > agent.row.fork_seq:
            return agent.select_rows(position, position)[0].digest
        return self._read_digest(self.agents[agent.parent_pk], position)


_numbers = count(1)


class MemoryReader:
    """Every read of a store in memory."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables: MemoryTables | None = tables

    @property
    def tables(self) -> MemoryTables:
        """The tables, while the store is open."""
        if self._tables is None:
            raise StorageError("the store ':memory:' is closed, and its contents are gone")
        return self._tables

    def list_agents(self, query: AgentQuery = EVERY_AGENT) -> list[AgentRecord]:
        records = [agent.record for agent in self.tables.agents.values()]
        sessions_in_use = {record.session for record in records if record.deleted_us is None}
        found = [record for record in records if matches_query(record, query, sessions_in_use)]
        last = query.after
        if query.latest_first:
            found.sort(key=get_recency, reverse=True)
            if last is not None:
                found = [record for record in found if get_recency(record) < get_recency(last)]
        elif last is not None:
            found = [record for record in found if record.pk > last.pk]
        return found[: query.limit]

    def read_clock(self) -> int:
        return time.time_ns() // 1000

    def read_head(self, agent: AgentRecord) -> int:
        return self.tables.find_agent(agent).head

    def walk(self, agent: AgentRecord, at: int | None = None) -> Walk:
        lineage = self.read_lineage(agent)
        head = lineage[-1].high
        position = head if at is None else at
        live = Walk(position, [], head)
        while position > 0:
            piece = find_last_piece(lineage, position)
            move = self.tables.agents[piece.owner].find_newest_move(position)
            if move is None or move.base is None:
                live.pieces.append(piece._replace(high=position))
                position = piece.low - 1
            else:
                live.pieces.append(Piece(piece.owner, move.seq, position, move.base))
                position = move.base
        live.pieces.reverse()
        return live

    def read_lineage(self, agent: AgentRecord) -> list[Piece]:
        owner: MemoryAgent | None = self.tables.find_agent(agent)
        position = self.read_head(agent)
        steps = []
        while owner is not None:
            pk, fork_seq = owner.row.pk, owner.row.fork_seq
            steps.append(LineageStep(pk, fork_seq + 1, position, fork_seq))
            if fork_seq == 0:
                break
            position = fork_seq
            owner = self.tables.agents.get(owner.parent_pk)
        return build_lineage(agent, steps)

    def find_position_at_time(self, agent: AgentRecord, moment_us: int) -> int:
        for piece in reversed(self.read_lineage(agent)):
            owner = self.tables.agents[piece.owner]
            for row in reversed(owner.select_rows(piece.low, piece.high)):
                if row.created_us <= moment_us:
                    return row.seq
            if owner.row.created_us <= moment_us:
                return owner.row.fork_seq
        return 0

    def _select_rows(
        self, agent: AgentRecord | None, pieces: Pieces
    ) -> list[tuple[str, StoredRow]]:
        """Return the rows in `pieces` of an agent's lineage, or all rows if `agent` is None, with
        their owners' ids. Raises AgentNotFound."""
        if agent is None:
            return self.read_all_rows()
        self.tables.find_agent(agent)
        return self.read_pieces(pieces)

    def read_all_rows(self) -> list[tuple[str, StoredRow]]:
        """Return the rows of all agents, deleted ones included, with their owners' ids."""
        rows = []
        for owner in self.tables.agents.values():
            rows += [(owner.row.id, row) for row in owner.rows]
        return rows

    def read_pieces(self, pieces: Pieces) -> list[tuple[str, StoredRow]]:
        """Return the rows in `pieces`, whoever owns them, with their owners' ids."""
        selected = []
        for piece in pieces:
            owner = self.tables.agents.get(piece.owner)
            if owner is not None:  # else it was deleted since the pieces were looked up
                for row in owner.select_rows(piece.low, piece.high):
                    selected.append((owner.row.id, row))
        return selected

    def read_events(
        self, agent: AgentRecord, pieces: Pieces, where: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        rows = [row for _, row in self._select_rows(agent, pieces)]
        return [row.event for row in filter_rows(rows, where)]

    def read_outline(self, agent: AgentRecord, pieces: Pieces) -> list[OutlineRow]:
        outline = []
        for _, row in self._select_rows(agent, pieces):
            outline.append(OutlineRow(row.seq, row.kind, row.size, row.created_us, row.base))
        return outline

    def read_rows(self, agent: AgentRecord, after: int, limit: int) -> list[StoredRow]:
        owner = self.tables.agents.get(agent.pk)
        if owner is None:
            return []
        first = max(after, owner.row.fork_seq) + 1
        return owner.select_rows(first, first + limit - 1)

    def read_owned(self, agents: AgentQuery, where: EventFilter) -> list[tuple[str, StoredRow]]:
        found = []
        for record in self.list_agents(agents):
            owner = self.tables.agents[record.pk]
            for row in filter_rows(owner.rows, where):
                found.append((record.id, row))
        return found

    def count_events(self) -> list[EventCount]:
        counts: dict[tuple[str, str], EventCount] = {}
        for id, row in self.read_all_rows():
            count = counts.get((id, row.kind), EventCount(id, row.kind, 0, 0))
            counts[id, row.kind] = count._replace(
                events=count.events + 1,
                bytes=count.bytes + row.size,
            )
        return list(counts.values())

    def find_keys(
        self, keys: Sequence[str], agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> list[KeyPosition]:
        wanted = set(keys)
        found = []
        for id, row in self._select_rows(agent, pieces):
            if row.key is not None and row.key in wanted:
                found.append(KeyPosition(row.key, id, row.seq))
        return found

    def list_sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        found = []
        for _, source in sorted(self.tables.sources.items()):
            has_tool = tool is None or source.tool == tool
            has_id = id is None or source.id == id
            if has_tool and has_id and source.id.startswith(prefix or ""):
                found.append(source)
        return found

    def list_removals(self) -> list[RemovalRecord]:
        return sorted(self.tables.removals, key=lambda record: (record.removed_us, record.id))


class MemoryTransaction(MemoryReader):
    """Reads and writes of one transaction. They work on its own copy of the tables."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__(tables)
        self._copied: set[int] = set()  # the agents that this transaction may change

    def _edit_agent(self, pk: int) -> MemoryAgent:
        """Return this transaction's copy of an agent."""
        if pk not in self._copied:
            self._copied.add(pk)
            agent = self.tables.agents[pk]
            self.tables.agents[pk] = replace(agent, rows=list(agent.rows))
        return self.tables.agents[pk]

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        if now_us is None:
            now_us = self.read_clock()
        rows = self.tables.build_new_rows(agent, drafts, expected, now_us)
        self.add_rows(agent, rows)
        return [row.event for row in rows]

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        self._edit_agent(agent.pk).rows.extend(rows)

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        clock_us = self.read_clock()
        created_us = clock_us if now_us is None else now_us
        self._check_key(new)
        self._check_name(new.session, new.name)
        parent_id = None
        if new.parent_pk is not None:
            parent = self.tables.agents.get(new.parent_pk)
            if parent is None or parent.head < new.fork_seq or not self._has_origin(new):
                raise build_parent_error(new)
            parent_id = parent.row.id
            for row in parent.select_rows(new.fork_seq, new.fork_seq):
                created_us = next_time(row.created_us, created_us, clock_us)
        agent = new.to_record(next(_numbers), parent_id, created_us)
        self.tables.agents[agent.pk] = MemoryAgent(agent, new.parent_pk, [])
        self._copied.add(agent.pk)
        if drafts:
            self.append(agent, drafts, None, now_us)
        return self.tables.agents[agent.pk].record

    def _has_origin(self, new: NewAgent) -> bool:
        """Return False if the agent that `new` is forked or spawned from was deleted."""
        if new.origin_pk is None:
            return True
        origin = self.tables.agents.get(new.origin_pk)
        if origin is None or origin.row.session != new.session:
            return False
        return origin.row.deleted_us is None

    def _check_key(self, new: NewAgent) -> None:
        """Raise KeyTaken if another agent, perhaps a deleted one, has the key or its id."""
        if new.key is None:
            return
        for agent in self.tables.agents.values():
            if agent.row.key == new.key or agent.row.id == new.id:
                raise KeyTaken.of_agent(new.key)

    def _check_name(self, session: str, name: str) -> None:
        for agent in self.tables.agents.values():
            if agent.row.session == session and agent.row.name == name:
                raise NameTaken.of(name)

    def update_agent(self, agent: AgentRecord, change: AgentChange) -> None:
        row = self.tables.find_agent(agent).row
        if change.name is not None and change.name != row.name:
            self._check_name(row.session, change.name)
            row = row._replace(name=change.name)
        if change.about is not None:
            row = row._replace(about=change.about or None)
        self._edit_agent(agent.pk).row = row

    def remember_sources(self, sources: Sequence[SourceRecord]) -> None:
        for new in sources:
            old = self.tables.sources.get((new.id, new.tool), new)
            self.tables.sources[new.id, new.tool] = SourceRecord(
                new.tool, new.id, new.agent_id or old.agent_id, new.cursor or old.cursor
            )

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        self._edit_row(agent, seq, content=content, data_json=data_json, salt=None)

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        self._edit_row(agent, seq, data_json=data_json)

    def _edit_row(self, agent: AgentRecord, seq: int, **columns: Any) -> None:
        owner = self._edit_agent(agent.pk)
        index = seq - owner.row.fork_seq - 1
        owner.rows[index] = owner.rows[index]._replace(**columns)

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        for id_and_tool, source in list(self.tables.sources.items()):
            if source.agent_id == agent.id:
                del self.tables.sources[id_and_tool]
        if keep is None:
            del self.tables.agents[agent.pk]
            return
        owner = self._edit_agent(agent.pk)
        owner.rows = owner.select_rows(1, keep)
        owner.row = owner.row._replace(
            name=name_deleted_agent(agent.id),
            key=None,
            about=None,
            deleted_us=owner.row.deleted_us or now_us,
            fork_seq=owner.row.fork_seq if owner.rows else 0,
        )

    def record_removals(self, records: Sequence[RemovalRecord]) -> None:
        self.tables.removals.extend(records)


class MemoryBackend(MemoryReader):
    """A store in memory, shared by the threads of one process."""

    url = ":memory:"
    read_only = False
    can_index_alone = False

    def __init__(self, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(MemoryTables({}, {}, []))
        self._timeout = timeout
        self._lock = ForkSafeLock()
        self._committed = CommitSignal()
        self._watches: WeakSet[SignalWatch] = WeakSet()

    def compute_deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _take_lock(self, deadline: float) -> None:
        """Take the lock, which is one for all sessions and agents. Raises Busy."""
        try:
            self._lock.take(deadline)
        except LockTimeout as error:
            raise Busy(
                f"{self.url!r}: {error} for {self._timeout:g} seconds", remedy="try again"
            ) from error

    @contextmanager
    def begin(
        self,
        *,
        sessions: Sequence[str] = (),
        agents: Sequence[AgentRecord] = (),
        deadline: float | None = None,
    ) -> Iterator[MemoryTransaction]:
        self._take_lock(self.compute_deadline() if deadline is None else deadline)
        try:
            for agent in agents:
                self.tables.find_agent(agent)
            tables = self.tables
            copy = MemoryTables(dict(tables.agents), dict(tables.sources), list(tables.removals))
            transaction = MemoryTransaction(copy)
            yield transaction
            self._tables = transaction.tables
        finally:
            self._lock.release()
        self._committed.send()

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        deadline: float | None = None,
    ) -> list[Event]:
        # Not by `begin`: its transaction would copy all rows of the agent.
        self._take_lock(self.compute_deadline() if deadline is None else deadline)
        try:
            rows = self.tables.build_new_rows(agent, drafts, expected, self.read_clock())
            self.tables.find_agent(agent).rows.extend(rows)
        finally:
            self._lock.release()
        self._committed.send()
        return [row.event for row in rows]

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        with self.begin(sessions=[new.session]) as transaction:
            return transaction.create_agent(new, drafts, now_us)

    def count_unindexed(self, scope: SearchScope = WHOLE_STORE) -> int:
        return 0  # there is no index: a search reads every event

    def index_events(self, limit: int, scope: SearchScope = WHOLE_STORE) -> int:
        return 0

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        if query.scope == WHOLE_STORE:
            rows = self.read_all_rows()
        else:
            rows = self.read_pieces(query.scope.pieces)
        return rank_rows(query.phrases, rows, query.kinds, limit)

    def check_tables(self) -> list[str]:
        return []

    def measure_size(self) -> int:
        return sum(row.size for _, row in self.read_all_rows())

    def copy_to(self, path: str) -> bool:
        return False

    def is_replaced(self) -> bool:
        return False

    def watch(self) -> SignalWatch:
        watch = SignalWatch(self._committed)
        self._watches.add(watch)
        return watch

    def close(self) -> None:
        with self._lock:
            self._tables = None
        for watch in list(self._watches):
            watch.close()


def find_last_piece(lineage: Pieces, position: int) -> Piece:
    """Return the last piece of a lineage that begins at or before a position."""
    return [piece for piece in lineage if piece.low <= position][-1]


# --- filters ---


def matches_query(agent: AgentRecord, query: AgentQuery, sessions_in_use: set[str]) -> bool:
    """Return True if a listing contains `agent`. `sessions_in_use` are the sessions that have an
    agent that was not deleted."""
    if query.sessions is not None and agent.session not in query.sessions:
        return False
    if query.mentions is not None and agent.about is None:
        return False
    if not has_values(agent, query) or not is_in_range(agent, query):
        return False
    return is_visible(agent, query, sessions_in_use)


def has_values(agent: AgentRecord, query: AgentQuery) -> bool:
    """Return True if an agent has the id, session, names and title that are asked for."""
    about = parse_object(agent.about) or {}
    exact = [
        (query.session, agent.session),
        (query.name, agent.name),
        (query.key, agent.key),
        (query.title, about.get("title")),
    ]
    prefixes = [(query.key_prefix, agent.key or ""), (query.id_prefix, agent.id)]
    if any(wanted not in (None, value) for wanted, value in exact):
        return False
    return all(value.startswith(prefix or "") for prefix, value in prefixes)


def is_in_range(agent: AgentRecord, query: AgentQuery) -> bool:
    """Return True if an agent was last written to within the times that are asked for."""
    if query.since_us is not None and agent.updated_us < query.since_us:
        return False
    return query.until_us is None or agent.updated_us < query.until_us


def is_visible(agent: AgentRecord, query: AgentQuery, sessions_in_use: set[str]) -> bool:
    """Return True if a listing of roots, or of agents that were not deleted, contains `agent`."""
    if query.roots_only and agent.parent is not None:
        return False
    if query.include_deleted:
        return True
    if query.roots_only:
        return agent.session in sessions_in_use
    return agent.deleted_us is None


def get_recency(agent: AgentRecord) -> tuple[int, str]:
    """Return the sort key of a listing by last write."""
    return agent.updated_us, agent.id


def has_wanted_kind(row: StoredRow, where: EventFilter) -> bool:
    """Return True if a row has one of the kinds and, if it is a note, one of the names."""
    if where.kinds is not None and row.kind not in where.kinds:
        return False
    if where.note_names is None or row.kind != "note":
        return True
    return row.content in where.note_names


def matches_filter(row: StoredRow, where: EventFilter) -> bool:
    """Return True if a row matches `where`, apart from `newest_only`."""
    if not has_wanted_kind(row, where):
        return False
    if where.irregular_only:
        return row.base is not None or row.kind not in ALWAYS_SHOWN
    return True


def filter_rows(rows: Sequence[StoredRow], where: EventFilter) -> list[StoredRow]:
    """Return the rows that match `where`, in order."""
    if where == EVERY_EVENT:
        return list(rows)
    found = [row for row in rows if matches_filter(row, where)]
    return found[-1:] if where.newest_only else found
