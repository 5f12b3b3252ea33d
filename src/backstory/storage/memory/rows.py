"""The rows of a store in memory: an agent with the events that it owns, and which agents match a listing."""

import copy
from typing import Protocol

from backstory.log.events import Event, parse_object
from backstory.storage.protocols import AgentRecord, Agents, NewAgent, Reader, StoredRows, Wanted


class Memory(Agents, Reader, StoredRows, Protocol):
    """What intake and removal need from the backend."""

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        """Write an agent without events."""

    def announce(self) -> None:
        """Tell the watches that something was written."""


class HeldRows:
    """The reads of the backend, while it holds its lock for a change of many rows."""

    def __init__(self, backend: Memory) -> None:
        self._backend = backend
        self.head, self.walk, self.lineage = backend.head, backend.walk, backend.lineage
        self.position_at, self.read, self.stored = backend.position_at, backend.read, backend.stored
        self.marks, self.notes, self.last_note = backend.marks, backend.notes, backend.last_note
        self.keyed, self.places = backend.keyed, backend.places

    def held(self, session: str) -> list[AgentRecord]:
        return self._backend.agents(Wanted(session=session, deleted=True))


class OwnRows:
    """One agent's row and the events it owns."""

    def __init__(self, new: NewAgent, created_us: int) -> None:
        self.new = new
        self.name = new.name
        self.about = new.about
        self.created_us = created_us
        self.deleted_us = new.deleted_us
        self.events: list[Event] = []
        self.bases: dict[int, int] = {}  # of its own events that have one
        self.jumps: list[int] = []  # the positions of those events
        self.digests: list[bytes] = []

    @property
    def head(self) -> int:
        return self.new.fork_seq + len(self.events)

    @property
    def updated_us(self) -> int:
        return self.events[-1].created_us if self.events else self.created_us

    def event(self, seq: int) -> Event:
        return self.events[seq - self.new.fork_seq - 1]

    def add(self, event: Event, base: int | None, digest: bytes) -> None:
        self.events.append(event)
        self.digests.append(digest)
        if base is not None:
            self.bases[event.seq] = base
            self.jumps.append(event.seq)

    def replace(self, seq: int, content: str | None, data_json: str) -> None:
        """Replace the content and the data of an event."""
        old = self.event(seq)
        new = Event((seq, old.kind, content, data_json, old.created_us, old.key))
        self.events[seq - self.new.fork_seq - 1] = new

    def cut(self, last: int) -> None:
        """Remove its own events after a position."""
        kept = max(last - self.new.fork_seq, 0)
        del self.events[kept:], self.digests[kept:]
        self.bases = {seq: base for seq, base in self.bases.items() if seq <= last}
        self.jumps = [seq for seq in self.jumps if seq <= last]

    def copy(self) -> "OwnRows":
        twin = copy.copy(self)
        twin.events, twin.bases, twin.jumps = self.events[:], dict(self.bases), self.jumps[:]
        twin.digests = self.digests[:]
        return twin


def is_wanted(record: AgentRecord, wanted: Wanted, alive: set[str]) -> bool:
    """Whether an agent matches a listing; `alive` are the sessions that have agents."""
    there = wanted.deleted or (
        record.session in alive if wanted.roots else record.deleted_us is None
    )
    return (
        there
        and record.id.startswith(wanted.prefix or "")
        and wanted.session in (None, record.session)
        and (wanted.sessions is None or record.session in wanted.sessions)
        and wanted.name in (None, record.name)
        and wanted.key in (None, record.key)
        and (not wanted.key_prefix or (record.key or "").startswith(wanted.key_prefix))
        and wanted.title in (None, (parse_object(record.about) or {}).get("title"))
        and (wanted.telling is None or record.about is not None)
        and (not wanted.roots or record.parent is None)
        and (wanted.since_us is None or record.updated_us >= wanted.since_us)
        and (wanted.until_us is None or record.updated_us < wanted.until_us)
    )


def lateness(record: AgentRecord) -> tuple[int, str]:
    """The sort key of a listing by last write."""
    return record.updated_us, record.id


def behind(found: list[AgentRecord], last: AgentRecord, *, latest_first: bool) -> list[AgentRecord]:
    """The agents that come after the last agent of the previous page."""
    if latest_first:
        return [record for record in found if lateness(record) < lateness(last)]
    return found[[record.id for record in found].index(last.id) + 1 :]


def size_of(event: Event) -> int:
    """The bytes of an event's content and data."""
    return len((event.content or "").encode()) + len((event.data_json or "").encode())
