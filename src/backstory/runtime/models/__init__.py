"""Models: what answers a conversation, as one plain protocol.

    for piece in model.answer(conversation, tools): ...

A model yields what it says while it says it (`Said`), tells when it has to begin again
(`Retrying`), and ends with one `Answer`. What goes wrong is a `ModelError` whose message is one line that
says what to do. A model neither writes to a log nor runs a tool: that is the loop's business.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from backstory.errors import Error
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["Answer", "Call", "Model", "ModelError", "Piece", "Retrying", "Said", "Unavailable"]


class ModelError(Error):
    """The model did not answer; the message says why and what to do."""


class Unavailable(ModelError):
    """It could not be reached, or has no time: the same request may succeed later."""


class Said(NamedTuple):
    """A piece of the answer's text, as it comes."""

    text: str


class Retrying(NamedTuple):
    """The answer begins again from the start, after a pause: what it says then replaces what it said."""

    why: str
    seconds: float


class Call(NamedTuple):
    """A tool call. `arguments` is an object, or the model's own text where that was no JSON object."""

    id: str
    name: str
    arguments: Any


class Answer(NamedTuple):
    """A whole answer."""

    text: str
    calls: tuple[Call, ...] = ()
    data: dict[str, Any] | None = None  # what else to keep of it: model, usage, native content


Piece = Said | Retrying | Answer


class Model(Protocol):
    """What the loop needs of a model."""

    @property
    def name(self) -> str:
        """What the model is called."""

    @property
    def window(self) -> int | None:
        """How many tokens it can read; None where nobody knows."""

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[Piece]:
        """The answer, piece by piece; the last piece is the `Answer`."""
