"""Any endpoint with OpenAI's Chat Completions API, and OpenAI's own models through Responses."""

import re
from typing import Any

from backstory.runtime.models import ModelError
from backstory.runtime.models.hosted import (
    CONNECT_SECONDS,
    READ_SECONDS,
    Events,
    HostedModel,
    Service,
    read_events,
)
from backstory.runtime.models.retry import explain
from backstory.wire import FormatName

__all__ = ["OpenAIModel", "ResponsesModel"]

REASONS = re.compile(r"o[1-9]|gpt-[5-9](?!.*-chat)")
MAX_NAMES = 8  # of models in a message


class OpenAIModel(HostedModel):
    """A model behind an OpenAI-compatible endpoint."""

    service = Service(
        "OpenAI", "openai", "api.openai.com", "openai", "OPENAI_BASE_URL", ("OPENAI_API_KEY",)
    )
    format: FormatName = "openai"

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        """Without a name, the only model of the endpoint is used; without a key, that of
        OPENAI_API_KEY."""
        super().__init__(name or "", base_url=base_url, key=key, window=window)
        self._counts_usage = True
        if not name:
            self.name = self._find_only_name()
            self.endpoint = self.endpoint._replace(model=self.name)

    def open_client(self) -> Any:
        """Import the SDK. Return its client."""
        import openai

        timeout = openai.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        client = openai.AsyncOpenAI(
            base_url=self._url, api_key=self._key, max_retries=0, timeout=timeout
        )
        self._import_rest(client)
        return client

    def _import_rest(self, client: Any) -> None:
        """Let the SDK import what it imports on first use."""
        _ = client.chat.completions

    def _find_only_name(self) -> str:
        try:
            names = self.names()
        except Exception as error:
            raise explain(error, self.endpoint) from error
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:MAX_NAMES]) or "none"
        raise ModelError(f"which model? {self.where} has {shown}", remedy="say --model NAME")

    async def open_stream(self, client: Any, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        extra = {"stream_options": {"include_usage": True}} if self._counts_usage else {}
        try:
            return read_events(await client.chat.completions.create(**body, **extra, stream=True))
        except Exception as error:
            if not self._counts_usage or "stream_options" not in str(error):
                raise
            self._counts_usage = False  # the server does not know the option: do without it
            return await self.open_stream(client, body)


class ResponsesModel(OpenAIModel):
    """A model of OpenAI, or of an endpoint with the Responses API.

    Its thinking is encrypted, and is sent back to it. OpenAI stores nothing: the log has
    everything.
    """

    format = "openai-responses"

    def __init__(
        self,
        name: str | None = None,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
    ) -> None:
        """The arguments of `OpenAIModel`."""
        super().__init__(name, base_url=base_url, key=key, window=window)
        self._shows_thinking = REASONS.match(self.name) is not None
        own: dict[str, Any] = {"store": False}
        if self._shows_thinking:  # models that do not reason refuse a request for it
            own["include"] = ["reasoning.encrypted_content"]
        self.params = {self.format: own}

    def _import_rest(self, client: Any) -> None:
        _ = client.responses

    async def open_stream(self, client: Any, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        sent = dict(body)
        if self._shows_thinking:
            # A summary only shows the thinking: it is not part of the recorded request.
            sent["reasoning"] = {**body.get("reasoning", {}), "summary": "auto"}
        try:
            return read_events(await client.responses.create(**sent, stream=True))
        except Exception as error:
            # OpenAI returns summaries to verified organizations only.
            if not self._shows_thinking or "summar" not in str(error):
                raise
            self._shows_thinking = False
            return await self.open_stream(client, body)
