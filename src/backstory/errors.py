"""The error tree: one class for each thing a caller would do differently.

    Error
    ├── NotFound            look again: there is no such thing here
    │   ├── AgentNotFound
    │   ├── MarkNotFound
    │   └── PositionNotFound
    ├── Ambiguous           say it more exactly; .matches lists what was meant
    ├── NameTaken           choose another name
    ├── Invalid             mend the call: what was handed in cannot be used
    │   └── InvalidEvent    mend the event: kind, content or data
    ├── Conflict            look at .head and decide again: somebody wrote first
    ├── Corrupt             run verify(): the log contradicts itself
    ├── NewerVersion        upgrade backstory
    └── StorageError        the database said no; its own message is inside
        ├── CannotOpen      mend the address, the rights or the server
        ├── ReadOnly        get the right to write
        ├── Busy            try again: somebody holds the database
        └── ConnectionLost  a write may have happened: repeat it with expected=

Every message names the thing and says what to do. Drivers' errors become these in the
backends and nowhere else.
"""

from collections.abc import Sequence


class Error(Exception):
    """Anything that backstory itself has to say."""


class NotFound(Error):
    """What was asked for is not here."""


class AgentNotFound(NotFound):
    """No agent has this id, id prefix or name."""


class MarkNotFound(NotFound):
    """This mark is not on the mark stack."""


class PositionNotFound(NotFound):
    """This position is not in the lineage."""


class Ambiguous(Error):
    """A reference fits several agents; `matches` lists them."""

    def __init__(self, message: str, matches: Sequence[str]) -> None:
        super().__init__(message)
        self.matches = tuple(matches)

    def __reduce__(self) -> tuple[type[Error], tuple[str, Sequence[str]]]:
        return type(self), (str(self), self.matches)


class NameTaken(Error):
    """The session has an agent of this name already."""

    @classmethod
    def of(cls, name: str) -> "NameTaken":
        """The clash of a new name with an old one."""
        return cls(f"the session has an agent named {name!r} already: choose another name")


class Invalid(Error):
    """An argument that cannot be used; nothing was written."""


class InvalidEvent(Invalid):
    """An event that cannot be stored as it is; nothing was written."""


class Conflict(Error):
    """The head is not where the caller expected it; `head` says where it is."""

    def __init__(self, message: str, head: int) -> None:
        super().__init__(message)
        self.head = head

    def __reduce__(self) -> tuple[type[Error], tuple[str, int]]:
        return type(self), (str(self), self.head)

    @classmethod
    def at(cls, agent: str, expected: int, head: int) -> "Conflict":
        """The conflict of an append that expected another head."""
        return cls(
            f"agent {agent} is at position {head}, not at the expected {expected}: "
            "read what is new, decide again, and append with the new head",
            head,
        )


class Corrupt(Error):
    """The log contradicts itself; `verify()` lists all that is wrong."""


class NewerVersion(Error):
    """A newer backstory wrote this store."""


class StorageError(Error):
    """The database refused; its message is part of ours."""


class CannotOpen(StorageError):
    """There is no store to be had at this address."""


class ReadOnly(StorageError):
    """The store may be read but not written."""


class Busy(StorageError):
    """Somebody else held the database for too long."""


class ConnectionLost(StorageError):
    """The server went away in the middle: what was under way may or may not be written."""
