"""Models: one plain protocol for whatever answers a conversation.

    for piece in model.answer(conversation, tools): ...

A model yields its text (`TextDelta`) and its visible thinking (`ThinkingDelta`) as they arrive, a
`Retrying` if it has to start over, and one `Response` at the end. If something goes wrong, it
raises a `ModelError` whose message is one line that says what to do. A model neither writes to a
log nor runs a tool; the loop does that.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, NamedTuple, Protocol

from backstory.errors import Error
from backstory.log.messages import ToolCall
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = [
    "ContextTooLong",
    "Model",
    "ModelError",
    "Response",
    "Retrying",
    "StreamItem",
    "TextDelta",
    "ThinkingDelta",
    "ToolCall",
    "Unavailable",
]


class ModelError(Error):
    """The model did not answer; the message says why and what to do."""

    status: int | None = None  # what the service answered with, where it did
    attempt: int = 1  # which attempt it was that failed


class Unavailable(ModelError):
    """The model cannot be reached, or is overloaded: the same request may succeed later."""


class ContextTooLong(ModelError):
    """The conversation is longer than the model can read: compact it, or rewind."""


class TextDelta(NamedTuple):
    """A part of the answer's text."""

    text: str


class ThinkingDelta(NamedTuple):
    """A part of the model's visible thinking before an answer."""

    text: str


class Retrying(NamedTuple):
    """The answer starts over after a pause; the new text replaces the old."""

    why: str
    seconds: float
    status: int | None = None  # what the service answered with, where it did
    attempt: int = 1  # which attempt it was that failed


class Response(NamedTuple):
    """A complete answer."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    data: dict[str, Any] | None = None  # stored with it: model, usage, native form


StreamItem = TextDelta | ThinkingDelta | Retrying | Response


def stream_of(items: Iterator[StreamItem]) -> AbstractContextManager[Iterator[StreamItem]]:
    """A context manager that closes an answer, if it can be closed: a model may return any
    iterator."""
    if hasattr(items, "close"):
        return closing(items)  # type: ignore[type-var]
    return nullcontext(items)


def names_of(model: "Model") -> list[str]:
    """The names of the endpoint's models, if the model has a method `names`."""
    names = getattr(model, "names", None)
    try:
        return list(names()) if names else []
    except Exception:  # whatever the server answers: names are only suggestions
        return []


class Model(Protocol):
    """What the loop needs from a model."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def window(self) -> int | None:
        """How many tokens it can read; None if that is not known."""

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part; the last part is the `Response`."""


def storable(text: str) -> str:
    """Return text that every store can hold: without NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\u2400")
    )


def storable_value(value: Any) -> Any:
    """Return a JSON value in which every text is storable."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(inner) for inner in value]
        case dict():
            return {storable(key): storable_value(inner) for key, inner in value.items()}
    return value
