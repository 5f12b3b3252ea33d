"""What an answer took: which model gave it, what it read and wrote, and what that cost. Pure.

Providers, the chat and the importers keep it under names of their own. A number that is not there is not
made up.
"""

from typing import Any, NamedTuple

from backstory.core.compaction import COPY

# "input" and the like are the importers' names; the others are those of the five services.
READ = ("input", "input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens")
WROTE = ("output", "output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens")
CACHED = ("cache_read", "cache_read_input_tokens", "cachedContentTokenCount", "cacheReadInputTokens")
# Anthropic and Bedrock count what went into the cache and what came out of it apart from the input; others
# count it as a part of the input, and do not say what was written into it.
WRITTEN = ("cache_write", "cache_creation_input_tokens", "cacheWriteInputTokens")
APART = (*WRITTEN, "cache_read_input_tokens", "cacheReadInputTokens")


class Usage(NamedTuple):
    """What one answer took, or several of one model."""

    model: str | None
    answers: int = 1
    read: int = 0
    cached: int = 0
    wrote: int = 0
    cost: float = 0.0

    def and_(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            self.model,
            self.answers + other.answers,
            self.read + other.read,
            self.cached + other.cached,
            self.wrote + other.wrote,
            self.cost + other.cost,
        )


def spent(data: dict[str, Any] | None) -> Usage | None:
    """What the data of an answer say; None if they say nothing. A compaction's copy took nothing."""
    data = data or {}
    if COPY in data:
        return None
    asked = data.get("request")
    asked = asked if isinstance(asked, dict) else {}
    usage = asked.get("usage") or data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    model = asked.get("model") or data.get("model")
    model = model if isinstance(model, str) else None
    if model is None and not usage:
        return None
    cost, cached = usage.get("cost"), _number(usage, CACHED)
    apart = any(name in usage for name in APART) or cached > _number(usage, READ)
    return Usage(
        model,
        read=_number(usage, READ) + (cached + _number(usage, WRITTEN) if apart else 0),
        cached=cached,
        wrote=_number(usage, WROTE),
        cost=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _number(usage: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((value for name in names if isinstance(value := usage.get(name), int)), 0)


def usage_json(usage: Usage | None) -> dict[str, Any] | None:
    """The same for the page."""
    return usage._asdict() if usage else None
