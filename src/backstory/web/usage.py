"""What an answer took: which model gave it, what it read and wrote, and what that cost.

Providers, the chat and the importers keep it under names of their own. A number that is not there is not
made up; only a cost is estimated by list prices where they are known, and then it says so.
"""

from math import inf
from typing import Any, NamedTuple

from backstory.log.data_keys import COPY
from backstory.present.prices import price

# "input" and the like are the importers' names and our own; the others are those of the five services.
READ = ("input", "input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens")
WROTE = ("output", "output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens")
CACHED = (
    "cached",
    "cache_read",
    "cache_read_input_tokens",
    "cachedContentTokenCount",
    "cacheReadInputTokens",
)
# Anthropic and Bedrock count what went into the cache and what came out of it apart from the input; others
# count it as a part of the input, and so do we.
WRITTEN_APART = ("cache_write", "cache_creation_input_tokens", "cacheWriteInputTokens")
APART = (*WRITTEN_APART, "cache_read_input_tokens", "cacheReadInputTokens")


class Usage(NamedTuple):
    """What one answer took, or several of one model."""

    model: str | None
    answers: int = 1
    read: int = 0
    cached: int = 0
    wrote: int = 0
    cost: float = 0.0
    is_estimate: bool = (
        False  # whether some of the cost is by list prices, because the log does not say it
    )

    def and_(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            self.model,
            self.answers + other.answers,
            self.read + other.read,
            self.cached + other.cached,
            self.wrote + other.wrote,
            self.cost + other.cost,
            self.is_estimate or other.is_estimate,
        )


def spent(data: dict[str, Any] | None) -> Usage | None:
    """What the data of an answer say; None if they say nothing. A compaction's copy took nothing."""
    data = data or {}
    if COPY in data:
        return None
    usage = data.get("usage") or _asked(data).get("usage")
    usage = usage if isinstance(usage, dict) else {}
    model = model_of(data)
    if model is None and not usage:
        return None
    return _priced(_counted(model, usage), usage)


def model_of(data: dict[str, Any]) -> str | None:
    """Which model gave an answer, if its data say it."""
    model = _asked(data).get("model") or data.get("model")
    return model if isinstance(model, str) else None


def _asked(data: dict[str, Any]) -> dict[str, Any]:
    found = data.get("request")
    return found if isinstance(found, dict) else {}


def _counted(model: str | None, usage: dict[str, Any]) -> Usage:
    read, cached = (
        _number(usage, READ),
        _number(usage, CACHED) or _number(_details(usage), ("cached_tokens",)),
    )
    if any(name in usage for name in APART) or cached > read:
        read += cached + _number(usage, WRITTEN_APART)
    return Usage(model, read=read, cached=cached, wrote=_number(usage, WROTE))


def _details(usage: dict[str, Any]) -> dict[str, Any]:
    """OpenAI says in an object of its own what came from the cache."""
    found = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    return found if isinstance(found, dict) else {}


def _priced(counted: Usage, usage: dict[str, Any]) -> Usage:
    cost = usage.get("cost")
    if isinstance(cost, int | float) and 0 < cost < inf:
        return counted._replace(cost=float(cost))
    if counted.model is None or not counted.read + counted.wrote:
        return counted
    written = _number(usage, ("cache_written", *WRITTEN_APART))
    estimate = float(price(counted.model, counted.read, counted.wrote, counted.cached, written))
    return counted._replace(cost=estimate, is_estimate=estimate > 0)


def _number(usage: dict[str, Any], names: tuple[str, ...]) -> int:
    """The first of some numbers that there is. What cannot be a count is none: logs hold anything."""
    found = (usage.get(name) for name in names)
    return next((one for one in found if type(one) is int and one >= 0), 0)


def usage_json(usage: Usage | None) -> dict[str, Any] | None:
    """The same for the page."""
    return usage._asdict() if usage else None
