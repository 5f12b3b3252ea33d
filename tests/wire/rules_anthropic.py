"""What Anthropic's Messages service refuses, with its own words. Pure; judges `system` and `messages`.

Strict, beyond the service itself: no prefill and no system role inside, which only some models take; roles
alternate, though the service combines neighbours, because a dump promises to have merged them; the user
begins; no block is nothing but whitespace; ids are unique in the whole request; thinking comes first; and
there is no block that only the service itself can have made.
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
    merged,
    pairing_violations,
    role_violations,
)

ID = r"[a-zA-Z0-9_-]+"
LONGEST_ID = 64
LONGEST_NAME = 200
MOST_BREAKPOINTS = 4

BLOCKS = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}
# Blocks that the service made, or that name something it keeps: `*_tool_result` beside these.
SERVED = {
    "user": ("container_upload", "mcp_approval_response"),
    "assistant": ("server_tool_use", "mcp_tool_use", "compaction", "fallback"),
}
SYSTEM_BLOCKS = ("text", "tool_addition", "tool_removal")
# The newer models take system messages inside the conversation, the older ones take a prefilled answer.
WITH_SYSTEM = re.compile(r"claude-(opus-4-[89]|opus-[5-9]|fable)")
WITH_PREFILL = re.compile(
    r"claude-([23][.-]|3|instant|haiku-4-5|(sonnet|opus)-4-[015](?!\d)|(sonnet|opus)-4-2025)"
)
OUTPUT = ("text", "image", "document", "search_result")
SERVED_OUTPUT = ("tool_reference",)
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


def violations(body: dict[str, Any], request: Request) -> Iterator[str]:
    """Everything that is wrong with a Messages body."""
    if "system" in body:
        yield from _system(body["system"], request)
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required ([] is too short)"
    for index, message in enumerate(messages):
        yield from _message(message, index, request)
    yield from _sequence(messages, request)
    yield from _trailing_space(messages)
    yield from _breakpoints(body)


def _breakpoints(body: dict[str, Any]) -> Iterator[str]:
    """Of the cache there are four at most, wherever they stand."""
    found = 0
    waiting: list[Any] = [body.get("system"), body.get("messages"), body.get("tools")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found += field(value, "cache_control") is not None
            waiting += [value.get("content"), value.get("source")]
        waiting += items(value)
    if found > MOST_BREAKPOINTS:
        yield f"A maximum of {MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."


def _sequence(messages: list[Any], request: Request) -> Iterator[str]:
    turns = [_turn(message) for message in messages]
    seen = turns if request.strict else merged([turn for turn in turns if turn.role != "system"])
    yield from pairing_violations(seen, TEXTS, pending=request.pending, strict=request.strict)
    if request.strict:
        yield from role_violations(turns, TEXTS, pending=request.pending)
    elif turns and turns[-1].role == "assistant" and not _may_go_on(messages[-1], request):
        yield TEXTS["last"]
    if not request.strict:
        yield from _placement(messages)


def _placement(messages: list[Any]) -> Iterator[str]:
    """A system message stands behind the user, or a server's tool, and before the model or at the end."""
    roles = [field(message, "role") for message in messages]
    for index, role in enumerate(roles):
        if role != "system" or not index:
            continue
        blocks = items(field(messages[index - 1], "content"))
        is_served = bool(blocks) and str(field(blocks[-1], "type")).endswith("_tool_result")
        if roles[index - 1] == "assistant" and not is_served:
            yield f"messages.{index}: role 'system' must follow a user turn or server tool use"
        if "user" in roles[index + 1 : index + 2]:
            yield f"messages.{index}: role 'system' must be last or precede an assistant turn"


def _may_go_on(message: Any, request: Request) -> bool:
    """A prefilled answer, one that waits for its own calls, or one that paused while a server's tool ran."""
    blocks = items(field(message, "content"))
    waits = request.pending and any(field(block, "type") == "tool_use" for block in blocks)
    if waits or request.is_for(WITH_PREFILL):
        return True
    return bool(blocks) and _is_served(field(blocks[-1], "type"), "assistant")


def _system(system: Any, request: Request) -> Iterator[str]:
    if isinstance(system, list) and (system or not request.strict):
        for index, block in enumerate(system):
            yield from _only_text(block, f"system.{index}")
    elif not has_text(system) and (request.strict or system != ""):
        yield "system: text content blocks must be non-empty"


def _only_text(block: Any, path: str) -> Iterator[str]:
    if field(block, "type") != "text":
        yield f"{path}.type: Input should be 'text'"
    else:
        yield from _text(block, path)


