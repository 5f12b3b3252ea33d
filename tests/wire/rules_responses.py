"""What OpenAI's Responses service refuses when nothing is stored. Pure; judges `input` and `instructions`.

Calls and outputs are paired by call_id anywhere, an output after its call; reasoning is paired by adjacency.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.wire.rules_basics import (
    OPENAI_LONGEST_NAME,
    OPENAI_NAME,
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
PARTS = {"user": INPUT, "system": INPUT, "developer": INPUT, "assistant": ("output_text", "refusal")}
TEXT_FIELD = {"input_text": "text", "output_text": "text", "refusal": "refusal"}


def violations(body: dict[str, Any], *, pending: bool) -> Iterator[str]:
    """Everything that is wrong with a Responses body."""
    if "instructions" in body:
        yield from openai_text(body["instructions"], "instructions")
    input = body.get("input")
    if isinstance(input, str):
        yield from openai_text(input, "input")
        return
    if not isinstance(input, list):
        yield f"Invalid type for 'input': expected an array of objects, but got {kind(input)} instead."
        return
    if not input:
        yield "[] is too short - 'input'"
    for index, item in enumerate(input):
        yield from _item(item, f"input[{index}]")
    yield from _reasoning_order(input)
    yield from _pairs(input, pending=pending)


def _type(item: Any) -> Any:
    if isinstance(item, dict) and "type" not in item and "role" in item:
        return "message"
    return field(item, "type")


def _item(item: Any, path: str) -> Iterator[str]:
    type = _type(item)
    if not one_of(type, ITEMS):
        yield f"Invalid value: {type!r}. Supported values are: {', '.join(map(repr, ITEMS))}. ({path}.type)"
        return
    if "id" in item:
        yield _not_found(item["id"], path)
    yield from ITEMS[type](item, path)


def _message(item: dict[str, Any], path: str) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if not one_of(role, PARTS):
        yield f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, PARTS))}. ({path}.role)"
    elif isinstance(content, list):
        yield from _parts(content, PARTS[role], f"{path}.content")
    else:
        yield from openai_text(content, f"{path}.content")


def _call(item: dict[str, Any], path: str) -> Iterator[str]:
    yield from openai_string(item.get("call_id"), f"{path}.call_id", longest=LONGEST_ID)
    name = item.get("name")
    yield from openai_string(name, f"{path}.name", longest=OPENAI_LONGEST_NAME, pattern=OPENAI_NAME)
    yield from openai_arguments(item.get("arguments"), f"{path}.arguments")


def _output(item: dict[str, Any], path: str) -> Iterator[str]:
    yield from openai_string(item.get("call_id"), f"{path}.call_id", longest=LONGEST_ID)
    output = item.get("output")
    if isinstance(output, list):
        yield from _parts(output, INPUT, f"{path}.output")
    else:
        yield from openai_text(output, f"{path}.output")


def _reasoning(item: dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(item.get("summary"), list):
        yield f"{path} missing required field summary"
    if not isinstance(item.get("encrypted_content"), str) or not item["encrypted_content"]:
        # Without its content the item is only a reference to something that was never stored.
        yield _not_found(item.get("id"), path)


ITEMS = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output,
    "reasoning": _reasoning,
}


def _parts(parts: list[Any], allowed: tuple[str, ...], path: str) -> Iterator[str]:
    if not parts:
        yield f"Invalid '{path}': empty array. Expected an array with minimum length 1"
    for index, part in enumerate(parts):
        yield from _part(part, allowed, f"{path}[{index}]")


def _part(part: Any, allowed: tuple[str, ...], path: str) -> Iterator[str]:
    type = field(part, "type")
    if not one_of(type, allowed):
        supported = ", ".join(map(repr, allowed))
        yield f"Invalid value: {type!r}. Supported values are: {supported}. ({path}.type)"
    elif type in TEXT_FIELD:
        yield from openai_text(part.get(TEXT_FIELD[type]), f"{path}.{TEXT_FIELD[type]}")
    elif type == "input_image" and not isinstance(part.get("file_id"), str):
        yield from openai_image(part.get("image_url"), f"{path}.image_url")


def _not_found(id: Any, path: str) -> str:
    return (
        f"Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        f" Try again with `store` set to true, or remove this item from your input. ({path})"
    )


def _reasoning_order(input: list[Any]) -> Iterator[str]:
    for index, item in enumerate(input):
        following = input[index + 1] if index + 1 < len(input) else None
        if _type(item) == "reasoning" and not _is_answer(following):
            yield (
                f"Item '{field(item, 'id') or f'input[{index}]'}' of type 'reasoning'"
                " was provided without its required following item."
            )


def _is_answer(item: Any) -> bool:
    # Two reasoning items in a row are refused as well: the first one has no item of its own.
    return _type(item) == "function_call" or (_type(item) == "message" and field(item, "role") == "assistant")


def _pairs(input: list[Any], *, pending: bool) -> Iterator[str]:
    calls: dict[str, int] = {}
    answered: set[str] = set()
    for index, item in enumerate(input):
        type, id = _type(item), field(item, "call_id")
        if type not in ("function_call", "function_call_output") or not isinstance(id, str):
            continue
        if type == "function_call":
            if id in calls:
                yield f"Duplicate 'call_id': '{id}' in input[{calls[id]}] and input[{index}]."
            calls[id] = index
        elif id not in calls:
            yield f"No tool call found for function call output with call_id {id}."
        elif id in answered:
            yield f"Duplicate 'call_id': a second function call output for '{id}' in input[{index}]."
        else:
            answered.add(id)
    last_step = _last_step(input) if pending else len(input)
    for id, index in calls.items():
        if id not in answered and index < last_step:
            yield f"No tool output found for function call {id}."


def _last_step(input: list[Any]) -> int:
    """Where the calls of the last answer begin, if nothing but outputs follows them."""
    start = len(input)
    while start and _type(input[start - 1]) == "function_call_output":
        start -= 1
    while start and _type(input[start - 1]) in ("function_call", "reasoning"):
        start -= 1
    return start
