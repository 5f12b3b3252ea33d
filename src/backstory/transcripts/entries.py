"""From a provider's blocks to entries, through the wire's own loaders. Pure.

What the wire refuses is kept as text: an import would rather lose the form than the text.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import orjson

from backstory.errors import Invalid
from backstory.log.checks import DEEPEST
from backstory.log.times import to_microseconds
from backstory.transcripts.transcript import Entry, as_entry
from backstory.wire import load, load_answer

Data = dict[str, Any]
# An event's data nests the arguments or blocks a few levels below itself.
SHALLOW = DEEPEST - 10
NAMELESS = "unknown"
_SECONDS_UNTIL = 100_000_000_000  # more than that would be the year 5138, so it is milliseconds


class Part(NamedTuple):
    """An event of an answer or a message, and the number of the block that it came from."""

    kind: str
    content: str | None
    data: Data | None
    block: int


# `tuple.__new__` runs no Python code, `Part(…)` would.
_part: Callable[[tuple[Any, ...]], Part] = partial(tuple.__new__, Part)


def microseconds(value: Any) -> int | None:
    """A time as microseconds since 1970, from ISO text (UTC by default), seconds or milliseconds."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _sane(to_microseconds(moment))
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        scale = 1_000_000 if abs(value) < _SECONDS_UNTIL else 1_000
        return _sane(int(value * scale)) if abs(value) < 1e15 else None
    return None


_LAST = to_microseconds(datetime.max.replace(tzinfo=UTC))


def _sane(time: int) -> int | None:
    """A time that a calendar can show; None if it is not a time, such as 0."""
    return time if 0 < time < _LAST else None


def text_in(content: Any) -> str:
    """The text in a content, which is a text, a block with text, or a list of those."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_in(block) for block in content)
    if isinstance(content, dict):
        for key in ("text", "content", "output"):
            if isinstance(content.get(key), str | list):
                return text_in(content[key])
    return ""


def as_text(value: Any) -> str:
    """Any value as text: strings unchanged, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json_of(value).decode() if value is not None else ""


def json_of(value: Any, *, is_sorted: bool = False) -> bytes:
    """Any value as JSON, with the keys of objects in order or as they are."""
    option = orjson.OPT_NON_STR_KEYS | (orjson.OPT_SORT_KEYS if is_sorted else 0)
    try:
        return orjson.dumps(value, default=str, option=option)
    except TypeError:  # a number of more than 64 bits
        text = json.dumps(value, default=str, ensure_ascii=False, sort_keys=is_sorted)
        return text.encode("utf-8", "replace")


def shallow(value: Any, deepest: int = SHALLOW) -> Any:
    """The value, with anything nested too deeply for an event as JSON text."""
    if not isinstance(value, _NESTED) or _fits(value, deepest):
        return value
    if deepest <= 1:
        return _deep_text(value)
    if isinstance(value, dict):
        return {key: shallow(inner, deepest - 1) for key, inner in value.items()}
    return [shallow(inner, deepest - 1) for inner in value]


def _deep_text(value: Any) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError, RecursionError):
        return "(nested too deep)"


def _fits(value: Any, deepest: int) -> bool:
    if deepest <= 0:
        return False
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, _NESTED) and not _fits(one, deepest - 1):
            return False
    return True


_NESTED = (dict, list)


def named(value: Any, otherwise: str) -> str:
    """An id or name as events must have it: text that is not blank."""
    if isinstance(value, str) and value.strip():
        return value
    return str(value) if isinstance(value, int) else otherwise


def call_data(id: Any, name: Any, arguments: Any, otherwise: str) -> Data:
    """The data of a call; arguments that are JSON text are parsed."""
    return {
        "id": named(id, otherwise),
        "name": named(name, NAMELESS),
        "arguments": shallow(arguments_of(arguments)),
    }


def arguments_of(raw: Any) -> Any:
    """The arguments of a call: the object in a JSON text, otherwise the value itself."""
    if isinstance(raw, str):
        try:
            value = orjson.loads(raw)
        except ValueError:
            return raw
        return value if isinstance(value, dict) else raw
    return {} if raw is None else raw


def result_data(id: Any, otherwise: str, *, error: bool = False) -> Data:
    """A result's data."""
    data: Data = {"id": named(id, otherwise)}
    return data | {"error": True} if error else data


