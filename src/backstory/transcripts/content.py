"""Converts what tools store of messages to entries, through the wire's own loaders. Pure.

A message that the wire refuses is kept as text: an import would rather lose the form than the text.
"""

import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from math import isfinite
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from backstory.errors import Invalid
from backstory.log.checks import DEEPEST
from backstory.log.times import to_microseconds
from backstory.transcripts.model import Data, Entry
from backstory.wire import FormatName, load, load_answer

# An event's data nests the arguments or blocks a few levels below itself.
MAX_DEPTH = DEEPEST - 10
UNNAMED_TOOL = "unknown"
SECONDS_UNTIL = 100_000_000_000  # a greater number would be the year 5138: it is milliseconds
LATEST_TIME = to_microseconds(datetime.max.replace(tzinfo=UTC))


# --- values ---


def is_one_of(value: Any, words: Collection[str]) -> bool:
    """Return True if a value is one of these words. A broken record may have anything there."""
    return isinstance(value, str) and value in words


def as_object(value: Any) -> Data:
    """Return a value that is an object; anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def list_objects(value: Any) -> list[Data]:
    """Return the objects in a list. There are none if it is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def get_type(block: Any) -> str | None:
    """Return the type of a block, or None if it has none."""
    type_ = as_object(block).get("type")
    return type_ if isinstance(type_, str) else None


def choose_name(value: Any, otherwise: str) -> str:
    """Return a value as an id or name, which is a text that is not blank."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int):
        return str(value)
    return otherwise


def get_text(record: Data, name: str) -> str | None:
    """Return a field that is a text and not empty."""
    value = record.get(name)
    return value if isinstance(value, str) and value else None


def get_call_id(data: Data | None) -> object:
    """Return the id of the call in the data of a call or result."""
    return (data or {}).get("id")


def pick_texts(record: Mapping[str, Any], names: Mapping[str, str]) -> Data:
    """Return the fields of a record that are texts and not empty, under our names for theirs."""
    found = {}
    for ours, theirs in names.items():
        value = record.get(theirs)
        if isinstance(value, str) and value:
            found[ours] = value
    return found


def pick_counts(usage: Any, names: Mapping[str, str]) -> Data:
    """Return token counts that are numbers and not 0, under our names for a tool's."""
    counts = {}
    for ours, theirs in names.items():
        count = as_object(usage).get(theirs)
        if isinstance(count, int | float) and count:
            counts[ours] = count
    return counts


def to_text(value: Any) -> str:
    """Return any value as text: strings unchanged, None as nothing, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return encode_json(value).decode()


def encode_json(value: Any, *, sorts_keys: bool = False) -> bytes:
    """Return any value as JSON."""
    option = orjson.OPT_NON_STR_KEYS
    if sorts_keys:
        option |= orjson.OPT_SORT_KEYS
    try:
        return orjson.dumps(value, default=str, option=option)
    except TypeError:  # a number of more than 64 bits
        text = json.dumps(value, default=str, ensure_ascii=False, sort_keys=sorts_keys)
        return text.encode("utf-8", "replace")


def flatten_deep(value: Any, max_depth: int = MAX_DEPTH) -> Any:
    """Return a value with what is nested too deep for an event as JSON text."""
    if not isinstance(value, dict | list) or _is_shallow(value, max_depth):
        return value
    if max_depth <= 1:
        try:
            return to_text(value)
        except (TypeError, ValueError, RecursionError):
            return "(nested too deep)"
    if isinstance(value, dict):
        return {key: flatten_deep(inner, max_depth - 1) for key, inner in value.items()}
    return [flatten_deep(inner, max_depth - 1) for inner in value]


def _is_shallow(value: Any, max_depth: int) -> bool:
    if max_depth <= 0:
        return False
    values = value.values() if isinstance(value, dict) else value
    for inner in values:
        if isinstance(inner, dict | list) and not _is_shallow(inner, max_depth - 1):
            return False
    return True


def parse_time(value: Any) -> int | None:
    """Return a time in microseconds, from ISO text (UTC by default), seconds or milliseconds."""
    time = None
    if isinstance(value, str):
        time = _parse_iso(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        scale = 1_000_000 if abs(value) < SECONDS_UNTIL else 1_000
        time = int(value * scale)
    if time is None or not 0 < time < LATEST_TIME:
        return None  # not a time that a calendar can show
    return time


def _parse_iso(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return to_microseconds(moment)


# --- messages ---


def join_text(content: Any, separator: str = "") -> str:
    """Return the text in a content: a text, a block with text, or a list of those."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return separator.join(join_text(block) for block in content)
    for key in ("text", "content", "output"):
        inner = as_object(content).get(key)
        if isinstance(inner, str | list):
            return join_text(inner)
    return ""


