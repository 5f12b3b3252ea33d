"""OpenAI's own models, through the Responses API: their thinking is encrypted, and is sent back to them.

OpenAI does not store anything: the log has everything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from backstory.runtime.models import ModelError, StreamItem, TextDelta, ThinkingDelta
from backstory.runtime.models.answers import loaded
from backstory.runtime.models.chunks import ConnectionEnded, how_it_ended
from backstory.runtime.models.endpoints import streamed
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.models.retry import retried
from backstory.runtime.requests import recorded, with_settings
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["ResponsesModel"]

FORMAT = "openai-responses"
REASONS = re.compile(r"o[1-9]|gpt-[5-9](?!.*-chat)")
TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
THINKING = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
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
    """The answer in the events of a stream, part by part."""
    kept: list[dict[str, Any]] = []
    end: dict[str, Any] | None = None
    for event in events:
        kind = event.get("type")
        if kind == "error" or kind == "response.failed":
            raise ModelError(f"the model broke off: {_error(event)}")
        if kind in TEXT:
            yield TextDelta(event["delta"])
        elif kind in THINKING:
            yield ThinkingDelta(event["delta"])
        elif kind == "response.reasoning_summary_part.done":
            yield ThinkingDelta("\n\n")
        elif kind == "response.output_item.done":
            kept.append(event)
        elif kind in ENDS:
            kept.append(event)
            end = event["response"]
    if end is None:
        raise ConnectionEnded("the stream ended before the answer did")
    answer = loaded(kept, FORMAT, model, end.get("usage"))
    why = (end.get("incomplete_details") or {}).get("reason")
    ended = how_it_ended(
        cut=why == "max_output_tokens", refused=why == "content_filter" or _refused(end)
    )
    yield answer._replace(data={**(answer.data or {}), **ended})


def _refused(response: Mapping[str, Any]) -> bool:
    parts = [part for item in response.get("output") or () for part in item.get("content") or ()]
    return any(part.get("type") == "refusal" for part in parts)


def _error(event: Mapping[str, Any]) -> str:
    said = event.get("error") or (event.get("response") or {}).get("error") or event
    return str(said.get("message") or said)