# ------------------------------------------------------------------ answers

# What a provider returns around the form of an answer.
_RESPONSES: dict[str, Callable[[Any], Data]] = {
    "anthropic": lambda blocks: {"content": blocks},
    "openai-responses": lambda items: {"output": items},
    "openai": lambda message: {"choices": [{"message": message}]},
    "gemini": lambda parts: {"candidates": [{"content": {"role": "model", "parts": parts}}]},
}


def loaded_answer(
    form: Any, format: str, model: str | None
) -> list[tuple[str, str | None, Data | None]]:
    """The events of an answer in its provider's own form, as the wire loads it. Raises Invalid."""
    return load_answer(_RESPONSES[format](form), format, model=model)


# ------------------------------------------------------------------ Anthropic's blocks


def anthropic_answer(blocks: Sequence[Any], model: str | None, id: str) -> list[Part]:
    """The events of an answer: its text, if any, then its calls; or one event without text."""
    usual = _usual_answer(blocks, model)  # most blocks are tidy as they come
    if usual is not None:
        return usual
    tidy = [_tidy(block) for block in blocks]
    usual = _usual_answer(tidy, model)
    if usual is not None:
        return usual
    try:
        loaded = loaded_answer(tidy, "anthropic", model)
    except Invalid:
        return _worded_answer(blocks, id)
    return _placed(loaded, tidy)


def _usual_answer(blocks: Sequence[Any], model: str | None) -> list[Part] | None:
    """What the wire would load, but faster: reasoning, at most one text, then calls. None: use the wire."""
    found: list[Part] = []
    said: Part | None = None
    thought = False
    for number, block in enumerate(blocks):
        if type(block) is not dict:
            return None
        type_, size = block.get("type"), len(block)
        if type_ == "tool_use" and size == 4:
            id, name, given = block.get("id"), block.get("name"), block.get("input")
            if not (
                is_plain(id) and is_plain(name) and type(given) is dict and _fits(given, SHALLOW)
            ):
                return None
            found.append(
                _part(("tool_call", None, {"id": id, "name": name, "arguments": given}, number))
            )
        elif found:
            return None
        elif type_ == "thinking" and size == 3:
            if not (
                isinstance(block.get("thinking"), str) and isinstance(block.get("signature"), str)
            ):
                return None
            thought = True
        elif type_ == "text" and size == 2 and said is None:
            text = block.get("text")
            if not isinstance(text, str) or not text.strip():
                return None
            said = _part(("assistant", text, None, number))
        else:
            return None
    if said is not None or not found:
        found.insert(0, said or Part("assistant", "", None, 0))
    if thought:
        tag = (
            {"provider": "anthropic"}
            if model is None
            else {"provider": "anthropic", "model": model}
        )
        kind, content, data, number = found[0]
        found[0] = _part(
            (kind, content, {**(data or {}), "native": {**tag, "wire": list(blocks)}}, number)
        )
    return found if blocks else None


def is_plain(value: Any) -> bool:
    """Whether every provider accepts an id or a name unchanged; the wire repairs the others."""
    return isinstance(value, str) and _PLAIN.fullmatch(value) is not None


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _tidy(block: Any) -> Any:
    """A block without fields that say nothing: that the model is the caller, that there is no error."""
    if not isinstance(block, dict):
        return block
    if "caller" in block and block["caller"] == {"type": "direct"}:
        block = {key: value for key, value in block.items() if key != "caller"}
    if "is_error" in block and block["is_error"] is not True:
        block = {key: value for key, value in block.items() if key != "is_error"}
    if block.get("type") == "tool_use":
        given = block.get("input")
        tidy = shallow(given)
        return block if tidy is given else block | {"input": tidy}
    return block


def _placed(
    loaded: Iterable[tuple[str, str | None, Data | None]], blocks: Sequence[Any]
) -> list[Part]:
    """Loaded events with the numbers of their blocks."""
    calls = iter([n for n, block in enumerate(blocks) if block.get("type") == "tool_use"])
    texts = [n for n, block in enumerate(blocks) if block.get("type") == "text"]
    return [
        Part(kind, content, data, next(calls, 0) if kind == "tool_call" else (texts or [0])[0])
        for kind, content, data in loaded
    ]


