"""Google's Gemini, through the `google-genai` SDK.

The SDK is imported when a model is created. Thoughts are shown as they arrive; their signatures have to be
sent back unchanged, so they are stored as native content.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import StreamItem
from backstory.runtime.models.answers import load_response, show_stream
from backstory.runtime.models.chunks import ConnectionEnded, how_it_ended
from backstory.runtime.models.endpoints import Endpoint, address, key_for
from backstory.runtime.models.extras import require
from backstory.runtime.models.retry import retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation
from backstory.wire.formats.gemini import GEMINI
from backstory.wire.json_values import as_plain
from backstory.wire.media import decode_base64

__all__ = ["GeminiModel"]

FORMAT = "gemini"
WHERE = "generativelanguage.googleapis.com"
CUT = "MAX_TOKENS"
REFUSED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"}
)
BLOBS = frozenset({"thoughtSignature", "data"})  # base64 in a request's body, bytes for the SDK
PATIENCE = 300_000  # milliseconds


class GeminiModel:
    """A model of Google."""

    format = FORMAT
    params: Mapping[str, Any] = {}

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        """The key is taken from GEMINI_API_KEY if none is given."""
        require("google.genai", extra="gemini", what="Gemini")
        url = address(base_url, "GOOGLE_GEMINI_BASE_URL")
        variable = "GOOGLE_API_KEY" if os.environ.get("GOOGLE_API_KEY") else "GEMINI_API_KEY"
        sent, source = key_for(key, variable, url, service="Gemini")
        from google import genai

        options = genai.types.HttpOptions(base_url=url, timeout=PATIENCE)
        self._client = genai.Client(api_key=sent, vertexai=False, http_options=options)
        self._create: Any = (
            self._client.models.generate_content_stream
        )  # its types do not allow a plain dict
        self.name = name
        self.window = window
        self.where = url.split("://")[1].split("/")[0] if url else WHERE
        self._endpoint = Endpoint(name, self.where, source)
        self._shows_thinking = True

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part."""
        body = with_settings(conversation, self.name, tools, self.params).request(FORMAT)

        def attempt() -> Iterator[StreamItem]:
            return recorded(assembled(self._chunks(body), self.name), FORMAT, body, self.name)

        return retried(attempt, self._endpoint)

    def _chunks(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of one answer. Models that do not think refuse a request for their thoughts."""
        try:
            for chunk in self._create(**_arguments(body, self.name, thoughts=self._shows_thinking)):
                yield as_plain(chunk)
        except Exception as error:
            if not self._shows_thinking or "think" not in str(error).lower():
                raise
            self._shows_thinking = False
            yield from self._chunks(body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _arguments(body: Mapping[str, Any], model: str, *, thoughts: bool) -> dict[str, Any]:
    """The body of a request as arguments for the SDK: everything except the contents is its config."""
    config = dict(body.get("generationConfig") or {})
    for key, value in body.items():
        if key not in ("model", "contents", "generationConfig"):
            config[key] = value
    if thoughts:
        config["thinkingConfig"] = {**config.get("thinkingConfig", {}), "includeThoughts": True}
    # Otherwise the SDK would call Python functions among the tools itself.
    config["automaticFunctionCalling"] = {"disable": True}
    return {
        "model": model,
        "contents": _with_bytes(body["contents"]),
        "config": _with_bytes(config),
    }


def _with_bytes(value: Any) -> Any:
    match value:
        case list():
            return [_with_bytes(item) for item in value]
        case dict():
            return {
                key: decode_base64(item)
                if key in BLOBS and isinstance(item, str)
                else _with_bytes(item)
                for key, item in value.items()
            }
    return value


def assembled(chunks: Iterable[dict[str, Any]], model: str) -> Iterator[StreamItem]:
    """Yield the answer in the chunks of a stream, part by part."""
    stream = GEMINI.open_stream()
    yield from show_stream(chunks, stream)
    response = stream.finish()
    reason = response["candidates"][0].get("finishReason")
    if (response.get("promptFeedback") or {}).get("blockReason"):
        reason = "PROHIBITED_CONTENT"
    if not reason:
        raise ConnectionEnded("the stream ended before the answer did")
    answer = load_response(response, FORMAT, model, response.get("usageMetadata"))
    ended = how_it_ended(cut=reason == CUT, refused=reason in REFUSED)
    yield answer._replace(data={**(answer.data or {}), **ended})
