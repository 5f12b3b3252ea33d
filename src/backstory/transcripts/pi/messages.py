"""The messages of pi and omp as entries: prompts, answers, results and commands. Pure."""

from typing import Any

from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    as_object,
    build_media_block,
    build_message_entry,
    build_result_entry,
    choose_name,
    find_wire_format,
    is_one_of,
    join_text,
    list_objects,
    pick_counts,
    pick_texts,
    to_text,
)
from backstory.transcripts.model import Data, Entry

USAGE = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
}


def read_message(id: str, message: Data, time: int | None) -> list[Entry]:
    """Return the entries of a message, by its role."""
    match message.get("role"):
        case "user":
            return [build_user_entry(id, message, time)]
        case "assistant":
            return read_answer(id, message, time)
        case "toolResult":
            return [read_result(id, message, time)]
        case "bashExecution":
            return [read_command(id, message, time)]
        case "branchSummary" | "compactionSummary":
            return [Entry(id, "user", to_text(message.get("summary")), {"meta": "summary"}, time)]
        case role:
            return [build_user_entry(id, message, time, message.get("customType") or role)]


def build_user_entry(id: str, message: Data, time: int | None, *meta: Any) -> Entry:
    """Return the entry of a message for the model. `meta` says which part of the tool wrote it."""
    content = message.get("content", "")
    if isinstance(content, list):
        content = [convert_image(block) for block in content]
    else:
        content = to_text(content)
    name = choose_name(meta[0], "tool") if meta else None
    return build_message_entry(id, "user", content, time, meta=name)


def convert_image(block: Any) -> Any:
    """Return an image as Anthropic has it, and any other block unchanged."""
    if as_object(block).get("type") != "image":
        return block
    return build_media_block(block.get("mimeType"), block.get("data")) or block


def read_answer(id: str, message: Data, time: int | None) -> list[Entry]:
    """Return the entries of an answer."""
    data: Data = {}
    usage = read_usage(message.get("usage"))
    if usage:
        data["usage"] = usage
    if is_one_of(message.get("stopReason"), ("error", "aborted")):
        data |= pick_texts(message, {"stopped": "stopReason", "failure": "errorMessage"})
    builder = AnswerBuilder(
        id,
        time,
        wire_format=find_wire_format(message.get("api"), message.get("provider")),
        model=pick_texts(message, {"model": "model"}).get("model"),
        data=data,
        answer=pick_texts(message, {"answer": "responseId"}).get("answer"),
    )
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    entries = builder.build([read_block(block) for block in list_objects(content)])
    # Ids of calls are not unique in a session: the models of some providers count from 0.
    return [
        entry._replace(id=f"{id}/{entry.id}") if entry.kind == "tool_call" else entry
        for entry in entries
    ]


def read_usage(usage: Any) -> Data:
    """Return token counts and the cost."""
    counts = pick_counts(usage, USAGE)
    cost = as_object(as_object(usage).get("cost"))
    return {**counts, **pick_counts(cost, {"cost": "total"})}


def read_block(block: Data) -> AnswerBlock:
    """Return a block of an answer."""
    match block.get("type"):
        case "thinking":
            text, seal = to_text(block.get("thinking")), block.get("thinkingSignature")
            is_redacted = block.get("redacted") is True
            return AnswerBlock("thinking", text, seal=seal, is_redacted=is_redacted)
        case "toolCall":
            return AnswerBlock(
                "call",
                id=block.get("id"),
                name=block.get("name"),
                arguments=block.get("arguments"),
                seal=block.get("thoughtSignature"),
            )
    return AnswerBlock("text", join_text(block), seal=block.get("textSignature"))


def read_result(id: str, message: Data, time: int | None) -> Entry:
    """Return the entry of a result."""
    content = message.get("content")
    entry = build_result_entry(
        message.get("toolCallId"),
        id,
        join_text(content),
        time,
        is_error=message.get("isError") is True,
        media=[
            build_media_block(block.get("mimeType"), block.get("data"))
            for block in list_objects(content)
        ],
    )
    return entry._replace(id=id)


def read_command(id: str, message: Data, time: int | None) -> Entry:
    """Return the entry of a command that a person ran: a note if the model must not see it."""
    text = f"`{to_text(message.get('command'))}`\n{to_text(message.get('output'))}"
    if message.get("excludeFromContext") is True:
        return Entry(id, "note", "pi.command", {"text": text}, time)
    return Entry(id, "user", text, {"meta": "command"}, time)
