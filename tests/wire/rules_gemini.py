"""What Gemini's generateContent refuses, with its own words. Pure; judges `systemInstruction` and `contents`.

Strict where only the older models are (roles alternate, the last turn is the user's), and about names and
ids: a response must carry the name, and the id if there is one, of a call of the turn before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import field, has_text, is_base64, items, one_of
from tests.wire.rules_turns import CALL, OTHER, RESULT, Block, Turn, role_violations

DATA = {
    "user": ("text", "inlineData", "fileData", "functionResponse"),
    "model": ("text", "inlineData", "fileData", "functionCall", "executableCode", "codeExecutionResult"),
}
EVERY = frozenset(DATA["user"] + DATA["model"])
KINDS = {"functionCall": CALL, "functionResponse": RESULT}

AFTER_USER = (
    "Please ensure that function call turn comes immediately after a user turn"
    " or after a function response turn."
)
AFTER_CALL = "Please ensure that function response turn comes immediately after a function call turn."
COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function call parts"
    " of the function call turn."
)
TEXTS = {
    "first": "Please ensure that multiturn requests start with a user role.",
    "alternate": "Please ensure that multiturn requests alternate between user and model. ([{index}])",
    "last": "Please ensure that multiturn requests ends with a user role or a function response.",
}


def violations(body: dict[str, Any], *, pending: bool, signatures: bool) -> Iterator[str]:
    """Everything that is wrong with a generateContent body."""
    if "systemInstruction" in body:
        yield from _system(body["systemInstruction"])
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield "GenerateContentRequest.contents: contents is not specified ([] is too short)"
        return
    for index, content in enumerate(contents):
        yield from _content(content, f"contents[{index}]")
        if signatures:
            yield from _signature_of_step(content, index)
    turns = [_turn(content) for content in contents]
    yield from role_violations(turns, TEXTS, pending=pending)
    yield from _sequence(contents, turns, pending=pending)


def _system(system: Any) -> Iterator[str]:
    parts = field(system, "parts")
    if not isinstance(parts, list) or not parts:
        yield "GenerateContentRequest.system_instruction.parts: must not be empty."
    for index, part in enumerate(items(parts)):
        if not has_text(field(part, "text")):
            yield _no_data(f"system_instruction.parts[{index}]")


def _content(content: Any, path: str) -> Iterator[str]:
    role, parts = field(content, "role"), field(content, "parts")
    if not one_of(role, DATA):
        yield f"Please use a valid role: user, model. ({path}.role: {role!r})"
        return
    if not isinstance(parts, list) or not parts:
        yield f"GenerateContentRequest.{path}.parts: contents.parts must not be empty."
    for position, part in enumerate(items(parts)):
        yield from _part(part, role, f"{path}.parts[{position}]")


def _part(part: Any, role: str, path: str) -> Iterator[str]:
    data = [key for key in part if one_of(key, EVERY)] if isinstance(part, dict) else []
    if not data:
        yield _no_data(path)
    elif len(data) > 1:
        yield f"Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{data[1]}'"
    elif data[0] not in DATA[role]:
        yield f"{AFTER_USER if data[0] == 'functionCall' else AFTER_CALL} ({path} in a {role} turn)"
    else:
        yield from CHECKS.get(data[0], _nothing_more)(part, path)
    yield from _signature(part, path)


def _signature(part: Any, path: str) -> Iterator[str]:
    signature = field(part, "thoughtSignature")
    if signature is not None and not is_base64(signature):
        yield f"Invalid value at '{path}.thought_signature' (TYPE_BYTES), Base64 decoding failed"


def _text(part: dict[str, Any], path: str) -> Iterator[str]:
    # A stream may close with an empty text that carries the signature: that one is the model's own.
    if not has_text(part["text"]) and not (part["text"] == "" and part.get("thoughtSignature")):
        yield _no_data(path)


def _inline(part: dict[str, Any], path: str) -> Iterator[str]:
    blob = part["inlineData"]
    if not has_text(field(blob, "mimeType")):
        yield f"Unable to submit request because it must have a mimeType parameter. ({path}.inline_data)"
    if not is_base64(field(blob, "data")):
        yield f"Invalid value at '{path}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"


def _file(part: dict[str, Any], path: str) -> Iterator[str]:
    if not has_text(field(part["fileData"], "fileUri")):
        yield f"Invalid value at '{path}.file_data.file_uri' (TYPE_STRING): must not be empty."


def _call(part: dict[str, Any], path: str) -> Iterator[str]:
    yield from _named_struct(part["functionCall"], "args", f"{path}.function_call")


def _response(part: dict[str, Any], path: str) -> Iterator[str]:
    yield from _named_struct(part["functionResponse"], "response", f"{path}.function_response")


def _named_struct(value: Any, key: str, path: str) -> Iterator[str]:
    if not has_text(field(value, "name")):
        yield f"GenerateContentRequest.{path}.name: Name cannot be empty."
    if not isinstance(field(value, key), dict):
        yield f"Invalid value at '{path}.{key}' (type.googleapis.com/google.protobuf.Struct)"


def _nothing_more(part: dict[str, Any], path: str) -> Iterator[str]:
    return iter(())


CHECKS = {
    "text": _text,
    "inlineData": _inline,
    "fileData": _file,
    "functionCall": _call,
    "functionResponse": _response,
}


def _no_data(path: str) -> str:
    return f"{path}: required oneof field 'data' must have one initialized field"


def _signature_of_step(content: Any, index: int) -> Iterator[str]:
    parts = items(field(content, "parts"))
    first = next((part for part in parts if field(part, "functionCall") is not None), None)
    if first is not None and not is_base64(first.get("thoughtSignature")):
        name = field(first["functionCall"], "name")
        yield (
            "Function call is missing a thought_signature in functionCall parts."
            f" (function call `{name}`, position {index})"
        )


def _sequence(contents: list[Any], turns: list[Turn], *, pending: bool) -> Iterator[str]:
    for index, turn in enumerate(turns):
        before = turns[index - 1] if index else Turn(None, ())
        if turn.has(CALL) and before.role != "user":
            yield f"{AFTER_USER} (contents[{index}])"
        if turn.has(RESULT) and not (before.has(CALL) and turn.opens_with_results_only()):
            yield f"{AFTER_CALL} (contents[{index}])"
        if before.has(CALL):
            open_last = pending and index == len(turns) - 1 and turn.is_only_results()
            yield from _counts(contents[index - 1], contents[index], index, may_be_open=open_last)
    if turns[-1].has(CALL) and not pending:
        yield f"{COUNTS} (contents[{len(turns)}])"


def _counts(before: Any, content: Any, index: int, *, may_be_open: bool) -> Iterator[str]:
    calls, responses = _tally(before, "functionCall"), _tally(content, "functionResponse")
    unanswered, unasked = calls - responses, responses - calls
    if unasked or (unanswered and not may_be_open):
        yield f"{COUNTS} (contents[{index}]: unanswered {list(unanswered)}, unasked {list(unasked)})"


def _tally(content: Any, key: str) -> Counter[tuple[str, str]]:
    values = (field(part, key) for part in items(field(content, "parts")))
    return Counter(
        (str(field(value, "name")), str(field(value, "id"))) for value in values if value is not None
    )


def _turn(content: Any) -> Turn:
    blocks = tuple(_kind(part) for part in items(field(content, "parts")))
    return Turn(field(content, "role"), blocks)


def _kind(part: Any) -> Block:
    key = next((key for key in KINDS if field(part, key) is not None), None)
    return Block(KINDS[key]) if key else Block(OTHER)
