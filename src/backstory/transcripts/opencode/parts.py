"""opencode's messages and their parts: the entries that they come to. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.transcripts.answers import Block, family_of, parts_of
from backstory.transcripts.entries import (
    Data,
    Part,
    anthropic_message,
    as_text,
    media_block,
    microseconds,
    result_data,
    result_with,
)
from backstory.transcripts.transcript import Entry
from backstory.transcripts.words import Words

FINISHED = Words({"completed", "error"})
# The parts that say something, and those that are bookkeeping.
SPOKEN = Words({"text", "reasoning", "tool", "file", "agent", "subtask", "compaction"})
BOOKKEEPING = Words({"step-start", "step-finish", "snapshot", "patch", "retry"})
KNOWN = Words(SPOKEN | BOOKKEEPING)


class Message(NamedTuple):
    """A message with its parts in the order of their ids."""

    id: str
    info: Data
    parts: list[Data]


def is_summary(message: Message) -> bool:
    """Whether a message is the finished summary of a compaction."""
    info = message.info
    done = bool(info.get("finish")) or isinstance(_time(info).get("completed"), int | float)
    return (
        info.get("role") == "assistant"
        and info.get("summary") is True
        and done
        and not info.get("error")
    )


def is_settled(message: Message) -> bool:
    """Whether nothing of a message can still come."""
    if message.info.get("role") != "assistant":
        return message.info.get("running") is not True
    done = isinstance(_time(message.info).get("completed"), int | float) or bool(
        message.info.get("error")
    )
    return done and all(
        _state(part).get("status") in FINISHED for part in message.parts if _is_tool(part)
    )


def _time(value: Data) -> Data:
    time = value.get("time")
    return time if isinstance(time, dict) else {}


def _state(part: Data) -> Data:
    state = part.get("state")
    return state if isinstance(state, dict) else {}


def _is_tool(part: Data) -> bool:
    return part.get("type") == "tool"


def created(message: Message) -> int | None:
    """When a message was begun."""
    return microseconds(_time(message.info).get("created"))


def order(message: Message) -> tuple[int, int, str]:
    """Where a message stands among the others: an import need not have ids that ascend."""
    seq = message.info.get("seq")
    return seq if isinstance(seq, int) else 0, created(message) or 0, message.id


def unknown(message: Message) -> Iterator[str]:
    """The types of parts that nobody understands."""
    for part in message.parts:
        if part.get("type") not in KNOWN:
            yield as_text(part.get("type"))[:40]


def words(message: Message) -> str:
    """All that a message says in words."""
    return "".join(
        as_text(part.get("text")) for part in message.parts if part.get("type") == "text"
    )


def entries(message: Message) -> Iterator[Entry]:
    """What a message says."""
    role = message.info.get("role")
    if role == "assistant":
        yield from _answers(message)
    elif role == "system":
        yield Entry(message.id, "system", words(message), None, created(message))
    else:
        yield from _prompts(message)


# ------------------------------------------------------------------ prompts


def _prompts(message: Message) -> Iterator[Entry]:
    """What a person wrote, and what the tool put beside it: each run of one author is one prompt."""
    time = created(message)
    run: list[Data] = []
    for part in [*message.parts, {"type": "end"}]:
        if part.get("type") == "compaction" or part.get("ignored") is True:
            continue
        if run and (part.get("type") == "end" or _author(part) != _author(run[0])):
            yield _prompt(run, time)
            run = []
        if part.get("type") in ("text", "file", "agent", "subtask"):
            run.append(part)


def _author(part: Data) -> str | None:
    return "tool" if part.get("synthetic") is True else None


def _prompt(parts: list[Data], time: int | None) -> Entry:
    blocks = [block for part in parts if (block := _block(part)) is not None]
    text, native = anthropic_message(blocks)
    data = dict(native or {})
    if _author(parts[0]) is not None:
        data["meta"] = "tool"
    return Entry(as_text(parts[0].get("id")), "user", text, data or None, time)


def _block(part: Data) -> Data | None:
    """A part as Anthropic has it. Files other than images and PDF are in the texts beside them."""
    if part.get("type") == "text":
        return {"type": "text", "text": as_text(part.get("text"))}
    if part.get("type") == "subtask":
        return {"type": "text", "text": as_text(part.get("prompt"))}
    url = as_text(part.get("url"))
    return (
        media_block(part.get("mime"), url.partition(";base64,")[2])
        if url.startswith("data:")
        else None
    )


# ------------------------------------------------------------------ answers


def _answers(message: Message) -> Iterator[Entry]:
    """The steps of an answer, each with its words, its calls and their results."""
    info = message.info
    model = info.get("modelID") if isinstance(info.get("modelID"), str) else None
    extra: Data = ({} if model is None else {"model": model}) | _usage(info)
    if isinstance(info.get("error"), dict):
        extra["failure"] = as_text(info["error"].get("name"))
    family = family_of(info.get("providerID"), model)
    for number, step in enumerate(_steps(message.parts)):
        blocks = [_answer_block(part) for part in step]
        parts = (
            parts_of(family, blocks, model, message.id)
            if step
            else [Part("assistant", "", None, 0)]
        )
        for one in parts:
            yield _said(one, step, message, number, extra)
            extra = {}
        for part in step:
            if _is_tool(part) and _state(part).get("status") in FINISHED:
                yield _result(part, message)


def _usage(info: Data) -> Data:
    tokens = info.get("tokens")
    if not isinstance(tokens, dict):
        return {}
    cache = tokens.get("cache")
    cache = cache if isinstance(cache, dict) else {}
    found = {
        "input": tokens.get("input"),
        "output": tokens.get("output"),
        "cache_read": cache.get("read"),
        "cache_write": cache.get("write"),
        "cost": info.get("cost"),
    }
    usage = {key: value for key, value in found.items() if isinstance(value, int | float) and value}
    return {"usage": usage} if usage else {}


def _steps(parts: list[Data]) -> list[list[Data]]:
    """The spoken parts of each step: an old message holds several. Without any there is an empty one."""
    steps: list[list[Data]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        elif part.get("type") in ("text", "reasoning", "tool") and part.get("ignored") is not True:
            steps[-1].append(part)
    return [step for step in steps if step] or [[]]


def _answer_block(part: Data) -> Block:
    match part.get("type"):
        case "tool":
            given = _state(part).get("input")
            return Block(
                "call",
                id=part.get("callID"),
                name=part.get("tool"),
                arguments=given,
                seal=_seal(part),
            )
        case "reasoning":
            return Block("thinking", as_text(part.get("text")), seal=_seal(part))
        case _:
            return Block(
                "text", as_text(part.get("text")), seal=_seal(part) if "metadata" in part else None
            )


def _seal(part: Data) -> Any:
    """What the provider wants to see again, in whose own words the metadata has it."""
    metadata = part.get("metadata")
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(value, dict):
            continue
        if isinstance(value.get("signature"), str):
            return value["signature"]
        if isinstance(value.get("thoughtSignature"), str):
            return value["thoughtSignature"]
        if name == "openai" and isinstance(value.get("reasoningEncryptedContent"), str):
            id = {"id": value["itemId"]} if isinstance(value.get("itemId"), str) else {}
            return id | {"encrypted_content": value["reasoningEncryptedContent"]}
    return None


def _said(one: Part, step: list[Data], message: Message, number: int, extra: Data) -> Entry:
    part = step[one.block] if one.block < len(step) else {}
    data = (one.data or {}) | extra | {"answer": message.id}
    began = created(message)
    if one.kind == "tool_call":
        time = microseconds(_time(_state(part)).get("start")) or began
        return Entry(as_text(part.get("id")), "tool_call", None, data, time)
    if number:
        began = microseconds(_time(part).get("start")) or began
    return Entry(as_text(part.get("id")) or message.id, one.kind, one.content, data, began)


def _result(part: Data, message: Message) -> Entry:
    state = _state(part)
    error = state.get("status") == "error"
    text = as_text(state.get("error") if error else state.get("output"))
    metadata = state.get("metadata")
    if error and isinstance(metadata, dict) and metadata.get("interrupted") is True:
        # What a tool had said when it was interrupted is what the model reads.
        text = as_text(metadata.get("output")) or text
    time = microseconds(_time(state).get("end")) or created(message)
    id = as_text(part.get("id"))
    data = result_data(part.get("callID"), id, error=error)
    files = state.get("attachments")
    media = [
        _block(file)
        for file in (files if isinstance(files, list) else ())
        if isinstance(file, dict)
    ]
    text, data = result_with(text, data, media)
    return Entry(f"{id}/result", "tool_result", text, data, time)
