"""What a database has to do for backstory: keep rows, and answer range reads.

A backend knows positions, bases and marks. It does not know what a conversation is, and it
decides nothing: which base an event has is settled before it is asked to write.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from backstory.core.events import Draft, Event
from backstory.core.terms import Query
from backstory.errors import Corrupt, Remedy


class AgentRecord(NamedTuple):
    """One agent as a backend lists it; head and times are those of the moment it was read."""

    key: Any  # what the backend calls the agent; only the backend looks into it
    id: str
    session: str
    name: str
    parent: str | None
    fork_seq: int  # the last position it inherits; 0 for a root and for a spawned agent
    born_seq: int  # where in its parent it was born; the fork position, for a fork
    spawned: bool
    created_us: int
    head: int
    updated_us: int


class NewAgent(NamedTuple):
    """An agent about to be made. A root has no parent, and its session is its own id."""

    id: str
    session: str
    name: str
    parent_key: Any = None
    fork_seq: int = 0
    born_seq: int = 0
    spawned: bool = False


Settled = Sequence[tuple[Draft, int | None]]  # events that passed the door, each with its base


class Piece(NamedTuple):
    """A run of positions that one agent owns, both ends included.

    In a walk, `base` is what the event at `low` continues if that event is a clear, rewind or
    jump, and None where the piece begins with the agent's first own event.
    """

    key: Any
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
    """An event that a search came up with."""

    agent: str  # the id of the agent that owns it
    seq: int
    score: float  # the higher the better, within one search


Stored = tuple[int, str, str | None, str | None, int, int | None]  # an event's row, and its base


class Intake(Protocol):
    """The import's own door: agents and events as they were elsewhere, all in one transaction.
    What comes in has been checked against the law before it is handed over."""

    def agents(self, session: str) -> list[AgentRecord]:
        """The agents of a session that are here already, locked against other writers."""

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        """Write an agent as it was made then. Raises NameTaken."""

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Some rows that an agent owns, as the backend's own `stored`."""

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        """Write events behind the agent's newest, with their positions, times and bases."""


class Backend(Protocol):
    """A store of agents and events. All methods may be called from any thread."""

    url: str

    def create(self, new: NewAgent, events: Settled, now: int) -> AgentRecord:
        """Write a new agent and its first events, or nothing. Raises NameTaken."""

    def rename(self, agent: AgentRecord, name: str) -> None:
        """Give an agent another name. Raises NameTaken."""

    def agents(
        self, *, prefix: str = "", session: str | None = None, name: str | None = None
    ) -> list[AgentRecord]:
        """Agents in the order of their birth: all of them, or those whose id begins like this,
        that are of this session, that have this name."""

    def head(self, agent: AgentRecord) -> int:
        """The agent's newest position."""

    def append(self, agent: AgentRecord, events: Settled, expected: int | None, now: int) -> list[Event]:
        """Write events behind the head, durably, all or none, and return them.
        Raises Conflict where `expected` is given and is not the head."""

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

    def stored(self, agent: AgentRecord, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Some rows that an agent owns, raw, an event's columns and its base, for `verify`."""

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its tables, for `verify`."""

    def census(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Census]:
        """What there is in these pieces of an agent's lineage, by kind, counted in the database."""

    def size(self) -> int:
        """The bytes that the store takes where it is kept."""

    def copy_to(self, path: str) -> bool:
        """Write a copy as of one moment into a new SQLite file, while others write. False where the
        database cannot do that by itself."""

    def intake(self) -> AbstractContextManager[Intake]:
        """Take in what was exported elsewhere: all that the block does, or nothing."""

    def indexed(self) -> dict[str, int]:
        """Up to which position each agent's own events, by the agent's id, can be searched."""

    def index(self, agent: AgentRecord, after: int, texts: Sequence[tuple[int, list[str]]]) -> int:
        """Make events (position and words) that follow `after` searchable, and return up to which
        position they are. If another process was quicker, nothing is done."""

    def find(
        self, query: Query, *, kinds: Sequence[str], pieces: Sequence[Piece] | None, session: str, limit: int
    ) -> list[Found]:
        """The best matches among what is indexed: of some kinds (none: of all), and within pieces
        of a session's agents (None: everywhere). A few too many are allowed, too few are not."""

    def close(self) -> None:
        """Let go of files and connections."""


Step = tuple[Any, int, int, int | None, int]  # key, low, high, base, the position to go on from


def pieces_of(steps: Sequence[Step], agent: AgentRecord) -> list[Piece]:
    """The pieces, oldest first, of the steps that a recursive query took in any order.
    A whole history goes on down to position 0."""
    rest = min((step[4] for step in steps), default=-1)
    if rest != 0:
        raise Corrupt(
            f"the history of agent {agent.name!r} ({agent.id}) breaks off at position {rest}: a parent "
            "is missing, or the ancestry runs in a circle",
            remedy=Remedy("{} shows what is wrong", "verify"),
        )
    return sorted((Piece(*step[:4]) for step in steps), key=itemgetter(1, 2))


def live(pieces: Sequence[Piece]) -> list[Piece]:
    """Without the pieces that hold nothing: a walk passes through agents it takes nothing from."""
    return [piece for piece in pieces if piece.low <= piece.high]


def asking_for(sql: str, conditions: dict[str, str], **wanted: Any) -> tuple[str, dict[str, Any]]:
    """A statement with those of its conditions that something is wanted for, and their values: the
    planner sees what is asked, and no `… IS NULL OR …` around it."""
    given = {name: value for name, value in wanted.items() if value is not None}
    where = " AND ".join(condition for name, condition in conditions.items() if name in given)
    return sql.format(conditions=where or "true"), given


def lost(agent: AgentRecord) -> Corrupt:
    """The error for an agent whose row has gone from the database."""
    return Corrupt(
        f"agent {agent.name!r} ({agent.id}) is no longer in the store",
        remedy=Remedy("{} shows what is wrong", "verify"),
    )
