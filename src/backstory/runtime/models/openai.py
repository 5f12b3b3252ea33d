"""Any endpoint with OpenAI's Chat Completions API, through the `openai` SDK.

The SDK is imported when a model is created. Its own retries are off: `retry` does them, so that the user is
told about them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import ModelError, StreamItem
from backstory.runtime.models.chunks import assembled
from backstory.runtime.models.endpoints import Endpoint, address, key_for, streamed
from backstory.runtime.models.extras import require
from backstory.runtime.models.retry import meaning, retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["OpenAIModel"]

LIST_PATIENCE = 5  # seconds to wait for the list of models


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint."""

    format = "openai"
    params: Mapping[str, Any] = {}

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        """Without a name, the only model of the endpoint is used; without a key, that of OPENAI_API_KEY."""
        require("openai", extra="openai", what="An OpenAI-compatible endpoint")
        url = address(base_url, "OPENAI_BASE_URL")
        sent, source = key_for(key, "OPENAI_API_KEY", url, service="OpenAI")
        import openai

        timeout = openai.Timeout(300, connect=10)
        self._client = openai.OpenAI(base_url=url, api_key=sent, max_retries=0, timeout=timeout)
        # The SDK imports this part on first use, and Ctrl-C in the middle of an import would break it.
        self._create: Any = (
            self._client.chat.completions.create
        )  # its types do not allow a plain dict
        self.where = self._client.base_url.netloc.decode()
        self.window = window
        self._counts_usage = True
        self._endpoint = Endpoint(name or "", self.where, source)
        self.name = name or self._only_name()
        self._endpoint = self._endpoint._replace(model=self.name)

    def names(self) -> list[str]:
        """The models that the endpoint has."""
        return [str(model.id) for model in self._client.models.list(timeout=LIST_PATIENCE)]

    def _only_name(self) -> str:
        try:
            names = self.names()
        except Exception as error:
            raise meaning(error, self._endpoint) from error
        if len(names) == 1:
            return names[0]
        raise ModelError(
            f"which model? {self.where} has {', '.join(names[:8]) or 'none'}: say --model NAME"
        )

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part."""
        whole = with_settings(conversation, self.name, tools, self.params)
        body = whole.request(self.format)

        def attempt() -> Iterator[StreamItem]:
            return recorded(
                assembled(streamed(self._stream(body)), self.name), self.format, body, self.name
            )

        return retried(attempt, self._endpoint)

    def _stream(self, body: dict[str, Any]) -> Any:
        extra = {"stream_options": {"include_usage": True}} if self._counts_usage else {}
        try:
            return self._create(**body, **extra, stream=True)
        except Exception as error:
            if not self._counts_usage or "stream_options" not in str(error):
                raise
            self._counts_usage = False  # the server does not know the option: do without it
            return self._stream(body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def described(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """The tools as Chat Completions describes them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]
