"""The storage protocol: what a backend is asked to do, and the records that pass through it.

A backend stores rows and answers reads. It knows positions, bases and kinds, and decides nothing:
the base of an event is decided by `log.replay` before the event is written.

Begin with these five. A `Piece` is a range of positions that one agent owns, and a `Walk` has the
pieces that are live. A `Reader` reads. A `Transaction` is a reader that may write, under the locks
that `Backend.begin` took. A `Backend` is a reader that opens transactions. Its `append` and
`create_agent` are complete transactions.

Locks are taken in this order, and nowhere else:

| level | locked | PostgreSQL | by |
| --- | --- | --- | --- |
| 1 | the store | advisory lock | migrations, creating the search index, `distribute` |
| 2 | sessions, by place | row of `places` | `create_agent`, `begin(sessions=…)` |
| 3 | agents, by session and id | their queue, then the row | `append`, `begin(agents=…)`; |
| | | of `agents` | `begin(sessions=…)` locks all agents of its sessions |
| 4 | the search index | advisory lock | `index_events`, and removals after level 3 |

The queue of an agent is an advisory lock that keeps appends from overtaking a transaction for one
agent, such as a move (`postgres.writer.QUEUE` says who waits in it). It comes before the row.
SQLite and memory have one write lock for all four levels. Who needs a lock of an earlier level ends
the transaction and begins another. Nobody waits for a callback or for a person while holding a
lock.

An append needs level 3 only: the lineage of a living agent never changes, except that text in it is
erased, so positions that were read earlier are still valid if the agent is alive. A new agent needs
level 2, so none can appear during a removal or an erasure. No number of an agent is given twice, so
a handle of a deleted agent finds nothing."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from backstory.log.events import Draft, Event, OutlineRow, StoredRow
from backstory.log.terms import FoundEvent, Phrases
from backstory.log.times import to_datetime


class AgentRecord(NamedTuple):
    """An agent as a backend lists it. Head, times and details are those of the moment of the
    read."""

    pk: Any  # the backend's own key of the agent, opaque to all other code
    id: str
    session: str
    name: str
    parent: str | None
    fork_seq: int  # the last position that it inherits; 0 for a root and for a spawned agent
    born_seq: int  # the position in its parent where it began; for a fork, the fork position
    spawned: bool
    created_us: int
    head: int
    updated_us: int
    key: str | None = None
    about: str | None = None  # the text of a JSON object
    deleted_us: int | None = None  # set for a deleted agent whose row other agents still need


class NewAgent(NamedTuple):
    """An agent to create. The session of a root is its own id."""

    id: str
    session: str
    name: str
    parent_pk: Any = None  # owns the fork position; of a sub-agent, the spawner
    # The agent that was forked or spawned, which must be alive and of the same session. The parent
    # of a fork may have been deleted. None: an import creates the agent, alive or not.
    origin_pk: Any = None
    fork_seq: int = 0
    born_seq: int = 0
    spawned: bool = False
    key: str | None = None
    about: str | None = None
    deleted_us: int | None = None

    def to_record(self, pk: Any, parent: str | None, created_us: int) -> AgentRecord:
        """Return the agent as it is listed before it has events of its own. `parent` is the id of
        its parent."""
        shared = {name: getattr(self, name) for name in SHARED_FIELDS}
        return AgentRecord(
            pk=pk,
            parent=parent,
            created_us=created_us,
            head=self.fork_seq,
            updated_us=created_us,
            **shared,
        )

    @classmethod
    def copy_of(cls, agent: AgentRecord, parent_pk: Any) -> "NewAgent":
        """Return an agent that is to be created as it is in another store."""
        shared = {name: getattr(agent, name) for name in SHARED_FIELDS}
        return cls(parent_pk=parent_pk, **shared)


# The fields that an agent has before and after it is created.
SHARED_FIELDS = set(NewAgent._fields) & set(AgentRecord._fields)


class AgentChange(NamedTuple):
    """New values of an agent's row. A field that is None stays as it is."""

    name: str | None = None
    about: str | None = None  # the text of a JSON object; "" removes all details


