"""What Bedrock's Converse refuses, with its own words. Pure; judges `system`, `messages` and `toolConfig`.

One refusal is left out on purpose: some models that are not Claude want no text beside a toolResult in one
turn. Roles must alternate there as well, so user text behind a result has no other place to be. Strict,
beyond the service itself: the user begins and ends, which some models do not want; no block is nothing but
whitespace; and there is no block that only the service itself can have made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import Request, field, has_text, is_base64, items, one_of
from tests.wire.rules_turns import (
    CALL,
    OTHER,
    RESULT,
    Block,
    Turn,
    pairing_violations,
    role_violations,
)

ID = r"[a-zA-Z0-9_.:-]+"
NAME = r"[a-zA-Z0-9_-]+"
LONGEST = 64

BLOCKS = {
    "user": ("text", "image", "document", "video", "audio", "toolResult", "cachePoint"),
    "assistant": ("text", "image", "reasoningContent", "toolUse", "cachePoint"),
}
# What guardrails, searches and citations add.
SERVED = {
    "user": ("guardContent", "searchResult"),
    "assistant": ("citationsContent", "guardContent"),
}
OUTPUT = ("text", "json", "image", "document", "video", "searchResult")
# Who may begin, or be prefilled: the newest of Claude's refuse the latter.
ANY_FIRST = re.compile(r"claude-(sonnet|haiku|opus)-4-")
WITHOUT_PREFILL = re.compile(r"claude-((sonnet|opus)-4-[6-9]|(sonnet|opus|haiku)-[5-9]|fable)|^$")
IMAGES = ("png", "jpeg", "gif", "webp")
KINDS = {"toolUse": CALL, "toolResult": RESULT}

TEXTS = {
    "first": (
        "A conversation must start with a user message. Try again with a conversation that starts with a user"
        " message."
    ),
    "alternate": (
        "A conversation must alternate between user and assistant roles."
        " Make sure the conversation alternates between user and assistant roles and try again."
        " (messages.{index})"
    ),
    "last": (
        "This model does not support assistant message prefill."
        " The conversation must end with a user message."
    ),
    "missing": "Expected toolResult blocks at messages.{index}.content for the following Ids: {ids}",
    "orphan": (
        "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of"
        " previous turn. ({id})"
    ),
    "twice": (
        "The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks of"
        " previous turn. (a second one for {id})"
    ),
    "reused": "messages.{index}.content.{position}: `tool_use` ids must be unique ({id})",
    "late": (
        "Expected toolResult blocks at messages.{index}.content for the following Ids: {ids}"
        " (at the beginning of the turn)"
    ),
}


def violations(body: dict[str, Any], request: Request) -> Iterator[str]:
    """Everything that is wrong with a Converse body."""
    if "system" in body:
        yield from _system(body["system"])
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield f"{TEXTS['first']} ([] is too short - 'messages')"
        return
    for index, message in enumerate(messages):
        yield from _message(message, index, request)
    turns = [_turn(message, request) for message in messages]
    yield from pairing_violations(turns, TEXTS, pending=request.pending, strict=request.strict)
    free = _freedom(request)
    yield from (
        text for text in role_violations(turns, TEXTS, pending=request.pending) if text not in free
    )
    yield from _tool_config(body, turns, request)


def _freedom(request: Request) -> set[str]:
    """What of the rules for roles does not hold for the model."""
    first = {TEXTS["first"]} if request.is_for(ANY_FIRST) else set()
    last = set() if request.is_for(WITHOUT_PREFILL) else {TEXTS["last"]}
    return set() if request.strict else first | last


def _system(system: Any) -> Iterator[str]:
    if not isinstance(system, list):
        yield "Value at 'system' failed to satisfy constraint: Member must be a list"
    for index, block in enumerate(items(system)):
        if _tag(block) not in ("text", "cachePoint", "guardContent"):
            yield _union(f"system.{index}")
        elif "text" in block and not has_text(block["text"]):
            yield f"The text field in the SystemContentBlock object at system.{index} is blank."


def _message(message: Any, index: int, request: Request) -> Iterator[str]:
    role, path = field(message, "role"), f"messages.{index}"
    if not one_of(role, BLOCKS):
        yield (
            f"Value {role!r} at '{path}.role' failed to satisfy constraint:"
            " Member must satisfy enum value set: [user, assistant]"
        )
        return
    content = message.get("content")
    if not isinstance(content, list) or not content:
        yield (
            f"The content field in the Message object at {path} is empty."
            " Add a ContentBlock object to the content field and try again."
        )
    blocks = items(content)
    for position, block in enumerate(blocks):
        if not request.strict and len(blocks) > 1 and _is_white(block):
            continue  # beside something else the service takes it
        yield from _block(block, role, f"{path}.content.{position}", request)
    if role == "assistant" and blocks and _tag(blocks[-1]) == "reasoningContent":
        yield f"{path}: The final block in an assistant message cannot be `thinking`."
    if request.strict:
        yield from _reasoning_first(blocks, path)


def _is_white(block: Any) -> bool:
    text = field(block, "text")
    return isinstance(text, str) and text.isspace()


def _block(block: Any, role: str, path: str, request: Request) -> Iterator[str]:
    tag = _tag(block)
    if not request.strict and (tag in SERVED[role] or _is_served(block)):
        return
    if tag == "toolResult" and role == "user":
        yield from _tool_result(block[tag], path, request)
    elif tag in BLOCKS[role]:
        yield from CHECKS.get(tag, _nothing_more)(block[tag], path)
    elif tag in KINDS:
        yield f"{path}: {tag} blocks are not allowed in {role} messages"
    else:
        yield _union(path)


def _text(text: Any, path: str) -> Iterator[str]:
    if not has_text(text):
        yield (
            f"The text field in the ContentBlock object at {path} is blank."
            " Add text to the text field, and try again."
        )


def _image(image: Any, path: str) -> Iterator[str]:
    source = field(image, "source")
    if not one_of(field(image, "format"), IMAGES):
        yield (
            f"Value {field(image, 'format')!r} at '{path}.image.format' failed to satisfy constraint:"
            f" Member must satisfy enum value set: [{', '.join(IMAGES)}]"
        )
    if _tag(source) not in ("bytes", "s3Location"):
        yield _union(f"{path}.image.source")
    elif "bytes" in source and not _is_blob(source["bytes"]):
        yield f"The bytes field at {path}.image.source is empty or no base64."


def _is_blob(value: Any) -> bool:
    return bool(value) if isinstance(value, bytes) else is_base64(value)


def _tool_use(use: Any, path: str) -> Iterator[str]:
    path = f"{path}.toolUse"
    yield from _word(field(use, "toolUseId"), ID, f"{path}.toolUseId")
    yield from _word(field(use, "name"), NAME, f"{path}.name")
    if not isinstance(field(use, "input"), dict):
        yield _no_object(f"{path}.input")


def _tool_result(result: Any, path: str, request: Request) -> Iterator[str]:
    path = f"{path}.toolResult"
    status, content = field(result, "status"), field(result, "content")
    yield from _word(field(result, "toolUseId"), ID, f"{path}.toolUseId")
    if status not in (None, "success", "error"):
        yield (
            f"Value {status!r} at '{path}.status' failed to satisfy constraint:"
            " Member must satisfy enum value set: [success, error]"
        )
    if not isinstance(content, list) or (not content and (request.strict or status == "error")):
        when = " when status value is error" if status == "error" else ""
        yield f"The content field at {path} cannot be empty{when}."
    for position, part in enumerate(items(content)):
        yield from _output(part, f"{path}.content.{position}")


def _output(part: Any, path: str) -> Iterator[str]:
    tag = _tag(part)
    if tag not in OUTPUT:
        yield _union(path)
    elif tag == "json" and not isinstance(part["json"], dict):
        yield _no_object(f"{path}.json")
    else:
        yield from CHECKS.get(tag, _nothing_more)(part[tag], path)


def _reasoning(reasoning: Any, path: str) -> Iterator[str]:
    tag = _tag(reasoning)
    if tag not in ("reasoningText", "redactedContent"):
        yield _union(f"{path}.reasoningContent")
    elif tag == "reasoningText" and not has_text(field(reasoning[tag], "signature")):
        yield f"{path}: Invalid `signature` in `thinking` block"


def _nothing_more(value: Any, path: str) -> Iterator[str]:
    return iter(())


CHECKS = {
    "text": _text,
    "image": _image,
    "toolUse": _tool_use,
    "reasoningContent": _reasoning,
}


def _reasoning_first(blocks: list[Any], path: str) -> Iterator[str]:
    """As for Claude elsewhere: reasoning starts the message that has it, and may come again between calls."""
    tags = [_tag(block) for block in blocks]
    if "reasoningContent" in tags and tags[0] != "reasoningContent":
        yield f"{path}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{tags[0]}`."


def _is_served(block: Any) -> bool:
    """A tool that the service ran, and what it came to: both in the model's own turn."""
    held = field(block, "toolUse") or field(block, "toolResult")
    return isinstance(field(held, "type"), str)


