"""An agent as a pi session: a header, then messages, each with an eight-digit id and a parent, including
abandoned branches. The system prompt is left out, because pi adds its own.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any

from backstory.references import Reference
from backstory.transcripts.export_line import Line, Message, json_lines, stamp
from backstory.transcripts.export_tree import tree

TOOL = "pi"
VERSION = 3
# Pi's names for the API and the provider, by the beginning of the model's name.
MAKERS = (
    (("claude",), ("anthropic-messages", "anthropic")),
    (("gpt", "o1", "o3", "o4", "codex"), ("openai-responses", "openai")),
    (("gemini",), ("google-generative-ai", "google")),
    (("",), ("openai-completions", "unknown")),
)


def written(found: Reference) -> tuple[str, Path]:
    """The file, and its path in the folder of pi."""
    line = Line(found, "anthropic", TOOL)
    mark = line.provenance()
    began = stamp(line.began)
    header = {
        "type": "session",
        "version": VERSION,
        "id": line.session,
        "timestamp": began,
        "cwd": line.cwd,
    }
    records: list[dict[str, Any]] = [header | {"backstory": mark}]
    named = {"id": _id(line, "name"), "parentId": None, "timestamp": began}
    records.append({"type": "session_info", **named, "name": line.title})
    ids: dict[int | None, str] = {None: named["id"] or ""}
    for number, above, message in tree(line, mark):
        id = _id(line, number)
        entry = {"id": id, "parentId": ids[above], "timestamp": stamp(message.event.created_at)}
        records.append({"type": "message", **entry, "message": _body(message)})
        ids[number] = id
    folder = f"--{line.cwd.strip('/').replace('/', '-')}--"
    name = f"{began.replace(':', '-').replace('.', '-')}_{line.session}.jsonl"
    return json_lines(records, mark), Path("sessions", folder, name)


def _id(line: Line, name: object) -> str:
    """An id of eight digits, which is the same in every export of the agent."""
    return blake2b(f"{line.session} {name}".encode(), digest_size=4).hexdigest()


def _body(message: Message) -> dict[str, Any]:
    time = message.event.created_us // 1000
    match message.role:
        case "model":
            return _answer(message) | {"timestamp": time}
        case "result":
            [call] = message.calls
            content = message.form[0].get("content", "")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            return {
                "role": "toolResult",
                "toolCallId": call.id,
                "toolName": call.name,
                "content": [_said(block) for block in blocks],
                "isError": message.form[0].get("is_error") is True,
                "timestamp": time,
            }
    return {"role": "user", "content": [_said(block) for block in message.form], "timestamp": time}


def _said(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": type_, "data": data}}:
            return {"type": "image", "data": data, "mimeType": type_}
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
    return {"type": "text", "text": f"({block.get('type')} left out)"}


def _answer(message: Message) -> dict[str, Any]:
    usage = message.data.get("usage") or {}
    read, wrote = usage.get("input") or 0, usage.get("output") or 0
    cached, cache_written = usage.get("cache_read") or 0, usage.get("cache_write") or 0
    model = str(message.data.get("model") or "claude-sonnet-4-5")
    api, provider = next(maker for starts, maker in MAKERS if model.startswith(starts))
    return {
        "role": "assistant",
        "content": [_block(block) for block in message.form],
        "api": api,
        "provider": provider,
        "model": model,
        "usage": {
            "input": read,
            "output": wrote,
            "cacheRead": cached,
            "cacheWrite": cache_written,
            "totalTokens": read + wrote + cached + cache_written,
            "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
            | {"total": usage.get("cost") or 0},
        },
        "stopReason": "toolUse" if message.calls else "stop",
    }


def _block(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "thinking", "thinking": text}:
            return {
                "type": "thinking",
                "thinking": text,
                "thinkingSignature": block.get("signature", ""),
            }
        case {"type": "redacted_thinking", "data": data}:
            return {"type": "thinking", "thinking": "", "thinkingSignature": data, "redacted": True}
        case {"type": "tool_use", "id": id, "name": name, "input": given}:
            return {"type": "toolCall", "id": id, "name": name, "arguments": given}
    return _said(block)
