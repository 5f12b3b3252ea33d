"""What OpenAI's Chat Completions refuses, with its own words. Pure; judges `messages` and nothing else.

Strict, beyond the service itself, where only some servers that speak this language are: blank text. Others of
these servers take more than OpenAI does: parts of their own, empty lists, longer ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import (
    OPENAI_LONGEST_NAME,
    OPENAI_NAME,
    Request,
    field,
    has_text,
    items,
    kind,
    one_of,
    openai_arguments,
    openai_image,
    openai_string,
    openai_text,
)

LONGEST_ID = 40  # a live test of 2026 took 51; 40 is what the error text promises

PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
    "function": ("text",),  # from before there were tools
}


def violations(body: dict[str, Any], request: Request) -> Iterator[str]:
    """Everything that is wrong with a Chat Completions body."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield f"Invalid type for 'messages': expected an array of objects, but got {kind(messages)} instead."
        return
    if not messages:
        yield "[] is too short - 'messages'"
    for index, message in enumerate(messages):
        yield from _message(message, f"messages[{index}]", request)
    yield from _sequence(messages, pending=request.pending)


def _message(message: Any, path: str, request: Request) -> Iterator[str]:
    role = field(message, "role")
    if not one_of(role, PARTS):
        yield f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, PARTS))}. ({path}.role)"
        return
    if role == "assistant":
        yield from _assistant(message, path, request)
    else:
        yield from _content(message.get("content"), role, path, request)
    if role == "tool" and not (request.compatible and "tool_call_id" not in message):
        yield from _id(message.get("tool_call_id"), f"{path}.tool_call_id", request)


def _assistant(message: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    content = message.get("content")
    calls = message.get("tool_calls", message.get("function_call"))
    says_no_more = bool(calls or message.get("audio") or has_text(message.get("refusal")))
    is_empty = content == [] and (
        request.compatible or not request.strict
    )  # OpenAI takes it beside calls
    if not says_no_more or (content is not None and not is_empty):
        yield from _content(content, "assistant", path, request)
    if "tool_calls" in message and not (message["tool_calls"] == [] and request.compatible):
        yield from _calls(message["tool_calls"], f"{path}.tool_calls", request)


def _calls(calls: Any, path: str, request: Request) -> Iterator[str]:
    if not isinstance(calls, list):
        yield f"Invalid type for '{path}': expected an array of objects, but got {kind(calls)} instead."
    elif not calls:
        yield f"Invalid '{path}': empty array. Expected an array with minimum length 1"
    for index, call in enumerate(items(calls)):
        yield from _call(call, f"{path}[{index}]", request)


def _call(call: Any, path: str, request: Request) -> Iterator[str]:
    type = field(call, "type")
    yield from _id(field(call, "id"), f"{path}.id", request)
    if type == "custom":
        yield from _name(field(field(call, "custom"), "name"), f"{path}.custom.name")
        return
    if type != "function" and not request.compatible:
        yield f"Invalid value: {type!r}. Supported values are: 'function', 'custom'. ({path}.type)"
    function = field(call, "function")
    yield from _name(field(function, "name"), f"{path}.function.name")
    yield from openai_arguments(field(function, "arguments"), f"{path}.function.arguments", request)


def _name(name: Any, path: str) -> Iterator[str]:
    yield from openai_string(name, path, longest=OPENAI_LONGEST_NAME, pattern=OPENAI_NAME)


def _id(id: Any, path: str, request: Request) -> Iterator[str]:
    if not request.compatible or not isinstance(id, str):  # Gemini, say, gives no ids or long ones
        yield from openai_string(id, path, longest=LONGEST_ID)


def _content(content: Any, role: str, path: str, request: Request) -> Iterator[str]:
    if not isinstance(content, list):
        yield from openai_text(content, f"{path}.content", request)
    elif not content:
        yield f"Invalid '{path}.content': empty array. Expected an array with minimum length 1"
    for index, part in enumerate(items(content)):
        yield from _part(part, role, f"{path}.content[{index}]", request)


def _part(part: Any, role: str, path: str, request: Request) -> Iterator[str]:
    type = field(part, "type")
    if not one_of(type, PARTS[role]):
        if request.compatible and isinstance(type, str):
            return  # Mistral's thinking, Perplexity's files, OpenRouter's videos, and who knows what else
        allowed = ", ".join(map(repr, PARTS[role]))
        yield f"Invalid value: {type!r}. Supported values are: {allowed}. ({path}.type)"
    elif type in ("text", "refusal"):
        yield from openai_text(part.get(type), f"{path}.{type}", request)
    elif type == "image_url":
        image = part.get("image_url")
        bare = request.compatible and isinstance(image, str)  # Mistral takes the address itself
        yield from openai_image(image if bare else field(image, "url"), f"{path}.image_url.url")


def _sequence(messages: list[Any], *, pending: bool) -> Iterator[str]:
    made: dict[str, int] = {}  # call id -> the message that made it, in the whole request
    step: dict[str, int | None] = {}  # call id -> the message that answered it, in the current step
    for index, message in enumerate(messages):
        if field(message, "role") == "tool":
            yield from _answer(message, index, step)
            continue
        yield from _unanswered(step, index)
        step = {}
        for id in _call_ids(message):
            if id in made:
                yield _duplicate(id, made[id], index)
            made[id], step[id] = index, None
    if not pending:
        yield from _unanswered(step, len(messages))


def _answer(message: dict[str, Any], index: int, step: dict[str, int | None]) -> Iterator[str]:
    id = field(message, "tool_call_id")
    if id is None and None in step.values():
        id = next(
            open for open, answer in step.items() if answer is None
        )  # Zhipu's servers go by the order
    if id == "":
        return  # of a server without ids; where they are needed, the message itself is refused
    if not one_of(id, step):
        yield (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
            f" 'tool_calls'. (messages.[{index}].role, {id!r})"
        )
    elif (earlier := step[id]) is not None:
        yield _duplicate(id, earlier, index)
    else:
        step[id] = index


def _unanswered(step: dict[str, int | None], index: int) -> Iterator[str]:
    if missing := [id for id, answer in step.items() if answer is None]:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            " 'tool_call_id'. The following tool_call_ids did not have response messages:"
            f" {', '.join(missing)} (messages.[{index}].role)"
        )


def _call_ids(message: Any) -> list[str]:
    ids = (field(call, "id") for call in items(field(message, "tool_calls")))
    return [id for id in ids if isinstance(id, str) and id]


def _duplicate(id: str, first: int, second: int) -> str:
    return (
        f"Invalid parameter: Duplicate value for 'tool_call_id' of '{id}',"
        f" in messages[{first}] and messages[{second}]."
    )
