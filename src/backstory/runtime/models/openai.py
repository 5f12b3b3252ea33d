"""Any endpoint with OpenAI's Chat Completions API, and OpenAI's own models through Responses."""

import re
from typing import Any

from backstory.runtime.models import ModelError
from backstory.runtime.models.hosted import (
    CONNECT_SECONDS,
    READ_SECONDS,
    Events,
    HostedModel,
    find_address,
    find_host,
    find_key,
    read_events,
    require_package,
)
from backstory.runtime.models.retry import Endpoint, explain
from backstory.wire import FormatName

__all__ = ["OpenAIModel", "ResponsesModel"]

REASONS = re.compile(r"o[1-9]|gpt-[5-9](?!.*-chat)")
HOST = "api.openai.com"
MAX_NAMES = 8  # of models in a message


class OpenAIModel(HostedModel):
    """A model behind an OpenAI-compatible endpoint."""

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
        require_package("openai", extra="openai", what="An OpenAI-compatible endpoint")
        self._url = find_address(base_url, "OPENAI_BASE_URL")
        self._key, source = find_key(key, "OPENAI_API_KEY", self._url, service="OpenAI")
        where = find_host(self._url) if self._url else HOST
        super().__init__(name or "", Endpoint(name or "", where, source), window)
        self._create: Any = None  # the SDK's function that sends a request
        self._counts_usage = True
        if name is None:
            self.name = self._find_only_name()
            self.endpoint = self.endpoint._replace(model=self.name)

    def open_client(self) -> Any:
        """Import the SDK. Return its client."""
        import openai

        timeout = openai.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        client = openai.AsyncOpenAI(
            base_url=self._url, api_key=self._key, max_retries=0, timeout=timeout
        )
        self._create = self._find_create(client)
        return client

    def _find_create(self, client: Any) -> Any:
        """Return the function that sends a request. The SDK imports it on first use."""
        return client.chat.completions.create

    def _find_only_name(self) -> str:
        try:
            names = self.names()
        except Exception as error:
            raise explain(error, self.endpoint) from error
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:MAX_NAMES]) or "none"
        raise ModelError(f"which model? {self.where} has {shown}", remedy="say --model NAME")

    async def open_stream(self, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        extra = {"stream_options": {"include_usage": True}} if self._counts_usage else {}
        try:
            return read_events(await self._create(**body, **extra, stream=True))
        except Exception as error:
            if not self._counts_usage or "stream_options" not in str(error):
                raise
            self._counts_usage = False  # the server does not know the option: do without it
            return await self.open_stream(body)


class ResponsesModel(OpenAIModel):
    """A model of OpenAI, or of an endpoint with the Responses API.

    Its thinking is encrypted, and is sent back to it. OpenAI stores nothing: the log has
    everything.
    """

    format = "openai-responses"

    def __init__(self, name: str | None = None, **options: Any) -> None:
        """Takes the arguments of `OpenAIModel`."""
        super().__init__(name, **options)
        self._shows_thinking = REASONS.match(self.name) is not None
        own: dict[str, Any] = {"store": False}
        if self._shows_thinking:  # models that do not reason refuse a request for it
            own["include"] = ["reasoning.encrypted_content"]
        self.params = {self.format: own}

    def _find_create(self, client: Any) -> Any:
        return client.responses.create

    async def open_stream(self, body: dict[str, Any]) -> Events:
        """Send a request. Return the events of the answer."""
        sent = dict(body)
        if self._shows_thinking:
            # A summary only shows the thinking: it is not part of the recorded request.
            sent["reasoning"] = {**body.get("reasoning", {}), "summary": "auto"}
        try:
            return read_events(await self._create(**sent, stream=True))
        except Exception as error:
            # OpenAI returns summaries to verified organizations only.
            if not self._shows_thinking or "summar" not in str(error):
                raise
            self._shows_thinking = False
            return await self.open_stream(body)
