"""The messages of Gemini CLI as entries: prompts, answers, calls and results. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    as_object,
    build_media_block,
    build_result_entry,
    choose_name,
    flatten_deep,
    list_objects,
    parse_time,
    pick_counts,
    pick_texts,
    to_text,
)
from backstory.transcripts.model import Data, Entry
from backstory.wire import load

USAGE = {"input": "input", "output": "output", "cache_read": "cached"}
NOTICES = frozenset({"info", "error", "warning"})  # shown to people only
# How the texts begin that the tool writes in the name of the user.
TOOL_TEXTS = (
    ("<session_context>", "environment"),
    ("<hook_context>", "hook"),
    ("/", "command"),
    ("?", "command"),
)


class GeminiCall(NamedTuple):
    """A call that has no result yet."""

    id: str
    name: str


def list_calls(message: Data) -> list[Data]:
    """Return the calls that are in a message beside its content."""
    return list_objects(message.get("toolCalls"))


def list_parts(message: Data) -> list[Data]:
    """Return the parts of a message's content."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return list_objects([{"text": part} if isinstance(part, str) else part for part in parts])


def list_responses(message: Data) -> list[Data]:
    """Return the results that are a message of their own."""
    if message.get("type") != "user":
        return []
    responses = [part.get("functionResponse") for part in list_parts(message)]
    return list_objects(responses)


def list_own_parts(message: Data) -> list[Data]:
    """Return the parts of a message that are not results."""
    return [part for part in list_parts(message) if "functionResponse" not in part]


def join_parts(parts: Sequence[Data]) -> str:
    """Return the text of parts without the thoughts."""
    spoken = [part for part in parts if not part.get("thought")]
    return "".join(part["text"] for part in spoken if isinstance(part.get("text"), str))


def is_text(part: Data) -> bool:
    """Return True if a part is nothing but a text."""
    return set(part) == {"text"}


def is_speaking(message: Data) -> bool:
    """Return True if a history would lack something without this message.

    A session that is resumed leaves out the others: results that are also beside their calls,
    commands, and what the tool says of itself.
    """
    type_ = to_text(message.get("type"))
    if type_ == "user":
        parts = list_own_parts(message)
        text = join_parts(parts).strip()
        return bool(text and find_tool_text(text) is None) or not all(map(is_text, parts))
    if type_ == "gemini":
        return any(block.kind != "text" or block.text for block in list_answer_blocks(message))
    return type_ not in NOTICES


def find_tool_text(text: str) -> str | None:
    """Return what a text is if the tool wrote it and not a person."""
    for start, meaning in TOOL_TEXTS:
        if text.lstrip().startswith(start):
            return meaning
    return None


def read_likeness(message: Data) -> tuple[str, str, frozenset[str]]:
    """Return a value that is equal for messages that say the same. Their results may differ."""
    parts = list_parts(message)
    calls = list_objects([part.get("functionCall") for part in parts]) + list_calls(message)
    words = frozenset(f"{to_text(call.get('name'))} {to_text(call.get('args'))}" for call in calls)
    return to_text(message.get("type")), "".join(join_parts(parts).split()), words


# --- entries ---


class MessageReader:
    """Reads the entries of one message. Their ids begin with `id`."""

    def __init__(self, message: Data, id: str) -> None:
        self._message = message
        self._id = id
        self._time = parse_time(message.get("timestamp"))

    def read(self, answered: frozenset[str], calls: list[GeminiCall]) -> Iterator[Entry]:
        """Yield the entries. `answered` are calls whose results are in an earlier message, `calls`
        are those without a result."""
        type_ = to_text(self._message.get("type"))
        if type_ == "user":
            yield from self._read_responses(answered, calls)
            yield from self._read_prompt()
        elif type_ == "gemini":
            yield from self._read_answer()
        elif type_ not in NOTICES:
            text = join_parts(list_parts(self._message))
            meta = type_ or "tool"
            yield Entry(self._id, "user", text, {"meta": meta}, self._time)

    def _read_prompt(self) -> Iterator[Entry]:
        parts = list_own_parts(self._message)
        if not parts and list_parts(self._message):
            return
        text = join_parts(parts)
        meta = find_tool_text(text)
        data: Data = {} if meta is None else {"meta": meta}
        if not all(map(is_text, parts)):
            text, native = load_parts(parts)
            data |= native
        yield Entry(self._id, "user", text, data or None, self._time)

    def _read_responses(self, answered: frozenset[str], calls: list[GeminiCall]) -> Iterator[Entry]:
        for number, response in enumerate(list_responses(self._message)):
            if response.get("id") in answered:
                continue
            own_id = f"{self._id}/{number}"
            call = take_call(calls, response)
            parts = [{"functionResponse": response}]
            if call is None:
                text = join_result(parts)
                yield Entry(own_id, "user", text, {"meta": "tool"}, self._time)
                continue
            yield build_result(call, parts, self._time)._replace(id=own_id)

    def _read_answer(self) -> Iterator[Entry]:
        message = self._message
        usage = pick_counts(message.get("tokens"), USAGE)
        builder = AnswerBuilder(
            self._id,
            self._time,
            wire_format="gemini",
            model=pick_texts(message, {"model": "model"}).get("model"),
            data={"usage": usage} if usage else {},
        )
        for entry in builder.build(list_answer_blocks(message)):
            if entry.kind == "tool_call":
                entry = entry._replace(id=f"{self._id}/{entry.id}")
            yield entry
        for number, call in enumerate(list_calls(message)):
            if call.get("result"):
                id = choose_name(call.get("id"), str(number))
                time = parse_time(call.get("timestamp")) or self._time
                is_error = call.get("status") == "error"
                entry = build_result(id, list_result_parts(call), time, is_error=is_error)
                yield entry._replace(id=f"{self._id}/{entry.id}")


