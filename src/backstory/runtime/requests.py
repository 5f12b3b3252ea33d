"""Records what was sent to a model, so that it can be proved: the settings, the digest of
the request, and failed attempts."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from backstory.agent import Agent
from backstory.errors import Error
from backstory.log.events import Event
from backstory.log.kinds import EventKind
from backstory.log.settings import SETTINGS, Settings, ToolSettings, read_settings
from backstory.runtime.models import Model, ModelError, Response, Retrying, storable
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation, conversation_of

FAILURE = "backstory.failure"  # the name of notes about failed attempts


def tool_settings(tools: Sequence[Tool]) -> list[ToolSettings]:
    """Tools as settings in a log describe them."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]


def prepare_request(agent: Agent, model: Model, tools: Sequence[Tool]) -> tuple[Conversation, int]:
    """The conversation for a model, and its position. If the model has a format, its name, tools
    and parameters are written to the log first, because they are part of the request."""
    write_settings(agent, model, tools)
    context = agent.context()
    return conversation_of(context.messages), context.at


def write_settings(
    agent: Agent,
    model: Model,
    tools: Sequence[Tool],
    *,
    params: Mapping[str, Any] = {},
    expected: int | None = None,
) -> Event | None:
    """Write the settings that changed, with new `params`; only notes are read for that."""
    for kind, name, change in change_settings(agent, model, tools, params=params):
        return agent.append(kind, name, change, expected=expected)
    return None


def change_settings(
    agent: Agent,
    model: Model,
    tools: Sequence[Tool],
    *,
    params: Mapping[str, Any] = {},
    at: int | None = None,
) -> list[tuple[EventKind, str, dict[str, Any]]]:
    """The note with the settings that differ from those at a position, if there are any. Of a
    model without a format, only new `params` are recorded."""
    settings = read_settings(note.data for note in agent.notes(SETTINGS, at=at))
    all_params = merge_params(settings.params, params)
    if getattr(model, "format", None) is None:
        change = settings.find_changes(params=all_params)
    else:
        all_params = merge_params(getattr(model, "params", {}), all_params)
        described = tool_settings(tools)
        change = settings.find_changes(model=model.name, tools=described, params=all_params)
    return [("note", SETTINGS, change)] if change else []


def with_settings(
    conversation: Conversation, model: str, tools: Sequence[Tool], params: Mapping[str, Any]
) -> Conversation:
    """A conversation with the settings of its request."""
    all_params = merge_params(params, conversation.settings.params)
    described = tuple(dict(tool) for tool in tool_settings(tools))
    return conversation.with_settings(Settings(model, described, all_params))


def merge_params(defaults: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request, on top of the model's defaults, with those of its format."""
    both = {**defaults, **params}
    for name, value in defaults.items():
        if isinstance(value, Mapping) and isinstance(params.get(name), Mapping):
            both[name] = {**value, **params[name]}
    return both


def add_position(answer: Response, at: int) -> Response:
    """An answer whose request names the position of its context."""
    data = answer.data or {}
    if "request" not in data:
        return answer
    return answer._replace(data={**data, "request": {**data["request"], "at": at}})


def note_failure(agent: Agent, model: str, failed: Retrying | ModelError) -> Event | None:
    """Record a failed attempt: what the service said, and which attempt it was. None if it could
    not be written."""
    text = failed.why if isinstance(failed, Retrying) else failed.message
    data: dict[str, Any] = {"model": model, "text": storable(text), "attempt": failed.attempt}
    if failed.status is not None:
        data["status"] = failed.status
    with suppress(Error):  # the error of the model matters more
        return agent.append("note", FAILURE, data)
    return None
