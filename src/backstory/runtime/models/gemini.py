"""Google's Gemini.

Thoughts are shown as they arrive; their signatures have to be sent back unchanged, so they are
stored as native content.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from backstory.runtime.models.hosted import (
    BACKGROUND,
    READ_SECONDS,
    Events,
    HostedModel,
    Service,
)
from backstory.wire.json_values import as_plain
from backstory.wire.media import decode_base64

__all__ = ["GeminiModel"]

BLOBS = frozenset({"thoughtSignature", "data"})  # base64 in a request's body, bytes for the SDK


class GeminiModel(HostedModel):
    """A model of Google."""

    service = Service(
        "Gemini",
        "google.genai",
        "generativelanguage.googleapis.com",
        "gemini",
        "GOOGLE_GEMINI_BASE_URL",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    )
    format = "gemini"
    _shows_thinking = True

    def open_client(self) -> Any:
        """Import the SDK. Return its client."""
        from google import genai

        options = genai.types.HttpOptions(base_url=self._url, timeout=READ_SECONDS * 1000)
        client = genai.Client(api_key=self._key, vertexai=False, http_options=options)
        _ = client.aio.models
        return client

    async def open_stream(self, client: Any, body: dict[str, Any]) -> Events:
        """Send a request. Return the chunks of the answer."""
        arguments = build_arguments(body, self.name, thoughts=self._shows_thinking)
        try:
            stream = await client.aio.models.generate_content_stream(**arguments)
            return read_chunks(stream)
        except Exception as error:
            # Models that do not think refuse a request for their thoughts.
            if not self._shows_thinking or "think" not in str(error).lower():
                raise
            self._shows_thinking = False
            return await self.open_stream(client, body)

    def names(self) -> list[str]:
        """Return no names: the service lists models that cannot chat, too."""
        return []

    def close(self) -> None:
        """Close the connections."""
        if self._client is None:
            return
        if BACKGROUND.is_started:
            BACKGROUND.run(self._client.aio.aclose())
        self._client.close()


async def read_chunks(stream: Any) -> Events:
    """Yield the chunks of a stream as plain values."""
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            yield as_plain(chunk)


def build_arguments(body: Mapping[str, Any], model: str, *, thoughts: bool) -> dict[str, Any]:
    """Return the body of a request as arguments for the SDK: all but the contents is its config."""
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
        "contents": decode_blobs(body["contents"]),
        "config": decode_blobs(config),
    }


def decode_blobs(value: Any) -> Any:
    """Return `value` with the base64 in it as bytes."""
    if isinstance(value, list):
        return [decode_blobs(item) for item in value]
    if not isinstance(value, dict):
        return value
    decoded = {}
    for key, item in value.items():
        is_blob = key in BLOBS and isinstance(item, str)
        decoded[key] = decode_base64(item) if is_blob else decode_blobs(item)
    return decoded