def load_parts(parts: list[Data]) -> tuple[str, Data]:
    """Return the text of a prompt with media, and its native content."""
    body = {"contents": [{"role": "user", "parts": flatten_deep(parts)}]}
    try:
        [(_, text, data)] = load(body, "gemini")
    except (Invalid, ValueError):
        return join_parts(parts), {}
    return text or "", data or {}


def take_call(calls: list[GeminiCall], response: Data) -> str | None:
    """Remove the call that a result belongs to from the open calls. Return its id; None if there is
    none. Without a fitting id it is the only open call, or the oldest with the result's name."""
    id = response.get("id")
    for call in calls:
        if call.id == id:
            calls.remove(call)
            return call.id
    if len(calls) == 1:
        return calls.pop().id
    for call in calls:
        if call.name == response.get("name"):
            calls.remove(call)
            return call.id
    return None


def list_answer_blocks(message: Data) -> list[AnswerBlock]:
    """Return thoughts, texts and calls. Newer files have all of them in the content, older ones
    have thoughts and calls beside it."""
    calls = list_calls(message)
    blocks = list(read_parts(list_parts(message), calls))
    if not any(block.kind == "thinking" for block in blocks):
        blocks = [*map(read_thought, list_objects(message.get("thoughts"))), *blocks]
    known = {block.id for block in blocks if block.kind == "call"}
    for number, call in enumerate(calls):
        id = choose_name(call.get("id"), str(number))
        if id not in known:
            blocks.append(read_call(call, call)._replace(id=id))
    return blocks


def read_parts(parts: list[Data], calls: list[Data]) -> Iterator[AnswerBlock]:
    """Yield the parts of an answer. `calls` are beside it, and say when each was made."""
    for part in parts:
        seal, text, call = part.get("thoughtSignature"), part.get("text"), part.get("functionCall")
        if isinstance(call, dict):
            yield read_call(call, find_equal_call(call, calls))._replace(seal=seal)
        elif isinstance(text, str):
            kind = "thinking" if part.get("thought") is True else "text"
            yield AnswerBlock(kind, text, seal=seal)


def read_call(call: Data, other: Data) -> AnswerBlock:
    """Return a call, with the time and, if it has no id, the id of another form of it."""
    id, time = call.get("id") or other.get("id"), parse_time(other.get("timestamp"))
    return AnswerBlock("call", "", id, call.get("name"), call.get("args"), time=time)


def find_equal_call(call: Data, calls: list[Data]) -> Data:
    """Return the first call with the same id, or else name and arguments; {} if there is none."""
    names = ("id",) if call.get("id") else ("name", "args")
    for other in calls:
        if all(other.get(name) == call.get(name) for name in names):
            return other
    return {}


def read_thought(thought: Data) -> AnswerBlock:
    """Return a thought that is beside the content."""
    subject, description = to_text(thought.get("subject")), to_text(thought.get("description"))
    return AnswerBlock("thinking", f"**{subject}** {description}" if subject else description)


# --- results ---


def build_result(call: str, parts: list[Any], time: int | None, *, is_error: bool = False) -> Entry:
    """Return the entry of a result, with the images and documents in it."""
    media = [block for part in parts for block in list_media(part)]
    return build_result_entry(call, call, join_result(parts), time, is_error=is_error, media=media)


def list_result_parts(call: Data) -> list[Any]:
    """Return the parts of one call's result.

    A history that was written anew has those of all calls of an answer beside each of them.
    """
    result = call["result"]
    parts = result if isinstance(result, list) else [result]
    ids = [as_object(as_object(part).get("functionResponse")).get("id") for part in parts]
    own = call.get("id")
    if own is None or own not in ids:
        return parts
    found: list[Any] = []
    is_own = False
    for part, id in zip(parts, ids, strict=True):
        if id is not None:
            is_own = id == own
        if is_own:  # a part without an id belongs to the response before it
            found.append(part)
    return found


def join_result(parts: list[Any]) -> str:
    """Return the text of a result."""
    texts = [read_result_text(part) for part in parts]
    return "\n".join(text for text in texts if text)


def read_result_text(part: Any) -> str:
    """Return the text of a response: its output, its error, or all of it as JSON."""
    if not isinstance(part, dict):
        return to_text(part)
    response = part.get("functionResponse")
    if not isinstance(response, dict):
        return to_text(part.get("text"))
    content = response.get("response")
    for key in ("output", "error", "content"):
        text = as_object(content).get(key)
        if isinstance(text, str):
            return text
    return to_text(content)


def list_media(part: Any) -> Iterator[Data | None]:
    """Yield images and documents: parts beside a response, or (since Gemini 3) in it."""
    match part:
        case {"inlineData": {"mimeType": mime, "data": data}}:
            yield build_media_block(mime, data)
        case {"functionResponse": {"parts": list(inner)}}:
            for one in inner:
                if "functionResponse" not in as_object(one):
                    yield from list_media(one)
