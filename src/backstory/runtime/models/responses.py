"""OpenAI's own models, through the Responses API: their thinking is encrypted, and is sent back to them.

OpenAI does not store anything: the log has everything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import ModelError, StreamItem
from backstory.runtime.models.answers import load_response, show_stream
from backstory.runtime.models.chunks import ConnectionEnded, how_it_ended
from backstory.runtime.models.endpoints import streamed
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.models.retry import retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation
from backstory.wire.formats.responses import RESPONSES

__all__ = ["ResponsesModel"]

FORMAT = "openai-responses"
REASONS = re.compile(r"o[1-9]|gpt-[5-9](?!.*-chat)")
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class ResponsesModel(OpenAIModel):
    """A model of OpenAI, or of an endpoint with the Responses API."""

    format = FORMAT

    def __init__(self, name: str | None = None, **options: Any) -> None:
        """Takes the arguments of `OpenAIModel`."""
        super().__init__(name, **options)
        self._create = self._client.responses.create
        self._shows_thinking = REASONS.match(self.name) is not None
        own: dict[str, Any] = {"store": False}
        if self._shows_thinking:  # models that do not reason refuse a request for it
            own["include"] = ["reasoning.encrypted_content"]
        self.params: Mapping[str, Any] = {FORMAT: own}

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part."""
        body = with_settings(conversation, self.name, tools, self.params).request(self.format)

        def attempt() -> Iterator[StreamItem]:
            return recorded(
                assembled(streamed(self._stream(body)), self.name), FORMAT, body, self.name
            )

        return retried(attempt, self._endpoint)

    def _stream(self, body: dict[str, Any]) -> Any:
        # A summary only shows the thinking: it is not part of the recorded request, nor of its digest.
        shown = (
            {"reasoning": {**body.get("reasoning", {}), "summary": "auto"}}
            if self._shows_thinking
            else {}
        )
        try:
            return self._create(**{**body, **shown}, stream=True)
        except Exception as error:
            # OpenAI returns summaries to verified organizations only.
            if not self._shows_thinking or "summar" not in str(error):
                raise
            self._shows_thinking = False
            return self._stream(body)


def assembled(events: Iterable[dict[str, Any]], model: str) -> Iterator[StreamItem]:
    """Yield the answer in the events of a stream, part by part."""
    stream = RESPONSES.open_stream()
    is_over = False
    for event in events:
        kind = event.get("type")
        if kind == "error" or kind == "response.failed":
            raise ModelError(f"the model broke off: {_error(event)}")
        is_over = is_over or kind in ENDS
        yield from show_stream([event], stream)
    if not is_over:
        raise ConnectionEnded("the stream ended before the answer did")
    response = stream.finish()
    answer = load_response(response, FORMAT, model, response.get("usage"))
    why = (response.get("incomplete_details") or {}).get("reason")
    ended = how_it_ended(
        cut=why == "max_output_tokens", refused=why == "content_filter" or _refused(response)
    )
    yield answer._replace(data={**(answer.data or {}), **ended})


def _refused(response: Mapping[str, Any]) -> bool:
    parts = [part for item in response.get("output") or () for part in item.get("content") or ()]
    return any(part.get("type") == "refusal" for part in parts)


def _error(event: Mapping[str, Any]) -> str:
    said = event.get("error") or (event.get("response") or {}).get("error") or event
    return str(said.get("message") or said)
