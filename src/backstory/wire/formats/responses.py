"""OpenAI Responses: `{"input": [...], "instructions"?}`, a flat list of items.

Pairing is by call_id; reasoning belongs to the item behind it. Nothing here names items by their
ids unless they came with them: the ids of items that were not stored are refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from backstory.wire.body import expect, field, items, name_in, objects, one_of, wrong
from backstory.wire.encoder import compact
from backstory.wire.format import PLAIN_NAME, Format, call_of
from backstory.wire.images import COMMON_TYPES, from_url, to_url
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

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "step"}
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
# Items that say all there is to say without their ids. Others are, outside of the store, nothing.
FREE = frozenset({"message", "reasoning", "compaction", *CALLS, *OUTPUTS})


def write_say(say: Say) -> list[dict[str, Any]]:
    """A system or user message."""
    content: Any = say.text if say.parts is None else [_write_part(part) for part in say.parts]
    return [{"role": say.role, "content": content}]


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": to_url(part), "detail": "auto"}


def write_step(step: Step) -> list[dict[str, Any]]:
    """The model's message, if it said something, and its calls."""
    said = [{"role": "assistant", "content": BETWEEN.join(step.texts)}] if step.texts else []
    return said + [_write_call(call) for call in step.calls]


def _write_call(call: Asked) -> dict[str, Any]:
    arguments = compact(call.arguments)
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def write_answer(call: Asked, answer: Answer) -> list[dict[str, Any]]:
    """A call's output. There is no flag for an error: the text has to say it."""
    output: Any = answer.text if answer.parts is None else [_write_part(part) for part in answer.parts]
    return [{"type": OUTPUTS[call.custom], "call_id": call.id, "output": output}]


def body(system: list[Say], turns: list[Turn]) -> dict[str, Any]:
    """The request's instructions and input. A system message that was an input item stays one."""
    instructions = [say.text for say in system if say.wire is None]
    placed = [say for say in system if say.wire is not None]
    found: list[Any] = []
    for turn in (*placed, *turns):
        if isinstance(turn, Say):
            found.extend(write_say(turn) if turn.wire is None else as_items(turn.wire))
            continue
        found.extend(write_step(turn) if turn.wire is None else turn.wire)
        for call in turn.order or turn.calls:
            answer = call.answer
            if answer is not None:
                found.extend(write_answer(call, answer) if answer.wire is None else answer.wire)
    only = turns[0].wire if len(turns) == 1 and not placed else None
    return {"input": only if isinstance(only, str) else found} | (
        {"instructions": BETWEEN.join(instructions)} if instructions else {}
    )


def as_items(form: Any) -> list[Any]:
    """A form as a list of items; an input may be a bare text."""
    return [{"role": "user", "content": form}] if isinstance(form, str) else form


def units(body: Mapping[str, Any]) -> Iterator[Unit]:
    """Messages and outputs are units; what the model made in one go is a step."""
    if body.get("instructions") is not None:
        text = expect(body["instructions"], str, "instructions")
        yield Unit("system", None, [Text(text)], "instructions")
    if _is_text(body):
        yield Unit("user", body["input"], [Text(body["input"])], "input")
        return
    step = Run()
    for path, item in items(dict(body), "input"):
        role = _role(item, path)
        if step.found and (role != "step" or step.is_over_before(item)):
            yield step.unit()
            step = Run()
        if role == "step":
            step.add(path, item)
        else:
            yield Unit(role, [item], _read_item(item, path), path)
    if step.found:
        yield step.unit()


class Run:
    """Items of the model in a row."""

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []
        self._spoke = False
        self._called = False

    def add(self, path: str, item: dict[str, Any]) -> None:
        """Take in one more."""
        self.found.append((path, item))
        self._spoke = self._spoke or "role" in item
        self._called = self._called or item.get("type") in CALLS

    def is_over_before(self, item: dict[str, Any]) -> bool:
        """Reasoning or a message behind a message that made no call: the model was asked again."""
        return self._spoke and not self._called and ("role" in item or item["type"] == "reasoning")

    def unit(self) -> Unit:
        """The step that they are."""
        parts = [part for path, item in self.found for part in _read_item(item, path)]
        return Unit("step", [item for _, item in self.found], parts, self.found[0][0])


def _is_text(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("input"), str)


def _role(item: dict[str, Any], path: str) -> str:
    if "role" in item:
        return ROLES[one_of(item["role"], tuple(ROLES), f"{path}.role")]
    return "result" if field(item, "type", str, path) in OUTPUTS else "step"


def read(role: str, form: Any, path: str) -> list[Part]:
    """The parts of a unit's items."""
    if isinstance(form, str) and role == "user":
        return [Text(form)]
    parts: list[Part] = []
    for where, item in objects(form, path):
        if _role(item, where) != role:
            raise wrong(where, f"this is no {role} item")
        parts.extend(_read_item(item, where))
    return parts


def _read_item(item: dict[str, Any], path: str) -> list[Part]:
    if "role" in item:
        return _read_content(item.get("content"), f"{path}.content")
    match field(item, "type", str, path):
        case "function_call":
            arguments = field(item, "arguments", str, path)
            return [call_of(name_in(item, "call_id", path), name_in(item, "name", path), arguments)]
        case "custom_tool_call":
            given = {"input": field(item, "input", str, path)}
            return [Call(name_in(item, "call_id", path), name_in(item, "name", path), given, custom=True)]
        case "function_call_output" | "custom_tool_call_output" as type_:
            parts = _read_content(item.get("output"), f"{path}.output")
            return [Result(name_in(item, "call_id", path), parts, None, custom=type_ == OUTPUTS[True])]
        case "reasoning":
            # It comes back only if the service can read it again: sealed in the item, or stored.
            complete = isinstance(item.get("summary"), list) and (_is_sealed(item) or "id" in item)
            return [Other("reasoning", complete=complete, leads=True)]
        case other:
            return [Other(other)]


def _read_content(content: Any, path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    if content is None:
        raise wrong(path, "expected a string or an array of parts, found null")
    return [_read_part(part, where) for where, part in objects(content, path)]


def _read_part(part: dict[str, Any], path: str) -> Part:
    match field(part, "type", str, path):
        case "input_text" | "output_text" | "text":
            return Text(field(part, "text", str, path))
        case "refusal":
            return Text(field(part, "refusal", str, path))
        case "input_image" if isinstance(part.get("image_url"), str):
            return from_url(part["image_url"])
        case other:
            return Other(other)


def _is_sealed(item: dict[str, Any]) -> bool:
    return isinstance(item.get("encrypted_content"), str) and bool(item["encrypted_content"])


def unstored(form: Any) -> Any:
    """The items without their ids, and without those that only the store could have read."""
    if not isinstance(form, list):
        return form
    return [{key: value for key, value in item.items() if key != "id"} for item in form if _is_free(item)]


def _is_free(item: dict[str, Any]) -> bool:
    if item.get("type") == "reasoning":
        return _is_sealed(item)
    return "role" in item or item.get("type") in FREE or "id" not in item


RESPONSES = Format(
    name="openai-responses",
    ids=re.compile(r".{1,64}", re.DOTALL),
    names=PLAIN_NAME,
    alternates=False,
    system_on_top=True,
    system_in_place=True,
    calls_come_last=False,
    image_types=COMMON_TYPES,
    image_urls=True,
    result_images=True,
    result_errors=False,
    units=units,
    read=read,
    write_say=write_say,
    write_step=write_step,
    write_answer=write_answer,
    body=body,
    unstored=unstored,
)