def build_message_entry(
    id: str, kind: str, content: Any, time: int | None, *, meta: str | None = None
) -> Entry:
    """Return the entry of a user or system message. `content` is a text or Anthropic's blocks."""
    text, data = read_anthropic_message(content)
    if meta is not None:
        data = {**(data or {}), "meta": meta}
    return Entry(id, kind, text, data, time)


def read_anthropic_message(content: Any, model: str | None = None) -> tuple[str, Data | None]:
    """Return the text of a user message, and its native form if it is more than text."""
    if isinstance(content, str):
        return content, None
    blocks = content if isinstance(content, list) else [content]
    if all(get_type(block) == "text" for block in blocks):
        return join_text(blocks), None
    body = {"messages": [{"role": "user", "content": blocks}]}
    try:
        loaded = load(body, "anthropic", model=model)
    except Invalid:
        return join_text(blocks), None
    if len(loaded) != 1:
        return join_text(blocks), None
    [(_, text, data)] = loaded
    return text or "", data


def build_media_block(mime: Any, data: Any) -> Data | None:
    """Return an image or PDF in Base64 as a block. None for anything else."""
    media_type = to_text(mime)
    if not isinstance(data, str) or not data:
        return None
    if media_type.startswith("image/"):
        kind = "image"
    elif media_type == "application/pdf":
        kind = "document"
    else:
        return None
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


# --- calls and results ---


def name_call(call_id: str) -> str:
    """Return the id of the entry of a call. Sub-agents are born at it."""
    return f"call {call_id}"


def name_result(call_id: str) -> str:
    """Return the id of the entry of a result."""
    return f"result {call_id}"


def name_record(record: Any, time: int | None) -> str:
    """Return an id for a record without one: its time, and a checksum of what it says.

    Its number in the file would not do: a copy may lack a record before it.
    """
    return f"{time or 0:x}.{crc32(encode_json(record, sorts_keys=True)):x}"


def make_unique(id: str, taken: Container[str], mark: str = "#") -> str:
    """Return an id, with a mark and a number if it is taken."""
    unique = id
    for number in count(2):
        if unique not in taken:
            break
        unique = f"{id}{mark}{number}"
    return unique


def build_call(id: Any, name: Any, arguments: Any, otherwise: str) -> Data:
    """Return the data of a call. `otherwise` is its id if it has none."""
    return {
        "id": choose_name(id, otherwise),
        "name": choose_name(name, UNNAMED_TOOL),
        "arguments": flatten_deep(parse_arguments(arguments)),
    }


def parse_arguments(arguments: Any) -> Any:
    """Return the arguments of a call: the object in a JSON text, otherwise the value itself."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            value = orjson.loads(arguments)
        except ValueError:
            return arguments
        return value if isinstance(value, dict) else arguments
    return arguments


def build_result(call_id: Any, otherwise: str, *, is_error: bool = False) -> Data:
    """Return the data of a result. `otherwise` is the call's id if none is given."""
    data: Data = {"id": choose_name(call_id, otherwise)}
    if is_error:
        data["error"] = True
    return data


def build_result_entry(
    call_id: Any,
    otherwise: str,
    text: str,
    time: int | None,
    *,
    is_error: bool = False,
    media: Iterable[Data | None] = (),
) -> Entry:
    """Return the entry of a result, with the images and documents that came with it."""
    data = build_result(call_id, otherwise, is_error=is_error)
    text, data = add_media(text, data, media)
    return Entry(name_result(data["id"]), "tool_result", text, data, time)


