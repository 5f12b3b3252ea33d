"""What a backend must do: store rows, and answer range reads.

A backend knows positions, bases and marks. It does not know what a conversation is, and it decides nothing:
an event's base is decided before the backend is called.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from backstory.errors import AgentNotFound, Corrupt, Remedy
from backstory.log.drafts import Draft
from backstory.log.events import Columns, EncodedRow, Event, Stored, TextAndData
from backstory.log.outline import DataRow, OutlineRow
from backstory.log.terms import Query
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.survey import Survey


class AgentRecord(NamedTuple):
    """One agent as a backend lists it; head, times and notes are those of the moment it was read."""

    pk: Any  # the backend's own key for the agent; opaque to everyone else
    id: str
    session: str
    name: str
    parent: str | None
    fork_seq: int  # the last position it inherits; 0 for a root and for a spawned agent
    born_seq: int  # where in its parent it began; for a fork, the fork position
    spawned: bool
    created_us: int
    head: int
    updated_us: int
    key: str | None = None
    about: str | None = None  # the text of a JSON object
    deleted_us: int | None = None  # when it was deleted, if its row is still needed


class NewAgent(NamedTuple):
    """A new agent. A root has no parent, and its session is its own id."""

    id: str
    session: str
    name: str
    parent_pk: Any = None
    fork_seq: int = 0
    born_seq: int = 0
    spawned: bool = False
    key: str | None = None
    about: str | None = None
    deleted_us: int | None = None


class SourceRecord(NamedTuple):
    """What the store knows about a source: which agent it became, and how far it was read."""

    tool: str
    id: str  # what the tool calls it, or the path of a file
    agent: str | None = None  # the agent's id
    cursor: str | None = None  # the text of a JSON object, for the reader of the source


class Wanted(NamedTuple):
    """Which agents to list, and in which order; None means any."""

    prefix: str | None = None  # of the id
    session: str | None = None
    sessions: tuple[str, ...] | None = None  # several of them
    name: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    title: str | None = None  # in its details
    telling: str | None = (
        None  # whose details may contain this lower-case ASCII word; some results may not
    )
    roots: bool = False  # one for each session that has agents, even if its root was deleted
    deleted: bool = False  # include deleted agents whose rows are still needed
    since_us: int | None = None  # last written to at or after
    until_us: int | None = None  # last written to before
    latest_first: bool = False  # otherwise oldest first
    after: AgentRecord | None = None  # the last agent of the page before
    limit: int | None = None
    partial: bool = (
        False  # if servers do not answer: what the others have, and a PartMissing warning
    )


ALL = Wanted()

BasedDrafts = Sequence[
    tuple[Draft, int | None]
]  # checked events, each with the base that was decided for it


Packed = Sequence[tuple[Any, ...]]  # rows as a backend writes them, each with its position first


class Piece(NamedTuple):
    """A range of positions that one agent owns, both ends included.

    In a walk, `base` is what the event at `low` continues if that event is a clear, rewind or
    jump, and None where the piece begins with the agent's first own event.
    """

    owner: Any  # the agent, as the backend calls it
    low: int
    high: int
    base: int | None = None


class Walk(NamedTuple):
    """The live pieces at a position, oldest first, and the agent's head."""

    head: int
    pieces: list[Piece]


class Census(NamedTuple):
    """How many events of one kind there are in some pieces."""

    kind: str
    events: int
    with_base: int  # of these: those that have a base; of moves, the valid ones
    bytes: int  # of their content and data


CANDIDATES = 10_000  # matches of a search that are ranked, unless more are asked for


class Found(NamedTuple):
    """An event that a search found."""

    agent: str  # the id of the agent that owns it
    seq: int
    score: float  # the higher the better, within one search


class Agents(Protocol):
    """The list of agents."""

    def agents(self, wanted: Wanted = ALL) -> list[AgentRecord]:
        """The agents that are wanted. Never reads more events than agents."""


class StoredRows(Protocol):
    """Raw rows, for code that checks or copies them."""

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[Stored]:
        """Some rows that an agent owns, raw, in order."""


