"""The values that all wire formats share: parts of a message, turns of a conversation, repairs.

`repair` makes turns from messages. A format makes a body from turns, and reads parts and units from a body.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

# Joins the texts of a message if a format, or an event, has one field for them.
BETWEEN = "\n\n"


class Text(NamedTuple):
    """Text."""

    text: str


class Media(NamedTuple):
    """An image, a document, audio or video: base64 data of a media type, a URL, or the text of a document."""

    kind: str  # image, document, audio, video
    type: str | None  # the media type
    data: str | None = None
    url: str | None = None
    text: str | None = None
    name: str | None = None  # of the file, or a title
    detail: str | None = None  # how closely OpenAI's models look at it


class Call(NamedTuple):
    """A tool call, read from an event or from a form."""

    id: str | None  # None: the format has no ids
    name: str
    arguments: dict[str, Any]
    text: str | None = None  # the arguments as the model wrote them
    is_sound: bool = True  # were the arguments a JSON object?
    kind: str = ""  # a tool whose results have their own form: a shell, a custom tool
    extras: tuple[str, ...] = ()  # what only its provider understands: a namespace, a caller
    position: int | None = None


class Result(NamedTuple):
    """The result of a call, read from an event or from a form."""

    id: str | None
    text: str
    is_error: bool | None = False  # None: the format cannot express it
    content: "tuple[Part, ...] | None" = None  # its parts in order; None: only the text
    name: str | None = None  # of the tool, if the format uses it
    kind: str = ""  # that of its call
    position: int | None = None


class Speaker(NamedTuple):
    """The name of the speaker, among several."""

    name: str


class Other(NamedTuple):
    """Something that only its provider understands: reasoning, a server tool, a file in its store."""

    what: str
    complete: bool = True  # would the provider take it back?
    told: str = ""  # text for other providers, if there is something to read
    media: str = ""  # the kind of media that it is: image, document, audio, video


class Reasoning(NamedTuple):
    """Thinking of a model."""

    text: str  # "" if it is sealed
    seal: str = ""  # a signature, or the encrypted text
    is_complete: bool = True  # would its provider take it back?
    is_signed: bool = True  # some models refuse thinking without a signature
    what: str = "reasoning"  # the provider's word for it, for reports


Part = Text | Media | Call | Result | Speaker | Reasoning | Other


class Unit(NamedTuple):
    """A part of a body that becomes events: a system or user message, a result, a step."""

    role: str  # system, user, result, step
    wire: Any  # the provider's own form of it
    parts: list[Part]
    path: str
    after: Any = None  # what it came after, if only this request shows that this is legal
    took: tuple[str, ...] = ()  # what else the service accepted in this request


class MessageTurn:
    """A user or system message."""

    __slots__ = ("after", "at", "content", "is_own", "name", "role", "text", "wire")

    def __init__(self, role: str, text: str, at: int | None) -> None:
        self.role = role
        self.text = text
        self.at = at
        self.name: str | None = None  # of the speaker, if the format has a field for it
        self.content: list[Any] | None = None  # written blocks; None: just the text
        self.wire: Any = None  # the provider's own form, if it is sent back
        self.after: Any = None
        self.is_own = False  # was it sent to this provider and model?


class StepResult:
    """The result of a tool call."""

    __slots__ = ("after", "at", "content", "error", "extra", "native", "text", "wire")

    def __init__(self, text: str, error: bool, at: int | None, native: Any = None) -> None:
        self.text = text
        self.error = error
        self.at = at
        self.native = native
        self.content: list[Any] | None = None
        self.extra: list[Any] | None = None  # blocks that go after the results
        self.wire: Any = None
        self.after: Any = None


class StepCall:
    """A tool call of the model, and its result."""

    __slots__ = ("arguments", "at", "id", "is_mended", "key", "kind", "name", "result", "text")

    def __init__(
        self,
        key: str | None,
        name: str,
        arguments: dict[str, Any],
        at: int | None,
        text: str | None = None,
    ) -> None:
        self.key = key  # the id in the log
        self.id = key or ""  # the id on the wire
        self.name = name
        self.arguments = arguments
        self.is_mended = False  # were the arguments changed, because the service would refuse them?
        self.text = text  # the arguments as the model wrote them, for formats that have text
        self.at = at
        self.kind = ""  # the kind that is sent; "" is a function call
        self.result: StepResult | None = None


class Piece(NamedTuple):
    """What one event adds to a step: text or a call, and perhaps its provider's own form."""

    text: str | None
    call: StepCall | None
    native: Any


class Step:
    """One model answer: its text, then its calls."""

    __slots__ = ("after", "at", "calls", "name", "order", "pieces", "texts", "took", "wire")

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.texts: list[str] = []
        self.calls: list[StepCall] = []
        self.name: str | None = None
        self.order: list[StepCall] | None = (
            None  # the order of the results; None: that of the calls
        )
        self.pieces: list[Piece] | None = None  # only if one of them has its own form
        self.after: Any = None
        self.took: tuple[str, ...] = ()
        self.wire: Any = None


Turn = MessageTurn | Step


class Repair(NamedTuple):
    """One difference between a request and the log: which rule, at which event, and why."""

    rule: str
    at: int | None  # the event's position, or its index if messages have none; None: no event
    why: str


def make_result(
    id: str | None,
    parts: Iterable[Part],
    is_error: bool | None,
    name: str | None = None,
    kind: str = "",
) -> Result:
    """Return the result that consists of `parts`."""
    content = tuple(parts)
    return Result(id, text_of(content), is_error, content, name, kind)


def text_of(parts: Iterable[Part]) -> str:
    """The text in the parts of a message."""
    return BETWEEN.join(
        part.text for part in parts if isinstance(part, Text) and not is_blank(part.text)
    )


def answer_text(parts: list[Part]) -> str:
    """The text of one answer. Streams and citations split it anywhere, so nothing goes in between."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return "" if is_blank(text) else text


def is_blank(text: str) -> bool:
    """Whether a text is empty or only whitespace."""
    return not text or text.isspace()
