"""Intakes: write imported agents and events, with their original times, in batches.

Everything is checked, as in an append, when it is added. Nothing is locked until `commit`, which
writes everything in one transaction. So a source may be read slowly.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from backstory.agent import Agent
from backstory.errors import Conflict, Invalid, KeyTaken
from backstory.log.arguments import (
    change_about,
    check_key,
    check_keys,
    check_moment,
    check_name,
    check_text,
    derive_id,
)
from backstory.log.chain import LogEnd, build_rows
from backstory.log.checks import check_drafts
from backstory.log.erasure import is_erased
from backstory.log.events import Draft, Event, parse_object, to_json
from backstory.reading import AgentHandle, get_record, replace_record
from backstory.storage.agent_errors import InertEvent, check_head, report_inert_events
from backstory.storage.agent_trees import list_session
from backstory.storage.ids import find_keyed_agent, name_from_key, new_salts
from backstory.storage.lineage import read_digest
from backstory.storage.positions import check_expected, check_position, find_owner, find_pieces
from backstory.storage.protocol import (
    AgentChange,
    AgentRecord,
    Backend,
    NewAgent,
    Pieces,
    SourceRecord,
    Transaction,
)
from backstory.storage.write import decide_next_bases

INTAKE_BATCH = 1_000  # rows that are written at a time


class Source(NamedTuple):
    """A source of imported events. `SourceRecord` is its row, with the cursor as JSON text."""

    tool: str
    id: str
    agent_id: str | None = None  # of the agent that it became
    cursor: dict[str, Any] | None = None  # how far it was read


class AgentBirth(NamedTuple):
    """An agent that the next commit creates."""

    agent: Agent  # its handle, which cannot be read before the commit
    new: NewAgent  # without its positions in the parent, which the commit decides
    parent: AgentHandle | None
    at: int | None  # the position in the parent; None: its head
    is_fork: bool  # True if it inherits the parent's events up to that position
    created_us: int


class EventBatch(NamedTuple):
    """Events that the next commit adds to an agent."""

    agent: AgentHandle
    drafts: Sequence[Draft]
    expected: int | None
    repeated: Set[int]


class AboutChange(NamedTuple):
    """Details of an agent that the next commit changes."""

    agent: AgentHandle
    about: dict[str, Any]


class Intake:
    """Agents and events that were added and are not committed yet.

    `with store.intake() as intake:` commits at the end of the block. If the block raises,
    everything since the last commit is dropped.
    """

    def __init__(self, backend: Backend, *, dry_run: bool = False) -> None:
        self._backend = backend
        self._dry_run = dry_run
        self._waiting: list[AgentBirth | EventBatch | AboutChange] = []
        self._sources: list[SourceRecord] = []
        self._new: dict[str, Agent] = {}

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

    # --- adding ---

    def agent(
        self,
        key: str,
        name: str | None = None,
        *,
        parent: AgentHandle | None = None,
        at: int | None = None,
        spawned: bool = False,
        inherits: bool = False,
        created_at: datetime | None = None,
    ) -> Agent:
        """Return the agent with this key. If it does not exist, the next commit creates it, and its
        log can be read from then on. Without a parent, it is the root of a session. With one, it is
        a fork that continues from the parent's position `at` (default: its head), or a sub-agent
        (`spawned`) that begins there. A sub-agent inherits nothing, unless `inherits` makes it a
        fork, too."""
        id, known = self._find_agent(key)
        if known is not None:
            return known
        self._check_birth(parent, at, is_sub_agent=spawned or inherits)
        if created_at is None:
            created_us = self._backend.read_clock()
        else:
            created_us = max(check_moment(created_at), 0)
        new = NewAgent(
            id,
            session=id if parent is None else parent.session,
            name=name_from_key(key) if name is None else check_name(name),
            spawned=bool(spawned),
            key=key,
        )
        record = new.to_record(None, None if parent is None else parent.id, created_us)
        agent = Agent(self._backend, record)
        self._new[id] = agent
        is_fork = not spawned or inherits
        self._waiting.append(AgentBirth(agent, new, parent, at, is_fork, created_us))
        return agent

    def _find_agent(self, key: str) -> tuple[str, Agent | None]:
        """Return the id that a key has now, and the agent with it, perhaps one that the next commit
        creates."""
        id = derive_id(key)
        if id in self._new:
            return id, self._new[id]
        id, found = find_keyed_agent(self._backend, key)
        if found is not None:
            return id, Agent(self._backend, found)
        return id, self._new.get(id)

    def _check_birth(self, parent: object, at: object, *, is_sub_agent: bool) -> None:
        """Raise Invalid if an agent cannot be created like this."""
        if at is not None and type(at) is not int:
            raise Invalid(f"at={at!r:.60} is not a position", remedy="pass a whole number")
        if parent is not None:
            get_record(self._backend, parent)  # raises Invalid if it is of another store
        elif at is not None or is_sub_agent:
            raise Invalid("only an agent with a parent is forked or spawned", remedy="pass parent=")

    def extend(
        self,
        agent: AgentHandle,
        events: Iterable[Event | tuple[Any, ...]],
        *,
        expected: int | None = None,
        repeated: Set[int] = frozenset(),
    ) -> None:
        """Add events after the agent's newest, as in `agent.extend`; a fifth item of a tuple is its
        time, a datetime. An event keeps its time, unless that is before the previous event's, which
        it then gets. Events whose keys the lineage already has are skipped, whatever they contain.
        With `expected`, the commit raises Conflict if that is not the head by then. `repeated` are
        positions whose text the events contain again: the commit raises Conflict if one of them was
        erased in the meantime."""
        check_expected(expected)
        get_record(self._backend, agent)
        self._waiting.append(EventBatch(agent, check_timed_events(events), expected, repeated))

    def describe(self, agent: AgentHandle, /, **about: Any) -> None:
        """Set details of an agent, as `agent.describe` does."""
        change_about(None, about)
        get_record(self._backend, agent)
        self._waiting.append(AboutChange(agent, about))

    def remember(
        self,
        tool: str,
        id: str,
        *,
        agent: AgentHandle | None = None,
        cursor: dict[str, Any] | None = None,
    ) -> None:
        """Record which agent a source became, or how far it was read. A value that is not given
        stays the same."""
        source = SourceRecord(check_key(tool), _check_source_id(id))
        if agent is not None:
            record = get_record(self._backend, agent)
            source = source._replace(agent_id=record.id)
        if cursor is not None:
            source = source._replace(cursor=_encode_cursor(cursor))
        self._sources.append(source)

    # --- looking up ---

    def find_keys(self, keys: Iterable[str]) -> set[str]:
        """Return the keys among these that some event of the store has already."""
        return {found.key for found in self._backend.find_keys(check_keys(keys))}

    def find_positions(self, agent: AgentHandle, keys: Iterable[str]) -> dict[str, int]:
        """Return the positions of the events with these keys in an agent's lineage."""
        wanted = check_keys(keys)
        record = get_record(self._backend, agent)
        if not wanted or record.pk is None:  # the next commit creates the agent
            return {}
        pieces = self._backend.read_lineage(record)
        found = self._backend.find_keys(wanted, record, pieces)
        return {position.key: position.seq for position in found}

    def source(self, tool: str, id: str) -> Source | None:
        """Return a source, given by its tool and the tool's id for it: the agent that it became,
        and how far it was read. None if nothing is remembered of it."""
        found = self._backend.list_sources(tool=check_key(tool), id=_check_source_id(id))
        if not found:
            return None
        record = found[0]
        return Source(record.tool, record.id, record.agent_id, parse_object(record.cursor))

    # --- writing ---

    def commit(self) -> int:
        """Write everything since the last commit, all or nothing. Return the number of events."""
        written = 0
        if not self._dry_run and (self._waiting or self._sources):
            written = self._write()
        self._waiting, self._sources = [], []
        return written

    def _write(self) -> int:
        sessions = sorted({item.agent.session for item in self._waiting})
        with self._backend.begin(sessions=sessions) as transaction:
            commit = IntakeCommit(self._backend, transaction, sessions)
            for item in self._waiting:
                commit.write(item)
            transaction.remember_sources(self._sources)
        commit.report_inert()
        for id, record in commit.records.items():
            if id in self._new:
                replace_record(self._new.pop(id), record)
        return commit.written


