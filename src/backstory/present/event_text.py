"""Events as text: on one line, or in full. Nothing is printed here."""

from typing import Any

from backstory.log.erasure import is_erased
from backstory.log.events import Event, to_json
from backstory.log.messages import read_call, read_result
from backstory.log.moves import read_command
from backstory.present.text import one_line
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
    """Return the text of an event on one line, however long."""
    if is_erased(event.data_json):
        return _describe_erasure(event)
    return one_line(_find_words(event)) + _name_failure(event)


def body(event: Event) -> str:
    """Return the text of an event in full."""
    if is_erased(event.data_json):
        return _describe_erasure(event)
    if event.content and event.kind != "tool_call":
        return event.content + _name_failure(event)
    return _find_words(event) + _name_failure(event)


def mark_label(mark: Event) -> str:
    """Return a mark in a list of marks: its label, if it has one, and its position."""
    return f"{one_line(mark.label)}@{mark.seq}" if mark.label else f"@{mark.seq}"


def _describe_erasure(event: Event) -> str:
    why = (event.data or {})["erased"].get("why")
    return f"(erased: {one_line(str(why))})"


def _find_words(event: Event) -> str:
    """Return the content of an event, or words for it if it has none."""
    data = event.data or {}
    match event.kind:
        case "tool_call":
            return _describe_call(event, data)
        case "mark":
            return "(no label)" if event.label is None else event.label
        case "rewind" | "jump":
            command = read_command(event)
            target = f"to {data.get('target_message_id', '?')}"
            return f"{target} ({command})" if command else target
        case "clear":
            return "the context is empty from here"
    return event.content or _name_parts(data)


def _describe_call(event: Event, data: dict[str, Any]) -> str:
    call = read_call(data)
    arguments = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
    words = f"{call.name}({arguments})"
    return f"{words} {event.content}" if event.content else words


def _name_failure(event: Event) -> str:
    if event.kind == "tool_result" and read_result(event.content, event.data).error:
        return " (error)"
    return ""


def _name_parts(data: dict[str, Any]) -> str:
    """Return names for an event without text: (reasoning), (web_search_call), (image) …"""
    form = _find_native_form(data)
    forms = form if isinstance(form, list) else [form]
    names: dict[str, None] = {}  # in order, each once
    for one in forms:
        for part in _list_parts(one):
            name = _name_part(part)
            if name:
                names[name] = None
    return " ".join(f"({name})" for name in names)


def _find_native_form(data: dict[str, Any]) -> Any:
    """Return the message as its provider or its framework wrote it, or None."""
    for name, field in (("native", "wire"), ("item", "form")):
        native = data.get(name)
        if isinstance(native, dict) and field in native:
            return native[field]
    return None


def _list_parts(form: Any) -> list[Any]:
    """Return the parts of a message. A form that is not a message is one part."""
    if isinstance(form, dict) and form.get("type") in (None, "message"):
        parts = form.get("content") or form.get("parts")
        if isinstance(parts, list):
            return parts
    return [form]


def _name_part(part: Any) -> str | None:
    """Return the provider's name for a part: its type, or the one key that identifies it."""
    if not isinstance(part, dict):
        return None
    if isinstance(part.get("type"), str):
        return str(part["type"])
    if part.get("thought") is True:
        return "thought"
    return next((name for name in part if name != HOLE), None)
