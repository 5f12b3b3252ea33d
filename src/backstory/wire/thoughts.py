"""The visible thinking of a model, from the native form of an answer. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any


def thoughts_of(data: Mapping[str, Any] | None) -> str:
    """The text of the thinking before an answer; empty if there is none, or if it is sealed."""
    native = (data or {}).get("native")
    wire = native.get("wire") if isinstance(native, Mapping) else None
    parts = wire if isinstance(wire, list) else [wire]
    texts = (text for part in parts if isinstance(part, Mapping) for text in _texts(part))
    return "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


def _texts(part: Mapping[str, Any]) -> Iterator[Any]:
    match part:
        case {"type": "thinking", "thinking": text}:  # Anthropic
            yield text
        case {"type": "reasoning", "summary": [*summary]}:  # OpenAI's Responses
            yield from (one.get("text") for one in summary if isinstance(one, Mapping))
        case {"thought": True, "text": text}:  # Gemini
            yield text
        case {"reasoningContent": {"reasoningText": {"text": text}}}:  # Bedrock
            yield text
        case {"reasoning_content": str(text)} | {
            "reasoning": str(text)
        }:  # Chat Completions of other servers
            yield text
