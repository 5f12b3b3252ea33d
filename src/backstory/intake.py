"""Intakes: write agents and events that happened elsewhere, with their original times, in batches.

Everything is checked, as in an append, when it is added. Nothing is locked until `commit`, which writes
everything in one transaction. So a source may be read slowly. Where a commit knows how the log ends, the rows
are made before it locks anything, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from backstory.agent import Agent
from backstory.arguments import own_agent
from backstory.errors import Conflict, Invalid, KeyTaken
from backstory.log.about import described
from backstory.log.chain import START, is_erased
from backstory.log.drafts import EncodedDraft, as_batch, drafts, encoded
from backstory.log.ends import End, rows_behind
from backstory.log.events import (
    Event,
    check_text,
    checked_key,
    checked_keys,
    moment_us,
    parse_object,
    plain,
    to_json,
)
from backstory.log.kinds import FRESH_STARTS, MOVES
from backstory.storage import protocols
from backstory.storage.bases import judged
from backstory.storage.ids import checked_name, keyed_id, name_of
from backstory.storage.keys import keyed_agent
from backstory.storage.log import Log, now
from backstory.storage.positions import check_expected, check_position, parts_at
from backstory.storage.protocols import AgentRecord, NewAgent, SourceRecord


class Source(NamedTuple):
    """What a store knows about a source."""

    tool: str
    id: str
    agent: str | None = None  # the id of the agent that it became
    cursor: dict[str, Any] | None = None  # how far it was read


def source_of(backend: protocols.Sources, tool: str, id: str) -> Source | None:
    """What a store knows of a tool's source."""
    found = backend.sources(tool=checked_key(tool), id=_checked_id(id))
    return Source(*found[0][:3], parse_object(found[0].cursor)) if found else None


class _Birth(NamedTuple):
    agent: Agent
    parent: Agent | None
    at: int | None
    inherits: bool
    created_us: int


class _Batch(NamedTuple):
    agent: Agent
    drafts: Sequence[EncodedDraft]
    times: Sequence[int]
    expected: int | None
    is_new: bool = (
        False  # whoever hands it over knows that the lineage up to `expected` has none of its keys
    )
    repeated: Set[int] = frozenset()  # where the lineage has what the events may say again

    @property
    def is_simple(self) -> bool:
        """Whether no key comes twice, and nothing has to be read to see what an event continues."""
        keys = [key for _, _, _, key in self.drafts if key is not None]
        return len(set(keys)) == len(keys) and "rewind" not in {
            kind for kind, _, _, _ in self.drafts
        }


class _Prepared(NamedTuple):
    """The rows of a batch, if the log ends where it is expected to."""

    before: End
    rows: protocols.Packed
    after: End


class _Description(NamedTuple):
    agent: Agent
    about: dict[str, Any]


