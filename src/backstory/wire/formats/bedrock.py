"""Amazon Bedrock Converse: `{"system"?, "messages": [...], "toolConfig"?}`, as botocore takes it.

Blobs are bytes here, since that is what the SDK wants; in the log and in JSON they are base64.
Once a tool block exists the service wants to see tools, so the names in the history become stubs.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from backstory.wire.body import expect, field, items, name_in, objects, one_of, wrong
from backstory.wire.encoder import compact
from backstory.wire.format import PLAIN_NAME, Format, merged
from backstory.wire.formats.anthropic import system_units
from backstory.wire.images import COMMON_TYPES, to_base64, to_bytes
from backstory.wire.turns import Answer, Asked, Call, Image, Other, Part, Result, Say, Step, Text, Turn, Unit

WIRE_ROLES = {"user": "user", "model": "assistant"}
BLOBS = ("bytes", "redactedContent")
DOCUMENTS = ("input", "json")  # these hold what a tool was given and gave: a "bytes" in there is a word


def write_say(say: Say) -> list[dict[str, Any]]:
    """The blocks of a system or user text."""
    parts = [Text(say.text)] if say.parts is None else say.parts
    return [_write_part(part) for part in parts]


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    format = (part.media_type or "").removeprefix("image/")
    return {"image": {"format": format, "source": {"bytes": to_bytes(part.data)}}}


def write_step(step: Step) -> list[dict[str, Any]]:
    """Texts, then calls: anything behind a toolUse block is refused."""
    texts: list[dict[str, Any]] = [{"text": text} for text in step.texts]
    return texts + [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in step.calls
    ]


def write_answer(call: Asked, answer: Answer) -> list[dict[str, Any]]:
    """A toolResult block."""
    parts = [Text(answer.text)] if answer.parts is None else answer.parts
    result: dict[str, Any] = {"toolUseId": call.id, "content": [_write_part(part) for part in parts]}
    return [{"toolResult": result | {"status": "error"} if answer.error else result}]


def body(system: list[Say], turns: list[Turn]) -> dict[str, Any]:
    """The request's system text, messages, and stubs for the tools in them."""
    on_top = [block for say in system for block in (write_say(say) if say.wire is None else say.wire)]
    messages = [
        {"role": WIRE_ROLES[role], "content": content} for role, content in merged(turns, BEDROCK, list)
    ]
    names = dict.fromkeys(call.name for turn in turns if isinstance(turn, Step) for call in turn.calls)
    tools = {"toolConfig": {"tools": [_stub(name) for name in names]}} if names else {}
    return ({"system": on_top} if on_top else {}) | {"messages": messages} | tools


def _stub(name: str) -> dict[str, Any]:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}


def units(body: Mapping[str, Any]) -> Iterator[Unit]:
    """System blocks one by one, then the messages, each user message as its results and the rest."""
    expect(body.get("system", []), list, "system")
    yield from system_units(body, read)
    for path, message in items(dict(body), "messages"):
        role = one_of(message.get("role"), ("user", "assistant", "system"), f"{path}.role")
        content, inside = field(message, "content", list, path), f"{path}.content"
        if role == "user":
            yield from _user_units(content, inside)
        else:
            role = "step" if role == "assistant" else role
            yield Unit(role, content, read(role, content, inside), inside)


def _user_units(content: list[Any], path: str) -> Iterator[Unit]:
    rest = []
    for where, block in objects(content, path):
        if "toolResult" in block:
            yield Unit("result", [block], [_read_block(block, where)], where)
        else:
            rest.append(block)
    if rest:
        yield Unit("user", rest, read("user", rest, path), path)


def read(_role: str, form: Any, path: str) -> list[Part]:
    """The parts of a content."""
    return [_read_block(block, where) for where, block in objects(form, path)]


def _read_block(block: dict[str, Any], path: str) -> Part:
    if len(block) != 1:
        raise wrong(path, f"expected an object with one key, found {len(block)}")
    [(key, value)] = block.items()
    match key:
        case "text":
            return Text(expect(value, str, f"{path}.text"))
        case "json":
            return Text(_as_text(value, path))
        case "image":
            return _read_image(expect(value, dict, f"{path}.image"), f"{path}.image")
        case "toolUse":
            return _read_call(expect(value, dict, f"{path}.toolUse"), f"{path}.toolUse")
        case "toolResult":
            return _read_result(expect(value, dict, f"{path}.toolResult"), f"{path}.toolResult")
        case "reasoningContent":
            return Other(key, complete=_is_signed(value))
        case _:
            return Other(key)


def _is_signed(reasoning: Any) -> bool:
    match reasoning:
        case {"reasoningText": {"signature": str(signature)}}:
            return bool(signature)
        case {"redactedContent": sealed}:
            return bool(sealed)
        case _:
            return False


def _as_text(value: Any, path: str) -> str:
    try:
        return compact(value)
    except (TypeError, ValueError) as error:
        raise wrong(f"{path}.json", f"this is not JSON: {error}") from error


def _read_call(use: dict[str, Any], path: str) -> Call:
    arguments = field(use, "input", dict, path)
    return Call(name_in(use, "toolUseId", path), name_in(use, "name", path), arguments)


def _read_result(result: dict[str, Any], path: str) -> Result:
    parts = read("result", field(result, "content", list, path), f"{path}.content")
    return Result(name_in(result, "toolUseId", path), parts, result.get("status") == "error")


def _read_image(image: dict[str, Any], path: str) -> Part:
    source = field(image, "source", dict, path)
    format = field(image, "format", str, path)
    data = source.get("bytes")
    if data is None:
        return Other("image by location")
    if isinstance(data, bytes | bytearray):
        data = to_base64(bytes(data))
    return Image(f"image/{format}", expect(data, str, f"{path}.source.bytes"), None)


def pack(form: Any) -> Any:
    """The form with its blobs as base64, for the log."""
    return _with_blobs(form, bytes, to_base64)


def unpack(form: Any) -> Any:
    """The form with its blobs as bytes, for the SDK."""
    return _with_blobs(form, str, lambda text: to_bytes(text) or b"")


def _with_blobs(form: Any, type_: type, change: Any) -> Any:
    if isinstance(form, list):
        return [_with_blobs(item, type_, change) for item in form]
    if not isinstance(form, dict):
        return form
    return {key: _with_blob(key, value, type_, change) for key, value in form.items()}


def _with_blob(key: str, value: Any, type_: type, change: Any) -> Any:
    if key in DOCUMENTS:
        return value
    return change(value) if key in BLOBS and isinstance(value, type_) else _with_blobs(value, type_, change)


BEDROCK = Format(
    name="bedrock",
    ids=re.compile(r"[A-Za-z0-9_.:-]{1,64}"),
    names=PLAIN_NAME,
    alternates=True,
    system_on_top=True,
    system_in_place=False,
    calls_come_last=True,
    image_types=COMMON_TYPES,
    image_urls=False,
    result_images=True,
    result_errors=True,
    units=units,
    read=read,
    write_say=write_say,
    write_step=write_step,
    write_answer=write_answer,
    body=body,
    pack=pack,
    unpack=unpack,
)
