"""Canonical messages: the part of the log that a model receives, decided by one allow-list; and the
data of tool calls and results.

`backstory.wire` turns messages into a provider's format.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from backstory.errors import InvalidEvent
from backstory.log.data_keys import COMPACTED, COPY, ITEM, NATIVE, REPLACE, REQUEST, RESPONSE
from backstory.log.events import Event, parse_object, to_json
from backstory.log.items import fill_native_item
from backstory.log.kinds import ANSWER_KINDS, CONTROL_KINDS, MESSAGE_KINDS, TEXT_KINDS

# Keys of an event's data that are not part of its message.
BOOKKEEPING = frozenset({"by", COMPACTED, COPY, ITEM, "model", REQUEST, RESPONSE, "usage"})


class Message(NamedTuple):
    """One canonical message. Two are equal if kind, content and data are equal; the position of the
    event is only for reports."""

    kind: str
    content: str | None = None
    data: dict[str, Any] | None = None
    seq: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self[:3] == other[:3]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.kind, self.content))

    def __repr__(self) -> str:
        return f"Message({self.kind!r}, {self.content!r}, {self.data!r})"


def to_message(event: Event | Message) -> Message | None:
    """Return the message that a model receives for an event, or None for a control event.

    An unknown kind raises InvalidEvent: only the kinds in the table reach a model.
    """
    kind = event.kind
    if kind in CONTROL_KINDS:
        return None
    if kind not in MESSAGE_KINDS:
        raise InvalidEvent(
            f"event {event.seq} has the unknown kind {kind!r}",
            remedy=f"leave it out: a model is given {', '.join(sorted(MESSAGE_KINDS))}",
        )
    data = event.data
    if data:
        data = fill_native_item(data, event.content)
        data = {name: data[name] for name in data if _is_part_of_message(kind, name)} or None
    return Message(kind, event.content, data, seq=event.seq)


def _is_part_of_message(kind: str, name: str) -> bool:
    """Return True if the value with this key in an event's data is part of its message."""
    if kind in TEXT_KINDS:
        return name in (NATIVE, REPLACE)
    return name not in BOOKKEEPING


class ToolCall(NamedTuple):
    """The data of a tool call, in whichever shape it was stored."""

    id: Any
    name: Any
    arguments: Any


class ToolResult(NamedTuple):
    """The data of a tool result, in whichever shape it was stored."""

    id: Any
    output: Any
    error: bool


def read_call(data: Any) -> ToolCall:
    """Return the id, name and arguments of a call, as they were stored in today's or one of two
    older shapes."""
    if not isinstance(data, dict):
        return ToolCall(None, None, None)
    function = data.get("function")
    if isinstance(function, dict) and "name" not in data:
        return ToolCall(data.get("id"), function.get("name"), function.get("arguments"))
    if "tool_call_id" in data and "id" not in data:
        return ToolCall(data["tool_call_id"], data.get("tool_name"), data.get("tool_args"))
    return ToolCall(data.get("id"), data.get("name"), data.get("arguments"))


def read_result(content: Any, data: Any) -> ToolResult:
    """Return the id, output and error flag of a result. In the older shape, an `output` that is a
    string counts more than the content."""
    if not isinstance(data, dict):
        return ToolResult(None, content, False)
    if "tool_call_id" not in data or "id" in data:
        return ToolResult(data.get("id"), content, data.get("error") is True)
    output = data.get("output")
    if not isinstance(output, str):
        output = content
    has_failed = data.get("success") is False or data.get("error") is True
    return ToolResult(data["tool_call_id"], output, has_failed)


def replaces_system(message: Event | Message) -> bool:
    """Return True if a message is a system prompt that replaces all system messages before it."""
    return message.kind == "system" and (message.data or {}).get(REPLACE) is True


def drop_replaced(messages: Sequence[Event]) -> list[Event]:
    """Return system messages without those before the newest one that replaces others."""
    for index in range(len(messages) - 1, 0, -1):
        if replaces_system(messages[index]):
            return list(messages[index:])
    return list(messages)


def find_open_calls(messages: Sequence[Event]) -> list[Event]:
    """Return the calls that have no result yet, oldest first."""
    open_calls: dict[Any, Event] = {}
    for message in messages:
        if message.kind == "tool_call":
            open_calls[read_call(message.data).id] = message
        elif message.kind == "tool_result":
            open_calls.pop(read_result(message.content, message.data).id, None)
    return list(open_calls.values())


def find_unanswered(messages: Sequence[Event]) -> list[Event]:
    """Return the user messages and results at the end that no answer follows, oldest first."""
    found: list[Event] = []
    for message in reversed(messages):
        if message.kind in ANSWER_KINDS:
            break
        if message.kind != "system":
            found.append(message)
    found.reverse()
    return found


def build_call_data(id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Return the data of a tool call. Arguments that are the text of a JSON object become the
    object; the text stays beside it if writing the object would not give the same text."""
    data = {"id": id, "name": name, "arguments": arguments}
    parsed = parse_object(arguments) if isinstance(arguments, str) else None
    if parsed is None:
        return data
    try:
        text = to_json(parsed)
    except ValueError:  # NaN, which only the text can express
        return data
    data["arguments"] = parsed
    if text != arguments:
        data["arguments_text"] = arguments
    return data


def describe_call(call: Event) -> dict[str, Any]:
    """Return the part of a tool result's data that names the call which it answers."""
    if not isinstance(call, Event):
        raise InvalidEvent(
            f"{call!r:.60} is not a tool call", remedy="pass the call's event or its id"
        )
    data = call.data or {}
    if call.kind != "tool_call" or "id" not in data:
        raise InvalidEvent(
            f"event {call.seq} ({call.kind}) is not a tool call with an id",
            remedy="pass the call's event or its id",
        )
    return {field: data[field] for field in ("id", "name") if field in data}
