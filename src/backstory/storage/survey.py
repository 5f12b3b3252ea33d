"""What is asked of all agents of a store, or of a session, at once: one statement, however many there are."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from backstory.log.events import Event


class NewestNote(NamedTuple):
    """The newest note of a name that an agent owns, and the newest of its events that has a base."""

    agent: str  # the agent's id
    note: Event | None
    jump: int  # 0 where it has none


class AgentCensus(NamedTuple):
    """How many events of one kind an agent owns."""

    agent: str  # the agent's id
    kind: str
    events: int
    with_base: int  # of these: those that have a base; of moves, the valid ones
    bytes: int  # of their content and data


class Irregular(NamedTuple):
    """An event that has a base, or is of another than the regular kinds."""

    agent: str  # the id of its owner
    seq: int
    kind: str
    base: int | None


class Survey(Protocol):
    """Whole stores and sessions, in one statement each."""

    def session_marks(self, session: str) -> list[tuple[str, Event]]:
        """The marks that the agents of a session own, dead or alive, deleted agents included, each with its
        owner's id: agent by agent in the order of birth, and in order."""

    def heads(self) -> list[tuple[str, int]]:
        """The id and the head of every agent, in the order of birth, as of one moment."""

    def newest_notes(self, name: str, key_prefix: str | None) -> list[NewestNote]:
        """Of every agent, or of those whose key begins so, the newest note of a name that it owns."""

    def irregular(self, regular: Collection[str]) -> list[Irregular]:
        """The events of all agents, deleted ones too, that have a base or are of none of these kinds; those
        of one agent in order."""

    def censuses(self) -> list[AgentCensus]:
        """What every agent owns, by kind; what is left of deleted ones, too."""