class IntakeCommit:
    """One transaction of an intake, with the agents of its sessions as they are now."""

    def __init__(self, backend: Backend, transaction: Transaction, sessions: Iterable[str]) -> None:
        self._backend = backend
        self._transaction = transaction
        self.records: dict[str, AgentRecord] = {}
        self.written = 0
        self._inert: list[tuple[AgentRecord, list[InertEvent]]] = []
        for session in sessions:
            for record in list_session(transaction, session):
                self.records[record.id] = record

    def write(self, item: AgentBirth | EventBatch | AboutChange) -> None:
        """Write what was added."""
        match item:
            case AgentBirth():
                self._create_agent(item)
            case EventBatch():
                self._add_events(item)
            case AboutChange():
                self._describe(item)

    def report_inert(self) -> None:
        """Report the events without effect, after the commit."""
        for agent, events in self._inert:
            report_inert_events(agent, events)

    def _get_record(self, agent: AgentHandle) -> AgentRecord:
        return self.records.get(agent.id) or get_record(self._backend, agent)

    def _create_agent(self, birth: AgentBirth) -> None:
        new = birth.new
        if new.id in self.records:
            return  # someone else created it in the meantime
        if birth.parent is not None:
            new = self._set_parent(new, self._get_record(birth.parent), birth)
        try:
            self.records[new.id] = self._transaction.create_agent(new, [], birth.created_us)
        except KeyTaken as error:
            raise Conflict(
                f"someone else is importing {new.key!r:.80}", remedy="do it again"
            ) from error

    def _set_parent(self, new: NewAgent, parent: AgentRecord, birth: AgentBirth) -> NewAgent:
        """Return the new agent with its parent, fork position and birth position."""
        position = parent.head if birth.at is None else birth.at
        check_position(parent, position, parent.head)
        if not birth.is_fork:
            return new._replace(parent_pk=parent.pk, origin_pk=parent.pk, born_seq=position)
        pieces = self._transaction.read_lineage(parent)
        owner = find_owner(pieces, position)
        return new._replace(
            parent_pk=owner, origin_pk=parent.pk, fork_seq=position, born_seq=position
        )

    def _add_events(self, batch: EventBatch) -> None:
        agent = self._get_record(batch.agent)
        check_head(agent, agent.head, batch.expected)
        pieces = self._transaction.read_lineage(agent)
        if batch.repeated:
            self._check_not_erased(agent, find_pieces(pieces, batch.repeated))
        drafts = list(self._drop_known(agent, pieces, batch.drafts))
        owner_pk = find_owner(pieces, agent.head)
        digest = read_digest(self._transaction, agent, owner_pk, agent.head)
        end = LogEnd(agent.head, agent.updated_us, digest)
        self.records[agent.id] = self._write_drafts(agent, end, drafts)
        self.written += len(drafts)

    def _write_drafts(
        self, agent: AgentRecord, end: LogEnd, drafts: Sequence[Draft]
    ) -> AgentRecord:
        """Write events after the end of an agent's log. Return the agent with its new head."""
        now_us = self._transaction.read_clock()
        for start in range(0, len(drafts), INTAKE_BATCH):
            part = drafts[start : start + INTAKE_BATCH]
            decided = decide_next_bases(self._transaction, agent, part, end.head)
            salts = new_salts(len(decided.drafts))
            rows, end = build_rows(end, decided.drafts, now_us, salts)
            self._transaction.add_rows(agent, rows)
            self._inert.append((agent, decided.inert))
            agent = agent._replace(head=end.head, updated_us=end.last_us)
        return agent

    def _check_not_erased(self, agent: AgentRecord, pieces: Pieces) -> None:
        """Refuse to write text again that was erased since it was read: an erasure does not move
        the head."""
        for event in self._transaction.read_events(agent, pieces):
            if is_erased(event.data_json):
                raise Conflict(
                    f"events of {agent.name!r} were erased in the meantime",
                    remedy="do it again",
                    head=agent.head,
                )

    def _drop_known(
        self, agent: AgentRecord, pieces: Pieces, drafts: Sequence[Draft]
    ) -> Iterator[Draft]:
        """Yield the events whose keys neither the lineage nor an earlier event of the batch has."""
        keys = [draft.key for draft in drafts if draft.key is not None]
        known: set[str] = set()
        if keys and agent.head:
            known = {found.key for found in self._transaction.find_keys(keys, agent, pieces)}
        for draft in drafts:
            if draft.key is None:
                yield draft
            elif draft.key not in known:
                known.add(draft.key)
                yield draft

    def _describe(self, change: AboutChange) -> None:
        agent = self._get_record(change.agent)
        text = change_about(agent.about, change.about)
        self._transaction.update_agent(agent, AgentChange(about=text or ""))
        self.records[agent.id] = agent._replace(about=text)


