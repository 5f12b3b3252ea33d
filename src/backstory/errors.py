"""The error tree: one class for each thing a caller would do differently.

    Error
    ├── NotFound            look again: there is no such thing here
    │   ├── AgentNotFound
    │   ├── MarkNotFound
    │   └── PositionNotFound
    ├── Ambiguous           be more exact; .matches lists what fits
    ├── NameTaken           choose another name
    ├── KeyTaken            choose another key, or take what has it
    ├── Invalid             correct the call: an argument cannot be used
    │   └── InvalidEvent    correct the event: its kind, content or data
    ├── Conflict            look at .head and decide again: someone else wrote first
    ├── Corrupt             run verify(): the log contradicts itself
    ├── NewerVersion        upgrade backstory
    └── StorageError        the database refused; its own message is inside
        ├── CannotOpen      check the address, the permissions or the server
        ├── ReadOnly        get permission to write
        ├── Busy            try again: someone else has locked the database
        ├── ConnectionLost  a write may have happened: repeat it with expected=
        └── TextRemains     end the other program: a file still has text that was removed

    UserWarning
    └── PartMissing         a listing is incomplete: some servers do not answer

`error.message` names what is wrong. `error.remedy` contains, as data, what to do about it, so that
each interface can phrase it for its users: `str(error)` is both in the words of the library
(`verify()`), `backstory.present.text` has those of the command line and the chat. Nobody parses
messages.

Drivers' errors become these in the backends and nowhere else.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Operation = Literal[
    "agents", "ensure", "events", "jump", "mark", "restore", "seal", "start", "verify"
]


class Remedy(NamedTuple):
    """Advice about an error. If an operation of a store or an agent helps, it is given as data, and
    `{}` marks its position in the text. Then the text contains nothing from outside."""

    text: str
    operation: Operation | None = None
    arguments: tuple[int | str, ...] = ()
    agent_id: str | None = None  # of the agent that the operation is for

    def name_operation(self, operation: str) -> str:
        """Return the text, with the operation as an interface calls it."""
        return self.text.replace("{}", operation) if self.operation else self.text

    def __str__(self) -> str:
        return self.name_operation(f"{self.operation}({', '.join(map(repr, self.arguments))})")


class Error(Exception):
    """The base class of all errors. `remedy` is None if there is no advice."""

    unsaved: str = ""  # what a turn loop could not write, if the store failed

    def __init__(self, message: str, *, remedy: Remedy | str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = Remedy(remedy) if isinstance(remedy, str) else remedy

    def __str__(self) -> str:
        return self.message if self.remedy is None else f"{self.message}: {self.remedy}"


class NotFound(Error):
    """What was asked for does not exist."""


class AgentNotFound(NotFound):
    """No agent has this id, id prefix or name."""


class MarkNotFound(NotFound):
    """This mark is not on the mark stack."""


class PositionNotFound(NotFound):
    """This position is not in the lineage."""


class Ambiguous(Error):
    """A reference fits several agents; `matches` lists them."""

    def __init__(
        self, message: str, *, remedy: Remedy | str | None = None, matches: Sequence[str] = ()
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.matches = tuple(matches)


class NameTaken(Error):
    """The session already has an agent with this name."""

    @classmethod
    def of(cls, name: str) -> "NameTaken":
        """The error for a name that is taken."""
        return cls(f"the session already has an agent named {name!r}", remedy="choose another name")


class KeyTaken(Error):
    """The key belongs to something else already."""

    @classmethod
    def of_agent(cls, key: str) -> "KeyTaken":
        """The error for a new agent whose key another one has."""
        return cls(
            f"an agent with the key {key!r:.80} already exists",
            remedy=Remedy("{} returns it, or use another key", "ensure", (key[:80],)),
        )

    @classmethod
    def of_event(cls, key: str, position: int) -> "KeyTaken":
        """The error for a new event whose key another one has that differs."""
        return cls(
            f"position {position} has the key {key!r:.80} and different content",
            remedy="use another key",
        )


class Invalid(Error):
    """An argument is invalid; nothing was written."""


class InvalidEvent(Invalid):
    """An event cannot be stored; nothing was written."""


class Conflict(Error):
    """Someone else wrote first. `head` is the head of the agent; None if someone else is just
    creating the agent, or has deleted it."""

    def __init__(
        self, message: str, *, remedy: Remedy | str | None = None, head: int | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.head = head

    @classmethod
    def at(cls, agent: str, expected: int, head: int) -> "Conflict":
        """The error for an append that expected another head."""
        return cls(
            f"agent {agent!r} is at position {head}, not at the expected {expected}",
            remedy="read the new events, decide again, and append after the new head",
            head=head,
        )


class Corrupt(Error):
    """The log contradicts itself; `verify()` lists everything that is wrong."""


class NewerVersion(Error):
    """A newer version of backstory wrote this store."""

    @classmethod
    def of(cls, store: str, version: int, known: int) -> "NewerVersion":
        """The error for a store whose format is newer than the newest that this version knows."""
        return cls(
            f"{store} has version {version} of the store format, and this backstory knows "
            f"up to {known}",
            remedy="upgrade backstory",
        )


class StorageError(Error):
    """The database refused; its message is part of ours."""


class CannotOpen(StorageError):
    """There is no usable store at this address."""


class ReadOnly(StorageError):
    """The store can be read but not written."""


class Busy(StorageError):
    """Someone else had a lock for too long."""


class ConnectionLost(StorageError):
    """The connection was lost: what was being written may or may not have been written."""


class TextRemains(StorageError):
    """What was asked for was removed, but its text may still be in a file of the store."""


class PartMissing(UserWarning):
    """A listing is incomplete: some servers of a distributed store do not answer."""
