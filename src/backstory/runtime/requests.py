"""What a model is asked, kept so that it can be proved: the settings before it, the digest with the answer,
and the attempts that failed."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from backstory.agent import Agent
from backstory.core.events import Event
from backstory.core.settings import SETTINGS, Settings, settings_of
from backstory.errors import Error
from backstory.runtime.models import Model, ModelError, Response, Retrying, StreamItem
from backstory.runtime.models.arguments import storable
from backstory.runtime.tools import Tool
from backstory.wire.answers import request_digest
from backstory.wire.conversation import Conversation, conversation_of

FAILURE = "backstory.failure"  # the name of notes about attempts that failed


def tool_settings(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as the settings of a log describe them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]


def asked(agent: Agent, model: Model, tools: Sequence[Tool]) -> tuple[Conversation, int]:
    """What a model is given, and the position that this is the context of. A model that says in which format
    it asks has its name, tools and parameters in the log before that: they are part of what it is asked."""
    write_settings(agent, model, tools)
    context = agent.context()
    return conversation_of(context.messages), context.at


def write_settings(
    agent: Agent, model: Model, tools: Sequence[Tool], *, expected: int | None = None
) -> Event | None:
    """Write what is asked beside the messages, as far as it changed; only notes are read for that."""
    if getattr(model, "format", None) is None:
        return None
    settings = settings_of(note.data for note in agent.notes(SETTINGS))
    params = merged(getattr(model, "params", {}), settings.params)
    change = settings.changed(model=model.name, tools=tool_settings(tools), params=params)
    return agent.append("note", SETTINGS, change, expected=expected) if change else None


def with_settings(
    conversation: Conversation, model: str, tools: Sequence[Tool], params: Mapping[str, Any]
) -> Conversation:
    """A conversation with all that a request says beside its messages."""
    all_params = merged(params, conversation.settings.params)
    return conversation.with_settings(Settings(model, tuple(tool_settings(tools)), all_params))


def merged(defaults: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters over a model's own; those that only one format knows stand in an object of their own."""
    both = {**defaults, **params}
    for name, value in defaults.items():
        if isinstance(value, Mapping) and isinstance(params.get(name), Mapping):
            both[name] = {**value, **params[name]}
    return both


def recorded(
    pieces: Iterator[StreamItem], format: str, body: Mapping[str, Any], model: str, **options: Any
) -> Iterator[StreamItem]:
    """The pieces of an answer, which in the end says what was asked and how long it took. `options` are those
    of `conversation.request`."""
    began = time.monotonic()
    request = {"format": format, "sha256": request_digest(body), "model": model}
    for piece in pieces:
        if isinstance(piece, Response):
            data = dict(piece.data or {})
            usage = {"usage": data["usage"]} if data.get("usage") else {}
            known = request | ({"options": options} if options else {}) | usage | data.pop("request", {})
            known["ms"] = round((time.monotonic() - began) * 1000)
            piece = piece._replace(data=data | {"request": known})
        yield piece


def placed(answer: Response, at: int) -> Response:
    """An answer whose request names the position that it was made of."""
    data = answer.data or {}
    if "request" not in data:
        return answer
    return answer._replace(data={**data, "request": {**data["request"], "at": at}})


def note_failure(agent: Agent, model: str, failed: Retrying | ModelError) -> Event | None:
    """Write down an attempt that failed: what the service said, and which attempt it was. None if the store
    did not take it."""
    text = failed.why if isinstance(failed, Retrying) else failed.message
    data: dict[str, Any] = {"model": model, "text": storable(text), "attempt": failed.attempt}
    if failed.status is not None:
        data["status"] = failed.status
    with suppress(Error):  # that the model failed is what has to be heard
        return agent.append("note", FAILURE, data)
    return None
