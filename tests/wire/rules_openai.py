"""What OpenAI's Chat Completions refuses, with its own words. Pure; judges `messages` and nothing else.

Strict where only some servers that speak this language are: blank text, an id twice in the whole request,
arguments that hold no object.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import (
    OPENAI_LONGEST_NAME,
    OPENAI_NAME,
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
}


def violations(body: dict[str, Any], *, pending: bool) -> Iterator[str]:
    """Everything that is wrong with a Chat Completions body."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield f"Invalid type for 'messages': expected an array of objects, but got {kind(messages)} instead."
        return
    if not messages:
        yield "[] is too short - 'messages'"
    for index, message in enumerate(messages):
        yield from _message(message, f"messages[{index}]")
    yield from _sequence(messages, pending=pending)


def _message(message: Any, path: str) -> Iterator[str]:
    role = field(message, "role")
    if not one_of(role, PARTS):
        yield f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, PARTS))}. ({path}.role)"
        return
    if role == "assistant":
        yield from _assistant(message, path)
    else:
        yield from _content(message.get("content"), role, path)
    if role == "tool":
        yield from openai_string(message.get("tool_call_id"), f"{path}.tool_call_id", longest=LONGEST_ID)


def _assistant(message: dict[str, Any], path: str) -> Iterator[str]:
    content, says_no_more = (
        message.get("content"),
        "tool_calls" in message or has_text(message.get("refusal")),
    )
    if content is not None or not says_no_more:
        yield from _content(content, "assistant", path)
    if "tool_calls" in message:
        yield from _calls(message["tool_calls"], f"{path}.tool_calls")


def _calls(calls: Any, path: str) -> Iterator[str]:
    if not isinstance(calls, list):
        yield f"Invalid type for '{path}': expected an array of objects, but got {kind(calls)} instead."
    elif not calls:
        yield f"Invalid '{path}': empty array. Expected an array with minimum length 1"
    for index, call in enumerate(items(calls)):
        yield from _call(call, f"{path}[{index}]")


def _call(call: Any, path: str) -> Iterator[str]:
    function = field(call, "function")
    if field(call, "type") != "function":
        yield f"Invalid value: {field(call, 'type')!r}. Supported values are: 'function'. ({path}.type)"
    yield from openai_string(field(call, "id"), f"{path}.id", longest=LONGEST_ID)
    name = field(function, "name")
    yield from openai_string(name, f"{path}.function.name", longest=OPENAI_LONGEST_NAME, pattern=OPENAI_NAME)
    yield from openai_arguments(field(function, "arguments"), f"{path}.function.arguments")


def _content(content: Any, role: str, path: str) -> Iterator[str]:
    if not isinstance(content, list):
        yield from openai_text(content, f"{path}.content")
    elif not content:
        yield f"Invalid '{path}.content': empty array. Expected an array with minimum length 1"
    for index, part in enumerate(items(content)):
        yield from _part(part, role, f"{path}.content[{index}]")


def _part(part: Any, role: str, path: str) -> Iterator[str]:
    type = field(part, "type")
    if not one_of(type, PARTS[role]):
        allowed = ", ".join(map(repr, PARTS[role]))
        yield f"Invalid value: {type!r}. Supported values are: {allowed}. ({path}.type)"
    elif type in ("text", "refusal"):
        yield from openai_text(part.get(type), f"{path}.{type}")
    elif type == "image_url":
        yield from openai_image(field(part.get("image_url"), "url"), f"{path}.image_url.url")


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
    id = message.get("tool_call_id")
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
    return [id for id in ids if isinstance(id, str)]


def _duplicate(id: str, first: int, second: int) -> str:
    return (
        f"Invalid parameter: Duplicate value for 'tool_call_id' of '{id}',"
        f" in messages[{first}] and messages[{second}]."
    )
