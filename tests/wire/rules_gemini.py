"""What Gemini's generateContent refuses, with its own words. Pure; judges `systemInstruction` and `contents`.

Strict, beyond the service itself: roles alternate and the last turn is the user's, which only the older
models want; no blank text; REST's own spelling; and a response carries the name, and the id if there is
one, of a call of the turn before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import Request, field, has_text, is_base64, items, one_of
from tests.wire.rules_turns import CALL, OTHER, RESULT, Block, Turn, role_violations

DATA = {
    "user": ("text", "inlineData", "fileData", "functionResponse"),
    "model": (
        *(
            "text",
            "inlineData",
            "fileData",
            "functionCall",
            "executableCode",
            "codeExecutionResult",
        ),
        *("toolCall", "toolResponse"),  # tools that the service ran
    ),
}
EVERY = frozenset(DATA["user"] + DATA["model"])
KINDS = {"functionCall": CALL, "functionResponse": RESULT}

AFTER_USER = (
    "Please ensure that function call turn comes immediately after a user turn"
    " or after a function response turn."
)
AFTER_CALL = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function call parts"
    " of the function call turn."
)
TEXTS = {
    "first": "Please ensure that multiturn requests start with a user role.",
    "alternate": "Please ensure that multiturn requests alternate between user and model. ([{index}])",
    "last": "Please ensure that multiturn requests ends with a user role or a function response.",
}


# Protobuf's JSON takes the names of fields in both spellings.
SPELLINGS = {
    "system_instruction": "systemInstruction",
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "thought_signature": "thoughtSignature",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
LISTS = ("contents", "parts")
OPAQUE = ("args", "response")  # what a tool was given and gave is nobody's field


def violations(body: dict[str, Any], request: Request) -> Iterator[str]:
    """Everything that is wrong with a generateContent body."""
    if not request.strict:
        body = _respelled(body)
    if "systemInstruction" in body and (request.strict or body["systemInstruction"] is not None):
        yield from _system(body["systemInstruction"], request)
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield "GenerateContentRequest.contents: contents is not specified ([] is too short)"
        return
    for index, content in enumerate(contents):
        yield from _content(content, f"contents[{index}]", request)
        if request.signatures:
            yield from _signature_of_step(content, index)
    if request.strict:
        turns = [_turn(content) for content in contents]
        yield from role_violations(turns, TEXTS, pending=request.pending)
        yield from _sequence(contents, turns, request)
    else:
        combined = _combined(contents)
        yield from _sequence(combined, [_turn(content) for content in combined], request)


def _respelled(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list):
        return [_respelled(item, depth + 1) for item in value] if depth < 100 else value
    if not isinstance(value, dict) or depth >= 100:
        return value
    spelled = {
        SPELLINGS.get(key, key): item if key in OPAQUE else _respelled(item, depth + 1)
        for key, item in value.items()
    }
    # One for a list of one is taken, too.
    return {
        key: [item] if key in LISTS and isinstance(item, dict) else item
        for key, item in spelled.items()
    }


def _combined(contents: list[Any]) -> list[Any]:
    """Neighbours of one role as one; `function` and no role at all are the user's."""
    found: list[Any] = []
    for content in contents:
        role = "model" if field(content, "role") == "model" else "user"
        parts = items(field(content, "parts"))
        if found and found[-1]["role"] == role:
            found[-1] = {"role": role, "parts": found[-1]["parts"] + parts}
        else:
            found.append({"role": role, "parts": parts})
    return found


def _system(system: Any, request: Request) -> Iterator[str]:
    parts = field(system, "parts")
    if not isinstance(parts, list) or not parts:
        yield "GenerateContentRequest.system_instruction.parts: must not be empty."
    for index, part in enumerate(items(parts)):
        text = field(part, "text")
        if not (has_text(text) if request.strict else isinstance(text, str)):
            yield _no_data(f"system_instruction.parts[{index}]")


def _content(content: Any, path: str, request: Request) -> Iterator[str]:
    role, parts = field(content, "role"), field(content, "parts")
    if not request.strict and role in (None, "function") and isinstance(content, dict):
        role = "user"
    if not one_of(role, DATA):
        yield f"Please use a valid role: user, model. ({path}.role: {role!r})"
        return
    if not isinstance(parts, list) or not parts:
        yield f"GenerateContentRequest.{path}.parts: contents.parts must not be empty."
    for position, part in enumerate(items(parts)):
        yield from _part(part, role, f"{path}.parts[{position}]", request)