def add_media(text: str, data: Data, media: Iterable[Data | None]) -> tuple[str, Data]:
    """Return a result's text and data, with the images and documents that came with it."""
    blocks: list[Data] = [block for block in media if block is not None]
    if not blocks:
        return text, data
    if text:
        blocks.insert(0, {"type": "text", "text": text})
    result = {"type": "tool_result", "tool_use_id": data["id"], "content": blocks}
    if data.get("error"):
        result["is_error"] = True
    return read_anthropic_result(result, data["id"])


def read_anthropic_result(block: Mapping[str, Any], otherwise: str) -> tuple[str, Data]:
    """Return the text and data of a tool_result block, with its native form if it has media."""
    is_error = block.get("is_error") is True
    data = build_result(block.get("tool_use_id"), otherwise, is_error=is_error)
    content = block.get("content")
    if isinstance(content, str):
        return content, data
    blocks = content if isinstance(content, list) else []
    if all(get_type(one) == "text" for one in blocks):
        return join_text(blocks, "\n"), data
    body = {"messages": [{"role": "user", "content": [tidy_block(dict(block))]}]}
    try:
        [_, text, native, *_] = load(body, "anthropic")[0]
    except (Invalid, IndexError):
        return join_text(blocks), data
    return text or "", native or data


class CallBinder:
    """Gives results to calls in files whose call ids repeat: to the oldest open call with the id.

    A call id that was used before gets a number, so that the result is not taken for another's.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._open: list[tuple[str, str]] = []  # the source's id and ours, oldest first

    def add_call(self, id: str) -> str:
        """Return the unique id of a call."""
        count = self._counts.get(id, 0) + 1
        self._counts[id] = count
        unique = id if count == 1 else f"{id}#{count}"
        self._open.append((id, unique))
        return unique

    def close_call(self, id: str) -> str:
        """Return the unique id of the call that a result belongs to. "": the oldest open one."""
        for number, (given, unique) in enumerate(self._open):
            if not id or given == id:
                del self._open[number]
                return unique
        return id or UNNAMED_TOOL

    def bind(self, entry: Entry) -> Entry:
        """Return an entry with the unique id of its call."""
        data = entry.data or {}
        if entry.kind == "tool_call":
            id = self.add_call(data["id"])
            return entry._replace(id=name_call(id), data={**data, "id": id})
        if entry.kind == "tool_result":
            id = self.close_call(data["id"])
            return entry._replace(id=name_result(id), data={**data, "id": id})
        return entry


# --- answers ---


class AnswerBlock(NamedTuple):
    """A part of an answer, as tools of several providers store it."""

    kind: str  # "text", "thinking", "call", or "other" if only `form` says what it is
    text: str = ""
    id: Any = None  # of a call
    name: Any = None
    arguments: Any = None
    # The part that must be sent back to the provider: a signature, an encrypted item, or the name
    # of the field in which the reasoning came.
    seal: Any = None
    is_redacted: bool = False  # reasoning that consists of a seal only
    entry_id: str | None = None  # the tool's own id of a text
    time: int | None = None
    form: Any = None  # the block in the provider's own form, if the tool stores it


class AnswerBuilder:
    """Builds the entries of an answer: one for each text, and one for each call.

    All of them have the same `data["answer"]`, by which the wire joins them. Reasoning is in the
    native content of the text or call that follows it.
    """

    def __init__(
        self,
        id: str,
        time: int | None,
        *,
        wire_format: FormatName | None = None,
        model: str | None = None,
        data: Data | None = None,
        answer: str | None = None,
    ) -> None:
        self._id = id  # of the record
        self._time = time  # when the answer began
        self._wire_format = wire_format  # None: there is no native content
        self._model = model
        self._answer = answer or id  # the provider's message id
        # The data of the first entry: the model, the usage, why the answer failed.
        self._data: Data = {"model": model} if model else {}
        self._data.update(data or {})

    def build(self, blocks: Sequence[AnswerBlock]) -> list[Entry]:
        """Return the entries. An answer without text and calls is one entry without text."""
        entries: list[Entry] = []
        start = 0  # the first block that is not in an entry
        end = _count_native(blocks)
        for number, block in enumerate(blocks):
            if _is_entry(block):
                form = blocks[start : number + 1] if start < end else []
                entries.append(self._build_entry(block, form, number, is_first=not entries))
                start = number + 1
        # Reasoning that nothing follows is left out: its provider would refuse it.
        if not entries:
            data = self._build_data({}, blocks)
            entries.append(Entry(self._id, "assistant", "", data, self._time))
        return entries

    def _build_entry(
        self, block: AnswerBlock, form: Sequence[AnswerBlock], number: int, *, is_first: bool
    ) -> Entry:
        """Return the entry of a text or call; `form` are the blocks of its native content."""
        time = block.time or self._time
        if block.kind == "call":
            call = build_call(block.id, block.name, block.arguments, f"{self._id}:{number}")
            data = self._build_data(call, form)
            return Entry(name_call(call["id"]), "tool_call", None, data, time)
        id = self._id if is_first else f"{self._id}/{number}"
        return Entry(
            block.entry_id or id, "assistant", block.text, self._build_data({}, form), time
        )

    def _build_data(self, data: Data, form: Sequence[AnswerBlock]) -> Data:
        whole = {**data, **self._build_native(form), **self._data, "answer": self._answer}
        self._data = {}
        return whole

    def _build_native(self, blocks: Sequence[AnswerBlock]) -> Data:
        if not blocks or self._wire_format not in _WRITERS:
            return {}
        native: Data = {"provider": self._wire_format}
        if self._model:
            native["model"] = self._model
        try:
            native["wire"] = flatten_deep(_WRITERS[self._wire_format](blocks))
            load_native(native["wire"], self._wire_format, self._model)
        except (Invalid, TypeError, ValueError):
            return {}  # no provider would take it
        return {"native": native}


def _count_native(blocks: Sequence[AnswerBlock]) -> int:
    """Return the number of blocks up to the last entry with native content."""
    # The entries before it are kept in their form, too, for the order.
    count = 0
    is_leading = False
    for number, block in enumerate(blocks, 1):
        is_leading = is_leading or bool(block.seal) or block.kind not in ("text", "call")
        if is_leading and _is_entry(block):
            count = number
            is_leading = False
    return count


def _is_entry(block: AnswerBlock) -> bool:
    """Return True if a block becomes an entry. Reasoning and a blank text with a signature do
    not."""
    return block.kind == "call" or (block.kind == "text" and bool(block.text.strip()))


Loaded = list[tuple[str, str | None, Data | None]]

# The fields of a response around an answer in its provider's own form.
_RESPONSES: dict[str, Callable[[Any], Data]] = {
    "anthropic": lambda blocks: {"content": blocks},
    "openai-responses": lambda items: {"output": items},
    "openai": lambda message: {"choices": [{"message": message}]},
    "gemini": lambda parts: {"candidates": [{"content": {"role": "model", "parts": parts}}]},
}


def load_native(form: Any, wire_format: FormatName, model: str | None) -> Loaded:
    """Return the events of an answer in its provider's own form. Raises Invalid."""
    return load_answer(_RESPONSES[wire_format](form), wire_format, model=model)


