"""Events of Google's ADK as ours, and ours as theirs. JSON in, JSON out."""

from typing import Any

from backstory import Error, Event, wire
from backstory.adapters.items import Draft, carried, note, with_key
from backstory.adapters.keys import agent_key
from backstory.adapters.turns import answered, said

ADAPTER = "adk"
REWIND = "adk.rewind"

Form = dict[str, Any]  # an event as ADK serializes it


def drafts(form: Form, content: Form | None) -> list[Event]:
    """The events of an ADK event; the last has its id as key. `content` is what it says, as Gemini has it."""
    events = _loaded(content) if content and content.get("parts") else []
    if events:
        batch = carried(ADAPTER, form, [_with_model(event, form) for event in events])
    else:
        batch = [note(ADAPTER, REWIND if rewound(form) else "adk.event", form)]
    return [*batch[:-1], with_key(batch[-1], event_key(form["id"]))]


def event_key(id: str) -> str:
    """The key of an event's last event."""
    return agent_key(ADAPTER, id)


def rewound(form: Form) -> str | None:
    """The invocation that an event takes back, with all behind it."""
    return (form.get("actions") or {}).get("rewind_before_invocation_id")


def _loaded(content: Form) -> list[Draft]:
    role = content.get("role") or "user"
    try:
        return list(wire.load({"contents": [content | {"role": role}]}, "gemini"))
    except (Error, ValueError):
        return _worded(content, "assistant" if role == "model" else "user")


def _worded(content: Form, kind: str) -> list[Draft]:
    """What the wire does not take: its words, calls and results."""
    events: list[Draft] = []
    for part in content["parts"]:
        match part:
            case {"functionCall": {"name": str(name)} as call}:
                data = {
                    "id": call.get("id") or name,
                    "name": name,
                    "arguments": call.get("args") or {},
                }
                events.append(("tool_call", None, data))
            case {"functionResponse": {"name": str(name)} as result}:
                data = {"id": result.get("id") or name, "name": name}
                events.append(("tool_result", str(result.get("response")), data))
            case {"text": str(text)} if not part.get("thought"):
                events.append((kind, text, None))
    return events


def _with_model(event: Draft, form: Form) -> Draft:
    """Native content is tagged with the model that made it, where ADK knows it."""
    kind, content, data = event
    model = form.get("model_version")
    if model and data and "native" in data and kind in ("assistant", "tool_call"):
        data = data | {"native": data["native"] | {"model": model}}
    return kind, content, data


class Translation:
    """Events of others as ADK's, one by one. A result's tool is known by its call."""

    def __init__(self, app: str) -> None:
        self._app = app
        self._names: dict[Any, Any] = {}

    def __call__(self, event: Event) -> Form | None:
        """The ADK event that an event is; None for one that says nothing."""
        data = event.data or {}
        match event.kind:
            case "user":
                return self._event(
                    event, "user", *(said(event, "gemini") or [{"text": event.content}])
                )
            case "assistant":
                return (
                    self._event(event, "model", {"text": event.content}) if event.content else None
                )
            case "tool_call":
                given = data.get("arguments")
                self._names[data.get("id")] = data.get("name")
                args = given if isinstance(given, dict) else {"value": given}
                call = {"id": data.get("id"), "name": data.get("name"), "args": args}
                return self._event(event, "model", {"function_call": call})
            case "tool_result":
                name = data.get("name") or self._names.get(data.get("id")) or "unknown"
                told = {"error" if data.get("error") else "result": answered(event)}
                result = {"id": data.get("id"), "name": name, "response": told}
                return self._event(event, "user", {"function_response": result})
        return None

    def _event(self, event: Event, role: str, *parts: Form) -> Form:
        return {
            "id": f"backstory-{event.seq}",
            "invocation_id": "backstory",
            "author": self._app if role == "model" or "function_response" in parts[0] else "user",
            "timestamp": event.created_us / 1_000_000,
            "content": {"role": role, "parts": list(parts)},
        }


def joined(one: Form, other: Form) -> Form:
    """Two events of one turn as one."""
    content = one["content"]
    return one | {"content": content | {"parts": [*content["parts"], *other["content"]["parts"]]}}
