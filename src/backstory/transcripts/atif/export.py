"""A context as an ATIF trajectory: one document of steps, with the calls and their results."""

from pathlib import Path
from typing import Any

from backstory.log.events import to_json
from backstory.references import Reference
from backstory.transcripts.export_line import Line, Message, stamp, text_of

TOOL = "atif"
SCHEMA = "ATIF-v1.6"
SOURCES = {"system": "system", "user": "user", "model": "agent"}


def written(found: Reference) -> tuple[str, Path | None]:
    """The document. No tool looks for it in a folder."""
    line = Line(found, "anthropic", TOOL)
    mark = line.provenance()
    steps: list[dict[str, Any]] = []
    for message in line.messages():
        if message.role == "result":
            steps[-1].setdefault("observation", {"results": []})["results"].append(_result(message))
        else:
            steps.append({"step_id": len(steps) + 1, **_step(message)})
    mark["lines"] = len(steps)
    agent = {"name": line.agent.name, "version": "1", "model_name": line.agent.about.get("model")}
    document = {
        "schema_version": SCHEMA,
        "session_id": line.session,
        "agent": {name: value for name, value in agent.items() if value},
        "steps": steps,
        "extra": {"backstory": mark},
    }
    return to_json(document) + "\n", None


def _step(message: Message) -> dict[str, Any]:
    step: dict[str, Any] = {
        "timestamp": stamp(message.event.created_at),
        "source": SOURCES[message.role],
        "message": text_of(message.form),
    }
    if message.role != "model":
        return step
    thought = [block["thinking"] for block in message.form if block.get("type") == "thinking"]
    calls = [
        {"tool_call_id": block["id"], "function_name": block["name"], "arguments": block["input"]}
        for block in message.form
        if block.get("type") == "tool_use"
    ]
    usage = message.data.get("usage") or {}
    names = {"prompt_tokens": "input", "completion_tokens": "output", "cached_tokens": "cache_read"}
    metrics = {theirs: usage[ours] for theirs, ours in names.items() if usage.get(ours)}
    more = {
        "model_name": message.data.get("model"),
        "reasoning_content": "\n\n".join(thought),
        "tool_calls": calls,
        "metrics": metrics,
    }
    return step | {name: value for name, value in more.items() if value}


def _result(message: Message) -> dict[str, Any]:
    [call] = message.calls
    return {"source_call_id": call.id, "content": text_of(message.form[0].get("content", ""))}
