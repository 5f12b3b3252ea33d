"""What Anthropic's Messages service refuses, with its own words. Pure; judges `system` and `messages`.

Strict where only the newer models are: no prefill, no system role inside. Consecutive turns of one role are
combined by the service; here they are refused, because a dump promises to have merged them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import field, has_text, is_base64, items, one_of
from tests.wire.rules_turns import CALL, OTHER, RESULT, Block, Turn, pairing_violations, role_violations

ID = r"[a-zA-Z0-9_-]+"
LONGEST_ID = 64
LONGEST_NAME = 200

BLOCKS = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}
OUTPUT = ("text", "image", "document", "search_result")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
THINKING = ("thinking", "redacted_thinking")
KINDS = {"tool_use": (CALL, "id"), "tool_result": (RESULT, "tool_use_id")}

TEXTS = {
    "first": 'messages: first message must use the "user" role',
    "alternate": (
        'messages.{index}: roles must alternate between "user" and "assistant",'
        ' but found multiple "{role}" roles in a row'
    ),
    "last": (
        "This model does not support assistant message prefill."
        " The conversation must end with a user message."
    ),
    "missing": (
        "messages.{before}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}."
        " Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    ),
    "orphan": (
        "messages.{index}.content.{position}: unexpected `tool_use_id` found in `tool_result` blocks: {id}."
        " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    ),
    "twice": (
        "messages.{index}.content.{position}: each tool_use must have a single result."
        " Found multiple `tool_result` blocks with id: {id}"
    ),
    "reused": "messages.{index}.content.{position}: `tool_use` ids must be unique ({id})",
    "late": (
        "messages.{index}: Did not find {count} tool_result block(s) at the beginning of this message."
        " Messages following tool_use blocks must begin with a matching number of tool_result blocks."
    ),
}


def violations(body: dict[str, Any], *, pending: bool) -> Iterator[str]:
    """Everything that is wrong with a Messages body."""
    if "system" in body:
        yield from _system(body["system"])
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required ([] is too short)"
    for index, message in enumerate(messages):
        yield from _message(message, index)
    turns = [_turn(message) for message in messages]
    yield from pairing_violations(turns, TEXTS, pending=pending)
    yield from role_violations(turns, TEXTS, pending=pending)
    yield from _trailing_space(messages)


def _system(system: Any) -> Iterator[str]:
    if isinstance(system, list) and system:
        for index, block in enumerate(system):
            yield from _only_text(block, f"system.{index}")
    elif not has_text(system):
        yield "system: text content blocks must be non-empty"


def _only_text(block: Any, path: str) -> Iterator[str]:
    if field(block, "type") != "text":
        yield f"{path}.type: Input should be 'text'"
    else:
        yield from _text(block, path)


def _message(message: Any, index: int) -> Iterator[str]:
    role, path = field(message, "role"), f"messages.{index}"
    if role == "system":
        yield (
            f"{path}: use the top-level 'system' parameter for the initial system prompt"
            if index == 0
            else f"{path}: role 'system' is not supported on this model"
        )
    elif not one_of(role, BLOCKS):
        yield f"{path}.role: Input should be 'user' or 'assistant'"
    else:
        yield from _content(message.get("content"), role, path)


def _content(content: Any, role: str, path: str) -> Iterator[str]:
    if isinstance(content, str) and content:
        if not content.strip():
            yield f"{path}: text content blocks must contain non-whitespace text"
    elif not isinstance(content, list) or not content:
        yield (
            f"{path}: all messages must have non-empty content"
            " except for the optional final assistant message"
        )
    for position, block in enumerate(items(content)):
        yield from _block(block, role, f"{path}.content.{position}")
    yield from _thinking_first(items(content), path)


def _block(block: Any, role: str, path: str) -> Iterator[str]:
    type = field(block, "type")
    if one_of(type, BLOCKS[role]):
        yield from CHECKS.get(type, _nothing_more)(block, path)
    elif one_of(type, KINDS):
        other = "assistant" if role == "user" else "user"
        yield f"{path}: `{type}` blocks can only be in `{other}` messages"
    else:
        yield _tag(type, path, BLOCKS[role])


def _text(block: dict[str, Any], path: str) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{path}.text.text: Input should be a valid string"
    elif not text:
        yield f"{path}: text content blocks must be non-empty"
    elif not text.strip():
        yield f"{path}: text content blocks must contain non-whitespace text"


def _image(block: dict[str, Any], path: str) -> Iterator[str]:
    source, path = block.get("source"), f"{path}.image.source"
    match field(source, "type"):
        case "base64":
            if not one_of(source.get("media_type"), IMAGES):
                allowed = ", ".join(map(repr, IMAGES))
                yield f"{path}.base64.media_type: Input should be {allowed}"
            if not is_base64(source.get("data")):
                yield f"{path}.base64.data: invalid base64 data"
        case "url":
            if not re.match(r"https?://\S", str(source.get("url"))):
                yield f"{path}.url.url: Only HTTP and HTTPS URLs are supported"
        case "file":
            if not has_text(source.get("file_id")):
                yield f"{path}.file.file_id: Input should be a valid string"
        case other:
            yield _tag(other, path, ("base64", "url", "file"))


def _thinking(block: dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(block.get("thinking"), str):
        yield f"{path}.thinking.thinking: Field required"
    if not has_text(block.get("signature")):
        yield f"{path}: Invalid `signature` in `thinking` block"


def _redacted(block: dict[str, Any], path: str) -> Iterator[str]:
    if not has_text(block.get("data")):
        yield f"{path}: Invalid `data` in `redacted_thinking` block"


def _tool_use(block: dict[str, Any], path: str) -> Iterator[str]:
    path = f"{path}.tool_use"
    yield from _id(block.get("id"), f"{path}.id")
    name = block.get("name")
    if not isinstance(name, str) or not name:
        yield f"{path}.name: String should have at least 1 character"
    elif len(name) > LONGEST_NAME:
        yield f"{path}.name: String should have at most {LONGEST_NAME} characters"
    if not isinstance(block.get("input"), dict):
        yield f"{path}.input: Input should be a valid dictionary"


def _tool_result(block: dict[str, Any], path: str) -> Iterator[str]:
    path = f"{path}.tool_result"
    yield from _id(block.get("tool_use_id"), f"{path}.tool_use_id")
    if not isinstance(block.get("is_error", False), bool):
        yield f"{path}.is_error: Input should be a valid boolean"
    content = block.get("content", "a result may have no content at all")
    if isinstance(content, list) and content:
        for position, part in enumerate(content):
            yield from _output(part, bool(block.get("is_error")), f"{path}.content.{position}")
    elif not has_text(content):
        yield f"{path}.content: text content blocks must be non-empty"


def _output(part: Any, is_error: bool, path: str) -> Iterator[str]:
    type = field(part, "type")
    if not one_of(type, OUTPUT):
        yield _tag(type, path, OUTPUT)
        return
    if is_error and type != "text":
        yield f"{path}: all content must be type `text` if `is_error` is true"
    yield from CHECKS.get(type, _nothing_more)(part, path)


def _id(id: Any, path: str) -> Iterator[str]:
    if not isinstance(id, str) or not re.fullmatch(ID, id):
        yield f"{path}: String should match pattern '^{ID}$'"
    elif len(id) > LONGEST_ID:
        yield f"{path}: String should have at most {LONGEST_ID} characters"


def _tag(type: Any, path: str, allowed: tuple[str, ...]) -> str:
    expected = ", ".join(map(repr, allowed))
    return (
        f"{path}: Input tag {type!r} found using 'type' does not match any of the expected tags: {expected}"
    )


def _nothing_more(block: dict[str, Any], path: str) -> Iterator[str]:
    return iter(())


CHECKS = {
    "text": _text,
    "image": _image,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}


def _thinking_first(blocks: list[Any], path: str) -> Iterator[str]:
    types = [field(block, "type") for block in blocks]
    thinking = sum(type in THINKING for type in types)
    if any(type in THINKING for type in types[thinking:]):
        yield (
            f"{path}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{types[0]}`."
            " When `thinking` is enabled, a final `assistant` message must start with a thinking block"
        )


def _trailing_space(messages: list[Any]) -> Iterator[str]:
    last = messages[-1] if messages else None
    content = field(last, "content")
    text = field(content[-1], "text") if isinstance(content, list) and content else content
    if field(last, "role") == "assistant" and isinstance(text, str) and text != text.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _turn(message: Any) -> Turn:
    role, content = field(message, "role"), field(message, "content")
    blocks = tuple(map(_kind, content)) if isinstance(content, list) else (Block(OTHER),)
    return Turn(role, blocks)


def _kind(block: Any) -> Block:
    type = field(block, "type")
    if not one_of(type, KINDS):
        return Block(OTHER)
    kind, key = KINDS[type]
    id = block.get(key)
    return Block(kind, id if isinstance(id, str) else None)