ListOrder = Literal["born", "updated"]  # the oldest first, or the one last written to first


class AgentQuery(NamedTuple):
    """Selects agents, and the order in which they are listed. None means any."""

    id_prefix: str | None = None
    session: str | None = None
    sessions: tuple[str, ...] | None = None
    name: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    title: str | None = None  # the title in the agent's details
    # A lower-case ASCII word in the agent's details. A few results too many are allowed.
    mentions: str | None = None
    # One agent for each session that has agents, even if its root was deleted.
    roots_only: bool = False
    include_deleted: bool = False  # also deleted agents whose rows are still needed
    since_us: int | None = None  # last written to at or after this time
    until_us: int | None = None  # last written to before this time
    latest_first: bool = False  # otherwise the oldest first
    after: AgentRecord | None = None  # the last agent of the previous page
    limit: int | None = None
    allow_partial: bool = False  # leave out servers that do not answer, and warn with PartMissing


EVERY_AGENT = AgentQuery()


class Piece(NamedTuple):
    """A range of positions that one agent owns, both ends included.

    In a walk, `base` is the position that the event at `low` continues, if that event is a clear,
    rewind or jump. It is None if the piece begins with the agent's first own event."""

    owner: Any  # the `pk` of the agent that owns the range
    low: int
    high: int
    base: int | None = None


class Walk(NamedTuple):
    """The live pieces at a position, oldest first."""

    at: int  # the position
    pieces: list[Piece]
    head: int  # of the agent


class EventFilter(NamedTuple):
    """Selects events. None means any."""

    kinds: frozenset[str] | None = None
    note_names: tuple[str, ...] | None = None  # of notes, only these; no effect on other kinds
    newest_only: bool = False  # the newest match of each owner (`read_owned`), or of all pieces
    irregular_only: bool = False  # only events with a base, and events that are not in ALWAYS_SHOWN


EVERY_EVENT = EventFilter()


class EventCount(NamedTuple):
    """The number of events of one kind that one agent owns."""

    agent_id: str
    kind: str
    events: int
    bytes: int  # of their content and data


class KeyPosition(NamedTuple):
    """An event that has a key."""

    key: str
    owner_id: str
    seq: int


class SourceRecord(NamedTuple):
    """A source of imported events: the agent that it became, and how far it was read."""

    tool: str
    id: str  # the tool's own id, or the path of a file
    agent_id: str | None = None
    cursor: str | None = None  # the text of a JSON object, for the reader of the source


RemovalAction = Literal["delete", "erase", "expire"]


class RemovalRecord(NamedTuple):
    """A removal from one agent by one call, without the content."""

    id: str
    removed_us: int
    action: RemovalAction
    session: str
    agent_id: str  # of the agent that owned the events
    positions: str | None  # of erased events, such as "2,5-7"; None if the agent was removed
    events: int  # how many were removed or erased
    by: str | None  # who removed them, if the caller said so
    reason: str | None  # why, if the caller said so

    @property
    def removed_at(self) -> datetime:
        """When it was removed, with the time zone UTC."""
        return to_datetime(self.removed_us)


class SearchScope(NamedTuple):
    """The part of a store that is searched: all of it, or pieces that agents of one session own."""

    session: str | None = None  # None: the whole store
    pieces: tuple[Piece, ...] = ()  # of agents of the session, deleted ones included


WHOLE_STORE = SearchScope()


class SearchQuery(NamedTuple):
    """A search in the index."""

    phrases: Phrases
    kinds: tuple[str, ...] = ()  # none: all kinds
    scope: SearchScope = WHOLE_STORE


CANDIDATES = 10_000  # matches of a search that are ranked, unless more are asked for

Drafts = Sequence[Draft]
Pieces = Sequence[Piece]