class Intake:
    """What was added and not committed yet. `with store.intake() as intake:` commits at the end of the block.
    If the block raises, everything since the last commit is dropped."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: list[_Birth | _Batch | _Description] = []
        self._sources: list[SourceRecord] = []
        self._new: dict[str, Agent] = {}
        self._ends: dict[
            str, End
        ] = {}  # how the logs ended after the last commit, by the agents' ids

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.commit()

    # --- what comes in ---

    def agent(
        self,
        key: str,
        name: str | None = None,
        *,
        parent: Agent | None = None,
        at: int | None = None,
        spawned: bool = False,
        inherits: bool | None = None,
        created_at: datetime | None = None,
    ) -> Agent:
        """The agent with this key. If it does not exist, the next commit creates it, and its log can be read
        from then on. Without a parent, it is the root of a session. With one, it continues from the parent's
        position `at` (default: its head). If it is `spawned`, it begins there and inherits nothing, unless
        `inherits=True`."""
        id = keyed_id(key)
        if id not in self._new:
            id, found = keyed_agent(self._log.backend, key)
            if found is not None:
                return Agent(self._log, found)
        if id in self._new:
            return self._new[id]
        if parent is not None:
            own_agent(self._log, parent)
        if at is not None and type(at) is not int:
            raise Invalid(f"at={at!r:.60} is not a position", remedy="pass a whole number")
        checked = name_of(key) if name is None else checked_name(name)
        created_us = now() if created_at is None else _microseconds(created_at)
        record = AgentRecord(
            None, id, parent.session if parent else id, checked, parent.id if parent else None,
            0, 0, bool(spawned), created_us, 0, created_us, key,
        )  # fmt: skip
        if parent is None and (at is not None or spawned or inherits):
            raise Invalid("only an agent with a parent is forked or spawned", remedy="pass parent=")
        agent = self._new[id] = Agent(self._log, record)
        inheriting = not spawned if inherits is None else inherits
        self._waiting.append(_Birth(agent, parent, at, inheriting, created_us))
        return agent

    def extend(
        self,
        agent: Agent,
        events: Iterable[Event | tuple[Any, ...]],
        *,
        expected: int | None = None,
    ) -> None:
        """Add events after the agent's newest, as in `agent.extend`; a fifth item of a tuple is its time, a
        datetime. An event keeps its time, unless that is before the previous event's, which it then gets.
        Events whose keys the lineage already has are skipped, whatever they say. With `expected`, the commit
        raises Conflict if that is not the head by then."""
        check_expected(expected)
        own_agent(self._log, agent)
        batch, times = [], []
        for event in as_batch(events):
            own = _own_time(event)
            batch.append(event[:4] if _is_timed(event) else event)
            times.append(now() if own is None else own)
        self._waiting.append(_Batch(agent, list(map(encoded, drafts(batch))), times, expected))

    def describe(self, agent: Agent, /, **about: Any) -> None:
        """Set details of an agent, as `agent.describe` does."""
        described(None, about)
        self._waiting.append(_Description(own_agent(self._log, agent), about))

    def remember(
        self,
        tool: str,
        id: str,
        *,
        agent: Agent | None = None,
        cursor: dict[str, Any] | None = None,
    ) -> None:
        """Record which agent a source became, or how far it was read. What is not given stays the same."""
        text = None if cursor is None else _cursor_text(cursor)
        known = None if agent is None else own_agent(self._log, agent).id
        self._sources.append(SourceRecord(checked_key(tool), _checked_id(id), known, text))

    # --- what is there ---

    def seen(self, ids: Iterable[str]) -> set[str]:
        """The keys among these that some event of the store has already."""
        return self._log.backend.known(checked_keys(ids))

    def places(self, agent: Agent, ids: Iterable[str]) -> dict[str, int]:
        """The positions of the events with these keys in an agent's lineage."""
        keys = checked_keys(ids)
        if own_agent(self._log, agent).snapshot.pk is None:
            return {}
        backend = self._log.backend
        return backend.places(agent.snapshot, backend.lineage(agent.snapshot), keys)

    def cursor(self, source: Source | tuple[str, str]) -> dict[str, Any] | None:
        """How far a source (given as such, or by tool and id) was read; None if it was never read."""
        match source:
            case [tool, id, *_]:
                found = source_of(self._log.backend, tool, id)
                return found.cursor if found else None
        raise Invalid(f"{source!r:.60} is not a source", remedy="pass a Source, or (tool, id)")

    # --- writing ---

    def commit(self) -> int:
        """Write everything since the last commit, all or nothing, and return the number of events."""
        if not self._waiting and not self._sources:
            return 0
        backend = self._log.backend
        prepared = list(_prepared(backend, self._waiting, self._ends))
        with backend.intake() as rows:
            commit = _Commit(backend, rows)
            for session in sorted({item.agent.session for item in self._waiting}):
                commit.hold(session)
            for item, ready in zip(self._waiting, prepared, strict=True):
                commit.take(item, ready)
            rows.remember(self._sources)
        self._ends |= commit.ends
        for id, record in commit.records.items():
            if id in self._new:
                self._new.pop(id)._record = record
        self._waiting, self._sources = [], []
        return commit.written


