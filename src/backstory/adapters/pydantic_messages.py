"""The messages of pydantic-ai as events, and events of others as its messages. Pure: JSON in, JSON out."""

import json
from hashlib import sha256
from typing import Any

from backstory import Event, wire
from backstory.adapters.items import Draft, carried, note, people_text, with_key
from backstory.adapters.keys import LONGEST_KEY
from backstory.adapters.turns import answered, files

ADAPTER = "pydantic_ai"

Form = dict[str, Any]  # a message as pydantic-ai serializes it

FAILED = ("failed", "denied", "retried")
# The formats in which a provider's reasoning goes back to it, by what pydantic-ai calls the provider.
THOUGHTS = {"anthropic": "anthropic", "openai": "openai-responses"}


def drafts(form: Form, id: str) -> list[Event]:
    """The events of a message; the last one has a key made of its id."""
    events = _response(form, id) if form.get("kind") == "response" else _request(form)
    if events:
        batch = carried(ADAPTER, form, events, id=id)
    else:
        batch = [note(ADAPTER, "pydantic_ai.message", form, id=id)]
    return [*batch[:-1], with_key(batch[-1], entry_key(id))]


def entry_key(id: str) -> str:
    """The key of an entry's last event: its id, or a hash of one that no key can be."""
    is_key = 0 < len(id) <= LONGEST_KEY and people_text(id) == id
    return id if is_key else f"{ADAPTER}:{sha256(id.encode(errors='surrogatepass')).hexdigest()}"


# --- what the framework wrote ---


def _request(form: Form) -> list[Draft]:
    return [event for part in form.get("parts", ()) if (event := _request_part(part)) is not None]


def _request_part(part: Form) -> Draft | None:
    content = part.get("content")
    match part.get("part_kind"):
        case "system-prompt":
            return ("system", _text(content), None)
        case "user-prompt":
            return _prompt(content)
        case "tool-return":
            return _result(part, part.get("outcome") in FAILED)
        case "retry-prompt" if part.get("tool_name"):
            return _result(part, True)
        case "retry-prompt" | "retry-feedback":
            return ("user", _text(content), None)
    return None


def _result(part: Form, failed: bool) -> Draft:
    data = {"id": part["tool_call_id"], "name": part["tool_name"]} | (
        {"error": True} if failed else {}
    )
    return ("tool_result", _text(part.get("content")), data)


def _prompt(content: Any) -> Draft:
    """What a person said. Images are kept in a form that every provider's format can be made of."""
    if isinstance(content, str):
        return ("user", content, None)
    parts = [
        {"type": "text", "text": each} if isinstance(each, str) else each for each in content or ()
    ]
    blocks = [block for part in parts if (block := _block(part)) is not None]
    if any(block["type"] != "text" for block in blocks):
        [event] = wire.load({"messages": [{"role": "user", "content": blocks}]}, "openai")
        return event
    return ("user", "\n".join(block["text"] for block in blocks), None)


def _block(part: Form) -> Form | None:
    match part:
        case {"type": "text"}:
            return part
        case {"kind": "text-content", "content": str(text)}:
            return {"type": "text", "text": text}
        case {"kind": "image-url", "url": str(url)}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"kind": "binary", "data": str(data), "media_type": str(type)} if type.startswith(
            "image/"
        ):
            plain = data.replace("-", "+").replace("_", "/")
            return {"type": "image_url", "image_url": {"url": f"data:{type};base64,{plain}"}}
    return None


def _response(form: Form, id: str) -> list[Draft]:
    events = [
        event for part in form.get("parts", ()) if (event := _response_part(part, form)) is not None
    ]
    return [
        (kind, content, (data or {}) | {"answer": id} | (_about(form) if not number else {}))
        for number, (kind, content, data) in enumerate(events or [("assistant", "", None)])
    ]


def _response_part(part: Form, form: Form) -> Draft | None:
    match part.get("part_kind"):
        case "text":
            return ("assistant", part["content"], None)
        case "thinking":
            return _thought(part, form)
        case "tool-call":
            given = part.get("args")
            data = {"id": part["tool_call_id"], "name": part["tool_name"]}
            return ("tool_call", None, data | {"arguments": {} if given is None else given})
    return None


def _about(form: Form) -> Form:
    return {"model": form["model_name"]} if form.get("model_name") else {}


def _thought(part: Form, form: Form) -> Draft | None:
    """Reasoning has no words for others; for its own provider it goes back as it came."""
    format = THOUGHTS.get(str(part.get("provider_name")))
    found = _anthropic_thought(part) if format == "anthropic" else _openai_thought(part)
    if format is None or found is None:
        return None
    tag = {"provider": format} | ({"model": form["model_name"]} if form.get("model_name") else {})
    return ("assistant", "", {"native": tag | {"wire": [found]}})


def _anthropic_thought(part: Form) -> Form | None:
    if part.get("id") == "redacted_thinking":
        return {"type": "redacted_thinking", "data": part.get("signature")}
    if not part.get("signature"):
        return None
    return {"type": "thinking", "thinking": part.get("content"), "signature": part["signature"]}


def _openai_thought(part: Form) -> Form | None:
    if not part.get("signature"):
        return None
    summary = [{"type": "summary_text", "text": part["content"]}] if part.get("content") else []
    id = {"id": part["id"]} if part.get("id") else {}
    return {"type": "reasoning", **id, "summary": summary, "encrypted_content": part["signature"]}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(content, ensure_ascii=False)


# --- what others wrote ---


class Translation:
    """Events of others as messages, one by one. A result's tool is known by its call."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def __call__(self, event: Event) -> Form | None:
        """The message that an event is; None for one that says nothing."""
        data = event.data or {}
        time = event.created_at.isoformat()
        match event.kind:
            case "system":
                return _asked(
                    {"part_kind": "system-prompt", "content": event.content, "timestamp": time}
                )
            case "user":
                pieces = files(event)
                content = event.content if pieces is None else list(map(_piece, pieces))
                return _asked({"part_kind": "user-prompt", "content": content, "timestamp": time})
            case "assistant":
                part = {"part_kind": "text", "content": event.content}
                return _answered(part, time) if event.content else None
            case "tool_call":
                self._names[data.get("id")] = str(data.get("name"))
                call = {"tool_name": data.get("name"), "args": data.get("arguments")}
                call["tool_call_id"] = data.get("id")
                return _answered({"part_kind": "tool-call", **call}, time)
        name = data.get("name") or self._names.get(data.get("id"), "unknown")
        result = {"tool_name": name, "content": answered(event), "tool_call_id": data.get("id")}
        outcome = {"outcome": "failed"} if data.get("error") else {}
        return _asked({"part_kind": "tool-return", **result, "timestamp": time, **outcome})


def joined(one: Form, other: Form) -> Form:
    """Two messages of one turn as one."""
    return one | {"parts": [*one["parts"], *other["parts"]]}


def _piece(piece: tuple[str | None, str]) -> str | Form:
    type, text = piece
    if type is None:
        return text
    if text.startswith("data:"):
        return {"kind": "binary", "data": text.partition(",")[2], "media_type": type}
    return {"kind": "image-url", "url": text}


def _asked(part: Form) -> Form:
    return {"kind": "request", "parts": [part]}


def _answered(part: Form, time: str) -> Form:
    return {"kind": "response", "parts": [part], "timestamp": time}
