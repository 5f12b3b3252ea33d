"""OpenAI Chat Completions: `{"messages": [...]}`.

One message for a step, with all its calls; one tool message for each result. Roles are free, so a
unit's own form is simply its message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backstory.wire.body import expect, field, items, name_in, objects, one_of, wrong
from backstory.wire.encoder import compact
from backstory.wire.format import PLAIN_NAME, Format, call_of
from backstory.wire.images import COMMON_TYPES, from_url, to_url
from backstory.wire.quick import openai_messages
from backstory.wire.turns import (
    BETWEEN,
    Answer,
    Asked,
    Call,
    Image,
    Other,
    Part,
    Result,
    Say,
    Step,
    Text,
    Turn,
    Unit,
)

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "step", "tool": "result"}


def write_say(say: Say) -> dict[str, Any]:
    """A system or user message."""
    content: Any = say.text if say.parts is None else [_write_part(part) for part in say.parts]
    return {"role": say.role, "content": content}


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": to_url(part)}}


def write_step(step: Step) -> dict[str, Any]:
    """The assistant's message. Without text the content is null, which is legal only beside calls;
    an empty list of calls is refused, so there is none."""
    message: dict[str, Any] = {"role": "assistant", "content": BETWEEN.join(step.texts) or None}
    if step.calls:
        message["tool_calls"] = [_write_call(call) for call in step.calls]
    return message


def _write_call(call: Asked) -> dict[str, Any]:
    function = {"name": call.name, "arguments": compact(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def write_answer(call: Asked, answer: Answer) -> dict[str, Any]:
    """A tool message. There is no flag for an error: the text has to say it."""
    return {"role": "tool", "tool_call_id": call.id, "content": answer.text}


def body(system: list[Say], turns: list[Turn]) -> dict[str, Any]:
    """The request's messages."""
    messages: list[Any] = []
    for turn in (*system, *turns):
        if isinstance(turn, Say):
            messages.append(write_say(turn) if turn.wire is None else turn.wire)
            continue
        messages.append(write_step(turn) if turn.wire is None else turn.wire)
        for call in turn.order or turn.calls:
            answer = call.answer
            if answer is not None:
                messages.append(write_answer(call, answer) if answer.wire is None else answer.wire)
    return {"messages": messages}


def quick(messages: Sequence[Any]) -> dict[str, Any] | None:
    """The body, if it is quickly made."""
    found = openai_messages(messages)
    return None if found is None else {"messages": found}


def units(body: Mapping[str, Any]) -> Iterator[Unit]:
    """Each message is a unit."""
    for path, message in items(dict(body), "messages"):
        role = ROLES[one_of(message.get("role"), tuple(ROLES), f"{path}.role")]
        yield Unit(role, message, read(role, message, path), path)


def read(role: str, message: Any, path: str) -> list[Part]:
    """The parts of a message."""
    message = expect(message, dict, path)
    if ROLES[one_of(message.get("role"), tuple(ROLES), f"{path}.role")] != role:
        raise wrong(f"{path}.role", f"this is no {role} message")
    content = message.get("content")
    if role != "step":
        if content is None:
            raise wrong(f"{path}.content", "expected a string or an array of parts, found null")
        parts = _read_content(content, f"{path}.content")
        return [Result(name_in(message, "tool_call_id", path), parts, None)] if role == "result" else parts
    parts = [] if content is None else _read_content(content, f"{path}.content")
    if isinstance(message.get("refusal"), str):
        parts.append(Text(message["refusal"]))
    for key in ("reasoning_content", "reasoning", "audio", "function_call"):
        if message.get(key):
            parts.append(Other(key))
    if message.get("tool_calls") is not None:
        parts.extend(_read_call(call, where) for where, call in items(message, "tool_calls", path))
    return parts


def _read_content(content: Any, path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    return [_read_part(part, where) for where, part in objects(content, path)]


def _read_part(part: dict[str, Any], path: str) -> Part:
    match field(part, "type", str, path):
        case "text":
            return Text(field(part, "text", str, path))
        case "refusal":
            return Text(field(part, "refusal", str, path))
        case "image_url":
            image = field(part, "image_url", dict, path)
            return from_url(field(image, "url", str, f"{path}.image_url"))
        case other:
            return Other(other)


def _read_call(call: dict[str, Any], path: str) -> Call:
    id = name_in(call, "id", path)
    if call.get("type") == "custom":
        custom, inside = field(call, "custom", dict, path), f"{path}.custom"
        return Call(id, name_in(custom, "name", inside), {"input": field(custom, "input", str, inside)})
    function, inside = field(call, "function", dict, path), f"{path}.function"
    arguments = field(function, "arguments", str, inside)
    return call_of(id, name_in(function, "name", inside), arguments)


OPENAI = Format(
    name="openai",
    ids=re.compile(r".{1,40}", re.DOTALL),
    names=PLAIN_NAME,
    alternates=False,
    system_on_top=False,
    system_in_place=True,
    calls_come_last=False,
    image_types=COMMON_TYPES,
    image_urls=True,
    result_images=False,
    result_errors=False,
    units=units,
    read=read,
    write_say=write_say,
    write_step=write_step,
    write_answer=write_answer,
    body=body,
    quick=quick,
)