def _worded_answer(blocks: Sequence[Any], id: str) -> list[Part]:
    """The text and calls of an answer that the wire does not accept."""
    calls = [
        Part(
            "tool_call", None, call_data(b.get("id"), b.get("name"), b.get("input"), f"{id}:{n}"), n
        )
        for n, b in enumerate(blocks)
        if isinstance(b, dict) and b.get("type") == "tool_use"
    ]
    texts = [n for n, b in enumerate(blocks) if isinstance(b, str) or _type(b) == "text"]
    said = Part("assistant", "".join(text_in(blocks[n]) for n in texts), None, (texts or [0])[0])
    return [said, *calls] if said.content or not calls else list(calls)


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, dict) else None


def anthropic_message(content: Any, model: str | None = None) -> tuple[str, Data | None]:
    """The text of a user message, and its own form if it is more than text."""
    if isinstance(content, str):
        return content, None
    blocks = content if isinstance(content, list) else [content]
    if all(_type(block) == "text" for block in blocks):
        return text_in(blocks), None
    try:
        loaded = load({"messages": [{"role": "user", "content": blocks}]}, "anthropic", model=model)
        return loaded[0][1] or "", loaded[0][2] if len(loaded) == 1 else None
    except (Invalid, IndexError):
        return text_in(blocks), None


def media_block(mime: Any, data: Any) -> Data | None:
    """An image or PDF in Base64 as a block; None: something else."""
    name = as_text(mime)
    type_ = (
        "image" if name.startswith("image/") else "document" if name == "application/pdf" else None
    )
    if type_ is None or not isinstance(data, str) or not data:
        return None
    return {"type": type_, "source": {"type": "base64", "media_type": name, "data": data}}


def result_with(text: str, data: Data, media: Iterable[Data | None]) -> tuple[str, Data]:
    """A result's text and data, with the images and documents that came with it."""
    blocks = [block for block in media if block is not None]
    if not blocks:
        return text, data
    said = [{"type": "text", "text": text}] if text else []
    error = {"is_error": True} if data.get("error") else {}
    result = {
        "type": "tool_result",
        "tool_use_id": data["id"],
        "content": [*said, *blocks],
        **error,
    }
    return anthropic_result(result, data["id"])


def anthropic_result(block: Mapping[str, Any], otherwise: str) -> tuple[str, Data]:
    """The text and data of a tool_result block, with its own form if it is more than text."""
    data = result_data(block.get("tool_use_id"), otherwise, error=block.get("is_error") is True)
    content = block.get("content")
    if isinstance(content, str):
        return content, data
    blocks = content if isinstance(content, list) else []
    if all(_type(one) == "text" for one in blocks):
        return "\n".join(text_in(one) for one in blocks), data
    try:
        loaded = load(
            {"messages": [{"role": "user", "content": [_tidy(dict(block))]}]}, "anthropic"
        )
        return loaded[0][1] or "", loaded[0][2] or data
    except (Invalid, IndexError):
        return text_in(blocks), data


def usage_of(usage: Any, names: Mapping[str, str]) -> Data:
    """A tool's token counts under our names: input, output, cache_read, cache_write, cost."""
    return named_counts(names, map(usage.get, names.values())) if isinstance(usage, dict) else {}


def named_counts(names: Iterable[str], counts: Iterable[Any]) -> Data:
    """Token counts with their names, as far as they are numbers and not 0."""
    return {
        name: count
        for name, count in zip(names, counts, strict=False)
        if count and isinstance(count, _NUMBERS)
    }


_NUMBERS = (int, float)


def answer_entries(
    parts: Iterable[Part], id: str, times: Sequence[int | None], extra: Data
) -> list[Entry]:
    """The entries of an answer. `times`: when each block came; `extra` (model, usage) is on the first event.

    The text of an answer has the time at which the answer began; each call has its own time.
    """
    entries = []
    first = times[0] if times else None
    for kind, content, data, block in parts:
        time = times[block] if kind == "tool_call" and block < len(times) else first
        data = {**(data or {}), **extra, "answer": id}
        entries.append(as_entry((f"{id}:{block}", kind, content, data, time, None)))
        extra = {}
    return entries