def _tool_config(body: dict[str, Any], turns: list[Turn], request: Request) -> Iterator[str]:
    if "toolConfig" not in body:
        if any(turn.has(CALL) or turn.has(RESULT) for turn in turns):
            yield "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        return
    tools = field(body["toolConfig"], "tools")
    if not isinstance(tools, list) or not tools:
        yield "Value at 'toolConfig.tools' failed to satisfy constraint: Member must have length at least 1"
    names: set[str] = set()
    for index, tool in enumerate(items(tools)):
        if _tag(tool) != "cachePoint" and (request.strict or _tag(tool) != "systemTool"):
            yield from _tool(tool, f"toolConfig.tools.{index}", names)


def _tool(tool: Any, path: str, names: set[str]) -> Iterator[str]:
    if _tag(tool) != "toolSpec":
        yield _union(path)
        return
    name, schema = field(tool["toolSpec"], "name"), field(tool["toolSpec"], "inputSchema")
    yield from _word(name, NAME, f"{path}.toolSpec.name")
    if one_of(name, names):
        yield f"The tool names must be unique: {name!r} at {path}"
    elif isinstance(name, str):
        names.add(name)
    if not isinstance(field(schema, "json"), dict) or field(schema, "json").get("type") != "object":
        yield f"The value at {path}.toolSpec.inputSchema.json.type must be one of the following: object."


