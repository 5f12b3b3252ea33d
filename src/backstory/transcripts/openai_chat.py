"""OpenAI's chat messages in files: a conversation in each line, a list of runs, or one
conversation.

There are no ids: a session is known by the digest of its messages, and by its number among equal
ones. Call ids repeat across lines and within one.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from json import JSONDecoder
from typing import Any

from backstory.errors import Invalid
from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    as_object,
    build_result_entry,
    encode_json,
    flatten_deep,
    get_type,
    is_one_of,
    join_text,
    list_objects,
    load_native,
    to_text,
)
from backstory.transcripts.format import SourceHead, TranscriptFormat, TranscriptSource
from backstory.transcripts.model import (
    Data,
    Entry,
    Fault,
    ImportReport,
    SourceSession,
    Step,
    chain_units,
)
from backstory.wire import load

NAME = "openai-chat"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
LISTS = ("messages", "traj", "conversation")
PARTS = ("text", "image_url", "input_audio", "file", "refusal")  # each has a field of its name
PLAIN_FIELDS = {"role", "content", "tool_calls", "weight", "name", "refusal", "function_call"}
ABOUT = ("reward", "task_id", "trial", "model")
CUT_MESSAGE = re.compile(r'\{\s*"role":\s*"(system|user)",\s*"content":\s*"')
PLAIN = str | int | float
SAMPLE = 20  # conversations by which a format is recognized
# Parts of other APIs, whose messages have roles, too.
ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
SDK_PARTS = {"tool-call", "tool-result", "reasoning", "tool-invocation", "step-start", "file"}
CONVERSE_KEYS = {"text", "toolUse", "toolResult", "reasoningContent", "image", "document"}


class OpenAIChatFormat(TranscriptFormat):
    """Files of chat messages."""

    name = NAME
    has_ids = False

    def recognize(self, head: SourceHead) -> bool:
        """Return True for conversations of OpenAI's messages."""
        conversations = list_head_conversations(head)
        for messages in conversations:
            if not all(map(is_chat_message, messages)):
                return False
        return bool(conversations)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the conversations."""
        for source in sources:
            counts: Counter[str] = Counter()
            for value in read_conversations(source, report):
                messages = find_messages(value)
                if messages is None:
                    report.unknown[f"a record without messages ({NAME})"] += 1
                    continue
                shape = find_shape(messages)
                if shape is not None:
                    report.doubtful.append(Fault(source.path, None, describe_shape(shape)))
                    continue
                digest = sha256(encode_json(messages, sorts_keys=True)).hexdigest()[:24]
                counts[digest] += 1
                id = digest if counts[digest] == 1 else f"{digest}#{counts[digest]}"
                run = as_object(value)
                about = {key: run[key] for key in ABOUT if isinstance(run.get(key), PLAIN)}
                read_steps = partial(read_messages, id, messages)
                yield self.build_session(source, id, read_steps, about)


def find_messages(value: Any) -> list[Data] | None:
    """Return the messages of a conversation. None if this is no conversation."""
    found = value
    if isinstance(value, dict):
        found = next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)
    if not isinstance(found, list) or not found:
        return None
    for message in found:
        if not isinstance(as_object(message).get("role"), str):
            return None
    # An unknown role among known ones does not take the conversation away.
    if found[0]["role"] not in ROLES:
        return None
    system = as_object(value).get("system")  # a request to Anthropic without calls
    return [{"role": "system", "content": system}, *found] if system else found


def list_head_conversations(head: SourceHead) -> list[list[Data]]:
    """Return the messages of the first conversations of a source, whatever their form is."""
    records = list(head.records[:SAMPLE])
    if not records:
        records = [list_first_messages(head.text)]
    elif len(records) == 1 and isinstance(records[0], list) and find_messages(records[0]) is None:
        records = records[0][:SAMPLE]  # a list of runs
    return [messages for messages in map(find_messages, records) if messages is not None]


def list_first_messages(text: str) -> list[Any]:
    """Return the first messages in the beginning of a document that is too long for a head."""
    decoder = JSONDecoder(strict=False)
    for bracket in islice(re.finditer(r"\[\s*(?=\{)", text), SAMPLE):
        messages: list[Any] = []
        rest = text[bracket.end() :]
        while rest.startswith("{") and len(messages) < SAMPLE:
            try:
                message, end = decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                break
            messages.append(message)
            rest = rest[end:].lstrip(", \r\n\t")
        if not messages and CUT_MESSAGE.match(rest):
            messages.append({"role": "user", "content": ""})  # it is longer than the head
        if find_messages(messages) is not None:
            return messages
    return []


def is_chat_message(message: Data) -> bool:
    """Return True if a message has OpenAI's shape. Anthropic, Bedrock and the AI SDK have roles,
    too, but other parts."""
    if "parts" in message or "toolInvocations" in message:
        return False
    content = message.get("content")
    if isinstance(content, list):
        return all(map(is_chat_part, content))
    return content is None or isinstance(content, str)


def is_chat_part(part: Any) -> bool:
    """Return True if a part of a message is one of OpenAI's."""
    type_ = get_type(part)
    return type_ in PARTS and type_ in part


