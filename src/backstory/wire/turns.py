"""The words that all wire formats share: parts of a message, turns of a conversation, repairs.

Values only. `repair` makes turns of messages, a format makes a body of turns, and reads
parts and units out of one.
"""

from typing import Any, NamedTuple

# What the texts of one message are joined with where a format, or an event, has room for one text.
BETWEEN = "\n\n"


class Text(NamedTuple):
    """Words."""

    text: str


class Image(NamedTuple):
    """A picture: base64 data of a media type, or a URL."""

    media_type: str | None
    data: str | None
    url: str | None


class Call(NamedTuple):
    """A tool call; a format without ids leaves the id out."""

    id: str | None
    name: str
    arguments: dict[str, Any]
    raw: str | None = None  # the arguments as they came, where they were no JSON object
    custom: bool = False  # a call of a custom tool, where those have results of their own kind


class Result(NamedTuple):
    """What a tool call came to: its parts, and whether it failed (None: the format cannot say)."""

    id: str | None
    parts: "list[Part]"
    error: bool | None
    name: str | None = None  # the tool's, where the format goes by it
    custom: bool = False  # that of a custom tool's call


class Other(NamedTuple):
    """Something only its own provider understands: reasoning, a document, a server's tool."""

    what: str
    complete: bool = True  # could the provider take it back? Not thinking without its signature
    leads: bool = False  # text or a call has to follow at once


Part = Text | Image | Call | Result | Other


class Unit(NamedTuple):
    """A piece of a body that events stand for: a system or user message, a result, a step."""

    role: str  # system, user, result, step
    wire: Any  # the provider's own form of it
    parts: list[Part]
    path: str


class Say:
    """What a person or the system said."""

    __slots__ = ("at", "parts", "role", "text", "wire")

    def __init__(self, role: str, text: str, at: int | None) -> None:
        self.role = role
        self.text = text
        self.at = at
        self.parts: list[Text | Image] | None = None  # None: just the text
        self.wire: Any = None  # the provider's own form, where it may be replayed


class Answer:
    """What a tool call came to."""

    __slots__ = ("at", "error", "native", "parts", "text", "wire")

    def __init__(self, text: str, error: bool, at: int | None, native: Any = None) -> None:
        self.text = text
        self.error = error
        self.at = at
        self.native = native
        self.parts: list[Text | Image] | None = None
        self.wire: Any = None


class Asked:
    """A tool call that the model made, and its answer."""

    __slots__ = ("answer", "arguments", "at", "custom", "id", "key", "name")

    def __init__(self, key: str | None, name: str, arguments: dict[str, Any], at: int | None) -> None:
        self.key = key  # the id in the log
        self.id = key or ""  # the id on the wire
        self.name = name
        self.arguments = arguments
        self.at = at
        self.custom = False  # does it go out as a custom tool's call?
        self.answer: Answer | None = None


class Step:
    """One model answer: its text, then its calls."""

    __slots__ = ("at", "calls", "natives", "order", "texts", "wire")

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.texts: list[str] = []
        self.calls: list[Asked] = []
        self.order: list[Asked] | None = None  # the order of the results; None: that of the calls
        self.natives: list[Any] | None = None
        self.wire: Any = None


Turn = Say | Step


class Repair(NamedTuple):
    """One thing that the wire says otherwise than the log: which rule, at which event, and why."""

    rule: str
    at: int | None  # the event's position, or its index where messages have none; None: no event
    why: str


def text_of(parts: list[Part]) -> str:
    """The words among the parts, as one text."""
    return BETWEEN.join(part.text for part in parts if isinstance(part, Text) and not is_blank(part.text))


def is_blank(text: str) -> bool:
    """Whether a text has nothing to read in it."""
    return not text or text.isspace()
