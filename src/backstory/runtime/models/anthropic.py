"""Anthropic's Messages, through the `anthropic` SDK.

The SDK is imported when a model is created. The thinking in an answer has to be sent back unchanged to the
same model, so it is stored as native content beside the text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import StreamItem
from backstory.runtime.models.answers import load_response, show_stream
from backstory.runtime.models.chunks import ConnectionEnded, how_it_ended
from backstory.runtime.models.endpoints import Endpoint, address, key_for, streamed
from backstory.runtime.models.extras import require
from backstory.runtime.models.openai import LIST_PATIENCE
from backstory.runtime.models.retry import retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation
from backstory.wire.formats.anthropic import ANTHROPIC

__all__ = ["AnthropicModel"]

FORMAT = "anthropic"
MOST_TOKENS = 8192  # of one answer; the service requires a limit
CUT = "max_tokens"
REFUSED = "refusal"


class AnthropicModel:
    """A model of Anthropic, or of an endpoint with the same API."""

    format = FORMAT

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        """The key is taken from ANTHROPIC_API_KEY if none is given."""
        require("anthropic", extra="anthropic", what="Anthropic")
        url = address(base_url, "ANTHROPIC_BASE_URL")
        sent, source = key_for(key, "ANTHROPIC_API_KEY", url, service="Anthropic")
        import anthropic

        timeout = anthropic.Timeout(300, connect=10)
        self._client = anthropic.Anthropic(
            base_url=url, api_key=sent, max_retries=0, timeout=timeout
        )
        # The SDK imports this part on first use, and Ctrl-C in the middle of an import would break it.
        self._create: Any = self._client.messages.create  # its types do not allow a plain dict
        self.where = self._client.base_url.netloc.decode()
        self.name = name
        self._endpoint = Endpoint(name, self.where, source)
        self.window = window
        # This limit is only for Anthropic, so it does not apply to other providers' models in the same log.
        self.params: Mapping[str, Any] = {"anthropic": {"max_tokens": most_tokens}}

    def names(self) -> list[str]:
        """The models that the service has."""
        return [str(model.id) for model in self._client.models.list(timeout=LIST_PATIENCE)]

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part."""
        whole = with_settings(conversation, self.name, tools, self.params)
        body = whole.request(self.format, cache="auto")

        def attempt() -> Iterator[StreamItem]:
            pieces = assembled(self._stream(body), self.name)
            return recorded(pieces, self.format, body, self.name, cache="auto")

        return retried(attempt, self._endpoint)

    def _stream(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        return streamed(self._create(**body, stream=True))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def assembled(events: Iterable[dict[str, Any]], model: str) -> Iterator[StreamItem]:
    """Yield the answer in the events of a stream, part by part."""
    stream = ANTHROPIC.open_stream()
    yield from show_stream(events, stream)
    response = stream.finish()
    reason = response.get("stop_reason")
    if reason is None:
        raise ConnectionEnded("the stream ended before the answer did")
    answer = load_response(response, FORMAT, model, response.get("usage"))
    ended = how_it_ended(cut=reason == CUT, refused=reason == REFUSED)
    yield answer._replace(data={**(answer.data or {}), **ended})