# The names of providers and APIs, and the wire format that they speak. The first that fits counts.
_PROVIDERS: Sequence[tuple[Sequence[str], FormatName | None]] = (
    (("anthropic", "claude"), "anthropic"),
    (("responses", "codex"), "openai-responses"),
    (("google", "gemini", "vertex"), "gemini"),
    (("bedrock",), None),
    (("completions", "openai-compatible"), "openai"),
    (("openai", "azure"), "openai-responses"),
)


def find_wire_format(*names: Any) -> FormatName | None:
    """Return the wire format of a provider, an API or a model. None if it is unknown."""
    for name in names:
        text = name.lower() if isinstance(name, str) else ""
        for words, wire_format in _PROVIDERS:
            if any(word in text for word in words):
                return wire_format
    return None


def _parse_object(arguments: Any) -> Data:
    value = parse_arguments(arguments)
    return value if isinstance(value, dict) else {"_value": value}


def _encode_arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return to_text(_parse_object(arguments))


def _write_anthropic(blocks: Sequence[AnswerBlock]) -> list[Any]:
    return [_write_anthropic_block(block) for block in blocks]


def _write_anthropic_block(block: AnswerBlock) -> Any:
    if block.form is not None:
        return block.form
    if block.kind == "text":
        return {"type": "text", "text": block.text}
    if block.kind == "call":
        given = _parse_object(block.arguments)
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": given}
    if block.is_redacted:
        return {"type": "redacted_thinking", "data": block.seal or ""}
    thinking = {"type": "thinking", "thinking": block.text}
    if isinstance(block.seal, str):
        thinking["signature"] = block.seal
    return thinking


