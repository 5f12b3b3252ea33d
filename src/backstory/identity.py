"""The identity of an agent: its ids, its place in its session, and its details. Nothing here can go stale
except the agent's own row.
"""

from datetime import datetime
from typing import Any

from backstory.log.events import parse_object, to_datetime
from backstory.storage.log import Log
from backstory.storage.protocols import AgentRecord


class Identity:
    """An agent as it was when this handle was made."""

    def __init__(self, log: Log, record: AgentRecord) -> None:
        self._log = log
        self._record = record

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and (self._log, self.id) == (other._log, other.id)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        """The agent's id, a time-ordered UUID."""
        return self._record.id

    @property
    def name(self) -> str:
        """The agent's name, unique in its session."""
        return self._record.name

    @property
    def session(self) -> str:
        """The id of the session, which is the id of its root agent."""
        return self._record.session

    @property
    def parent(self) -> str | None:
        """The id of the agent it was forked or spawned from; None for a root."""
        return self._record.parent

    @property
    def fork_seq(self) -> int:
        """The last position it inherits; 0 for one that inherits nothing."""
        return self._record.fork_seq

    @property
    def born_seq(self) -> int:
        """Where in its parent it began: the fork position, or the parent's head when it was spawned."""
        return self._record.born_seq

    @property
    def spawned(self) -> bool:
        """Whether it is a sub-agent."""
        return self._record.spawned

    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return to_datetime(self._record.created_us)

    @property
    def snapshot(self) -> AgentRecord:
        """The agent as it was when this handle was made, its head and times included."""
        return self._record

    @property
    def head(self) -> int:
        """The newest position, asked of the store each time."""
        return self._log.backend.head(self._record)

    @property
    def key(self) -> str | None:
        """What the agent can be found by: `store.keyed(key)`."""
        return self._record.key

    @property
    def about(self) -> dict[str, Any]:
        """Its title, tags and other details, as they were when this handle was made."""
        return parse_object(self._record.about) or {}