def describe_lookalike(head: SourceHead) -> str | None:
    """Return what a file contains that no format reads. None if its shape is unknown."""
    for record in list(head.records[:SAMPLE]):
        if "parentUuid" in as_object(record) and isinstance(record.get("message"), dict):
            is_qwen = "parts" in record["message"]
            return describe_shape("Qwen Code's messages" if is_qwen else "iFlow's messages")
    for messages in list_head_conversations(head):
        shape = find_shape(messages)
        if shape is not None:
            return describe_shape(shape)
    return None


def find_shape(messages: list[Data]) -> str | None:
    """Return the API that a conversation belongs to, if it is not OpenAI's."""
    for message in messages:
        if not is_chat_message(message):
            shape = find_message_shape(message)
            if shape is not None:
                return shape
    return None


def describe_shape(shape: str) -> str:
    """Return the note about the messages of an API."""
    return f"{shape}: no transcript format reads them"


def find_message_shape(message: Data) -> str | None:
    """Return the API that a message with a role belongs to, if it is not OpenAI's."""
    parts = list_objects(message.get("parts"))
    if "toolInvocations" in message or any("type" in part for part in parts):
        return "AI SDK messages"
    if "parts" in message:
        return "Gemini messages"
    for block in list_objects(message.get("content")):
        type_ = block.get("type")
        if type_ in ANTHROPIC_BLOCKS:
            return "Anthropic messages"
        if type_ in SDK_PARTS:
            return "AI SDK messages"
        if type_ is None and set(block) & CONVERSE_KEYS:
            return "Bedrock Converse messages"
    return None


def read_conversations(source: TranscriptSource, report: ImportReport) -> Iterator[Any]:
    """Yield the conversations: the lines, the elements of a list, the list itself, or one
    object."""
    if has_json_lines(source):
        for line in source.lines(report):
            yield line.value
        return
    items = source.read_items("", report)
    value = next(items, None)
    if is_one_of(as_object(value).get("role"), ROLES):
        yield [value, *items]
    elif value is not None:
        yield value
        yield from items


def has_json_lines(source: TranscriptSource) -> bool:
    """Return True if the first line that is not blank is an object."""
    for number, text in enumerate(source.read_text(), 1):
        if text.strip("\ufeff \t"):
            first = next(source.lines(ImportReport()), None)
            return first is not None and first.number == number and isinstance(first.value, dict)
    return False


def read_messages(id: str, messages: list[Data], report: ImportReport) -> Iterator[Step]:
    """Yield a unit for each message of a conversation."""
    for message in messages:
        report.records += 1
        if not is_chat_message(message):
            report.unknown[f"a message in another form ({NAME})"] += 1
    return chain_units(build_units(id, messages))


def build_units(conversation: str, messages: list[Data]) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the id and the entries of each message."""
    binder = CallBinder()
    for number, message in enumerate(messages):
        id = f"{conversation}:{number}"
        yield id, [binder.bind(entry) for entry in build_entries(id, message)]


def build_entries(id: str, message: Data) -> list[Entry]:
    """Return the entries of a message. Results without an id are bound to the oldest open call."""
    role = message.get("role")
    if role == "assistant":
        return build_answer(id, message)
    if role in ("tool", "function"):
        content = message.get("content")
        text = join_text(content) or to_text(content)
        return [build_result_entry(message.get("tool_call_id"), "", text, None)]
    kind = "system" if role in ("system", "developer") else "user"
    entry = build_message(id, kind, message)
    if not is_one_of(role, ROLES):
        entry = entry._replace(data={**(entry.data or {}), "meta": to_text(role)})
    return [entry]


def build_message(id: str, kind: str, message: Data) -> Entry:
    """Return the entry of a prompt, with its native form if it is more than text."""
    content = message.get("content")
    if isinstance(content, list) and any(
        part.get("type") != "text" for part in list_objects(content)
    ):
        try:
            [(_, text, data)] = load({"messages": [flatten_deep(message)]}, "openai")
            return Entry(id, kind, text or "", data)
        except (Invalid, ValueError):
            pass
    return Entry(id, kind, join_text(content))


def build_answer(id: str, message: Data) -> list[Entry]:
    """Return the entries of an answer: its text, then its calls."""
    blocks: list[AnswerBlock] = []
    text = join_text(message.get("content")) or to_text(message.get("refusal"))
    if text:
        blocks.append(AnswerBlock("text", text))
    # Until 2023 there was one `function_call`.
    calls = list_objects(message.get("tool_calls")) or list_objects([message.get("function_call")])
    for call in calls:
        function = as_object(call.get("function")) or as_object(call.get("custom")) or call
        arguments = function.get("arguments", function.get("input"))  # a custom tool gets a text
        blocks.append(AnswerBlock("call", "", call.get("id"), function.get("name"), arguments))
    return AnswerBuilder(id, None, data=load_extras(message)).build(blocks)


def load_extras(message: Data) -> Data:
    """Return the native form of an answer that has more than text and calls, such as reasoning."""
    if not set(message) - PLAIN_FIELDS:
        return {}
    try:
        loaded = load_native(flatten_deep(message), "openai", None)
    except Invalid:
        return {}
    for _, _, data in loaded:
        if data is not None and "native" in data:
            return {"native": data["native"]}
    return {}