class Reader(Protocol):
    """Reads. A method that takes an agent raises AgentNotFound if the agent was deleted, except
    `read_rows`."""

    def list_agents(self, query: AgentQuery = EVERY_AGENT) -> list[AgentRecord]:
        """Return the agents that match `query`. Reads no more events than agents."""

    def read_clock(self) -> int:
        """Return the time in microseconds, by the clock that gives events their times: that of the
        server or, without one, of this machine."""

    def read_head(self, agent: AgentRecord) -> int:
        """Return the agent's newest position."""

    def walk(self, agent: AgentRecord, at: int | None = None) -> Walk:
        """Return the live pieces at position `at` (None: the head). Raises Corrupt."""

    def read_lineage(self, agent: AgentRecord) -> list[Piece]:
        """Return all that the agent sees, dead or alive, oldest first: one piece, perhaps an empty
        one, for each ancestor that it inherits from, and its own. Raises Corrupt."""

    def find_position_at_time(self, agent: AgentRecord, moment_us: int) -> int:
        """Return the newest position that was written at or before a time. Times may drop after one
        that was in the future (`times.next_time`)."""

    def read_events(
        self, agent: AgentRecord, pieces: Pieces, where: EventFilter = EVERY_EVENT
    ) -> list[Event]:
        """Return the events in `pieces` of the agent's lineage that match `where`, in order."""

    def read_outline(self, agent: AgentRecord, pieces: Pieces) -> list[OutlineRow]:
        """Return the events in `pieces` of the agent's lineage without their texts, in order."""

    def read_rows(self, agent: AgentRecord, after: int, limit: int) -> list[StoredRow]:
        """Return up to `limit` rows that the agent itself owns after a position, in order,
        unchecked. Only `agent.pk` matters, and the agent may be deleted."""

    def read_owned(self, agents: AgentQuery, where: EventFilter) -> list[tuple[str, StoredRow]]:
        """Return the matching rows that `agents` own, each with its owner's id, by one statement:
        agent by agent in the order of birth, and in order. Of `agents`, only `id_prefix`,
        `session`, `key_prefix` and `include_deleted` are used."""

    def count_events(self) -> list[EventCount]:
        """Count all events of the store by owner and kind, those that forks need of deleted agents
        included, without reading text."""

    def find_keys(
        self, keys: Sequence[str], agent: AgentRecord | None = None, pieces: Pieces = ()
    ) -> list[KeyPosition]:
        """Return the events that have these keys, in any order: in `pieces` of an agent's lineage,
        or, if `agent` is None, in the whole store."""

    def list_sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        """Return the sources of a tool, with an id, or with an id that begins with `prefix`."""

    def list_removals(self) -> list[RemovalRecord]:
        """Return what was removed from the store, oldest first."""


class Transaction(Reader, Protocol):
    """Reads and writes under the locks that `Backend.begin` took."""

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        now_us: int | None = None,
    ) -> list[Event]:
        """Write events after the head, durably, all or none, and return them. There is at least one
        draft; the bases are decided; and no draft has a time of its own, which only imported rows
        have (`add_rows`). An event's time is `now_us`, which appends to several agents share, or
        that of `read_clock`; or the previous event's time if that is later (`times.next_time`).
        Raises Conflict if the head is not `expected`. Raises KeyTaken if the agent itself already
        has an event with one of the keys: the unique index of events by agent and key refuses
        it."""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        """Write an agent and its first events, or nothing. A fork is never older than the event
        that it forks from. Raises NameTaken, KeyTaken, and AgentNotFound if its parent or its
        origin is gone."""

    def update_agent(self, agent: AgentRecord, change: AgentChange) -> None:
        """Change an agent's name or details. Raises NameTaken."""

    def add_rows(self, agent: AgentRecord, rows: Sequence[StoredRow]) -> None:
        """Write complete rows, at least one, after the agent's newest event. SQLite compresses
        them."""

    def remember_sources(self, sources: Sequence[SourceRecord]) -> None:
        """Record sources. A missing agent or cursor leaves the old value."""

    def erase_event(
        self, agent: AgentRecord, seq: int, content: str | None, data_json: str
    ) -> None:
        """Replace the text of an event that the agent owns, remove its salt, and take it out of the
        search index. The digest stays."""

    def rewrite_data(self, agent: AgentRecord, seq: int, data_json: str) -> None:
        """Replace the data of an event that the agent owns, where its digest does not cover it.
        That part is not in the search index."""

    def remove_agent(self, agent: AgentRecord, keep: int | None, now_us: int) -> None:
        """Remove an agent and its own events after position `keep`. The row stays, without name,
        key and details, because other agents come from it; if `keep` is not after its fork
        position, it inherits nothing any more. None: remove all its events and the row."""

    def record_removals(self, records: Sequence[RemovalRecord]) -> None:
        """Record what this transaction removes. Every removal calls this, also one that finds that
        all was removed before: its text may still be in a file. After the commit of a transaction
        that called this, SQLite empties its write-ahead log."""


