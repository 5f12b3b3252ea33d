"""What an event says, as text: on one line, or in full. Nothing is printed here."""

from typing import Any

from backstory.log.erasure import is_erased
from backstory.log.events import Event, to_json
from backstory.log.messages import read_call, read_result
from backstory.log.moves import read_command
from backstory.present.safe_text import one_line
from backstory.wire.holes import HOLE

STYLES = {
    "system": "bold",
    "user": "green",
    "assistant": "cyan",
    "tool_call": "magenta",
    "tool_result": "blue",
    "mark": "bold",
    "note": "yellow",
    "clear": "red",
    "rewind": "red",
    "jump": "red",
}


def gist(event: Event) -> str:
    """What an event says, on one line, however long."""
    return _erasure(event) or one_line(_said(event)) + _extra(event)


def _erasure(event: Event) -> str:
    """A note that an event was erased, and why; empty for any other event."""
    if not is_erased(event.data_json):
        return ""
    why = (event.data or {})["erased"].get("why")
    return f"(erased: {one_line(str(why))})"


def _said(event: Event) -> str:
    data = event.data or {}
    match event.kind:
        case "tool_call":
            call = read_call(data)
            arguments = (
                call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
            )
            return f"{call.name}({arguments})" + (f" {event.content}" if event.content else "")
        case "mark":
            return event.label if event.label is not None else "(no label)"
        case "rewind" | "jump":
            by = read_command(event)
            return f"to {data.get('target_message_id', '?')}" + (f" ({by})" if by else "")
        case "clear":
            return "the context is empty from here"
    return event.content or _wordless(data)


def _wordless(data: dict[str, Any]) -> str:
    """A name for an event without text: (reasoning), (web_search_call), (image) …"""
    form = _own_form(data)
    forms = form if isinstance(form, list) else [form]
    names = dict.fromkeys(_name_of(part) for each in forms for part in _parts(each))
    return " ".join(f"({name})" for name in names if name)


def _parts(form: Any) -> list[Any]:
    """The parts of a message, or what is none."""
    if isinstance(form, dict) and form.get("type") in (None, "message"):
        parts = form.get("content") or form.get("parts")
        return parts if isinstance(parts, list) else [form]
    return [form]


def _own_form(data: dict[str, Any]) -> Any:
    """The native form of a message, or a framework's."""
    for name, field in (("native", "wire"), ("item", "form")):
        kept = data.get(name)
        if isinstance(kept, dict) and field in kept:
            return kept[field]
    return None


def _name_of(part: Any) -> str | None:
    """A provider's name for a part of a message: its type, or the one key that identifies it."""
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("type"), str):
        return str(part["type"])
    if part.get("thought") is True:
        return "thought"
    return next((name for name in part if name != HOLE), None)


def _extra(event: Event) -> str:
    failed = event.kind == "tool_result" and read_result(event.content, event.data).error
    return " (error)" if failed else ""


def body(event: Event) -> str:
    """What an event says, in full, for reading."""
    if is_erased(event.data_json):
        return _erasure(event)
    text = event.content if event.content and event.kind != "tool_call" else _said(event)
    return text + _extra(event)


def mark_label(mark: Event) -> str:
    """A mark in a list of marks: its label, if it has one, and its position."""
    return f"{one_line(mark.label)}@{mark.seq}" if mark.label else f"@{mark.seq}"
