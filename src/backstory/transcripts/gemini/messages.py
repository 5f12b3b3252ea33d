"""Gemini CLI's messages: what each says, and whether a history lacks something without it. Pure."""

from collections.abc import Container, Iterator
from typing import Any

from backstory.errors import Invalid
from backstory.transcripts.answers import Block, parts_of
from backstory.transcripts.entries import (
    Data,
    Part,
    as_text,
    microseconds,
    named,
    shallow,
    usage_of,
)
from backstory.transcripts.gemini import results
from backstory.transcripts.transcript import Entry
from backstory.transcripts.words import Words
from backstory.wire import load

USAGE = {"input": "input", "output": "output", "cache_read": "cached"}
UNSEEN = Words({"info", "error", "warning"})  # shown to people only
# What the tool put into the user's mouth, by how the text begins.
MOUTHED = (
    ("<session_context>", "environment"),
    ("<hook_context>", "hook"),
    ("/", "command"),
    ("?", "command"),
)


def calls_of(message: Data) -> list[Data]:
    """The calls that stand in a message, beside its content."""
    calls = message.get("toolCalls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _content(message: Data) -> list[Data]:
    """The parts of a message's content."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    tidy = [{"text": part} if isinstance(part, str) else part for part in parts]
    return [part for part in tidy if isinstance(part, dict)]


def speaks(message: Data) -> bool:
    """Whether a history lacks something without this message. What a resumed session leaves out says nothing:
    results that stand with their calls anyway, commands, and what the tool says of itself."""
    match message.get("type"):
        case "user":
            said = [part for part in _content(message) if "functionResponse" not in part]
            text = _words(said).strip()
            return (bool(text) and _meta_of(text) is None) or any(
                set(part) != {"text"} for part in said
            )
        case "gemini":
            blocks = _blocks(message, calls_of(message))
            return any(block.kind != "text" or block.text for block in blocks)
        case type_:
            return type_ not in UNSEEN


def words_of(message: Data) -> int:
    """A number that is equal for messages that say the same; their results may differ."""
    parts = _content(message)
    calls = [part.get("functionCall") for part in parts] + calls_of(message)
    names = {as_text(call.get("name")) for call in calls if isinstance(call, dict)}
    return hash((as_text(message.get("type")), "".join(_words(parts).split()), frozenset(names)))


def responses_in(message: Data) -> Iterator[str]:
    """The ids of the calls whose results are a message of their own."""
    for part in _content(message) if message.get("type") == "user" else ():
        response = part.get("functionResponse")
        if isinstance(response, dict) and isinstance(response.get("id"), str):
            yield response["id"]


def message_entries(message: Data, id: str, told: Container[str] = ()) -> Iterator[Entry]:
    """What a message says: a prompt, or an answer's words, its calls and their results. `told`: the calls
    whose results stand in an earlier message."""
    time = microseconds(message.get("timestamp"))
    match message.get("type"):
        case "user":
            yield from _prompt(message, id, time, told)
        case "gemini":
            yield from _answer(message, id, time)
        case type_ if type_ not in UNSEEN:
            yield Entry(
                id, "user", _words(_content(message)), {"meta": as_text(type_) or "tool"}, time
            )


def _words(parts: list[Data]) -> str:
    return "".join(
        part["text"]
        for part in parts
        if isinstance(part.get("text"), str) and not part.get("thought")
    )


def _meta_of(text: str) -> str | None:
    """What a text is, if the tool wrote it and not a person."""
    return next((what for start, what in MOUTHED if text.lstrip().startswith(start)), None)


def _prompt(message: Data, id: str, time: int | None, told: Container[str]) -> Iterator[Entry]:
    parts = _content(message)
    said = [part for part in parts if "functionResponse" not in part]
    for number, part in enumerate(parts):
        response = part.get("functionResponse")
        if isinstance(response, dict) and (
            not _is_id(response.get("id")) or response["id"] not in told
        ):
            yield results.of_part(response, f"{id}/{number}", time)
    if not said and parts:
        return
    text = _words(said)
    meta = _meta_of(text)
    data: Data = {} if meta is None else {"meta": meta}
    if any(set(part) != {"text"} for part in said):
        try:
            [(_, words, native)] = load(
                {"contents": [{"role": "user", "parts": shallow(said)}]}, "gemini"
            )
            text, data = words or "", data | (native or {})
        except (Invalid, ValueError):
            pass
    yield Entry(id, "user", text, data or None, time)


def _answer(message: Data, id: str, time: int | None) -> Iterator[Entry]:
    model = message.get("model") if isinstance(message.get("model"), str) else None
    calls = calls_of(message)
    blocks = _blocks(message, calls)
    parts = parts_of("gemini", blocks, model, id)
    extra: Data = {} if model is None else {"model": model}
    usage = usage_of(message.get("tokens"), USAGE)
    extra |= {"usage": usage} if usage else {}
    times = {
        call.get("id"): microseconds(call.get("timestamp"))
        for call in calls
        if _is_id(call.get("id"))
    }
    for part in parts:
        yield _part(part, id, time, times, extra)
        extra = {}
    for number, call in enumerate(calls):
        if call.get("result"):
            yield results.of_call(call, f"{id}/{named(call.get('id'), str(number))}", time)


def _is_id(value: Any) -> bool:
    return isinstance(value, str)


def _part(
    part: Part, id: str, time: int | None, times: dict[Any, int | None], extra: Data
) -> Entry:
    data = (part.data or {}) | extra | {"answer": id}
    if part.kind != "tool_call":
        return Entry(id, part.kind, part.content, data, time)
    return Entry(f"{id}/{data['id']}", "tool_call", None, data, times.get(data["id"]) or time)


def _blocks(message: Data, calls: list[Data]) -> list[Block]:
    """Thoughts, words and calls. Newer files have all of them in the content, older ones beside it."""
    parts = _content(message)
    blocks = [block for part in parts if (block := _block(part, calls)) is not None]
    if not any(block.kind == "thinking" for block in blocks):
        thoughts = message.get("thoughts")
        blocks[:0] = [
            _thought(t)
            for t in (thoughts if isinstance(thoughts, list) else ())
            if isinstance(t, dict)
        ]
    told = {block.id for block in blocks if block.kind == "call"}
    for number, call in enumerate(calls):
        id = named(call.get("id"), str(number))
        if id not in told:
            blocks.append(Block("call", id=id, name=call.get("name"), arguments=call.get("args")))
    return blocks


def _block(part: Data, calls: list[Data]) -> Block | None:
    seal = part.get("thoughtSignature")
    call = part.get("functionCall")
    if isinstance(call, dict):
        same = next(
            (
                c
                for c in calls
                if c.get("name") == call.get("name") and c.get("args") == call.get("args")
            ),
            {},
        )
        id = call.get("id") or same.get("id")
        return Block("call", id=id, name=call.get("name"), arguments=call.get("args"), seal=seal)
    if isinstance(part.get("text"), str):
        return Block("thinking" if part.get("thought") is True else "text", part["text"], seal=seal)
    return None


def _thought(thought: Data) -> Block:
    subject, description = as_text(thought.get("subject")), as_text(thought.get("description"))
    return Block("thinking", f"**{subject}** {description}" if subject else description)
