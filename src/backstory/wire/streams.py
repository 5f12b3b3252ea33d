"""Assembles the events of a stream into the answer that the provider would have given without streaming.

Pure. Events are plain dicts in their original order; `as_plain` converts the objects of an SDK to dicts.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from backstory.wire.json_values import read_arguments
from backstory.wire.partial_calls import whole_calls

Event = Mapping[str, Any]


def as_plain(value: Any) -> Any:
    """An answer, or a list of stream events, as plain JSON values; SDK objects convert themselves."""
    if isinstance(value, Mapping | str | bytes) or value is None:
        return value
    if hasattr(value, "model_dump"):  # pydantic: OpenAI's, Anthropic's and Google's
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return [as_plain(item) for item in value] if isinstance(value, Iterable) else value


def openai_completion(chunks: list[Event]) -> dict[str, Any]:
    """Chat Completions: deltas of one message."""
    message: dict[str, Any] = {"role": "assistant"}
    calls: dict[int, dict[str, Any]] = {}
    about: dict[str, Any] = {}
    for chunk in chunks:
        own = chunk.get("x_groq") or {}  # Groq has the usage here
        about |= {
            key: found for key in ("model", "usage") if (found := chunk.get(key) or own.get(key))
        }
        for choice in (chunk.get("choices") or ())[:1]:
            delta = choice.get("delta") or {}
            for part in delta.get("tool_calls") or ():
                add_call(calls, part)
            if delta.get("content") is not None:
                message["content"] = continued(message.get("content"), delta["content"])
            grow(message, {key: value for key, value in delta.items() if key not in _OWN})
    if calls:
        message["tool_calls"] = list(calls.values())
    return {**about, "choices": [{"message": message}]}


_OWN = frozenset({"role", "content", "tool_calls"})


def continued(content: Any, more: Any) -> Any:
    """A content and more of it. Mistral's models stream text, and parts where they think; each goes on where
    the last one ended."""
    if isinstance(content, str | None) and isinstance(more, str):
        return (content or "") + more
    if isinstance(more, Mapping) and not content:  # an answer that the server has parsed
        return more
    parts = _as_parts(content)
    for part in _as_parts(more):
        if parts and _goes_on(parts[-1], part):
            parts[-1] = _joined(parts[-1], part)
        else:
            parts.append(part)
    return parts


def _as_parts(content: Any) -> list[Any]:
    if isinstance(content, str | None):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        raise TypeError(f"a content is text or a list of parts, not {type(content).__name__}")
    return list(content)


def _goes_on(last: Any, part: Any) -> bool:
    """Whether a part is more of the last one: of the same kind, and not under another seal."""
    if not isinstance(last, Mapping) or not isinstance(part, Mapping):
        return False
    if last.get("type") != part.get("type") or part.get("type") not in ("text", "thinking"):
        return False
    seals = [seal for seal in (last.get("signature"), part.get("signature")) if seal]
    return len(seals) < 2 or seals[0] == seals[1]


def _joined(last: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Two pieces of a part. What is beside its text may come with either: a seal comes with the last."""
    key = part["type"]
    beside = {name: value for name, value in part.items() if value is not None}
    return {**last, **beside, key: continued(last.get(key), part.get(key) or "")}


