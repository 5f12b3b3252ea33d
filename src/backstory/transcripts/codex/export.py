"""A context as a Codex rollout: a header, then items, with a context and an event for each turn."""

from pathlib import Path
from typing import Any

from backstory.log.events import to_json
from backstory.references import Reference
from backstory.transcripts.export_line import Line, Message, json_lines, stamp

TOOL = "codex"
VERSION = "0.144.2"  # the version whose format this is
INDEX = Path("session_index.jsonl")  # the names of threads
MODEL = "gpt-5"  # if the log does not name the model


def written(found: Reference) -> tuple[str, Path, tuple[Path, str]]:
    """The file, its path in the folder of Codex, and the index line with its name."""
    line = Line(found, "openai-responses", TOOL)
    mark = line.provenance()
    began = line.began
    meta = {
        "id": line.session,
        "timestamp": stamp(began),
        "cwd": line.cwd,
        "originator": "backstory",
        "cli_version": VERSION,
        "source": "cli",
        "model_provider": "openai",
        "backstory": mark,
    }
    records = [_record(stamp(began), "session_meta", meta)]
    for message in line.messages():
        records += _records(line, message)
    named = {"type": "thread_name_updated", "thread_id": line.session, "thread_name": line.title}
    records.append(_record(records[-1]["timestamp"], "event_msg", named))
    name = f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{line.session}.jsonl"
    place = Path("sessions", f"{began:%Y}", f"{began:%m}", f"{began:%d}", name)
    entry = {"id": line.session, "thread_name": line.title, "updated_at": records[-1]["timestamp"]}
    return json_lines(records, mark), place, (INDEX, f"{to_json(entry)}\n")


def _record(time: str, type_: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": time, "type": type_, "payload": payload}


def _records(line: Line, message: Message) -> list[dict[str, Any]]:
    time = stamp(message.event.created_at)
    form = message.form if isinstance(message.form, list) else [message.form]
    items = [
        _record(time, "response_item", {"type": "message", **item}) for item in map(_item, form)
    ]
    if message.role == "model":  # Codex shows people the events, not the items
        said = {"type": "agent_message", "message": message.event.content or ""}
        return [*items, _record(time, "event_msg", said)] if said["message"] else items
    if message.role != "user" or message.data.get("meta"):
        return items
    asked = {"type": "user_message", "message": message.event.content or "", "images": []}
    context = {
        "cwd": line.cwd,
        "approval_policy": "on-request",
        "sandbox_policy": {"type": "read-only"},
        "model": message.data.get("model") or line.agent.about.get("model") or MODEL,
        "summary": "auto",
    }
    return [_record(time, "turn_context", context), *items, _record(time, "event_msg", asked)]


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """An item with its text in parts, as in rollouts."""
    content = item.get("content")
    if "role" not in item or not isinstance(content, str):
        return item
    kind = "output_text" if item["role"] == "assistant" else "input_text"
    return item | {"content": [{"type": kind, "text": content}]}
