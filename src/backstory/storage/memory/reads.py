"""What a store in memory answers without writing."""

from bisect import bisect_right
from collections.abc import Collection, Sequence

from backstory.errors import StorageError
from backstory.log.chain import START
from backstory.log.events import Columns, Event, Stored, TextAndData, columns_of
from backstory.log.kinds import SPOKEN
from backstory.log.outline import DataRow, OutlineRow
from backstory.log.terms import Query, matches, score, searchable, words
from backstory.storage.fork_lock import forkable_lock
from backstory.storage.memory.intake import KeptSources, sources_in
from backstory.storage.memory.rows import OwnRows, behind, is_wanted, lateness, size_of
from backstory.storage.protocols import (
    ALL,
    AgentRecord,
    Census,
    Found,
    Piece,
    SourceRecord,
    Walk,
    Wanted,
    lost,
)
from backstory.storage.survey import AgentCensus, Irregular, NewestNote
from backstory.storage.walks import WalkedPiece, live, pieces_of


class MemoryReads:
    """The rows of a store in memory, and every read of them."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._open: dict[str, OwnRows] | None = {}
        self._sources: KeptSources = {}

    @property
    def _agents(self) -> dict[str, OwnRows]:
        if self._open is None:
            raise StorageError("the store ':memory:' is closed, and its contents are gone")
        return self._open

    def agents(self, wanted: Wanted = ALL) -> list[AgentRecord]:
        with self._lock:
            records = list(map(self._record, self._agents))
        alive = {record.session for record in records if record.deleted_us is None}
        found = [record for record in records if is_wanted(record, wanted, alive)]
        if wanted.latest_first:
            found.sort(key=lateness, reverse=True)
        if wanted.after is not None:
            found = behind(found, wanted.after, latest_first=wanted.latest_first)
        return found if wanted.limit is None else found[: wanted.limit]

    def _record(self, id: str) -> AgentRecord:
        agent = self._agents[id]
        return AgentRecord(
            pk=id,
            id=id,
            session=agent.new.session,
            name=agent.name,
            parent=agent.new.parent_pk,
            fork_seq=agent.new.fork_seq,
            born_seq=agent.new.born_seq,
            spawned=agent.new.spawned,
            created_us=agent.created_us,
            head=agent.head,
            updated_us=agent.updated_us,
            key=agent.new.key,
            about=agent.about,
            deleted_us=agent.deleted_us,
        )

    def _living(self, agent: AgentRecord) -> OwnRows:
        """The agent of a handle. An agent that was created again under the same key has another birth."""
        own = self._agents.get(agent.pk)
        if own is None or own.deleted_us is not None or own.created_us != agent.created_us:
            raise lost(agent)
        return own

    def head(self, agent: AgentRecord) -> int:
        return self._living(agent).head

    def _digest(self, id: str, seq: int) -> bytes:
        """The digest at a position of an agent's lineage."""
        if not seq:
            return START
        own = self._agents[id]
        if seq <= own.new.fork_seq:
            return self._digest(own.new.parent_pk, seq)
        return own.digests[seq - own.new.fork_seq - 1]

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        with self._lock:
            head = self._living(agent).head
            key, high = agent.pk, head if at is None else at
            steps: list[WalkedPiece] = [(None, 1, 0, None, high)]
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
                    key, high = own.new.parent_pk, min(high, fork)
            return Walk(head, live(pieces_of(steps, agent)))

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        with self._lock:
            own = self._living(agent)
            steps: list[WalkedPiece] = [
                (agent.pk, own.new.fork_seq + 1, own.head, None, own.new.fork_seq)
            ]
            while own.new.fork_seq:
                key, high = own.new.parent_pk, own.new.fork_seq
                own = self._agents[key]
                steps.append((key, own.new.fork_seq + 1, high, None, own.new.fork_seq))
            return pieces_of(steps, agent)

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        with self._lock:
            for piece in self.lineage(agent)[::-1]:
                if self._agents[piece.owner].created_us <= moment:
                    times = [event.created_us for event in self.read(agent, [piece])]
                    return piece.low - 1 + bisect_right(times, moment)
            return 0

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        found = []
        for key, low, high, _ in pieces:
            own = self._agents.get(key)
            if own is None:  # deleted since the pieces were looked up
                continue
            fork = own.new.fork_seq
            found += own.events[max(low - fork - 1, 0) : max(high - fork, 0)]
        return found

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        return columns_of(self.read(agent, pieces))

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        read = self.read(agent, pieces)
        self._living(agent)  # after the read: if it still exists, so did what was read
        return [event for event in read if event.kind != "note" or event.content in notes]

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        said = self.read_said(agent, pieces, notes)
        return [(e.content, e.data_json) for e in said if e.kind in SPOKEN or e.kind == "note"]

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        found = []
        for piece in pieces:
            own = self._agents.get(piece.owner)
            for event in self.read(agent, [piece]):
                base = own.bases.get(event.seq) if own else None
                found.append(
                    OutlineRow(event.seq, event.kind, size_of(event), event.created_us, base)
                )
        return found

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        events = self.read(agent, pieces)
        return [(event.seq, event.kind, event.data_json) for event in events if event.kind in kinds]

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        return [event for event in self.read(agent, pieces) if event.kind == "mark"]

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        notes = [event for event in self.read(agent, pieces) if event.kind == "note"]
        return [note for note in notes if name in (None, note.content)]

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        return next(reversed(self.notes(agent, pieces, name)), None)

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        wanted = set(keys)
        return [event for event in self.read(agent, pieces) if event.key in wanted]

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        return {event.key or "": event.seq for event in self.keyed(agent, pieces, keys)}

    def known(self, keys: Sequence[str]) -> set[str]:
        with self._lock:
            return {event.key or "" for own in self._agents.values() for event in own.events} & set(
                keys
            )

    def sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        with self._lock:
            return sources_in(self._sources, tool, id, prefix)

    def found(self, key: str) -> list[tuple[str, int]]:
        with self._lock:
            agents = self._agents.items()
            return [
                (id, event.seq)
                for id, agent in agents
                for event in agent.events
                if event.key == key
            ]

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        own = self._agents.get(agent.pk)
        if own is None:
            return []  # it was deleted
        rows = zip(own.events, own.digests, strict=True)
        found = [Stored.of(event, own.bases.get(event.seq), digest) for event, digest in rows]
        return [row for row in found if row.seq > after][:limit]

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        with self._lock:
            owners = (
                (id, own.events) for id, own in self._agents.items() if own.new.session == session
            )
            return [
                (id, event) for id, events in owners for event in events if event.kind == "mark"
            ]

    def heads(self) -> list[tuple[str, int]]:
        with self._lock:
            return [
                (id, agent.head) for id, agent in self._agents.items() if agent.deleted_us is None
            ]

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        found = []
        with self._lock:
            for record in self.agents(Wanted(key_prefix=key_prefix)):
                own = self._agents[record.id]
                notes = (
                    event
                    for event in own.events[::-1]
                    if (event.kind, event.content) == ("note", name)
                )
                found.append(
                    NewestNote(record.id, next(notes, None), own.jumps[-1] if own.jumps else 0)
                )
        return found

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        with self._lock:
            return [
                Irregular(id, event.seq, event.kind, own.bases.get(event.seq))
                for id, own in self._agents.items()
                for event in own.events
                if event.seq in own.bases or event.kind not in regular
            ]

    def censuses(self) -> list[AgentCensus]:
        everyone = self.agents(Wanted(deleted=True))
        own = ((one, Piece(one.pk, one.fork_seq + 1, one.head)) for one in everyone)
        return [
            AgentCensus(one.id, *found) for one, piece in own for found in self.census(one, [piece])
        ]

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        counted: dict[str, Census] = {}
        for piece in pieces:
            bases = self._agents[piece.owner].bases
            for event in self.read(agent, [piece]):
                before = counted.get(event.kind, Census(event.kind, 0, 0, 0))
                counted[event.kind] = before._replace(
                    events=before.events + 1,
                    with_base=before.with_base + (event.seq in bases),
                    bytes=before.bytes + size_of(event),
                )
        return list(counted.values())

    def size(self) -> int:
        return sum(size_of(event) for agent in self._agents.values() for event in agent.events)

    def damage(self) -> list[str]:
        return []

    def find(
        self,
        query: Query,
        *,
        kinds: Sequence[str],
        pieces: Sequence[Piece] | None,
        session: str,
        limit: int,
    ) -> list[Found]:
        with self._lock:
            found = []
            for key, low, high in self._ranges(pieces):
                for event in self.read(self._record(key), [Piece(key, low, high)]):
                    text = words(searchable(event.kind, event.content, event.data_json))
                    if (not kinds or event.kind in kinds) and matches(query, text):
                        found.append(Found(key, event.seq, score(query, text)))
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    def _ranges(self, pieces: Sequence[Piece] | None) -> list[tuple[str, int, int]]:
        if pieces is not None:
            return [(piece.owner, piece.low, piece.high) for piece in pieces]
        return [(key, agent.new.fork_seq + 1, agent.head) for key, agent in self._agents.items()]
