"""An agent as a Claude Code session: one line per block, each with its parent, including abandoned branches.

The system prompt is left out, because Claude Code adds its own.
"""

import re
from pathlib import Path
from typing import Any

from backstory.references import Reference
from backstory.transcripts.export_line import Line, Message, json_lines, stamp
from backstory.transcripts.export_tree import tree

TOOL = "claude-code"
VERSION = "2.1.237"  # the version whose format this is
MODEL = "claude-sonnet-4-5"  # if the log does not name the model


def written(found: Reference) -> tuple[str, Path]:
    """The file, and its path in the folder of Claude Code."""
    line = Line(found, "anthropic", TOOL)
    mark = line.provenance()
    title = {"type": "custom-title", "customTitle": line.title, "sessionId": line.session}
    records: list[dict[str, Any]] = [title | {"backstory": mark}]
    last: dict[int | None, str | None] = {None: None}  # the last record of each message
    for number, above, message in tree(line, mark):
        parent = last[above]
        for record in _records(line, message):
            records.append({"parentUuid": parent} | record)
            parent = record["uuid"]
        last[number] = parent
    folder = re.sub(r"[^A-Za-z0-9]", "-", line.cwd)
    return json_lines(records, mark), Path("projects", folder, f"{line.session}.jsonl")


def _records(line: Line, message: Message) -> list[dict[str, Any]]:
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": line.cwd,
        "sessionId": line.session,
        "version": VERSION,
        "timestamp": stamp(message.event.created_at),
    }
    if message.role == "model":
        return [
            common | {"type": "assistant", "uuid": line.id_of(message, number), "message": body}
            for number, body in enumerate(_answers(message))
        ]
    content = message.form
    if message.role == "user" and _is_plain(content):
        content = content[0]["text"]
    meta = {"isMeta": True} if message.data.get("meta") else {}
    body = {"role": "user", "content": content}
    return [common | {"type": "user", "uuid": line.id_of(message), "message": body} | meta]


def _answers(message: Message) -> list[dict[str, Any]]:
    """One message per block, all with the id and the usage of the whole answer."""
    data = message.data
    model = str(data.get("model") or MODEL)
    # Claude Code takes the newest usage as the size of the context. The usage of a copied answer belongs to
    # an abandoned context, and other providers count cached tokens as input, too.
    usage = {} if "copy_of" in data else dict(data.get("usage") or {})
    if not model.startswith("claude"):
        usage = {name: usage.get(name) for name in ("input", "output")}
    names = {"input_tokens": "input", "output_tokens": "output"}
    names |= {"cache_read_input_tokens": "cache_read", "cache_creation_input_tokens": "cache_write"}
    common = {
        "id": data.get("answer") or f"msg_{message.event.seq:024d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_sequence": None,
        "usage": {theirs: usage.get(ours) or 0 for theirs, ours in names.items()},
    }
    reason = "tool_use" if message.calls else "end_turn"
    return [common | {"content": [block], "stop_reason": reason} for block in message.form]


def _is_plain(content: Any) -> bool:
    return isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}
