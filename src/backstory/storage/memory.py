"""The reference backend: everything in lists, gone with the process.

It does what the others do in the plainest way there is, so that it can be read as their
specification and tested against them.
"""

import copy
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from backstory.core.events import Event, from_rows
from backstory.core.terms import Query, matches, score, searchable, words
from backstory.errors import Conflict, NameTaken, StorageError
from backstory.storage.fork_lock import ForkableLock
from backstory.storage.protocols import (
    AgentRecord,
    Census,
    Found,
    NewAgent,
    Piece,
    Settled,
    Step,
    Stored,
    Walk,
    live,
    pieces_of,
)


class _Agent:
    """One agent's row and the events it owns."""

    def __init__(self, new: NewAgent, created_us: int) -> None:
        self.new = new
        self.name = new.name
        self.created_us = created_us
        self.events: list[Event] = []
        self.bases: dict[int, int] = {}  # of those own events that have one
        self.jumps: list[int] = []  # the positions of those events

    @property
    def head(self) -> int:
        return self.new.fork_seq + len(self.events)

    @property
    def updated_us(self) -> int:
        return self.events[-1].created_us if self.events else self.created_us

    def event(self, seq: int) -> Event:
        return self.events[seq - self.new.fork_seq - 1]

    def copy(self) -> "_Agent":
        twin = copy.copy(self)
        twin.events, twin.bases, twin.jumps = self.events[:], dict(self.bases), self.jumps[:]
        return twin


