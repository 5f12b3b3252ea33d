"""The values that all formats share: parts of a message, turns of a conversation, repairs.

A *part* is what a message consists of, in no provider's words. A *turn* is what the rules of
`repair` work on. A *form* is a message, an answer or a result exactly as one provider has it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple, Self

# Joins the texts of a message if a format, or an event, has one field for them.
BETWEEN = "\n\n"
Form = Any


# --- parts ---


class Text(NamedTuple):
    """Text."""

    text: str


class Media(NamedTuple):
    """An image, a document, audio or video: base64 data of a media type, a URL, or the text of a
    document."""

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
    native: "Native | None" = None
    form: Form = None  # the form to send; None: the format writes it


class Speaker(NamedTuple):
    """The name of the speaker, among several."""

    name: str


class Other(NamedTuple):
    """A part that only its provider understands: a server tool, a file in its store."""

    what: str
    is_complete: bool = True  # would the provider take it back?
    words: str = ""  # text for other providers, if there is something to read
    media: str = ""  # the kind of media that it is: image, document, audio, video


class Reasoning(NamedTuple):
    """Thinking of a model."""

    text: str  # "" if it is sealed
    seal: str = ""  # a signature, or the encrypted text
    is_complete: bool = True  # would its provider take it back?
    is_signed: bool = True  # some models refuse thinking without a signature
    what: str = "reasoning"  # the provider's word for it, for reports


Part = Text | Media | Call | Result | Speaker | Reasoning | Other


class BodyUnit(NamedTuple):
    """A part of a body that becomes events: a system or user message, a result, an
    answer."""

    role: str  # system, user, result, answer
    form: Form  # the provider's own form of it
    parts: list[Part]
    after: Any = None  # what it came after, if only this request shows that this is legal
    accepted: tuple[str, ...] = ()  # what else the service accepted in this request
    is_on_top: bool = False  # system text that is not a message between others


# --- native content ---


class Accepted(StrEnum):
    """Something that one service accepted in a request and others refuse.

    The keys `wire` and `took` of `data["native"]` are the fields `form` and `accepted` of `Native`.
    """

    SAME_IDS = "same ids"  # calls with the ids of earlier calls
    LAST_WORD = "last word"  # a last answer that the model continues
    UNPADDED = "unpadded"  # base64 without its padding
    FIELDS = "fields"  # fields beside a message's role and content
    UNNAMED = "unnamed"  # calls without ids, or a result that does not say which call it answers
    REFERRED = "referred"  # results of calls that are only references to the service's store
    REPLACED = "replaced"  # (not by the service) what no store can hold was replaced


# What came before a form when its provider accepted it, as `data["native"]["after"]` has it. There,
# no user message has to come first. A dict names a conversation in the service's store.
AFTER_NOTHING = "nothing"
AFTER_ANSWER = "answer"
AFTER_MESSAGE = "message"  # of system text: it was a message between others, not on top


class Native(NamedTuple):
    """A provider's own form of a message, and where it came from."""

    provider: str
    model: str | None
    form: Form
    after: Any = None  # what came before it when the provider accepted it, if that counts
    accepted: tuple[str, ...] = ()


# --- turns ---


class BaseTurn:
    """The base of messages and answers. `reading` and `bind_results` fill the lists of an
    answer; all other rules replace turns and change none.

    Not a named tuple: slots are created and read faster, which is a fifth of a request.
    """

    __slots__: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values in these fields."""
        turn = object.__new__(type(self))
        for name in self.__slots__:
            setattr(turn, name, getattr(self, name))
        for name, value in changes.items():
            setattr(turn, name, value)
        return turn


class MessageTurn(BaseTurn):
    """A user or system message."""

    __slots__ = ("content", "form", "native", "position", "role", "speaker", "text")

    def __init__(
        self, position: int | None, role: str, text: str, native: Native | None = None
    ) -> None:
        self.position = position
        self.role = role  # user or system
        self.text = text
        self.native = native
        self.form: Form = None  # the form to send; None: the format writes the message
        self.content: tuple[Part, ...] | None = None  # text and media in order; None: only the text
        self.speaker: str | None = None  # if the format has a field for it


class PlacedNative(NamedTuple):
    """The native content of a text or a call, and its place in the answer."""

    native: Native
    texts_before: int  # number of texts before it
    calls_before: int  # number of calls before it
    is_call: bool


# The calls, results and native content of all answers without any. Nobody adds to it: a list of its
# own for each answer makes a request a tenth slower.
EMPTY_LIST: list[Any] = []


class AnswerTurn(BaseTurn):
    """One answer of the model: texts, calls, and the result of each call."""

    __slots__ = (
        "accepted",
        "after",
        "arrivals",
        "calls",
        "form",
        "natives",
        "position",
        "results",
        "speaker",
        "texts",
    )

    def __init__(self, position: int | None) -> None:
        self.position = position
        self.texts: list[str] = []
        self.calls: list[Call] = EMPTY_LIST
        self.results: list[Result | None] = EMPTY_LIST  # one for each call; None: the call is open
        self.natives: list[PlacedNative] = EMPTY_LIST  # in the order of the log
        # The indexes of the calls in the order in which their results came.
        self.arrivals: list[int] = EMPTY_LIST
        self.form: Form = None
        self.speaker: str | None = None
        self.after: Any = None  # what came before it when its provider accepted it
        self.accepted: tuple[str, ...] = ()

    def add_native(self, native: Native, *, is_call: bool) -> None:
        """Add the native content of the next text or call."""
        placed = PlacedNative(native, len(self.texts), len(self.calls), is_call)
        if self.natives:
            self.natives.append(placed)
        else:
            self.natives = [placed]

    def add_call(self, call: Call) -> None:
        """Add an open call."""
        if self.calls:
            self.calls.append(call)
            self.results.append(None)
        else:
            self.calls, self.results, self.arrivals = [call], [None], []

    def list_natives(self) -> list[Native]:
        """Return the native content of the events."""
        return [placed.native for placed in self.natives]


Turn = MessageTurn | AnswerTurn


def ends_with_model(answer: AnswerTurn) -> bool:
    """Return True if no result comes after an answer."""
    return not any(answer.results)


def split_leading_system(turns: list[Turn]) -> tuple[list[MessageTurn], list[Turn]]:
    """Return the system turns before the first other one, and the rest."""
    leading: list[MessageTurn] = []
    for turn in turns:
        if isinstance(turn, AnswerTurn) or turn.role != "system":
            break
        leading.append(turn)
    return leading, turns[len(leading) :]


class Repair(NamedTuple):
    """One difference between a request and the log: which rule, at which event, and why."""

    rule: str
    at: int | None  # the event's position, or its index if messages have none; None: no event
    why: str


# --- parts of a message ---


def find_calls(parts: Iterable[Part]) -> list[Call]:
    """Return the calls among `parts`."""
    return [part for part in parts if isinstance(part, Call)]


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
    """Return the text in the parts of a message."""
    texts = [part.text for part in parts if isinstance(part, Text) and not is_blank(part.text)]
    return BETWEEN.join(texts)


def answer_text(parts: Iterable[Part]) -> str:
    """Return the text of one answer. Streams and citations split it anywhere, so nothing goes in
    between."""
    text = "".join([part.text for part in parts if isinstance(part, Text)])
    return "" if is_blank(text) else text


def is_blank(text: str) -> bool:
    """Return True if a text is empty or only whitespace."""
    return not text or text.isspace()
