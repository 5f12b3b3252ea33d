"""The messages of pi and omp as entries: prompts, answers, results and commands. Pure."""

from collections.abc import Iterator
from typing import Any

from backstory.transcripts.answers import Block, family_of, parts_of
from backstory.transcripts.entries import (
    Data,
    answer_entries,
    anthropic_message,
    as_text,
    result_data,
    text_in,
    usage_of,
)
from backstory.transcripts.transcript import Entry

USAGE = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
}


def texts_of(record: Data, names: dict[str, str]) -> Data:
    """The texts of a record under our names for them; what is empty or not a text is left out."""
    found = {ours: record.get(theirs) for ours, theirs in names.items()}
    return {name: value for name, value in found.items() if isinstance(value, str) and value}


def said(id: str, content: Any, data: Data, time: int | None) -> Entry:
    """A message of the user's."""
    text, native = anthropic_message(_with_images(content))
    return Entry(id, "user", text, data | (native or {}) or None, time)


def _with_images(content: Any) -> Any:
    """Images as Anthropic has them."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else as_text(content)
    return [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": b.get("mimeType"), "data": b.get("data")},
        }
        if isinstance(b, dict) and b.get("type") == "image"
        else b
        for b in content
    ]


def message_entries(id: str, message: Data, time: int | None) -> Iterator[Entry]:
    """The entries of a message, by its role."""
    match message.get("role"):
        case "user":
            yield said(id, message.get("content", ""), {}, time)
        case "assistant":
            yield from _answer(id, message, time)
        case "toolResult":
            yield _result(id, message, time)
        case "bashExecution":
            yield _command(id, message, time)
        case "branchSummary" | "compactionSummary":
            yield Entry(id, "user", as_text(message.get("summary")), {"meta": "summary"}, time)
        case role:
            meta = as_text(message.get("customType")) or as_text(role) or "tool"
            yield said(id, message.get("content", ""), {"meta": meta}, time)


def _answer(id: str, message: Data, time: int | None) -> list[Entry]:
    model = message.get("model") if isinstance(message.get("model"), str) else None
    content = message.get("content")
    blocks = (
        [_block(b) for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    )
    if isinstance(content, str):
        blocks = [Block("text", content)]
    parts = parts_of(family_of(message.get("api"), message.get("provider")), blocks, model, id)
    extra: Data = {} if model is None else {"model": model}
    usage = usage_of(message.get("usage"), USAGE)
    cost = message["usage"].get("cost") if isinstance(message.get("usage"), dict) else None
    if isinstance(cost, dict) and isinstance(cost.get("total"), int | float) and cost["total"]:
        usage["cost"] = cost["total"]
    extra |= {"usage": usage} if usage else {}
    extra |= (
        texts_of(message, {"stopped": "stopReason", "failure": "errorMessage"})
        if _failed(message)
        else {}
    )
    entries = answer_entries(parts, id, [time] * max(1, len(blocks)), extra)
    response = message.get("responseId")
    return [_named_answer(entry, response) for entry in entries]


def _failed(message: Data) -> bool:
    return message.get("stopReason") in ("error", "aborted")


def _named_answer(entry: Entry, response: Any) -> Entry:
    data = dict(entry.data or {})
    if isinstance(response, str) and response:
        data["answer"] = response
    return entry._replace(data=data)


def _block(block: Data) -> Block:
    match block.get("type"):
        case "text":
            return Block("text", as_text(block.get("text")), seal=block.get("textSignature"))
        case "thinking":
            text, seal = as_text(block.get("thinking")), block.get("thinkingSignature")
            return Block("thinking", text, seal=seal, hidden=block.get("redacted") is True)
        case "toolCall":
            seal = block.get("thoughtSignature")
            given = block.get("arguments")
            return Block(
                "call", id=block.get("id"), name=block.get("name"), arguments=given, seal=seal
            )
        case _:
            return Block("text", text_in(block))


def _result(id: str, message: Data, time: int | None) -> Entry:
    data = result_data(message.get("toolCallId"), id, error=message.get("isError") is True)
    content = message.get("content")
    blocks = _with_images(content)
    text, native = anthropic_message(blocks)
    if native is not None and isinstance(blocks, list):
        block = {"type": "tool_result", "tool_use_id": data["id"], "content": blocks}
        native = {"native": {"provider": "anthropic", "wire": [block]}}
    return Entry(id, "tool_result", text, data | (native or {}), time)


def _command(id: str, message: Data, time: int | None) -> Entry:
    """A command that a person ran. One that was kept from the model is a note."""
    text = f"`{as_text(message.get('command'))}`\n{as_text(message.get('output'))}"
    if message.get("excludeFromContext") is True:
        return Entry(id, "note", "pi.command", {"text": text}, time)
    return Entry(id, "user", text, {"meta": "command"}, time)