class MemoryBackend:
    """A store in memory, shared by the threads of one process. Its keys are the agents' ids."""

    url = ":memory:"

    def __init__(self) -> None:
        self._lock = ForkableLock()
        self._open: dict[str, _Agent] | None = {}

    @property
    def _agents(self) -> dict[str, _Agent]:
        if self._open is None:
            raise StorageError("the store ':memory:' is closed, and its contents are gone")
        return self._open

    def create(self, new: NewAgent, events: Settled, now: int) -> AgentRecord:
        with self._lock:
            self._refuse_taken(new.session, new.name)
            if new.fork_seq:
                now = max(now, self._agents[new.parent_key].event(new.fork_seq).created_us)
            self._agents[new.id] = _Agent(new, now)
            [record] = self.agents(prefix=new.id)
            written = self.append(record, events, None, now)
            return record._replace(head=record.head + len(written))

    def rename(self, agent: AgentRecord, name: str) -> None:
        with self._lock:
            if name != self._agents[agent.key].name:
                self._refuse_taken(agent.session, name)
                self._agents[agent.key].name = name

    def _refuse_taken(self, session: str, name: str) -> None:
        if self.agents(session=session, name=name):
            raise NameTaken.of(name)

    def agents(
        self, *, prefix: str = "", session: str | None = None, name: str | None = None
    ) -> list[AgentRecord]:
        with self._lock:
            return [
                AgentRecord(
                    key=key,
                    id=key,
                    session=agent.new.session,
                    name=agent.name,
                    parent=agent.new.parent_key,
                    fork_seq=agent.new.fork_seq,
                    born_seq=agent.new.born_seq,
                    spawned=agent.new.spawned,
                    created_us=agent.created_us,
                    head=agent.head,
                    updated_us=agent.updated_us,
                )
                for key, agent in self._agents.items()
                if key.startswith(prefix)
                and session in (None, agent.new.session)
                and name in (None, agent.name)
            ]

    def head(self, agent: AgentRecord) -> int:
        return self._agents[agent.key].head

    def append(self, agent: AgentRecord, events: Settled, expected: int | None, now: int) -> list[Event]:
        with self._lock:
            own = self._agents[agent.key]
            head = own.head
            if expected is not None and expected != head:
                raise Conflict.at(agent.name, expected, head)
            now = max(now, own.updated_us)
            placed = [(seq, *settled) for seq, settled in enumerate(events, head + 1)]
            written = from_rows((seq, *draft, now) for seq, draft, _ in placed)
            own.events += written
            own.bases.update((seq, base) for seq, _, base in placed if base is not None)
            own.jumps += [seq for seq, _, base in placed if base is not None]
            return written

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        with self._lock:
            head = self._agents[agent.key].head
            key, high = agent.key, head if at is None else at
            steps: list[Step] = [(None, 1, 0, None, high)]
            while high > 0:
                own = self._agents[key]
                jumps_below = bisect_right(own.jumps, high)
                if jumps_below:
                    low = own.jumps[jumps_below - 1]
                    base = own.bases[low]
                    steps.append((key, low, high, base, base))
                    high = base
                else:
                    fork = own.new.fork_seq
                    steps.append((key, fork + 1, high, None, min(high, fork)))
                    key, high = own.new.parent_key, min(high, fork)
            return Walk(head, live(pieces_of(steps, agent)))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        with self._lock:
            own = self._agents[agent.key]
            steps: list[Step] = [(agent.key, own.new.fork_seq + 1, own.head, None, own.new.fork_seq)]
            while own.new.fork_seq:
                key, high = own.new.parent_key, own.new.fork_seq
                own = self._agents[key]
                steps.append((key, own.new.fork_seq + 1, high, None, own.new.fork_seq))
            return pieces_of(steps, agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        with self._lock:
            for piece in self.lineage(agent)[::-1]:
                if self._agents[piece.key].created_us <= moment:
                    times = [event.created_us for event in self.read(agent, [piece])]
                    return piece.low - 1 + bisect_right(times, moment)
            return 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        found = []
        for key, low, high, _ in pieces:
            own = self._agents[key]
            fork = own.new.fork_seq
            found += own.events[max(low - fork - 1, 0) : max(high - fork, 0)]
        return found

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return [event for event in self.read(agent, pieces) if event.kind == "mark"]

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        own = self._agents[agent.key]
        return [(*event, own.bases.get(event.seq)) for event in own.events if event.seq > after][:limit]

    def damage(self) -> list[str]:
        return []

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        counted: dict[str, Census] = {}
        for piece in pieces:
            bases = self._agents[piece.key].bases
            for event in self.read(agent, [piece]):
                before = counted.get(event.kind, Census(event.kind, 0, 0, 0))
                counted[event.kind] = before._replace(
                    events=before.events + 1,
                    with_base=before.with_base + (event.seq in bases),
                    bytes=before.bytes + _bytes(event),
                )
        return list(counted.values())

    def size(self) -> int:
        return sum(_bytes(event) for agent in self._agents.values() for event in agent.events)

    def copy_to(self, path: str) -> bool:
        return False

    @contextmanager
    def intake(self) -> Iterator["_MemoryIntake"]:
        with self._lock:
            before = self._agents
            self._open = {key: agent.copy() for key, agent in before.items()}
            try:
                yield _MemoryIntake(self, self._agents)
            except BaseException:
                self._open = before
                raise

    def indexed(self) -> dict[str, int]:
        return {record.id: record.head for record in self.agents()}

    def index(self, agent: AgentRecord, after: int, texts: Sequence[tuple[int, list[str]]]) -> int:
        return agent.head

    def find(
        self, query: Query, *, kinds: Sequence[str], pieces: Sequence[Piece] | None, session: str, limit: int
    ) -> list[Found]:
        with self._lock:
            found = []
            for key, low, high in self._ranges(pieces):
                for event in self.read(self.agents(prefix=key)[0], [Piece(key, low, high)]):
                    text = words(searchable(event.kind, event.content, event.data_json))
                    if (not kinds or event.kind in kinds) and matches(query, text):
                        found.append(Found(key, event.seq, score(query, text)))
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    def _ranges(self, pieces: Sequence[Piece] | None) -> list[tuple[str, int, int]]:
        if pieces is not None:
            return [(piece.key, piece.low, piece.high) for piece in pieces]
        return [(key, agent.new.fork_seq + 1, agent.head) for key, agent in self._agents.items()]

    def close(self) -> None:
        self._open = None


class _MemoryIntake:
    """Takes in agents and events as they were; the backend holds its lock and a copy meanwhile."""

    def __init__(self, backend: MemoryBackend, agents: dict[str, _Agent]) -> None:
        self._backend = backend
        self._agents = agents

    def agents(self, session: str) -> list[AgentRecord]:
        return self._backend.agents(session=session)

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        if self._backend.agents(session=new.session, name=new.name):
            raise NameTaken.of(new.name)
        self._agents[new.id] = _Agent(new, created_us)
        [record] = self._backend.agents(prefix=new.id)
        return record

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        return self._backend.stored(agent, after, limit)

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        own = self._agents[agent.key]
        own.events += from_rows(row[:5] for row in rows)
        own.bases.update((seq, base) for seq, *_, base in rows if base is not None)
        own.jumps += [seq for seq, *_, base in rows if base is not None]


def _bytes(event: Event) -> int:
    return len((event.content or "").encode()) + len((event.data_json or "").encode())