def grow(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta: texts and lists are continued, numbered parts of a list one by one; the rest is
    replaced."""
    for key, value in delta.items():
        before = whole.get(key)
        if value is None:
            continue
        if isinstance(before, str) and isinstance(value, str):
            whole[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            _grow_list(before, value)
        elif isinstance(before, dict) and isinstance(value, Mapping):
            grow(before, value)
        else:
            whole[key] = (
                [dict(item) if isinstance(item, Mapping) else item for item in value]
                if isinstance(value, list)
                else value
            )


# Fields that identify a numbered part: they are repeated, not continued.
_NAMES = frozenset({"type", "id", "index", "format", "name"})


def _grow_list(whole: list[Any], more: list[Any]) -> None:
    for item in more:
        last: Any = whole[-1] if whole else None
        if _continues(last, item):
            grow(last, {key: value for key, value in item.items() if key not in _NAMES})
            last |= {key: item[key] for key in _NAMES if item.get(key) is not None}
        else:
            whole.append(dict(item) if isinstance(item, Mapping) else item)


def _continues(last: Any, item: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(item, Mapping) or "index" not in item:
        return False
    return (last.get("index"), last.get("type")) == (item["index"], item.get("type"))


def add_call(calls: dict[int, dict[str, Any]], part: Mapping[str, Any]) -> None:
    """Add a part of a call: most servers number the calls; some send each call complete, without a number."""
    index = part.get("index")
    if index is None:
        index = len(calls) if part.get("id") or not calls else len(calls) - 1
    call = calls.setdefault(
        index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    )
    function = part.get("function") or {}
    call["id"] = call["id"] or part.get("id") or ""
    whole = call["function"]
    whole["name"] = whole["name"] or function.get("name") or ""
    whole["arguments"] += function.get("arguments") or ""
    call |= {
        key: value
        for key, value in part.items()
        if key not in ("index", "id", "type", "function") and value is not None
    }


def responses_response(events: list[Event]) -> Mapping[str, Any]:
    """Responses: the items as they were done. The last event has them all once more, with reasoning sealed
    anew; what a recorded request sent back was the first."""
    ends = [event for event in events if event.get("type") == "response.output_item.done"]
    done = [
        event["item"] for event in sorted(ends, key=lambda event: event.get("output_index") or 0)
    ]
    about: Event = next(
        (event["response"] for event in reversed(events) if event.get("response")), {}
    )
    last = about.get("output") or []
    return {**about, "output": done if len(done) >= len(last) else last}


# The fields of its block that each kind of Anthropic's deltas continues.
CONTINUES = {
    "text_delta": ("text",),
    "input_json_delta": ("partial_json",),
    "thinking_delta": ("thinking",),
    "signature_delta": ("signature",),
    "compaction_delta": ("content", "encrypted_content"),
}


def anthropic_message(events: list[Event]) -> dict[str, Any]:
    """Messages: blocks, each started once and continued by deltas."""
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                continue_block(blocks[event["index"]], event["delta"])
            case "message_delta":
                message |= {
                    key: value for key, value in event["delta"].items() if value is not None
                }
                message["usage"] = {**(message.get("usage") or {}), **(event.get("usage") or {})}
    return {**message, "content": [finished_block(block) for block in blocks.values()]}


def continue_block(block: dict[str, Any], delta: Event) -> None:
    """Add a delta to its block."""
    if delta.get("type") == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        return
    for field in CONTINUES.get(str(delta.get("type")), ()):
        if delta.get(field):
            block[field] = (block.get(field) or "") + delta[field]


def finished_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block as it is sent back: with its input parsed, and without null fields."""
    found = {
        key: value for key, value in block.items() if value is not None and key != "partial_json"
    }
    if block.get("partial_json"):
        found["input"] = parsed_input(block["partial_json"])
    return found


def parsed_input(text: str) -> Any:
    """The input of a call, from text; what is not JSON becomes an object that says so."""
    return read_arguments(text).value


def gemini_response(chunks: list[Event]) -> dict[str, Any]:
    """generateContent: the parts of all chunks, one after another."""
    parts: list[Any] = []
    about: dict[str, Any] = {}
    ended = None
    for chunk in chunks:
        about |= {key: value for key, value in chunk.items() if key != "candidates"}
        for candidate in (chunk.get("candidates") or ())[:1]:
            parts.extend((candidate.get("content") or {}).get("parts") or ())
            ended = candidate.get("finishReason") or candidate.get("finish_reason") or ended
    whole = whole_calls(parts, is_over=ended == "STOP")
    return {**about, "candidates": [{"content": {"role": "model", "parts": whole}}]}


BEDROCK_EVENTS = ("contentBlockStart", "contentBlockDelta", "metadata")


def bedrock_response(events: list[Event]) -> dict[str, Any]:
    """ConverseStream: blocks by their index, begun by a start or by their first delta. An SDK puts each event
    under its name; on the wire the name is in the frame's headers, and the event stands alone."""
    blocks: dict[int, dict[str, Any]] = {}
    about: dict[str, Any] = {}
    for event in events:
        match next((event[name] for name in BEDROCK_EVENTS if name in event), event):
            case {"start": start, "contentBlockIndex": index}:
                blocks[index] = {key: dict(value) for key, value in start.items()}
            case {"delta": delta, "contentBlockIndex": index}:
                _continue_bedrock(blocks.setdefault(index, {}), delta)
            case {"usage": usage}:
                about = {"usage": usage}
    content = [_finished_bedrock(block) for _, block in sorted(blocks.items()) if block]
    return {**about, "output": {"message": {"role": "assistant", "content": content}}}


def _continue_bedrock(block: dict[str, Any], delta: Event) -> None:
    for key, value in delta.items():
        match key:
            case "text":
                block["text"] = block.get("text", "") + value
            case "toolUse":
                use = block.setdefault("toolUse", {})
                use["input"] = (use.get("input") or "") + (value.get("input") or "")
            case "toolResult":
                result = block.setdefault("toolResult", {})
                result["content"] = [*(result.get("content") or ()), *value]
            case "citation":
                cited = block.setdefault("citationsContent", {"content": [], "citations": []})
                cited["citations"].append(value)
            case "reasoningContent":
                _continue_reasoning(block.setdefault("reasoningContent", {}), value)
            case _:
                block[key] = value


def _continue_reasoning(reasoning: dict[str, Any], delta: Event) -> None:
    for key, value in delta.items():
        if key == "redactedContent":
            reasoning[key] = value
        else:
            text = reasoning.setdefault("reasoningText", {"text": ""})
            text[key] = text.get(key, "") + value


def _finished_bedrock(block: dict[str, Any]) -> dict[str, Any]:
    use = block.get("toolUse")
    if use is not None and not isinstance(use.get("input"), Mapping):
        return {"toolUse": use | {"input": parsed_input(use.get("input") or "")}}
    if "citationsContent" in block and "text" in block:
        cited = block["citationsContent"]
        return {"citationsContent": cited | {"content": [{"text": block["text"]}]}}
    return block