def _message(message: Any, index: int, request: Request) -> Iterator[str]:
    role, path = field(message, "role"), f"messages.{index}"
    if role == "system":
        yield from _system_message(message, index, request)
    elif not one_of(role, BLOCKS):
        yield f"{path}.role: Input should be 'user' or 'assistant'"
    else:
        yield from _content(message.get("content"), role, path, request)


def _system_message(message: Any, index: int, request: Request) -> Iterator[str]:
    path = f"messages.{index}"
    if index == 0:
        yield f"{path}: use the top-level 'system' parameter for the initial system prompt"
    elif request.strict or not request.is_for(WITH_SYSTEM):
        yield f"{path}: role 'system' is not supported on this model"
    for position, block in enumerate(items(field(message, "content"))):
        if not one_of(field(block, "type"), SYSTEM_BLOCKS):
            yield _tag(field(block, "type"), f"{path}.content.{position}", SYSTEM_BLOCKS)


def _content(content: Any, role: str, path: str, request: Request) -> Iterator[str]:
    if isinstance(content, str) and content:
        if not content.strip():
            yield f"{path}: text content blocks must contain non-whitespace text"
    elif not isinstance(content, list) or not content:
        yield (
            f"{path}: all messages must have non-empty content"
            " except for the optional final assistant message"
        )
    blocks = items(content)
    for position, block in enumerate(blocks):
        if not request.strict and len(blocks) > 1 and _is_white(block):
            continue  # beside something else the service takes it
        yield from _block(block, role, f"{path}.content.{position}", request)
    if role == "assistant" and blocks and field(blocks[-1], "type") in THINKING:
        yield f"{path}: The final block in an assistant message cannot be `thinking`."
    if request.strict:
        yield from _thinking_first(blocks, path)


def _is_white(block: Any) -> bool:
    text = field(block, "text")
    return field(block, "type") == "text" and isinstance(text, str) and text.isspace()


def _is_served(type: Any, role: str) -> bool:
    if not isinstance(type, str):
        return False
    made = role == "assistant" and type.endswith("_tool_result")
    return type in SERVED[role] or made


def _block(block: Any, role: str, path: str, request: Request) -> Iterator[str]:
    type = field(block, "type")
    if one_of(type, BLOCKS[role]):
        if type == "tool_result":
            yield from _tool_result(block, path, request)
        else:
            yield from CHECKS.get(type, _nothing_more)(block, path)
    elif _is_served(type, role) and not request.strict:
        return
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
    source, path = field(block, "source"), f"{path}.image.source"
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


def _tool_result(block: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    path = f"{path}.tool_result"
    yield from _id(block.get("tool_use_id"), f"{path}.tool_use_id")
    if not isinstance(block.get("is_error", False), bool):
        yield f"{path}.is_error: Input should be a valid boolean"
    content = block.get("content", "a result may have no content at all")
    if isinstance(content, list) and content:
        for position, part in enumerate(content):
            yield from _output(
                part, bool(block.get("is_error")), f"{path}.content.{position}", request
            )
    elif request.strict and not has_text(content):
        yield f"{path}.content: text content blocks must be non-empty"


def _output(part: Any, is_error: bool, path: str, request: Request) -> Iterator[str]:
    type = field(part, "type")
    if one_of(type, SERVED_OUTPUT) and not request.strict:
        return
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
    return f"{path}: Input tag {type!r} found using 'type' does not match any of the expected tags: {expected}"


def _nothing_more(block: dict[str, Any], path: str) -> Iterator[str]:
    return iter(())


CHECKS = {
    "text": _text,
    "image": _image,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
}


def _thinking_first(blocks: list[Any], path: str) -> Iterator[str]:
    """Thinking starts the message that has it, and was recorded to come again between calls."""
    types = [field(block, "type") for block in blocks]
    if types and types[0] not in THINKING and any(type in THINKING for type in types):
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
    if not isinstance(content, list):
        return Turn(role, (Block(OTHER),))
    # A tool that the service is to run may stand behind calls: its result comes with the next answer.
    return Turn(
        role, tuple(_kind(block) for block in content if field(block, "type") != "server_tool_use")
    )


def _kind(block: Any) -> Block:
    type = field(block, "type")
    if not one_of(type, KINDS):
        return Block(OTHER)
    kind, key = KINDS[type]
    id = block.get(key)
    return Block(kind, id if isinstance(id, str) else None)
