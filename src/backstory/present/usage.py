"""Reads the tokens and the price of answers, for the chat and the page.

Providers, the loop and the importers store usage under their own names. A missing number is not
invented. Only a cost is estimated by list prices where they are known; then `is_estimate` is set.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from typing import Any

from backstory.log.data_keys import COPY

# "input" and the like are the importers' names and our own; the others are those of five services.
READ = ("input", "input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens")
WROTE = ("output", "output_tokens", "completion_tokens", "candidatesTokenCount", "outputTokens")
# Gemini counts thoughts beside the answer; the others count them as a part of it.
THOUGHT_APART = ("thoughtsTokenCount",)
# OpenAI has an object of its own for what came from the cache.
DETAILS = ("prompt_tokens_details", "input_tokens_details")
# Anthropic and Bedrock count the cache's tokens beside the input; the others as a part of it.
CACHED_APART = ("cache_read_input_tokens", "cacheReadInputTokens")
CACHED = ("cached", "cache_read", "cachedContentTokenCount", *CACHED_APART)
CACHE_WRITTEN_APART = ("cache_write", "cache_creation_input_tokens", "cacheWriteInputTokens")
CACHE_WRITTEN = ("cache_written", *CACHE_WRITTEN_APART)


@dataclass(frozen=True)
class AnswerUsage:
    """The tokens and the cost of one answer, or of several together.

    `read` includes `cached`, the tokens from the provider's cache, and `cache_written`, those that
    went into it.
    """

    model: str | None
    answers: int = 1
    read: int = 0
    cached: int = 0
    cache_written: int = 0
    wrote: int = 0
    cost: float = 0.0
    is_estimate: bool = False  # by list prices, at least in part

    def __add__(self, other: "AnswerUsage") -> "AnswerUsage":
        return AnswerUsage(
            self.model if self.model == other.model else None,
            self.answers + other.answers,
            self.read + other.read,
            self.cached + other.cached,
            self.cache_written + other.cache_written,
            self.wrote + other.wrote,
            self.cost + other.cost,
            self.is_estimate or other.is_estimate,
        )

    def build_json(self) -> dict[str, Any]:
        """Return the usage as a JSON object."""
        return asdict(self)

    def describe(self) -> str:
        """Describe the tokens and the cost in words, as far as they are known."""
        parts = []
        if self.read or self.wrote:
            parts.append(f"{self.read:,} tokens in{self._describe_cache()}, {self.wrote:,} out")
        if self.cost:
            parts.append(self.describe_cost())
        return " · ".join(parts)

    def _describe_cache(self) -> str:
        parts = []
        if self.cached:
            parts.append(f"{self.cached:,} cached")
        if self.cache_written:
            parts.append(f"{self.cache_written:,} written to the cache")
        return f" ({', '.join(parts)})" if parts else ""

    def describe_cost(self) -> str:
        """Describe the cost in dollars; a very small one is not shown as zero."""
        dollars = f"${self.cost:.2f}" if self.cost >= 1 else f"${self.cost:.4f}"
        return f"≈ {dollars}" if self.is_estimate else dollars


def read_usage(data: Mapping[str, Any] | None) -> AnswerUsage | None:
    """Return the usage of the answer with `data`, or None if the data do not have it.

    The copy that a compaction makes of an answer has none.
    """
    if not data or COPY in data:
        return None
    usage = data.get("usage") or _get_object(data, "request").get("usage")
    model = find_model(data)
    if not isinstance(usage, Mapping):
        return AnswerUsage(model) if model is not None else None
    return count_usage(model, usage)


def find_model(data: Mapping[str, Any]) -> str | None:
    """Return the name of the model that gave an answer, if its data have it."""
    model = _get_object(data, "request").get("model") or data.get("model")
    return model if isinstance(model, str) else None


def count_usage(model: str | None, usage: Mapping[str, Any]) -> AnswerUsage:
    """Return the tokens in `usage`, with their cost."""
    read = _find_count(usage, READ)
    wrote = _find_count(usage, WROTE) + _find_count(usage, THOUGHT_APART)
    cached = _find_count(usage, CACHED) or _find_detail(usage)
    cache_written = _find_count(usage, CACHE_WRITTEN)
    is_apart = any(name in usage for name in (*CACHED_APART, *CACHE_WRITTEN_APART))
    if is_apart or cached > read:
        read += cached + cache_written
    cost = usage.get("cost")
    is_estimate = False
    if not isinstance(cost, int | float) or not 0 < cost < math.inf:
        cost = _estimate_cost(model, read, wrote, cached, cache_written)
        is_estimate = cost > 0
    return AnswerUsage(model, 1, read, cached, cache_written, wrote, float(cost), is_estimate)


def _estimate_cost(model: str | None, read: int, wrote: int, cached: int, written: int) -> float:
    if model is None or not read + wrote:
        return 0.0
    return float(price(model, read, wrote, cached, written))


def _find_detail(usage: Mapping[str, Any]) -> int:
    for name in DETAILS:
        details = _get_object(usage, name)
        if details:
            return _find_count(details, ("cached_tokens",))
    return 0


def _get_object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def _find_count(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """Return the first count under one of the names. A log may hold anything there."""
    for name in names:
        value = usage.get(name)
        if type(value) is int and value >= 0:
            return value
    return 0


# --- prices ---


@cache
def _has_prices() -> bool:
    return find_spec("genai_prices") is not None


def preload() -> None:
    """Load the prices in the background, so that nobody waits for them after an answer."""
    threading.Thread(target=price, args=("gpt-5", 1, 1, 0), daemon=True).start()


def price(model: str, read: int, wrote: int, cached: int, cache_written: int = 0) -> Decimal:
    """Return the list price of an answer in dollars, or 0 if it is unknown. `read` includes
    `cached` and `cache_written`. The prices are those of the package genai-prices, if it is
    installed; nothing is downloaded."""
    if not _has_prices():
        return Decimal(0)
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(
            input_tokens=read,
            output_tokens=wrote,
            cache_read_tokens=cached or None,
            cache_write_tokens=cache_written or None,
        )
        return Decimal(calc_price(usage, model_ref=model).total_price)
    except (LookupError, ValueError):  # an unknown model, or impossible counts
        return Decimal(0)
