"""Canonical messages: the part of the log that a model is given, decided by one allow-list.

Pure, and below the events: it imports only the table of kinds and the errors, so that new events can be
checked with it. `backstory.wire` turns messages into a provider's format.
"""

from typing import Any, NamedTuple, NoReturn, Protocol

from backstory.errors import InvalidEvent
from backstory.log.kinds import SAID_BY_PEOPLE, SILENT, SPOKEN, TEXT_KINDS, TOOL_KINDS

# What is kept in an event's data beside its message. Text events have nothing else there but `native`.
ITEM = "item"  # what an event is of a framework's item
NATIVE = "native"  # the provider's own form; the first event of an answer has that of all of it
ANSWER = "answer"  # the provider's name for the answer that an event is part of
BOOKKEEPING = frozenset({"by", "compacted", "copy_of", ITEM, "model", "request", "usage"})


class Recorded(Protocol):
    """What an event and a message have in common."""

    @property
    def seq(self) -> int | None:
        """The position in the log, if it is known."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def content(self) -> str | None:
        """Its text."""

    @property
    def data(self) -> dict[str, Any] | None:
        """The rest of it."""


class Message:
    """One canonical message. Two are equal if kind, content and data are; the position of its event is only
    for reports."""

    __slots__ = ("content", "data", "kind", "seq")
    __match_args__ = ("kind", "content", "data")

    kind: str
    content: str | None
    data: dict[str, Any] | None
    seq: int | None

    def __init__(
        self,
        kind: str,
        content: str | None = None,
        data: dict[str, Any] | None = None,
        *,
        seq: int | None = None,
    ) -> None:
        for name, value in (("kind", kind), ("content", content), ("data", data), ("seq", seq)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"a message does not change: make a new one instead of setting {name!r}"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a message does not change: {name!r} stays")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (self.kind, self.content, self.data) == (other.kind, other.content, other.data)

    def __hash__(self) -> int:
        return hash((self.kind, self.content))

    def __repr__(self) -> str:
        return f"Message({self.kind!r}, {self.content!r}, {self.data!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.kind, self.content, self.data, self.seq)


def _rebuilt(
    kind: str, content: str | None, data: dict[str, Any] | None, seq: int | None
) -> Message:
    return Message(kind, content, data, seq=seq)


def canonical(event: Recorded) -> Message | None:
    """The message that a model is given for an event; None for control events. An unknown kind raises
    InvalidEvent: only what is listed here reaches a model.
    """
    kind, data = event.kind, event.data
    if kind in TOOL_KINDS or kind in TEXT_KINDS:
        if data:
            data = {name: value for name, value in data.items() if _is_given(kind, name)} or None
        return Message(kind, event.content, data, seq=event.seq)
    if kind in SILENT:
        return None
    raise InvalidEvent(
        f"event {event.seq} has the unknown kind {kind!r}",
        remedy=f"leave it out: a model is given {', '.join(sorted(SPOKEN))}",
    )


def _is_given(kind: str, name: str) -> bool:
    """Whether something in an event's data is part of its message."""
    return name == "native" if kind in TEXT_KINDS else name not in BOOKKEEPING


class ToolCall(NamedTuple):
    """The data of a tool call, whichever shape it was stored in."""

    id: Any
    name: Any
    arguments: Any


class ToolResult(NamedTuple):
    """The data of a tool result, whichever shape it was stored in."""

    id: Any
    output: Any
    error: bool


def tool_call(data: Any) -> ToolCall:
    """A call's id, name and arguments as they were stored, in today's or one of two older shapes."""
    if not isinstance(data, dict):
        return ToolCall(None, None, None)
    function = data.get("function")
    if isinstance(function, dict) and "name" not in data:
        return ToolCall(data.get("id"), function.get("name"), function.get("arguments"))
    if "tool_call_id" in data and "id" not in data:
        return ToolCall(data["tool_call_id"], data.get("tool_name"), data.get("tool_args"))
    return ToolCall(data.get("id"), data.get("name"), data.get("arguments"))


def tool_result(content: Any, data: Any) -> ToolResult:
    """A result's id, output and error flag. In the older shape a string `output` wins over the content."""
    if not isinstance(data, dict):
        return ToolResult(None, content, False)
    if "tool_call_id" in data and "id" not in data:
        output = data.get("output")
        failed = data.get("success") is False or data.get("error") is True
        return ToolResult(
            data["tool_call_id"], output if isinstance(output, str) else content, failed
        )
    return ToolResult(data.get("id"), content, data.get("error") is True)


def check_message(kind: str, content: str | None, data: Any) -> None:
    """Refuse tool events that no wire format could represent."""
    if kind in TOOL_KINDS and not _is_named(kind, data):
        if kind == "tool_call":
            call = tool_call(data)
            _check_named(kind, "id", call.id)
            _check_named(kind, "name", call.name)
        else:
            _check_named(kind, "id", tool_result(content, data).id)
    if isinstance(data, dict) and not isinstance(data.get("native", data), dict) and kind in SPOKEN:
        raise InvalidEvent(
            f"the native data of this {kind} event is not an object",
            remedy="pass an object with the name of its provider",
        )


def _is_named(kind: str, data: Any) -> bool:
    """Whether a tool event has today's shape, and its id and name are not blank: nearly all are like that, so
    it is checked before anything else."""
    if type(data) is not dict:
        return False
    id, name = data.get("id"), data.get("name") if kind == "tool_call" else "-"
    return type(id) is str and type(name) is str and bool(id.strip()) and bool(name.strip())


def check_says_something(kind: str, content: Any, data: Any = None) -> None:
    """Refuse a blank user or system message without data.

    This is for `user()`, `system()`, `start(system=)` and what people type. `append` and `extend` accept such
    messages, because an imported history may have them. Assistant messages and tool results may be empty,
    because models and tools do return nothing at times.
    """
    if kind in SAID_BY_PEOPLE and isinstance(content, str) and not content.strip() and not data:
        raise InvalidEvent(f"the text of a {kind} message is empty: nothing was written")


def _check_named(kind: str, field: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidEvent(
            f"the {field} of this {kind} event is {value!r}",
            remedy=f"pass its {field} in data, as a non-blank string",
        )
