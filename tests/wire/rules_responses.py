"""What OpenAI's Responses service refuses, with its own words. Pure; judges `input` and `instructions`.

Calls and outputs are paired by call_id anywhere, an output after its call; reasoning is paired by adjacency.
Strict, beyond the service itself: no ids, no items but messages, calls, outputs and reasoning, no blank text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import (
    OPENAI_LONGEST_NAME,
    OPENAI_NAME,
    Request,
    field,
    kind,
    one_of,
    openai_arguments,
    openai_image,
    openai_string,
    openai_text,
)

LONGEST_ID = 64

INPUT = ("input_text", "input_image", "input_file")
PARTS = {
    "user": INPUT,
    "system": INPUT,
    "developer": INPUT,
    "assistant": ("output_text", "refusal"),
}
TEXT_FIELD = {"input_text": "text", "output_text": "text", "refusal": "refusal"}
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
# Recorded, or in the SDK's types: what the service does itself, or asks the client to do in its own way.
SERVED = frozenset(
    {
        "additional_tools",
        "compaction",
        "computer_call",
        "computer_call_output",
        "code_interpreter_call",
    }
    | {"apply_patch_call", "apply_patch_call_output", "file_search_call", "image_generation_call"}
    | {
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "web_search_call",
    }
    | {"mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools"}
    | {"tool_search_call", "tool_search_output", "program", "program_output"}
    | {"compaction_trigger", "configuration_update", "x_search_call"}
)


def violations(body: dict[str, Any], request: Request) -> Iterator[str]:
    """Everything that is wrong with a Responses body."""
    if "instructions" in body and (request.strict or body["instructions"] is not None):
        yield from openai_text(body["instructions"], "instructions", request)
    input = body.get("input")
    if isinstance(input, str):
        yield from openai_text(input, "input", request)
        return
    if not isinstance(input, list):
        yield f"Invalid type for 'input': expected an array of objects, but got {kind(input)} instead."
        return
    if not input:
        yield "[] is too short - 'input'"
    for index, item in enumerate(input):
        yield from _item(item, f"input[{index}]", request)
    if not request.compatible:
        yield from _reasoning_order(input, request)
    if not (
        body.get("previous_response_id") or body.get("conversation")
    ):  # where the rest of it is kept
        yield from _pairs(input, request)


def _type(item: Any) -> Any:
    if isinstance(item, dict) and "type" not in item:
        return "message" if "role" in item else "item_reference" if "id" in item else None
    return field(item, "type")


def _item(item: Any, path: str, request: Request) -> Iterator[str]:
    type = _type(item)
    if type == "item_reference" and request.stored:
        return
    if one_of(type, SERVED) and not request.strict:
        return
    if not one_of(type, ITEMS):
        yield f"Invalid value: {type!r}. Supported values are: {', '.join(map(repr, ITEMS))}. ({path}.type)"
        return
    if "id" in item and request.strict:
        yield _not_found(item["id"], path)
    yield from ITEMS[type](item, path, request)


def _message(item: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    role, content = field(item, "role"), field(item, "content")
    if not one_of(role, PARTS):
        yield f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, PARTS))}. ({path}.role)"
    elif isinstance(content, list):
        yield from _parts(content, PARTS[role], f"{path}.content", request)
    else:
        yield from openai_text(content, f"{path}.content", request)


def _call(item: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    yield from openai_string(item.get("call_id"), f"{path}.call_id", longest=LONGEST_ID)
    name = item.get("name")
    yield from openai_string(name, f"{path}.name", longest=OPENAI_LONGEST_NAME, pattern=OPENAI_NAME)
    if item.get("type") == "function_call":
        yield from openai_arguments(item.get("arguments"), f"{path}.arguments", request)
    elif not isinstance(item.get("input"), str):
        yield f"{path}.input: Input should be a valid string"


def _output(item: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    yield from openai_string(item.get("call_id"), f"{path}.call_id", longest=LONGEST_ID)
    output = item.get("output")
    if isinstance(output, list):
        yield from _parts(output, INPUT, f"{path}.output", request)
    else:
        yield from openai_text(output, f"{path}.output", request)


def _reasoning(item: dict[str, Any], path: str, request: Request) -> Iterator[str]:
    if not isinstance(item.get("summary"), list):
        yield f"{path} missing required field summary"
    sealed = isinstance(item.get("encrypted_content"), str) and item["encrypted_content"]
    if not sealed and not request.compatible and not (request.stored and item.get("id")):
        # Without its content the item is only a reference to something that was never stored.
        yield _not_found(item.get("id"), path)


ITEMS = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "custom_tool_call": _call,
    "custom_tool_call_output": _output,
    "reasoning": _reasoning,
}


def _parts(
    parts: list[Any], allowed: tuple[str, ...], path: str, request: Request
) -> Iterator[str]:
    if not parts and (request.strict or allowed != PARTS["assistant"]):
        yield f"Invalid '{path}': empty array. Expected an array with minimum length 1"
    for index, part in enumerate(parts):
        yield from _part(part, allowed, f"{path}[{index}]", request)


def _part(part: Any, allowed: tuple[str, ...], path: str, request: Request) -> Iterator[str]:
    type = field(part, "type")
    if not one_of(type, allowed):
        supported = ", ".join(map(repr, allowed))
        yield f"Invalid value: {type!r}. Supported values are: {supported}. ({path}.type)"
    elif type in TEXT_FIELD:
        yield from openai_text(part.get(TEXT_FIELD[type]), f"{path}.{TEXT_FIELD[type]}", request)
    elif type == "input_image" and not isinstance(part.get("file_id"), str):
        yield from openai_image(part.get("image_url"), f"{path}.image_url")


def _not_found(id: Any, path: str) -> str:
    return (
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        f" Try again with `store` set to true, or remove this item from your input. ({path})"
    )


def _reasoning_order(input: list[Any], request: Request) -> Iterator[str]:
    for index, item in enumerate(input):
        following = input[index + 1] if index + 1 < len(input) else None
        if _type(item) != "reasoning":
            continue
        # Where items are stored, reasoning with an id belongs to a message with one.
        torn = (
            request.stored
            and _type(following) == "message"
            and field(item, "id")
            and not field(following, "id")
        )
        if torn or not _is_answer(following, request):
            yield (
                f"Item '{field(item, 'id') or f'input[{index}]'}' of type 'reasoning'"
                " was provided without its required following item."
            )


def _is_answer(item: Any, request: Request) -> bool:
    type = _type(item)
    if type == "message":
        return bool(field(item, "role") == "assistant")
    if (
        request.strict
    ):  # two of them in a row were refused once: the first one has no item of its own
        return one_of(type, CALLS)
    return isinstance(type, str) and not type.endswith(("_output", "_response"))


def _pairs(input: list[Any], request: Request) -> Iterator[str]:
    calls: dict[str, int] = {}
    needed: dict[str, int] = {}
    answered: set[str] = set()
    is_referring = any(
        _type(item) == "item_reference" for item in input
    )  # to calls in the store, perhaps
    for index, item in enumerate(input):
        type, id = _type(item), field(item, "call_id")
        if not isinstance(type, str) or not isinstance(id, str):
            continue
        if type.endswith("_call"):
            if id in calls:
                yield f"Duplicate 'call_id': '{id}' in input[{calls[id]}] and input[{index}]."
            calls[id] = index
            if type in CALLS and not (
                request.compatible and id.startswith("xs_")
            ):  # which xAI runs itself
                needed[id] = index
        elif type in OUTPUTS and id not in calls and not is_referring:
            yield f"No tool call found for function call output with call_id {id}."
        elif type in OUTPUTS and id in answered:
            yield f"Duplicate 'call_id': a second function call output for '{id}' in input[{index}]."
        else:
            answered.add(id)
    last_step = _last_step(input) if request.pending else len(input)
    for id, index in needed.items():
        if id not in answered and index < last_step:
            yield f"No tool output found for function call {id}."


def _last_step(input: list[Any]) -> int:
    """Where the last answer begins, if nothing but outputs follows it."""
    start = len(input)
    while start and _type(input[start - 1]) in OUTPUTS:
        start -= 1
    while start and _is_models(input[start - 1]):
        start -= 1
    return start


def _is_models(item: Any) -> bool:
    return _type(item) in (*CALLS, "reasoning") or field(item, "role") == "assistant"