def hand_over(
    intake: Intake,
    agent: Agent,
    checked: Sequence[EncodedDraft],
    times: Sequence[int],
    expected: int,
    repeated: Set[int] = frozenset(),
) -> None:
    """`intake.extend` for events that were checked already and are known to be new after `expected`, with
    times in microseconds: importers add very many. The commit raises Conflict if something that they repeat
    was erased in the meantime."""
    own = [max(time, 0) for time in times]
    intake._waiting.append(_Batch(agent, checked, own, expected, is_new=True, repeated=repeated))


def _prepared(
    backend: protocols.Backend,
    waiting: Iterable[_Birth | _Batch | _Description],
    known: Mapping[str, End],
) -> Iterator[_Prepared | None]:
    """The rows of the batches that can be made before anything is locked."""
    ends = dict(known)
    for item in waiting:
        ready = None
        match item:
            case _Birth() if item.parent is None or not item.inherits:
                ends.setdefault(item.agent.id, End(0, item.created_us))
            case _Batch():
                end = ends.pop(item.agent.id, None)
                if end is not None and item.is_new and item.is_simple:
                    ready = _ready(
                        backend, backend, item.agent.snapshot, end, item.drafts, item.times
                    )
                    ends[item.agent.id] = ready.after
        yield ready


def _ready(
    backend: protocols.Backend,
    reader: protocols.Reader,
    agent: AgentRecord,
    end: End,
    drafts: Sequence[EncodedDraft],
    times: Sequence[int],
) -> _Prepared:
    """The rows of new events. Only where a move leads depends on what it says, and only where a rewind leads
    on what was written before."""
    kinds = [kind for kind, _, _, _ in drafts]  # faster than asking each draft for it
    if MOVES.isdisjoint(kinds):
        bases = [0 if kind in FRESH_STARTS else None for kind in kinds]
    else:
        based = judged(reader, agent, [draft.decoded for draft in drafts], end.head, [])
        bases = [base for _, base in based]
    rows, after = rows_behind(end, drafts, times, bases)
    return _Prepared(end, backend.packed(rows), after)