class Reader(Protocol):
    """Range reads of one agent's lineage."""

    def head(self, agent: AgentRecord) -> int:
        """The agent's newest position."""

    def walk(self, agent: AgentRecord, at: int | None) -> Walk:
        """The live pieces at a position (None: the head). Raises Corrupt."""

    def lineage(self, agent: AgentRecord) -> list[Piece]:
        """All that the agent sees, dead or alive, oldest first: one piece, perhaps an empty one,
        for each agent of its ancestry that it inherits from, and its own. Raises Corrupt."""

    def position_at(self, agent: AgentRecord, moment: int) -> int:
        """The newest position written at or before a time, in microseconds."""

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        """The events in these pieces of an agent's lineage, in order."""

    def marks(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        """The events of kind mark in these pieces of an agent's lineage, in order."""

    def notes(self, agent: AgentRecord, pieces: Sequence[Piece], name: str | None) -> list[Event]:
        """The notes in these pieces of an agent's lineage, or those of one name, in order."""

    def last_note(self, agent: AgentRecord, pieces: Sequence[Piece], name: str) -> Event | None:
        """The newest note of a name in these pieces of an agent's lineage."""

    def keyed(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> list[Event]:
        """The events with one of these keys in these pieces of an agent's lineage, in any order."""

    def places(
        self, agent: AgentRecord, pieces: Sequence[Piece], keys: Sequence[str]
    ) -> dict[str, int]:
        """The positions of the events with these keys in these pieces, without reading the events."""


class Appender(Reader, Protocol):
    """Reads, and appends after what was read."""

    def append(
        self, agent: AgentRecord, events: BasedDrafts, expected: int | None, now: int
    ) -> list[Event]:
        """Write events after the head, durably, all or none. Raises Conflict if that is not `expected`."""


class Watch(Protocol):
    """Notices that something was committed to a store, by anyone. One thread waits; any thread wakes it."""

    closed: bool  # by its user, or with its store

    def wait(self, seconds: float | None) -> None:
        """Return when something may have been committed since the last time this returned (since the watch
        began, the first time), when it is woken or closed, or after this many seconds."""

    def woken(self) -> bool:
        """Whether it was woken since this was last asked."""

    def wake(self) -> None:
        """End a wait, or the next one if there is none."""

    def close(self) -> None:
        """Stop watching; ends a wait."""


class Rows(Appender, Agents, Protocol):
    """Agents and their events."""

    def create(self, new: NewAgent, events: BasedDrafts, now: int) -> AgentRecord:
        """Write a new agent and its first events, or nothing. Raises NameTaken, or KeyTaken for its id."""

    def rename(self, agent: AgentRecord, name: str) -> None:
        """Give an agent another name. Raises NameTaken."""

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        """Replace an agent's details with what `change` returns, in one transaction."""

    def exclusive(self, *agents: AgentRecord) -> AbstractContextManager[Appender]:
        """Lock agents: everything that the block writes is committed when it ends, or nothing is. (In memory,
        nothing is rolled back: a block must refuse before it writes.)"""

    def read_columns(self, agent: AgentRecord, pieces: Sequence[Piece]) -> Columns:
        """The events in these pieces as columns, in order."""

    def read_said(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[Event]:
        """The events in these pieces without the notes, except for those of some names. Nothing, or
        AgentNotFound, if the agent is not there any more."""

    def texts(
        self, agent: AgentRecord, pieces: Sequence[Piece], notes: Sequence[str]
    ) -> list[TextAndData]:
        """Of the messages in these pieces, and of the notes of some names, only the content and the data.
        Nothing, or AgentNotFound, if the agent is not there any more."""

    def outline(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[OutlineRow]:
        """The events in these pieces of an agent's lineage without their texts, in order."""

    def data_of(
        self, agent: AgentRecord, pieces: Sequence[Piece], kinds: Sequence[str]
    ) -> list[DataRow]:
        """The data of the events of some kinds in these pieces, in order; what they say is not read."""

    def watch(self) -> Watch:
        """Watch the store from now on."""

    def found(self, key: str) -> list[tuple[str, int]]:
        """Where the store has events with this key: the owner's id and the position."""


class Sources(Protocol):
    """Where the agents came from, and how far their sources were read."""

    def sources(
        self, tool: str | None = None, id: str | None = None, prefix: str | None = None
    ) -> list[SourceRecord]:
        """The sources of a tool, with an id, or with an id that begins like this; None matches everything."""

    def known(self, keys: Sequence[str]) -> set[str]:
        """Which of these keys some event of the store has."""


class Intake(Reader, StoredRows, Protocol):
    """Agents and events as they were elsewhere, all in one transaction. What comes in was checked before."""

    def held(self, session: str) -> list[AgentRecord]:
        """The agents of a session that are here already, locked against other writers."""

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        """Write an agent as it was made then. Raises NameTaken."""

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        """Write events behind the agent's newest, with their positions, times, bases and digests."""

    def add_packed(self, agent: AgentRecord, rows: Packed) -> None:
        """The same for rows that the backend has packed."""

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        """Replace what is kept beside an agent with what `change` returns."""

    def remember(self, sources: Sequence[SourceRecord]) -> None:
        """Keep what is known of some sources; what is None stays as it was."""


class Removal(Reader, StoredRows, Protocol):
    """Rows taken away from one session, all in one transaction, while no one else writes to the session."""

    def held(self, session: str) -> list[AgentRecord]:
        """The agents of a session, deleted ones included, held against other writers."""

    def naming(self, agent: AgentRecord, after: int, text: str) -> list[Stored]:
        """The rows that an agent owns behind a position and whose data contain a text."""

    def blank(self, agent: AgentRecord, seq: int, content: str | None, data_json: str) -> None:
        """Replace what an event says, and take it out of the search index. Its digest stays."""

    def cut(self, agent: AgentRecord, last: int) -> None:
        """Remove an agent's own events behind a position, from the search index too."""

    def bury(self, agent: AgentRecord, now: int, *, inherits: bool) -> None:
        """Keep an agent's row because others come from it, without its name, key and details. Where it has
        no events left, it `inherits` nothing either."""

    def remove(self, agents: Sequence[AgentRecord], now: int) -> None:
        """Remove the rows of agents that have no events left. Their numbers are not given again as long as
        the session, or on SQLite the store, has a later one to give."""


class Index(Protocol):
    """The search index."""

    def backlog(self, session: str, pieces: Sequence[Piece] | None) -> list[Backlog]:
        """What cannot be searched yet of the agents that own pieces in a session (None: of all)."""

    def unindexed(self, backlog: Sequence[Backlog]) -> list[Unindexed]:
        """The events of some backlogs, in order."""

    def index(self, texts: Sequence[tuple[Backlog, Texts]], *, last: bool = True) -> None:
        """Make events of some agents searchable, all in one transaction. What another process has indexed or
        taken away meanwhile is left out. `last`: no more follow at once."""

    def find(
        self,
        query: Query,
        *,
        kinds: Sequence[str],
        pieces: Sequence[Piece] | None,
        session: str,
        limit: int,
    ) -> list[Found]:
        """The best matches among what is indexed: of some kinds (none: of all), and within pieces
        of a session's agents (None: everywhere). A few too many are allowed, too few are not."""


class Audit(StoredRows, Protocol):
    """Whole stores: raw rows, sizes, copies."""

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its tables."""

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        """What there is in these pieces of an agent's lineage, by kind, counted in the database."""

    def size(self) -> int:
        """The bytes that the store takes where it is kept."""

    def copy_to(self, path: str) -> bool:
        """Write a copy as of one moment into a new SQLite file, while others write. False where the
        database cannot do that by itself."""


class Intakes(Protocol):
    """Where an intake begins."""

    def packed(self, rows: Sequence[EncodedRow]) -> Packed:
        """Rows of events that will seldom be read, in as little space as possible. Nothing is locked."""

    def intake(self) -> AbstractContextManager[Intake]:
        """Take in what was exported elsewhere: all that the block does, or nothing."""


class Backend(Rows, Survey, Index, Audit, Intakes, Sources, Protocol):
    """A store of agents and events. All methods may be called from any thread."""

    url: str
    read_only: bool  # whether whatever writes raises ReadOnly

    def removal(self) -> AbstractContextManager[Removal]:
        """Take rows away: all that the block removes, or nothing. Afterwards no file of the store holds
        what was removed, as far as the database can promise that."""

    def close(self) -> None:
        """Let go of files and connections."""


def broken_lineage(agent: AgentRecord, at: int) -> Corrupt:
    """The error for an agent whose ancestry does not lead to the beginning."""
    return Corrupt(
        f"the history of agent {agent.name!r} ({agent.id}) breaks off at position {at}: a parent "
        "is missing, or the ancestry runs in a circle",
        remedy=Remedy("{} shows what is wrong", "verify"),
    )


def lost(agent: AgentRecord) -> AgentNotFound:
    """The error for an agent whose row has gone from the database."""
    return AgentNotFound(
        f"agent {agent.name!r} ({agent.id}) was deleted",
        remedy=Remedy("{} lists those that exist", "agents"),
    )


def parent_lost(new: NewAgent) -> AgentNotFound:
    """The error for a new agent whose parent was deleted while it was being made."""
    return AgentNotFound(
        f"{new.name!r} was not made: the agent that it should come from was deleted",
        remedy=Remedy("{} lists those that exist", "agents"),
    )


def tombstone_name(id: str) -> str:
    """What a deleted agent is called: no name of an agent contains a slash."""
    return f"/{id}"


PLACEHOLDER = "/"  # the name of a row that only keeps a number from being given again