def _write_responses(blocks: Sequence[AnswerBlock]) -> list[Data]:
    items: list[Data] = []
    for block in blocks:
        if block.kind == "text":
            items.append({"role": "assistant", "content": block.text})
        elif block.kind == "call":
            call: Data = {"type": "function_call", "name": block.name}
            # pi joins the ids of a call and of its item.
            call["call_id"] = to_text(block.id).split("|", 1)[0]
            call["arguments"] = _encode_arguments(block.arguments)
            items.append(call)
        else:
            items.append(_write_reasoning_item(block))
    return items


def _write_reasoning_item(block: AnswerBlock) -> Data:
    seal = as_object(parse_arguments(block.seal))
    if seal.get("type") == "reasoning":
        return seal
    summary = [{"type": "summary_text", "text": block.text}] if block.text else []
    return {"type": "reasoning", "summary": summary, **seal}


def _write_gemini(blocks: Sequence[AnswerBlock]) -> list[Data]:
    parts: list[Data] = []
    for block in blocks:
        part: Data
        if block.kind == "text":
            part = {"text": block.text}
        elif block.kind == "call":
            part = {"functionCall": {"name": block.name, "args": _parse_object(block.arguments)}}
        else:
            part = {"text": block.text, "thought": True}
        if isinstance(block.seal, str) and block.seal:
            part["thoughtSignature"] = block.seal
        parts.append(part)
    return parts


REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")


def _write_openai(blocks: Sequence[AnswerBlock]) -> Data:
    message: Data = {"role": "assistant", "content": None}
    field = REASONING_FIELDS[0]
    thoughts: list[str] = []
    for block in blocks:
        if block.kind == "text":
            message["content"] = block.text
        elif block.kind == "call":
            function = {"name": block.name, "arguments": _encode_arguments(block.arguments)}
            message["tool_calls"] = [{"id": block.id, "type": "function", "function": function}]
        else:
            thoughts.append(block.text)
            if is_one_of(block.seal, REASONING_FIELDS):
                field = block.seal
    if thoughts:
        message[field] = "".join(thoughts)
    return message


_WRITERS: dict[str, Callable[[Sequence[AnswerBlock]], Any]] = {
    "anthropic": _write_anthropic,
    "openai-responses": _write_responses,
    "gemini": _write_gemini,
    "openai": _write_openai,
}


# --- Anthropic's blocks, as Claude Code and others store them ---


def read_anthropic_blocks(blocks: Iterable[Any]) -> list[AnswerBlock]:
    """Return the blocks of an answer in Anthropic's form."""
    return [_read_anthropic_block(tidy_block(block)) for block in blocks]


def _read_anthropic_block(block: Any) -> AnswerBlock:
    if isinstance(block, str):
        return AnswerBlock("text", block)
    match get_type(block):
        case "text":
            # Citations and cache marks are in the form, which then has to be kept.
            has_more = bool(set(block) - {"type", "text"})
            return AnswerBlock("text", to_text(block.get("text")), seal=has_more, form=block)
        case "tool_use":
            has_more = bool(set(block) - {"type", "id", "name", "input"})
            call = AnswerBlock("call", "", block.get("id"), block.get("name"), block.get("input"))
            return call._replace(seal=has_more, form=block)
        case "thinking" | "redacted_thinking":
            return AnswerBlock("thinking", to_text(block.get("thinking")), form=block)
    return AnswerBlock("other", form=block)


def tidy_block(block: Any) -> Any:
    """Return a block without fields that say nothing: that the model is the caller, or that there
    is no error."""
    if not isinstance(block, dict):
        return block
    tidy = dict(block)
    if tidy.get("caller") == {"type": "direct"}:
        del tidy["caller"]
    if "is_error" in tidy and tidy["is_error"] is not True:
        del tidy["is_error"]
    if "input" in tidy:
        tidy["input"] = flatten_deep(tidy["input"])
    return tidy