class StoreWatch(Protocol):
    """Notices commits to a store, by any process. One thread waits; any thread may wake it."""

    closed: bool  # True after `close`, or after the store was closed

    def wait(self, seconds: float | None) -> None:
        """Return when something may have been committed since the last return (at first: since the
        watch began), when the watch is woken or closed, or after this many seconds."""

    def take_wakeup(self) -> bool:
        """Return True if the watch was woken since the last call."""

    def wake(self) -> None:
        """End a wait, or the next one if nobody waits."""

    def close(self) -> None:
        """Stop watching. Ends a wait."""


class Backend(Reader, Protocol):
    """A store of agents and events. Any thread may call any method."""

    url: str
    read_only: bool  # True if every write raises ReadOnly
    can_index_alone: bool  # True if it can be indexed for this process, although it is read-only

    def compute_deadline(self) -> float:
        """Return the monotonic time at which a call that begins now stops waiting for others."""

    def begin(
        self,
        *,
        sessions: Sequence[str] = (),
        agents: Sequence[AgentRecord] = (),
        deadline: float | None = None,
    ) -> AbstractContextManager[Transaction]:
        """Open a transaction for a `with` block: everything in it is committed when the block ends,
        or nothing. Locks `sessions`, all their agents, then `agents`, and raises AgentNotFound if
        one of `agents` was deleted. A call that begins several transactions passes its `deadline`
        to each; otherwise the transaction computes its own. After a block that recorded removals,
        even none, no file of the store contains removed text, as far as the database can promise
        that."""

    def append(
        self,
        agent: AgentRecord,
        drafts: Drafts,
        expected: int | None = None,
        deadline: float | None = None,
    ) -> list[Event]:
        """Write events in a transaction of their own: see `Transaction.append`, and `begin` for the
        deadline."""

    def create_agent(self, new: NewAgent, drafts: Drafts, now_us: int | None = None) -> AgentRecord:
        """Write an agent in a transaction of its own: see `Transaction.create_agent`."""

    def count_unindexed(self, scope: SearchScope = WHOLE_STORE) -> int:
        """Return how many events cannot be searched yet: of all agents, or of the owners of the
        pieces of `scope`. Creates the index if there is none."""

    def index_events(self, limit: int, scope: SearchScope = WHOLE_STORE) -> int:
        """Make up to `limit` of these events searchable, in one transaction. Return how many were
        indexed. Creates the index if there is none."""

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        """Return the best matches among the indexed events. A few too many are allowed, too few are
        not."""

    def check_tables(self) -> list[str]:
        """Return what the database itself finds wrong with its tables."""

    def measure_size(self) -> int:
        """Return the bytes that the store takes."""

    def copy_to(self, path: str) -> bool:
        """Write a copy as of one moment into a new SQLite file, while others write. Return False if
        the database cannot do that by itself."""

    def is_replaced(self) -> bool:
        """Return True if another file is now at the store's path. Always False for other stores."""

    def watch(self) -> StoreWatch:
        """Watch the store from now on."""

    def close(self) -> None:
        """Close files and connections."""


@runtime_checkable
class Distributable(Protocol):
    """A backend that can be spread over several servers."""

    def distribute(self, progress: Callable[[int, int], None]) -> tuple[int, int]:
        """Spread the store over the servers of its cluster. Return the number of rows that were
        moved (0 if that was done before) and of servers. Raises Invalid if there is no cluster."""
