"""Converts answers from a tool's own blocks back to the form of the provider that gave them. Pure.

A seal is whatever has to be sent back to the provider: a signature, an encrypted item, the name of a field.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from backstory.errors import Invalid
from backstory.transcripts.entries import (
    Data,
    Part,
    arguments_of,
    as_text,
    call_data,
    loaded_answer,
    shallow,
)

REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class Block(NamedTuple):
    """A part of an answer: text, reasoning or a call."""

    kind: str  # "text", "thinking", "call"
    text: str = ""
    id: Any = None
    name: Any = None
    arguments: Any = None
    seal: Any = None
    hidden: bool = False  # reasoning that is only a seal


def family_of(*names: Any) -> str | None:
    """The wire format of a provider or API, by its name; None if it is unknown."""
    for name in names:
        text = name.lower() if isinstance(name, str) else ""
        for words, family in _FAMILIES:
            if any(word in text for word in words):
                return family
    return None


_FAMILIES = (
    (("anthropic", "claude"), "anthropic"),
    (("responses", "codex"), "openai-responses"),
    (("google", "gemini", "vertex"), "gemini"),
    (("bedrock",), None),
    (("completions", "openai-compatible"), "openai"),
    (("openai", "azure"), "openai-responses"),
)


def parts_of(family: str | None, blocks: Sequence[Block], model: str | None, id: str) -> list[Part]:
    """The events of an answer, each with the number of its block."""
    if family in _FORMS and any(block.kind == "thinking" or block.seal for block in blocks):
        try:
            loaded = loaded_answer(_FORMS[family](blocks), family, model)
        except (Invalid, TypeError, ValueError):
            return plain_parts(blocks, id)
        placed = _placed(loaded, blocks, id)
        if placed is not None:
            return placed
    return plain_parts(blocks, id)


def plain_parts(blocks: Sequence[Block], id: str) -> list[Part]:
    """The text and calls of an answer, without what only its provider understands."""
    texts = [(number, block.text) for number, block in enumerate(blocks) if block.kind == "text"]
    calls = [
        Part("tool_call", None, call_data(b.id, b.name, b.arguments, f"{id}:{number}"), number)
        for number, b in enumerate(blocks)
        if b.kind == "call"
    ]
    said = "".join(text for _, text in texts)
    if not said and calls:
        return calls
    first = texts[0][0] if texts else next((n for n, b in enumerate(blocks) if b.kind != "call"), 0)
    return [Part("assistant", said, None, first), *calls]


def _placed(loaded: Any, blocks: Sequence[Block], id: str) -> list[Part] | None:
    """Loaded events with the tool's own call ids; None if the wire saw other calls than we do."""
    plain = plain_parts(blocks, id)
    calls = [part for part in plain if part.kind == "tool_call"]
    if len(calls) != sum(kind == "tool_call" for kind, _, _ in loaded):
        return None
    rest = iter(calls)
    found = []
    for kind, content, data in loaded:
        if kind == "tool_call":
            part = next(rest)
            native = {"native": data["native"]} if data and "native" in data else {}
            found.append(part._replace(data=(part.data or {}) | native))
        else:
            first = plain[0].block if plain[0].kind == "assistant" else 0
            found.append(Part(kind, content, data, first))
    return found


def _object(arguments: Any) -> Data:
    value = shallow(arguments_of(arguments))
    return value if isinstance(value, dict) else {"_value": value}


def _anthropic(blocks: Sequence[Block]) -> list[Data]:
    content: list[Data] = []
    for block in blocks:
        if block.kind == "text":
            content.append({"type": "text", "text": block.text})
        elif block.kind == "call":
            given = _object(block.arguments)
            content.append({"type": "tool_use", "id": block.id, "name": block.name, "input": given})
        elif block.hidden:
            content.append({"type": "redacted_thinking", "data": block.seal or ""})
        else:
            seal = {"signature": block.seal} if isinstance(block.seal, str) else {}
            content.append({"type": "thinking", "thinking": block.text, **seal})
    return content


def _responses(blocks: Sequence[Block]) -> list[Data]:
    items: list[Data] = []
    for block in blocks:
        if block.kind == "text":
            items.append({"role": "assistant", "content": block.text})
        elif block.kind == "call":
            call = as_text(block.id).split("|", 1)[0]
            given = (
                block.arguments
                if isinstance(block.arguments, str)
                else as_text(_object(block.arguments))
            )
            items.append(
                {"type": "function_call", "call_id": call, "name": block.name, "arguments": given}
            )
        else:
            items.append(_reasoning(block))
    return items


def _reasoning(block: Block) -> Data:
    seal = block.seal
    if isinstance(seal, str) and seal.startswith("{"):
        try:
            seal = orjson.loads(seal)
        except ValueError:
            seal = None
    if isinstance(seal, dict) and seal.get("type") == "reasoning":
        return shallow(seal)  # type: ignore[no-any-return]
    summary = [{"type": "summary_text", "text": block.text}] if block.text else []
    return {"type": "reasoning", "summary": summary} | (seal if isinstance(seal, dict) else {})


def _gemini(blocks: Sequence[Block]) -> list[Data]:
    parts: list[Data] = []
    for block in blocks:
        seal = (
            {"thoughtSignature": block.seal} if isinstance(block.seal, str) and block.seal else {}
        )
        if block.kind == "text":
            parts.append({"text": block.text, **seal})
        elif block.kind == "call":
            parts.append(
                {"functionCall": {"name": block.name, "args": _object(block.arguments)}, **seal}
            )
        else:
            parts.append({"text": block.text, "thought": True, **seal})
    return parts


def _openai(blocks: Sequence[Block]) -> Data:
    message: Data = {"role": "assistant"}
    said = "".join(block.text for block in blocks if block.kind == "text")
    message["content"] = said or None
    thought = "".join(block.text for block in blocks if block.kind == "thinking")
    if thought:
        # Some tools keep the name of the field in which the reasoning came as its signature.
        seals = [block.seal for block in blocks if block.kind == "thinking"]
        message[seals[0] if seals[0] in REASONING else "reasoning_content"] = thought
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {
                "name": block.name,
                "arguments": block.arguments
                if isinstance(block.arguments, str)
                else as_text(_object(block.arguments)),
            },
        }
        for block in blocks
        if block.kind == "call"
    ]
    return message | ({"tool_calls": calls} if calls else {})


_FORMS: dict[str, Callable[[Sequence[Block]], Any]] = {
    "anthropic": _anthropic,
    "openai-responses": _responses,
    "gemini": _gemini,
    "openai": _openai,
}
