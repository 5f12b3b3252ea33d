"""Anthropic's Messages, through the `anthropic` SDK.

The SDK is imported when a model is created. The thinking in an answer has to be sent back unchanged to the
same model, so it is stored as native content beside the text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import Response, StreamItem, TextDelta, ThinkingDelta, ToolCall
from backstory.runtime.models.arguments import parsed, storable, storable_value
from backstory.runtime.models.chunks import ConnectionEnded, how_it_ended
from backstory.runtime.models.endpoints import Endpoint, address, key_for, streamed
from backstory.runtime.models.extras import require
from backstory.runtime.models.openai import LIST_PATIENCE
from backstory.runtime.models.retry import retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation
from backstory.wire.formats.anthropic import counts
from backstory.wire.streams import continue_block, finished_block

__all__ = ["AnthropicModel"]

MOST_TOKENS = 8192  # of one answer; the service requires a limit
CUT = "max_tokens"
REFUSED = "refusal"


class AnthropicModel:
    """A model of Anthropic, or of an endpoint with the same API."""

    format = "anthropic"

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
    """The answer in the events of a stream, part by part."""
    blocks: dict[int, dict[str, Any]] = {}
    usage = {"input": 0, "output": 0}
    raw: dict[str, Any] = {}  # all that the service says about it
    ended = None
    for event in events:
        match event["type"]:
            case "message_start":
                raw |= event["message"].get("usage") or {}
                usage |= counts(event["message"].get("usage")) or {}
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                continue_block(blocks[event["index"]], event["delta"])
                if event["delta"]["type"] == "text_delta":
                    yield TextDelta(event["delta"]["text"])
                elif event["delta"]["type"] == "thinking_delta":
                    yield ThinkingDelta(event["delta"]["thinking"])
            case "message_delta":
                ended = event["delta"].get("stop_reason") or ended
                raw |= event.get("usage") or {}
                usage["output"] = event.get("usage", {}).get("output_tokens", usage["output"])
    if ended is None:
        raise ConnectionEnded("the stream ended before the answer did")
    data = {"model": model, "usage": usage} | ({"request": {"usage": raw}} if raw else {})
    data |= how_it_ended(cut=ended == CUT, refused=ended == REFUSED)
    yield _answer(list(blocks.values()), model, data)


def _answer(blocks: list[dict[str, Any]], model: str, data: dict[str, Any]) -> Response:
    texts = (block.get("text", "") for block in blocks if block["type"] == "text")
    text = storable("".join(texts))  # as the wire joins them
    calls = tuple(
        ToolCall(block["id"], block["name"], parsed(block.get("partial_json", "")))
        for block in blocks
        if block["type"] == "tool_use"
    )
    if any(block["type"] not in ("text", "tool_use") for block in blocks):
        data["native"] = {
            "provider": "anthropic",
            "model": model,
            "wire": storable_value(_wire(blocks)),
        }
    return Response(text, calls, data)


def _wire(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks as they are sent back."""
    return [
        finished_block(block)
        | ({"input": parsed(block.get("partial_json", ""))} if block["type"] == "tool_use" else {})
        for block in blocks
    ]