def _word(value: Any, pattern: str, path: str) -> Iterator[str]:
    failed = f"Value {value!r} at '{path}' failed to satisfy constraint:"
    if not isinstance(value, str) or not value:
        yield f"{failed} Member must have length greater than or equal to 1"
    elif not re.fullmatch(pattern, value):
        yield f"{failed} Member must satisfy regular expression pattern: {pattern}"
    elif len(value) > LONGEST:
        yield f"{failed} Member must have length less than or equal to {LONGEST}"


def _tag(block: Any) -> str | None:
    """The one member of a tagged union, or None of anything that is no such union."""
    if not isinstance(block, dict) or len(block) != 1:
        return None
    tag = next(iter(block))
    return tag if isinstance(tag, str) else None


def _union(path: str) -> str:
    return (
        f"Invalid number of parameters or unknown parameter set for tagged union structure {path}"
    )


def _no_object(path: str) -> str:
    return f"The format of the value at {path} is invalid. Provide a json object for the field and try again."


def _turn(message: Any, request: Request) -> Turn:
    blocks = tuple(_kind(block, request) for block in items(field(message, "content")))
    return Turn(field(message, "role"), blocks)


def _kind(block: Any, request: Request) -> Block:
    tag = _tag(block)
    if tag not in KINDS or (not request.strict and _is_served(block)):
        return Block(OTHER)
    id = field(block[tag], "toolUseId")
    return Block(KINDS[tag], id if isinstance(id, str) else None)
