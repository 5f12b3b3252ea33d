"""The words that all wire formats share: parts of a message, turns of a conversation, repairs.

Values only. `repair` makes turns of messages, a format makes a body of turns, and reads
parts and units out of one.
"""

from typing import Any, NamedTuple

# What the texts of one message are joined with where a format, or an event, has one field for them.
BETWEEN = "\n\n"


class Text(NamedTuple):
    """Words."""

    text: str


class Media(NamedTuple):
    """A picture, a document, a sound or a film: base64 data of a media type, a URL, or a document's words."""

    kind: str  # image, document, audio, video
    type: str | None  # the media type
    data: str | None = None
    url: str | None = None
    text: str | None = None
    name: str | None = None  # of the file, or a title
    detail: str | None = None  # how closely OpenAI's models look at an image


class Call(NamedTuple):
    """A tool call; a format without ids leaves the id out."""

    id: str | None
    name: str
    arguments: dict[str, Any]
    text: str | None = None  # the arguments as they came, where the format carries text
    sound: bool = True  # were they a JSON object?
    kind: str = ""  # whose results have a form of their own: a custom tool, a shell; "" is a function
    more: tuple[str, ...] = ()  # what else its own provider knows about it: a namespace, who called


class Result(NamedTuple):
    """What a tool call came to: its parts, and whether it failed (None: the format cannot say)."""

    id: str | None
    parts: "list[Part]"
    error: bool | None
    name: str | None = None  # the tool's, where the format goes by it
    kind: str = ""  # that of the call it answers


class Speaker(NamedTuple):
    """Who of several people said it."""

    name: str


class Other(NamedTuple):
    """Something only its own provider understands: reasoning, a server's tool, a file in its store."""

    what: str
    complete: bool = True  # would the provider take it back?
    signed: bool = True  # does it have its signature? Some models refuse their thinking without
    told: str = ""  # what all others are told of it, where there is something to read in it


Part = Text | Media | Call | Result | Speaker | Other


class Unit(NamedTuple):
    """A piece of a body that events stand for: a system or user message, a result, a step."""

    role: str  # system, user, result, step
    wire: Any  # the provider's own form of it
    parts: list[Part]
    path: str
    after: Any = None  # what it stood behind, where only this request's acceptance makes that legal
    took: tuple[str, ...] = ()  # what else the service was seen to take in this very request


class MessageTurn:
    """What a person or the system said."""

    __slots__ = ("after", "at", "content", "is_own", "name", "role", "text", "wire")

    def __init__(self, role: str, text: str, at: int | None) -> None:
        self.role = role
        self.text = text
        self.at = at
        self.name: str | None = None  # the speaker's, where the format has a place for it
        self.content: list[Any] | None = None  # written blocks; None: just the text
        self.wire: Any = None  # the provider's own form, where it goes back
        self.after: Any = None
        self.is_own = False  # was it said to this very provider and model?


class StepResult:
    """What a tool call came to."""

    __slots__ = ("after", "at", "content", "error", "extra", "native", "text", "wire")

    def __init__(self, text: str, error: bool, at: int | None, native: Any = None) -> None:
        self.text = text
        self.error = error
        self.at = at
        self.native = native
        self.content: list[Any] | None = None
        self.extra: list[Any] | None = None  # blocks that go behind the results
        self.wire: Any = None
        self.after: Any = None


class StepCall:
    """A tool call that the model made, and its answer."""

    __slots__ = ("arguments", "at", "id", "is_mended", "key", "kind", "name", "result", "text")

    def __init__(
        self, key: str | None, name: str, arguments: dict[str, Any], at: int | None, text: str | None = None
    ) -> None:
        self.key = key  # the id in the log
        self.id = key or ""  # the id on the wire
        self.name = name
        self.arguments = arguments
        self.is_mended = False  # were the arguments something else, which the service would refuse?
        self.text = text  # the arguments as the model wrote them, for formats that carry text
        self.at = at
        self.kind = ""  # what it goes out as; "" is a function's call
        self.result: StepResult | None = None


class Piece(NamedTuple):
    """What one event adds to a step: words or a call, and perhaps its provider's own form."""

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
        self.order: list[StepCall] | None = None  # the order of the results; None: that of the calls
        self.pieces: list[Piece] | None = None  # only where one of them has a form of its own
        self.after: Any = None
        self.took: tuple[str, ...] = ()
        self.wire: Any = None


Turn = MessageTurn | Step


class Repair(NamedTuple):
    """One difference between a request and the log: which rule, at which event, and why."""

    rule: str
    at: int | None  # the event's position, or its index where messages have none; None: no event
    why: str


def text_of(parts: list[Part]) -> str:
    """The words among the parts of a message, as one text."""
    return BETWEEN.join(part.text for part in parts if isinstance(part, Text) and not is_blank(part.text))


def answer_text(parts: list[Part]) -> str:
    """The words of one answer. Streams and citations cut them anywhere, so nothing goes between them."""
    text = "".join(part.text for part in parts if isinstance(part, Text))
    return "" if is_blank(text) else text


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read in it."""
    return not text or text.isspace()
