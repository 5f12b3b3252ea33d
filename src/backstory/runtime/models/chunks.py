"""Assembles the streamed chunks of Chat Completions: text as it arrives, then the complete answer.

Pure: the chunks are plain dicts, whichever server sent them.
"""

import os
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from backstory.runtime.models import (
    ModelError,
    Response,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    ToolCall,
)
from backstory.runtime.models.arguments import parsed, storable, storable_value
from backstory.wire.streams import add_call, continued, grow

FUNCTION_CALL = {"id", "type", "function"}
CUT = "length"  # the finish reason of an answer that reached its limit
REFUSED = "content_filter"  # and of one that was withheld


def assembled(chunks: Iterable[dict[str, Any]], model: str) -> Iterator[StreamItem]:
    """The answer in the chunks, part by part."""
    text: list[str] = []
    pieces: list[Any] = []
    calls: dict[int, dict[str, Any]] = {}
    thought: dict[str, Any] = {}
    usage = ended = None
    for chunk in chunks:
        if "error" in chunk:
            raise ModelError(f"the model broke off: {_error(chunk['error'])}")
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            ended = choice.get("finish_reason") or ended
            piece = delta.get("content") or delta.get("refusal")
            if piece:
                spoken = list(_spoken(piece))
                text += [item.text for item in spoken if isinstance(item, TextDelta)]
                pieces.append(piece)
                yield from spoken
            for part in delta.get("tool_calls") or ():
                add_call(calls, part)
            grow(
                thought,
                {key: value for key, value in delta.items() if "reasoning" in key and value},
            )
            # DeepSeek, Qwen and llama.cpp call it reasoning_content; OpenRouter and gpt-oss call it
            # reasoning.
            thinks = delta.get("reasoning_content") or delta.get("reasoning")
            if thinks and isinstance(thinks, str):
                yield ThinkingDelta(thinks)
    if ended is None:
        raise ConnectionEnded("the stream ended before the answer did")
    name_calls(calls.values())
    data = _data(model, usage, ended)
    # Some servers refuse the next request unless their thinking, or its signature, is sent back.
    is_in_parts = not all(isinstance(piece, str) for piece in pieces)
    if thought or is_in_parts or any(call.keys() > FUNCTION_CALL for call in calls.values()):
        content = reduce(continued, pieces, None) if is_in_parts else "".join(text)
        wire = _message(content, list(calls.values()), thought)
        data["native"] = {"provider": "openai", "model": model, "wire": storable_value(wire)}
    yield Response(storable("".join(text)), _calls(calls), data)


def _spoken(piece: Any) -> Iterator[TextDelta | ThinkingDelta]:
    """What a piece of the content says and thinks. Mistral's models think in parts of it."""
    match piece:
        case str():
            yield TextDelta(piece)
        case list():
            for part in piece:
                yield from _spoken_part(part)
        case _:
            raise TypeError(f"the text of the answer is {piece!r:.50}")


def _spoken_part(part: Any) -> Iterator[TextDelta | ThinkingDelta]:
    match part:
        case {"type": "text", "text": str(words)} if words:
            yield TextDelta(words)
        case {"type": "thinking", "thinking": str() | list() as thinking} if thinking:
            for item in _spoken(thinking):
                yield ThinkingDelta(item.text)


def _message(content: Any, calls: list[dict[str, Any]], thought: dict[str, Any]) -> dict[str, Any]:
    """The answer as the server expects it in the next request."""
    message: dict[str, Any] = {"role": "assistant", "content": content or None} | thought
    return message | {"tool_calls": calls} if calls else message


class TransportError(Exception):
    """A lost connection; `retry` recognizes it by this name."""


class ConnectionEnded(TransportError):
    """A stream that stops in the middle without an error: also a lost connection."""


def _error(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def name_calls(calls: Iterable[dict[str, Any]]) -> None:
    """Give calls the ids and names that some servers leave out, and others refuse without."""
    for call in calls:
        call["id"] = storable(call["id"]).strip() or f"call_{os.urandom(12).hex()}"
        call["function"]["name"] = storable(call["function"]["name"]).strip() or "unnamed"


def _calls(calls: dict[int, dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(call["id"], call["function"]["name"], parsed(call["function"]["arguments"]))
        for call in calls.values()
    )


def _data(model: str, usage: Any, ended: str) -> dict[str, Any]:
    data: dict[str, Any] = {"model": model}
    if usage:
        data["usage"] = {
            "input": int(usage.get("prompt_tokens") or 0),
            "output": int(usage.get("completion_tokens") or 0),
        }
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        if cached:
            data["usage"]["cached"] = int(cached)
        data["request"] = {"usage": usage}
    return data | how_it_ended(cut=ended == CUT, refused=ended == REFUSED)


def how_it_ended(*, cut: bool, refused: bool) -> dict[str, Any]:
    """What to store with an answer that was cut off or refused."""
    return {name: True for name, is_so in (("cut", cut), ("refused", refused)) if is_so}
