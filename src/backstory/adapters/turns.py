"""What others wrote, as messages of a framework: which events are one message, and what is beside its text.

Pure.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from backstory import Event, wire

ANSWER = ("assistant", "tool_call")
ERASED = "(erased)"
UNSHOWN = "(something that cannot be shown here)"
BETWEEN = "\n\n"  # joins the texts of a message
DATA_URL = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)

Block = dict[str, Any]


def is_same_turn(turn: Sequence[Event], event: Event) -> bool:
    """Whether an event belongs to the message that others have begun, by the rules of the wire: an answer has
    its text and then its calls, and results that follow each other belong together. Providers refuse calls
    and results of one turn that are apart."""
    first = turn[0].kind
    if first not in ANSWER or event.kind not in ANSWER:
        return first == event.kind == "tool_result"
    before, answer = _answer(turn[-1]), _answer(event)
    if before is not None and answer is not None:
        return bool(before == answer)
    return event.kind == "tool_call" or any(each.kind == "tool_call" for each in turn)


def _answer(event: Event) -> Any:
    return (event.data or {}).get("answer")


def left_of(event: Event) -> Event | None:
    """The event. Of an erased one, that a call was made or answered, as on the wire, and else nothing."""
    data = (event.data or {}) if is_erased(event) else None
    if data is None:
        return event
    if event.kind == "tool_call":
        call = {"id": data.get("id"), "name": data.get("name"), "arguments": {"erased": ERASED}}
        return Event.of(event.seq, event.kind, None, call, event.created_at)
    if event.kind == "tool_result":
        return Event.of(event.seq, event.kind, ERASED, {"id": data.get("id")}, event.created_at)
    return None


def is_erased(event: Event) -> bool:
    """Whether what an event said has been erased."""
    return (event.data_json or "").startswith('{"erased":')


def said(event: Event, format: str) -> list[Block] | None:
    """What a person said as the content of a provider's message; None if it is nothing but text."""
    if '"native"' not in (event.data_json or ""):
        return None
    message, is_whole = message_of(event, "openai")
    blocks = _blocks(message, "openai")
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    if is_whole and len(texts) == len(blocks) and BETWEEN.join(texts) == (event.content or ""):
        return None
    return blocks if format == "openai" else _blocks(message_of(event, format)[0], format)


def message_of(event: Event, format: str) -> tuple[Block, bool]:
    """What a person said as a provider's message, and whether that has a place for all of it. In place of
    what it cannot carry, words say so."""
    found = wire.dump([event], format, placeholders=True)
    rules = {repair.rule for repair in found.repairs}
    is_whole = "native" not in rules
    said = found.body.get("messages") or found.body.get("contents") or found.body["input"]
    message = {"role": "user", "content": said} if isinstance(said, str) else said[0]
    if {
        "blank",
        "alternate",
    } <= rules:  # nothing is left, and the wire goes on with words of its own
        message = {"role": "user", "content": event.content or "" if is_whole else UNSHOWN}
    return message, is_whole


def _blocks(message: Block, format: str) -> list[Block]:
    """The blocks of a message. Where it has the speaker's name in a field, that goes in front of the text."""
    content = message.get("content") or message.get("parts") or ""
    blocks = [_words(content, format)] if isinstance(content, str) else list(content)
    if not message.get("name"):
        return blocks
    place = next((at for at, block in enumerate(blocks) if block.get("type") == "text"), None)
    if place is None:
        return [_words(f"{message['name']}:", format), *blocks]
    named = _words(f"{message['name']}: {blocks[place]['text']}", format)
    return [*blocks[:place], named, *blocks[place + 1 :]]


def _words(text: str, format: str) -> Block:
    return {"text": text} if format in ("gemini", "bedrock") else {"type": "text", "text": text}


def files(event: Event) -> list[tuple[str | None, str]] | None:
    """What a person said, piece by piece: the media type and the URL of a file, or None and a text. Data is
    in data URLs. None if it is nothing but text."""
    blocks = said(event, "openai")
    return None if blocks is None else list(map(_file, blocks))


def answered(event: Event, format: str = "openai") -> Any:
    """What a tool gave, as the content of a provider's result: a text, or blocks if there is more than text.
    OpenAI Chat has nothing but text there."""
    if '"native"' not in (event.data_json or ""):
        return event.content
    id = (event.data or {}).get("id")
    pair = [Event.of(0, "tool_call", None, {"id": id, "name": "tool", "arguments": {}}), event]
    found = wire.dump(pair, "openai", placeholders=True)
    content = found.body["messages"][-1]["content"] or ""
    if isinstance(content, list):
        content = BETWEEN.join(
            text if type is None else UNSHOWN for type, text in map(_file, content)
        )
    if not any(repair.rule == "native" for repair in found.repairs) and UNSHOWN not in content:
        return event.content
    if format == "openai":
        return content
    body = wire.dump(pair, format, placeholders=True).body
    return RESULTS[format](body.get("messages") or body["input"])


# Where the content of the last result is.
RESULTS: dict[str, Callable[[list[Any]], Any]] = {
    "openai-responses": lambda items: items[-1]["output"],
    "anthropic": lambda messages: messages[-1]["content"][-1].get("content", ""),
    "bedrock": lambda messages: messages[-1]["content"][-1]["toolResult"]["content"],
}


def _file(block: Block) -> tuple[str | None, str]:
    match block:
        case {"type": "text", "text": str(text)}:
            return None, text
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            found = DATA_URL.match(url)
            return (found[1] if found else "image/*"), url
        case {"type": "file", "file": {"file_data": str(url)}} if found := DATA_URL.match(url):
            return found[1], url
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(format)}}:
            return f"audio/{format}", f"data:audio/{format};base64,{data}"
    return None, UNSHOWN  # such as a file that only its service has
