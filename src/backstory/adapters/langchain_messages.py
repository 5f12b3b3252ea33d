"""LangChain's messages as events, and events of others as its messages."""

import base64
import zlib
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from backstory import Error, Event, wire
from backstory.adapters.items import Draft, carried, kept, kept_in, note, plain
from backstory.adapters.turns import answered, said

ADAPTER = "langgraph"

# Their forms were checked when they were written: made again without another check, as LangGraph does it.
CLASSES = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage, "tool": ToolMessage}

FIELDS = {kind: kind.model_fields.keys() for kind in CLASSES.values()}
SMALL = 300  # bytes below which compressing saves nothing

Form = dict[str, Any]


class Codec:
    """Values and messages as JSON, by LangGraph's serializer. What an encrypting one has made is not taken
    apart."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde
        self.is_sealed = "+" in serde.dumps_typed("")[0]

    def form(self, value: Any) -> Form:
        """Any value."""
        if not self.is_sealed and _is_json(value):
            return kept("json", value)
        type, data = self._serde.dumps_typed(value)
        packed = zlib.compress(data, 1) if len(data) >= SMALL and not self.is_sealed else data
        name, data = ("zlib", packed) if len(packed) < len(data) else ("base64", data)
        return {"type": type, name: base64.b64encode(data).decode()}

    def value(self, form: Form) -> Any:
        """The value of a form."""
        if "json" in form or "text" in form:
            return kept_in(form, "json")
        data = zlib.decompress(base64.b64decode(form["zlib"])) if "zlib" in form else None
        return self._serde.loads_typed((form["type"], data or base64.b64decode(form["base64"])))

    def drafts(self, message: BaseMessage) -> list[Event]:
        """The events of a message: LangChain's own form of it where that gives back the same."""
        form = None if self.is_sealed else self._own_form(message)
        events = _events(message) if form is not None else []
        if not events:
            return [note(ADAPTER, "langgraph.message", form or self.form(message))]
        return carried(ADAPTER, form, events)

    def _own_form(self, message: BaseMessage) -> Form | None:
        try:
            form: Form = plain(message_to_dict(message))
            same = self._serde.dumps_typed(self.message(form)) == self._serde.dumps_typed(message)
        except (TypeError, ValueError):
            return None
        return form if same else None

    def message(self, form: Form) -> BaseMessage:
        """The message of an item."""
        if "base64" in form or "zlib" in form:
            found: BaseMessage = self.value(form)
            return found
        made = CLASSES.get(form["type"])
        if made is None:
            return messages_from_dict([form])[0]
        data = form["data"]
        return _made(made, data) if data.keys() == FIELDS[made] else made.model_construct(**data)


def _made(kind: type[BaseMessage], data: Form) -> BaseMessage:
    """What `model_construct` makes where every field is given, without its search for defaults."""
    message: BaseMessage = object.__new__(kind)
    put = object.__setattr__  # pydantic's own would check
    put(message, "__dict__", data)
    put(message, "__pydantic_fields_set__", set(data))
    put(message, "__pydantic_extra__", {})
    put(message, "__pydantic_private__", None)
    return message


def _is_json(value: Any) -> bool:
    """Whether JSON gives back a value as it is, types included."""
    match value:
        case None | bool() | int() | float() | str():
            return type(value) in (type(None), bool, int, float, str) and value == value
        case list():
            return type(value) is list and all(map(_is_json, value))
        case dict():
            keys = all(type(key) is str for key in value)
            return type(value) is dict and keys and all(map(_is_json, value.values()))
    return False


def _events(message: BaseMessage) -> list[Draft]:
    match message.type:
        case "human":
            return [_said(message)]
        case "system":
            return [("system", _text(message), None)]
        case "ai" | "AIMessageChunk":
            return _answer(message)
        case "tool":
            data = {"id": str(getattr(message, "tool_call_id", None) or "unknown")}
            failed = getattr(message, "status", None) == "error"
            return [("tool_result", _text(message), data | ({"error": True} if failed else {}))]
    return []


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part if isinstance(part, str) else part.get("text") for part in message.content]
    return "".join(part for part in parts if isinstance(part, str))


def _said(message: BaseMessage) -> Draft:
    if not isinstance(message.content, str):
        try:
            [event] = wire.load(
                {"messages": [{"role": "user", "content": message.content}]}, "openai"
            )
            return event
        except (Error, ValueError):
            pass
    return ("user", _text(message), None)


def _answer(message: BaseMessage) -> list[Draft]:
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    if isinstance(message.content, list) and "claude" in str(model):
        try:
            return list(wire.load_answer({"content": message.content, "model": model}, "anthropic"))
        except Error:
            pass
    about = {"model": model} if isinstance(model, str) else None
    text = _text(message)
    asked = (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ()))
    calls: list[Draft] = [("tool_call", None, _call(call)) for call in asked]
    return [("assistant", text, about), *calls] if text or not calls else calls


def _call(call: Any) -> Form:
    return {
        "id": call["id"] or "unknown",
        "name": call["name"] or "unknown",
        "arguments": call["args"],
    }


def message_of(event: Event) -> Form | None:
    """A message that something else wrote, as LangChain's."""
    data = event.data or {}
    base: Form = {"content": event.content or "", "id": f"backstory-{event.seq}"}
    match event.kind:
        case "user":
            content = said(event, "openai") or base["content"]
            return {"type": "human", "data": base | {"type": "human", "content": content}}
        case "system":
            return {"type": "system", "data": base | {"type": "system"}}
        case "assistant":
            return {"type": "ai", "data": base | {"type": "ai"}} if event.content else None
        case "tool_call":
            given = data.get("arguments")
            args = given if isinstance(given, dict) else {"value": given}
            call = {
                "name": data.get("name"),
                "args": args,
                "id": data.get("id"),
                "type": "tool_call",
            }
            return {"type": "ai", "data": base | {"type": "ai", "tool_calls": [call]}}
    status = "error" if data.get("error") else "success"
    more = {"type": "tool", "tool_call_id": data.get("id"), "status": status}
    return {"type": "tool", "data": base | more | {"content": answered(event) or ""}}


def joined(one: Form, other: Form) -> Form | None:
    """Two messages of one turn as one. Each result is a message of its own."""
    if one["type"] != "ai":
        return None
    before, data = one["data"], other["data"]
    calls = [*before.get("tool_calls", ()), *data.get("tool_calls", ())]
    text = before["content"] + data["content"]
    return {"type": "ai", "data": before | {"content": text, "tool_calls": calls}}
