"""Assembles the streamed chunks of Chat Completions: text as it arrives, then the complete answer.

Pure: the chunks are plain dicts, whichever server sent them.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from backstory.runtime.models import (
    ModelError,
    Response,
    StreamItem,
    TextDelta,
    ToolCall,
)
from backstory.runtime.models.answers import describe_response, show_stream
from backstory.runtime.models.arguments import parsed, storable, storable_value
from backstory.wire.formats.openai import OPENAI

FUNCTION_CALL = {"id", "type", "function"}
CUT = "length"  # the finish reason of an answer that reached its limit
REFUSED = "content_filter"  # and of one that was withheld


def assembled(chunks: Iterable[dict[str, Any]], model: str) -> Iterator[StreamItem]:
    """Yield the answer in the chunks, part by part."""
    stream = OPENAI.open_stream()
    text = ""
    for chunk in chunks:
        if "error" in chunk:
            raise ModelError(f"the model broke off: {_error(chunk['error'])}")
        for item in show_stream([chunk], stream):
            if isinstance(item, TextDelta):
                text += item.text
            yield item
    response = stream.finish()
    [choice] = response["choices"]
    ended = choice.get("finish_reason")
    if ended is None:
        raise ConnectionEnded("the stream ended before the answer did")
    message = choice["message"]
    calls = message.get("tool_calls") or []
    name_calls(calls)
    data = _data(model, response.get("usage"), ended) | describe_response(response, OPENAI.name)
    # Some servers refuse the next request unless their thinking, or its signature, is sent back.
    thought = {key: value for key, value in message.items() if "reasoning" in key and value}
    is_in_parts = isinstance(message.get("content"), list)
    if thought or is_in_parts or any(call.keys() > FUNCTION_CALL for call in calls):
        wire = _message(message["content"] if is_in_parts else text, calls, thought)
        data["native"] = {"provider": "openai", "model": model, "wire": storable_value(wire)}
    yield Response(storable(text), _calls(calls), data)


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


def _calls(calls: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(call["id"], call["function"]["name"], parsed(call["function"]["arguments"]))
        for call in calls
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