def check_timed_events(events: Any) -> list[Draft]:
    """Return the drafts of events that may have times of their own."""
    if not isinstance(events, Iterable):
        return check_drafts(events)  # which raises Invalid
    untimed: list[Any] = []
    times: list[int | None] = []
    for event in events:
        time = None
        if isinstance(event, Event):
            time = max(event.created_us, 0)
        elif isinstance(event, tuple) and len(event) == 5:
            time = max(check_moment(event[4]), 0)
            event = event[:4]
        untimed.append(event)
        times.append(time)
    drafts = check_drafts(untimed)
    return [draft._replace(created_us=time) for draft, time in zip(drafts, times, strict=True)]


def add_drafts(
    intake: Intake, agent: Agent, drafts: Sequence[Draft], expected: int, repeated: Set[int]
) -> None:
    """Add events to an intake like `extend`. For importers, which check each event when they read
    it: nothing is checked again here."""
    intake._waiting.append(EventBatch(agent, drafts, expected, repeated))


def _check_source_id(id: Any) -> str:
    """Return the id that a tool gave to a source. Raises Invalid."""
    if not isinstance(id, str):
        raise Invalid(f"the id of a source is a string, not {id!r:.60}", remedy="pass a string")
    return check_text(id, "the id of this source")


def _encode_cursor(cursor: Any) -> str:
    """Return the JSON text of a cursor."""
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
