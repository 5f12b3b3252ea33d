"""The interface of everything that is compared.

A peer is one class in `libraries/`. It must have `__init__`, `native`, `append`, `restore` and `texts`; the
other methods are optional. If a library does not offer something, its method raises NotOffered with the
reason, which the table shows instead of a number. Copying or cutting by hand does not count as an offer.

What a peer can rely on, and what it has to cope with:

- append() may get a turn of any length and of all kinds: user, assistant, tool_call and tool_result.
- texts() gives one text per message, in their order.
- point() counts the messages that are alive, and may be called after rewinds. Points fall between two turns.
- Several processes may open the same place at once.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from benchmarks.peers.conversations import Turn

REQUIRED = ("__init__", "native", "append", "restore", "texts")
"""What every peer has."""


class NotOffered(Exception):
    """The peer has no way of doing this job; the message says why, in a few words."""


class Peer:
    """One way of keeping conversations, opened on a place: a folder of its own."""

    persists: ClassVar[bool] = True
    """Whether another process can restore what this one kept."""

    def __init__(self, place: str) -> None:
        """Open what is at the place, or begin there."""
        raise NotImplementedError("__init__() is missing")

    def native(self, turn: Turn) -> Any:
        """A turn in the peer's own form; never timed."""
        raise NotImplementedError("native() is missing")

    def append(self, session: str, turn: Any) -> None:
        """Keep one more turn, made by native(); it must be durable on return."""
        raise NotImplementedError("append() is missing")

    def fill(self, session: str, turns: list[Any]) -> None:
        """Begin a session with a long history; never timed, so as quickly as leaves what a life would."""
        for turn in turns:
            self.append(session, turn)

    def stretch(self, session: str, turn: Any) -> None:
        """Keep a very long turn; never timed, and it leaves what append() leaves."""
        self.append(session, turn)

    def restore(self, session: str) -> Sequence[Any]:
        """What the model is to see now, as the peer hands it out."""
        raise NotImplementedError("restore() is missing")

    def texts(self, restored: Sequence[Any]) -> list[str]:
        """The text of each message that restore() or as_of() gave, one per message; never timed."""
        raise NotImplementedError("texts() is missing")

    def request(self, session: str) -> Any:
        """What restore() gives, in the form in which a provider takes it."""
        raise NotOffered("only inside its model call")

    def point(self, session: str, messages: int) -> Any:
        """What the peer calls the moment after so many live messages; not timed: an application knows it."""
        return messages

    def rewind(self, session: str, to: Any) -> None:
        """Go back to the state of a point."""
        raise NotOffered("no rewind")

    def fork(self, session: str, at: Any, name: str) -> str:
        """Branch off at a point; the answer is a session that restore() and append() take."""
        raise NotOffered("no fork")

    def as_of(self, session: str, point: Any) -> Sequence[Any]:
        """What the model saw at a point."""
        raise NotOffered("no read of an earlier state")

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Restore, add a question and send it all to an OpenAI-compatible endpoint, as the peer does it."""
        raise NotOffered("sends nothing to a model")

    def close(self) -> None:
        """Let go of the store."""
