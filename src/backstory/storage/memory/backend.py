"""The reference backend: everything in lists, gone with the process.

It does what the others do in the simplest way, to be read as their specification and tested against them.
The reads are in `reads`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from backstory.errors import Conflict, KeyTaken, NameTaken
from backstory.log.chain import digest_of
from backstory.log.events import EncodedRow, Event, decoded_rows
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.commit_signal import CommitSignal, SignalWatch
from backstory.storage.memory.intake import MemoryIntake
from backstory.storage.memory.reads import MemoryReads
from backstory.storage.memory.removal import MemoryRemoval
from backstory.storage.memory.rows import OwnRows
from backstory.storage.protocols import (
    AgentRecord,
    BasedDrafts,
    NewAgent,
    Packed,
    Piece,
    Wanted,
    parent_lost,
)


class MemoryBackend(MemoryReads):
    """A store in memory, shared by the threads of one process. Its primary keys are the agents' ids."""

    url = ":memory:"
    read_only = False

    def __init__(self) -> None:
        super().__init__()
        self._committed = CommitSignal()
        self._watches: WeakSet[SignalWatch] = WeakSet()

    def create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        with self._lock:
            record = self.add_agent(new, now)
            written = self.append(record, events, None, now)
            return record._replace(head=record.head + len(written))

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        """Write an agent without events. A fork is never older than the event at its fork position."""
        with self._lock:
            if new.key is not None and (new.id in self._agents or self.agents(Wanted(key=new.key))):
                raise KeyTaken.of_agent(new.key)
            self._refuse_taken(new.session, new.name)
            if new.parent_pk is not None:
                parent = self._agents.get(new.parent_pk)
                if parent is None or parent.head < new.fork_seq:
                    raise parent_lost(new)
                if new.fork_seq:
                    created_us = max(created_us, parent.event(new.fork_seq).created_us)
            self._agents[new.id] = OwnRows(new, created_us)
            self.announce()
            return self._record(new.id)

    def rename(self, agent: AgentRecord, name: str) -> None:
        with self._lock:
            own = self._living(agent)
            if name != own.name:
                self._refuse_taken(agent.session, name)
                own.name = name

    def _refuse_taken(self, session: str, name: str) -> None:
        # This runs for every new session: without making a record of each agent, it takes a twentieth of the
        # time.
        for own in self._agents.values():
            if own.new.session == session and own.name == name and own.deleted_us is None:
                raise NameTaken.of(name)

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        with self._lock:
            own = self._living(agent)
            own.about = change(own.about)
            return own.about

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        with self._lock:
            own = self._living(agent)
            head = own.head
            if expected is not None and expected != head:
                raise Conflict.at(agent.name, expected, head)
            now = max(now, own.updated_us)
            previous = self._digest(agent.pk, head)
            try:
                for seq, (draft, base) in enumerate(events, head + 1):
                    kind, content, data, key = draft
                    previous = digest_of(previous, seq, kind, now, base, key, content, data)
                    own.add(draft.at(seq, now), base, previous)
            except BaseException:  # Ctrl-C: a batch is written as a whole or not at all
                own.cut(head)
                raise
            self.announce()
            return own.events[len(own.events) - len(events) :]

    @contextmanager
    def exclusive(self, *agents: AgentRecord) -> Iterator["MemoryBackend"]:
        with self._lock:
            for agent in agents:
                self._living(agent)
            yield self

    def copy_to(self, path: str) -> bool:
        return False

    def packed(self, rows: Sequence[EncodedRow]) -> Packed:
        return decoded_rows(rows)

    @contextmanager
    def intake(self) -> Iterator[MemoryIntake]:
        with self._as_a_whole():
            yield MemoryIntake(self, self._agents, self._sources)

    @contextmanager
    def _as_a_whole(self) -> Iterator[None]:
        """Keep all changes of the block, or none if it fails."""
        with self._lock:
            before, sources = self._agents, dict(self._sources)
            self._open = {key: agent.copy() for key, agent in before.items()}
            try:
                yield
            except BaseException:
                self._open, self._sources = before, sources
                raise

    @contextmanager
    def removal(self) -> Iterator[MemoryRemoval]:
        with self._as_a_whole():
            yield MemoryRemoval(self, self._agents, self._sources)

    def backlog(self, session: str, pieces: Sequence[Piece] | None) -> list[Backlog]:
        return []  # there is no index: a search reads every event

    def unindexed(self, backlog: Sequence[Backlog]) -> list[Unindexed]:
        return []

    def index(self, texts: Sequence[tuple[Backlog, Texts]], *, last: bool = True) -> None:
        return None

    def watch(self) -> SignalWatch:
        with self._lock:
            watch = SignalWatch(self._committed)
            self._watches.add(watch)
            return watch

    def announce(self) -> None:
        """Tell the watches that something was written; they see it when the lock is released."""
        self._committed.send()

    def close(self) -> None:
        self._open = None
        for watch in list(self._watches):
            watch.close()
