"""Writes a history as a session of pi: a header, then messages with a parent. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from backstory.log.events import to_json
from backstory.transcripts.content import as_object, list_objects
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    ExportedMessage,
    write_time,
)
from backstory.transcripts.model import Data
from backstory.transcripts.pi.messages import USAGE
from backstory.wire.formats import get_format
from backstory.wire.turns import Other

WIRE_FORMAT = "anthropic"
VERSION = 3
DEFAULT_MODEL = "claude-sonnet-4-5"
# The names of the API and the provider in pi, by the beginning of a model's name.
MAKERS = (
    (("claude",), ("anthropic-messages", "anthropic")),
    (("gpt", "o1", "o3", "o4", "codex"), ("openai-responses", "openai")),
    (("gemini",), ("google-generative-ai", "google")),
    (("",), ("openai-completions", "unknown")),
)


class PiWriter:
    """Writes a history as a session of pi."""

    def __init__(self, history: ExportedHistory) -> None:
        self._history = history
        self._records: list[Data] = []
        self._positions: dict[int, Sequence[int]] = {}  # of the events in each line

    def write(self) -> ExportedFile:
        """Return the file, and its path in the folder of pi."""
        history = self._history
        began = format_time(history.began)
        header: Data = {"type": "session", "version": VERSION, "id": history.session}
        header |= {"timestamp": began, "cwd": history.cwd}
        self._records.append(header)
        parent = self._add("session_info", "name", None, began, name=history.title)
        parent = self._add_system(parent)
        ids: dict[int, str] = {}
        for message in history.list_branches(WIRE_FORMAT):
            above = parent if message.parent is None else ids[message.parent]
            ids[message.number] = self._add_message(message, above, build_body(message))
        header["backstory"] = history.record_positions(self._positions)
        text = "".join(f"{to_json(record)}\n" for record in self._records)
        folder = f"--{history.cwd.strip('/').replace('/', '-')}--"
        name = f"{began.replace(':', '-').replace('.', '-')}_{history.session}.jsonl"
        return ExportedFile(text, Path("sessions", folder, name))

    def _add(self, type_: str, key: str, parent: str | None, time: str, **fields: Any) -> str:
        """Add an entry. Return its id, which is the same in every export of the history."""
        id = blake2b(f"{self._history.session} {key}".encode(), digest_size=4).hexdigest()
        self._records.append(
            {"type": type_, "id": id, "parentId": parent, "timestamp": time, **fields}
        )
        return id

    def _add_message(self, message: ExportedMessage, parent: str, body: Data) -> str:
        key, time = self._history.get_id(message), format_time(message.time)
        id = self._add("message", key, parent, time, message=body)
        self._positions[len(self._records)] = message.positions
        return id

    def _add_system(self, parent: str) -> str:
        """Add the sections of the prompt that came from pi. Any other prompt it adds itself."""
        for message in self._history.list_context(WIRE_FORMAT):
            if message.role != "system":
                break
            sections = message.data.get("sections")
            if isinstance(sections, dict):
                body = {"role": "system", "sections": sections, "timestamp": message.time // 1000}
                parent = self._add_message(message, parent, body)
        return parent


def format_time(time: int) -> str:
    """Return a time as pi writes it."""
    return write_time(time // 1000 * 1000)


def build_body(message: ExportedMessage) -> Data:
    """Return a message as pi has it."""
    body = build_prompt(message)
    if message.role == "model":
        body = build_answer(message)
    elif message.role == "result":
        body = build_result(message)
    return {**body, "timestamp": message.time // 1000}


def build_prompt(message: ExportedMessage) -> Data:
    """Return a message of the user as pi has it."""
    return {"role": "user", "content": [build_block(block) for block in list_blocks(message.form)]}


def build_result(message: ExportedMessage) -> Data:
    """Return the result of a call as pi has it."""
    [call] = message.calls
    form = as_object(message.form[0])
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [build_block(block) for block in list_blocks(form.get("content", ""))],
        "isError": form.get("is_error") is True,
    }


def list_blocks(content: Any) -> list[Data]:
    """Return the blocks of a content."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list_objects(content)


def build_block(block: Data) -> Data:
    """Return a block of a prompt or a result as pi has it."""
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": type_, "data": data}}:
            return {"type": "image", "data": data, "mimeType": type_}
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
    return {"type": "text", "text": f"({block.get('type')} left out)"}


def build_answer(message: ExportedMessage) -> Data:
    """Return an answer as pi has it."""
    usage = as_object(message.data.get("usage"))
    counts = {theirs: usage.get(ours) or 0 for ours, theirs in USAGE.items()}
    cost = dict.fromkeys(counts, 0)
    cost["total"] = usage.get("cost") or 0
    model = str(message.data.get("model") or DEFAULT_MODEL)
    api, provider = next(maker for starts, maker in MAKERS if model.startswith(starts))
    return {
        "role": "assistant",
        "content": list(build_answer_blocks(list_blocks(message.form))),
        "api": api,
        "provider": provider,
        "model": model,
        "usage": {**counts, "totalTokens": sum(counts.values()), "cost": cost},
        "stopReason": "toolUse" if message.calls else "stop",
    }


def build_answer_blocks(blocks: Iterable[Data]) -> Iterator[Data]:
    """Yield the blocks of an answer as pi has them."""
    for block in blocks:
        match block:
            case {"type": "text", "text": text}:
                yield {"type": "text", "text": text}
            case {"type": "thinking", "thinking": text}:
                seal = block.get("signature", "")
                yield {"type": "thinking", "thinking": text, "thinkingSignature": seal}
            case {"type": "redacted_thinking", "data": data}:
                thinking = {"type": "thinking", "thinking": "", "thinkingSignature": data}
                yield {**thinking, "redacted": True}
            case {"type": "tool_use", "id": id, "name": name, "input": arguments}:
                yield {"type": "toolCall", "id": id, "name": name, "arguments": arguments}
            case _:
                words = describe_block(block)
                if words:
                    yield {"type": "text", "text": words}


def describe_block(block: Data) -> str:
    """Return what a tool of the provider did, in words; "" if there is nothing to say."""
    parts = get_format(WIRE_FORMAT).read_form("step", [block])
    return "\n\n".join(part.words for part in parts if isinstance(part, Other) and part.words)
