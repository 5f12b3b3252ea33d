"""The reference backend: everything in lists, gone with the process.

It does what the others do in the plainest way there is, so that it can be read as their
specification and tested against them.
"""

import threading
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from backstory.backends.base import AgentRecord, NewAgent, Piece, Settled, Step, Walk, live, pieces_of
from backstory.errors import Conflict, NameTaken
from backstory.events import Event, from_rows


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


class MemoryBackend:
    """A store in memory, shared by the threads of one process. Its keys are the agents' ids."""

    url = ":memory:"

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._agents: dict[str, _Agent] = {}

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

    def close(self) -> None:
        """Nothing to let go of: the store lives as long as somebody holds it."""