class _Commit:
    """One transaction, with the agents of its sessions as they are now."""

    def __init__(self, backend: protocols.Backend, rows: protocols.Intake) -> None:
        self._backend = backend
        self._rows = rows
        self.records: dict[str, AgentRecord] = {}
        self.ends: dict[str, End] = {}
        self.written = 0

    def hold(self, session: str) -> None:
        """Keep others from writing to a session."""
        self.records |= {record.id: record for record in self._rows.held(session)}

    def take(self, item: _Birth | _Batch | _Description, ready: _Prepared | None = None) -> None:
        """Write what was added."""
        match item:
            case _Birth():
                self._make(item)
            case _Batch():
                self._write(item, ready)
            case _Description(agent, about):
                record = self._record(agent)
                self._rows.describe(record, lambda old: described(old, about))

    def _record(self, agent: Agent) -> AgentRecord:
        return self.records.get(agent.id, agent.snapshot)

    def _make(self, birth: _Birth) -> None:
        new = birth.agent.snapshot
        if new.id in self.records:
            return  # someone else made it in the meantime
        parent_pk, fork_seq, born_seq = None, 0, 0
        if birth.parent is not None:
            parent_pk, born_seq = self._birthplace(
                self._record(birth.parent), birth.at, birth.inherits
            )
            fork_seq = born_seq if birth.inherits else 0
        made = NewAgent(
            new.id, new.session, new.name, parent_pk, fork_seq, born_seq, new.spawned, new.key
        )
        try:
            self.records[new.id] = self._rows.add_agent(made, birth.created_us)
        except KeyTaken as error:
            raise Conflict(
                f"someone else is importing {new.key!r:.80}", remedy="do it again"
            ) from error

    def _birthplace(self, parent: AgentRecord, at: int | None, inherits: bool) -> tuple[Any, int]:
        position = parent.head if at is None else at
        check_position(parent, position, parent.head)
        if not inherits:
            return parent.pk, position
        pieces = self._rows.lineage(parent)
        return next(piece.owner for piece in pieces if position <= piece.high), position

    def _write(self, batch: _Batch, ready: _Prepared | None) -> None:
        agent = self._record(batch.agent)
        pieces = self._rows.lineage(agent)
        if batch.expected not in (None, agent.head):
            raise Conflict.at(agent.name, batch.expected or 0, agent.head)
        if batch.repeated:
            self._check_unerased(agent, parts_at(pieces, batch.repeated))
        end = End(agent.head, agent.updated_us, self._digest(agent, pieces))
        if ready is None or ready.before != end:
            ready = _ready(self._backend, self._rows, agent, end, *self._new(batch, agent, pieces))
        if not ready.rows:
            return
        self._rows.add_packed(agent, ready.rows)
        self.written += len(ready.rows)
        self.ends[agent.id] = ready.after
        self.records[agent.id] = agent._replace(
            head=ready.after.head, updated_us=ready.after.updated_us
        )

    def _check_unerased(self, agent: AgentRecord, parts: Sequence[protocols.Piece]) -> None:
        """Refuse to write again what was erased since it was read: an erasure does not move the head."""
        if any(is_erased(event.data_json) for event in self._rows.read(agent, parts)):
            raise Conflict(
                f"events of {agent.name!r} were erased in the meantime",
                remedy="do it again",
                head=agent.head,
            )

    def _new(
        self, batch: _Batch, agent: AgentRecord, pieces: Sequence[protocols.Piece]
    ) -> tuple[list[EncodedDraft], list[int]]:
        """The events of a batch that the lineage does not have, and their times."""
        keys = [draft.key for draft in batch.drafts if draft.key is not None]
        known = {} if batch.is_new or not keys else self._rows.places(agent, pieces, keys)
        new, times = [], []
        for draft, time in zip(batch.drafts, batch.times, strict=True):
            if draft.key not in known:
                new.append(draft)
                times.append(time)
            if draft.key is not None:
                known[draft.key] = 0  # once more in the same batch, it is passed over, too
        return new, times

    def _digest(self, agent: AgentRecord, pieces: Sequence[protocols.Piece]) -> bytes:
        """The digest at the head."""
        if not agent.head:
            return START
        owner = next(piece.owner for piece in pieces if agent.head <= piece.high)
        [row] = self._rows.stored(agent._replace(pk=owner), agent.head - 1, 1)
        return row.digest


def _checked_id(id: Any) -> str:
    """The id that a tool gave to a source: any text that a database can hold."""
    if not isinstance(id, str):
        raise Invalid(f"the id of a source is a text, not {id!r:.60}", remedy="pass a string")
    check_text(id, "the id of this source")
    return plain(id)


def _cursor_text(cursor: Any) -> str:
    if not isinstance(cursor, dict):
        raise Invalid(
            f"the cursor of a source is an object, not {cursor!r:.60}", remedy="pass a dict"
        )
    try:
        text = to_json(cursor)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"the cursor of a source must be JSON: {error}") from error
    return text


def _own_time(event: Any) -> int | None:
    """The original time of an event."""
    if isinstance(event, Event):
        return event.created_us
    return _microseconds(event[4]) if _is_timed(event) else None


def _is_timed(event: Any) -> bool:
    """Whether it is a tuple whose fifth item is its time."""
    return isinstance(event, tuple) and not isinstance(event, Event) and len(event) == 5


def _microseconds(moment: datetime) -> int:
    return max(moment_us(moment), 0)