def _part(part: Any, role: str, path: str, request: Request) -> Iterator[str]:
    known = part.items() if isinstance(part, dict) else ()
    # In protobuf's JSON a field that is null is not set; the rules for what we made ourselves are stricter.
    data = [
        key for key, value in known if one_of(key, EVERY) and (request.strict or value is not None)
    ]
    if not data:
        # A thought may be nothing but its signature: that one is the model's own.
        if request.strict or not field(part, "thoughtSignature"):
            yield _no_data(path)
    elif len(data) > 1:
        yield f"Invalid value at '{path}' (oneof), oneof field 'data' is already set. Cannot set '{data[1]}'"
    elif data[0] not in DATA[role]:
        yield f"{AFTER_USER if data[0] == 'functionCall' else AFTER_CALL} ({path} in a {role} turn)"
    else:
        yield from CHECKS.get(data[0], _nothing_more)(part, path, request)
    yield from _signature(part, path)


def _signature(part: Any, path: str) -> Iterator[str]:
    signature = field(part, "thoughtSignature")
    if signature not in (None, "") and not is_base64(
        signature
    ):  # no bytes are the default of their type
        yield f"Invalid value at '{path}.thought_signature' (TYPE_BYTES), Base64 decoding failed"


def _text(part: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    # A stream may close with an empty text that carries the signature: that one is the model's own.
    if (
        request.strict
        and not has_text(part["text"])
        and not (part["text"] == "" and part.get("thoughtSignature"))
    ):
        yield _no_data(path)
    elif not isinstance(part["text"], str):
        yield f"Invalid value at '{path}.text' (TYPE_STRING)"


def _inline(part: dict[str, Any], path: str, _: Request) -> Iterator[str]:
    blob = part["inlineData"]
    if not has_text(field(blob, "mimeType")):
        yield f"Unable to submit request because it must have a mimeType parameter. ({path}.inline_data)"
    if not is_base64(field(blob, "data")):
        yield f"Invalid value at '{path}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"


def _file(part: dict[str, Any], path: str, _: Request) -> Iterator[str]:
    if not has_text(field(part["fileData"], "fileUri")):
        yield f"Invalid value at '{path}.file_data.file_uri' (TYPE_STRING): must not be empty."


def _call(part: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    yield from _named_struct(part["functionCall"], "args", f"{path}.function_call", request)


def _response(part: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    yield from _named_struct(
        part["functionResponse"], "response", f"{path}.function_response", request
    )


def _named_struct(value: Any, key: str, path: str, request: Request) -> Iterator[str]:
    if not has_text(field(value, "name")):
        yield f"GenerateContentRequest.{path}.name: Name cannot be empty."
    missing = isinstance(value, dict) and value.get(key) is None and not request.strict
    if not missing and not isinstance(field(value, key), dict):
        yield f"Invalid value at '{path}.{key}' (type.googleapis.com/google.protobuf.Struct)"


def _nothing_more(part: dict[str, Any], path: str, _: Request) -> Iterator[str]:
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


def _sequence(contents: list[Any], turns: list[Turn], request: Request) -> Iterator[str]:
    for index, turn in enumerate(turns):
        before = turns[index - 1] if index else Turn(None, ())
        if turn.has(CALL) and before.role != "user":
            yield f"{AFTER_USER} (contents[{index}])"
        if turn.has(RESULT) and not (before.has(CALL) and turn.opens_with_results_only()):
            yield f"{AFTER_CALL} (contents[{index}])"
        if before.has(CALL):
            open_last = request.pending and index == len(turns) - 1 and turn.is_only_results()
            yield from _counts(contents[index - 1], contents[index], index, may_be_open=open_last)
    if turns[-1].has(CALL) and not request.pending:
        yield f"{COUNTS} (contents[{len(turns)}])"


def _counts(before: Any, content: Any, index: int, *, may_be_open: bool) -> Iterator[str]:
    calls, responses = _tally(before, "functionCall"), _tally(content, "functionResponse")
    unanswered, unasked = calls - responses, responses - calls
    if unasked or (unanswered and not may_be_open):
        yield f"{COUNTS} (contents[{index}]: unanswered {list(unanswered)}, unasked {list(unasked)})"


def _tally(content: Any, key: str) -> Counter[tuple[str, str]]:
    values = (field(part, key) for part in items(field(content, "parts")))
    return Counter(
        (str(field(value, "name")), str(field(value, "id") or None))
        for value in values
        if value is not None
    )


def _turn(content: Any) -> Turn:
    blocks = tuple(_kind(part) for part in items(field(content, "parts")))
    return Turn(field(content, "role"), blocks)


def _kind(part: Any) -> Block:
    key = next((key for key in KINDS if field(part, key) is not None), None)
    return Block(KINDS[key]) if key else Block(OTHER)
