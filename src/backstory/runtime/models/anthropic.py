"""Anthropic's Messages.

The thinking in an answer has to be sent back unchanged to the same model, so it is stored as native
content beside the text.
"""

from collections.abc import Mapping
from typing import Any

from backstory.runtime.models.hosted import (
    CONNECT_SECONDS,
    READ_SECONDS,
    Events,
    HostedModel,
    Service,
    read_events,
)

__all__ = ["AnthropicModel"]

# The service requires a limit for an answer: the model's own, by the beginning of its name ("Models
# overview" in Anthropic's documentation). The first that fits counts.
MAX_TOKENS = {
    "claude-3-7": 64_000,
    "claude-3-5": 8_192,
    "claude-3": 4_096,
    "claude-opus-4-0": 32_000,
    "claude-opus-4-1": 32_000,
    "claude-opus-4-2": 32_000,
    "claude-": 64_000,
}
MAX_TOKENS_OF_OTHERS = 8_192


class AnthropicModel(HostedModel):
    """A model of Anthropic, or of an endpoint with the same API."""

    service = Service(
        "Anthropic",
        "anthropic",
        "api.anthropic.com",
        "anthropic",
        "ANTHROPIC_BASE_URL",
        ("ANTHROPIC_API_KEY",),
    )
    format = "anthropic"
    request_options: Mapping[str, Any] = {"cache": "auto"}

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
        max_tokens: int | None = None,
    ) -> None:
        """The key is taken from ANTHROPIC_API_KEY if none is given. `max_tokens` limits an answer;
        by default to what the model can write."""
        super().__init__(name, base_url=base_url, key=key, window=window)
        # Only for Anthropic, so it does not apply to other providers' models in the same log.
        self.params = {"anthropic": {"max_tokens": max_tokens or find_max_tokens(name)}}

    def open_client(self) -> Any:
        """Import the SDK. Return its client."""
        import anthropic

        timeout = anthropic.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        client = anthropic.AsyncAnthropic(
            base_url=self._url, api_key=self._key, max_retries=0, timeout=timeout
        )
        _ = client.messages  # the SDK imports this part on first use
        return client

    async def open_stream(self, client: Any, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        return read_events(await client.messages.create(**body, stream=True))


def find_max_tokens(name: str) -> int:
    """Return how many tokens the model can write in one answer."""
    for prefix, limit in MAX_TOKENS.items():
        if name.startswith(prefix):
            return limit
    return MAX_TOKENS_OF_OTHERS
