"""Anthropic Messages: `{"system"?, "messages": [...]}`, messages of blocks.

Results are the first blocks of the user message behind their calls, calls the last blocks of
the model's. A unit's own form is a content: a text or a list of blocks.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from backstory.wire.body import expect, field, items, name_in, objects, one_of
from backstory.wire.format import PLAIN_NAME, Format, joined, merged
from backstory.wire.images import COMMON_TYPES
from backstory.wire.turns import Answer, Asked, Call, Image, Other, Part, Result, Say, Step, Text, Turn, Unit

WIRE_ROLES = {"user": "user", "model": "assistant"}


def write_say(say: Say) -> list[dict[str, Any]]:
    """The blocks of a system or user text."""
    parts = [Text(say.text)] if say.parts is None else say.parts
    return [_write_part(part) for part in parts]


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url is not None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image", "source": source}


def write_step(step: Step) -> list[dict[str, Any]]:
    """Texts, then calls: anything behind a tool_use block is refused."""
    texts: list[dict[str, Any]] = [{"type": "text", "text": text} for text in step.texts]
    return texts + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in step.calls
    ]


def write_answer(call: Asked, answer: Answer) -> list[dict[str, Any]]:
    """A tool_result block."""
    content: Any = answer.text if answer.parts is None else [_write_part(part) for part in answer.parts]
    block = {"type": "tool_result", "tool_use_id": call.id, "content": content}
    return [block | {"is_error": True} if answer.error else block]


def as_blocks(form: Any) -> list[Any]:
    """A content as a list of blocks."""
    return [{"type": "text", "text": form}] if isinstance(form, str) else form


def body(system: list[Say], turns: list[Turn]) -> dict[str, Any]:
    """The request's system text and messages."""
    on_top = [write_say(say) if say.wire is None else say.wire for say in system]
    messages = [
        {"role": WIRE_ROLES[role], "content": content}
        for role, content in merged(turns, ANTHROPIC, as_blocks)
    ]
    return ({"system": joined(on_top, as_blocks)} if on_top else {}) | {"messages": messages}


def units(body: Mapping[str, Any]) -> Iterator[Unit]:
    """System blocks one by one, then the messages, each user message as its results and the rest."""
    yield from system_units(body, read)
    for path, message in items(dict(body), "messages"):
        role = one_of(message.get("role"), ("user", "assistant", "system"), f"{path}.role")
        content, inside = message.get("content"), f"{path}.content"
        if role == "assistant":
            yield Unit("step", content, read("step", content, inside), inside)
        elif isinstance(content, str) or role == "system":
            yield Unit(role, content, read(role, content, inside), inside)
        else:
            yield from _user_units(content, inside)


def system_units(body: Mapping[str, Any], read: Any) -> Iterator[Unit]:
    """The units of system text that is a field of the body: one, or one for each block."""
    system = body.get("system")
    if isinstance(system, str):
        yield Unit("system", system, read("system", system, "system"), "system")
    elif system is not None:
        for path, block in objects(system, "system"):
            yield Unit("system", [block], read("system", [block], path), path)


def _user_units(content: Any, path: str) -> Iterator[Unit]:
    rest = []
    for where, block in objects(content, path):
        if block.get("type") == "tool_result":
            yield Unit("result", [block], [_read_block(block, where)], where)
        else:
            rest.append(block)
    if rest:
        yield Unit("user", rest, read("user", rest, path), path)


def read(_role: str, form: Any, path: str) -> list[Part]:
    """The parts of a content."""
    if isinstance(form, str):
        return [Text(form)]
    return [_read_block(block, where) for where, block in objects(form, path)]


def _read_block(block: dict[str, Any], path: str) -> Part:
    match field(block, "type", str, path):
        case "text":
            return Text(field(block, "text", str, path))
        case "image":
            return _read_image(field(block, "source", dict, path), f"{path}.source")
        case "tool_use":
            arguments = field(block, "input", dict, path)
            return Call(name_in(block, "id", path), name_in(block, "name", path), arguments)
        case "tool_result":
            parts = read("result", block.get("content") or [], f"{path}.content")
            return Result(name_in(block, "tool_use_id", path), parts, block.get("is_error") is True)
        case "thinking":
            return Other("thinking", complete=_is_text(block.get("signature")))
        case "redacted_thinking":
            return Other("redacted_thinking", complete=_is_text(block.get("data")))
        case other:
            return Other(other)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _read_image(source: dict[str, Any], path: str) -> Part:
    match field(source, "type", str, path):
        case "base64":
            data = expect(source.get("data"), str, f"{path}.data")
            return Image(field(source, "media_type", str, path), data, None)
        case "url":
            return Image(None, None, field(source, "url", str, path))
        case other:
            return Other(f"image by {other}")


ANTHROPIC = Format(
    name="anthropic",
    ids=re.compile(r"[A-Za-z0-9_-]{1,64}"),
    names=PLAIN_NAME,
    alternates=True,
    system_on_top=True,
    system_in_place=False,
    calls_come_last=True,
    image_types=COMMON_TYPES,
    image_urls=True,
    result_images=True,
    result_errors=True,
    units=units,
    read=read,
    write_say=write_say,
    write_step=write_step,
    write_answer=write_answer,
    body=body,
)
