"""ChatGPT: the conversations.json of an export, where each conversation is a tree of nodes.

Edited questions and repeated answers are branches. A text that an assistant writes to a recipient
other than "all" is a call, and the tool's node below it is the result.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from backstory.transcripts.content import (
    as_object,
    build_call,
    build_result_entry,
    choose_name,
    is_one_of,
    join_text,
    list_objects,
    name_call,
    parse_time,
    pick_texts,
    to_text,
)
from backstory.transcripts.format import SourceHead, TranscriptFormat, TranscriptSource
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    SourceMove,
    SourceSession,
    Step,
    Unit,
    order_nodes,
)

FILE = "conversations.json"


class ChatExportFormat(TranscriptFormat):
    """A file of conversations, each of which is a tree of messages."""

    key: ClassVar[str]  # of the messages of a conversation
    type: ClassVar[type]  # of their collection
    about: ClassVar[dict[str, str]]  # the fields that describe a conversation

    @abstractmethod
    def open(self, record: Data) -> "ExportedTree":
        """Return a conversation."""

    def recognize(self, head: SourceHead) -> bool:
        """Return True for conversations with messages, in a zip or bare."""
        return head.has_items_with(self.key, self.type, member=FILE)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the conversations in which something was said."""
        for source in sources:
            for number, value in enumerate(source.read_items(FILE, report)):
                record = as_object(value)
                if not isinstance(record.get(self.key), self.type):
                    report.unknown[f"a conversation without a {self.key} ({self.name})"] += 1
                    continue
                tree = self.open(record)
                if not tree.is_empty():
                    id = record.get("conversation_id") or record.get("uuid") or record.get("id")
                    name = choose_name(id, f"{source.stem}#{number}")
                    about = pick_texts(record, self.about)
                    yield self.build_session(source, name, tree.read_steps, about)


class ExportedTree(ABC):
    """The messages of one conversation, with their parents."""

    def __init__(self, current: Any) -> None:
        self.messages: dict[str, Data] = {}
        self._parents: dict[str, str | None] = {}
        self._times: dict[str, int | None] = {}
        self._current = current  # the message that is shown

    def _add(self, id: str, parent: Any, message: Data, time: int | None) -> None:
        self.messages[id] = message
        self._parents[id] = parent if isinstance(parent, str) else None
        self._times[id] = time

    @abstractmethod
    def build_entries(self, id: str) -> Iterator[Entry]:
        """Yield the entries of a message."""

    def is_empty(self) -> bool:
        """Return True if nothing was said."""
        return not any(True for id in self.messages for _ in self.build_entries(id))

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each message, then a move to the one that is shown."""
        by_time = sorted(self._parents, key=lambda one: self._times[one] or 0)
        last = None
        for id, parent in order_nodes({id: self._parents[id] for id in by_time}).items():
            yield Unit(id, parent, tuple(self.build_entries(id)))
            last = id
        yield SourceMove(self._current if is_one_of(self._current, self.messages) else last)


class ChatGptFormat(ChatExportFormat):
    """ChatGPT's exports."""

    name = "chatgpt"
    key = "mapping"
    type = dict
    about: ClassVar[dict[str, str]] = {"title": "title", "model": "default_model_slug"}

    def open(self, record: Data) -> "ChatGptConversation":
        """Return a conversation."""
        return ChatGptConversation(record)


class ChatGptConversation(ExportedTree):
    """The nodes of one conversation."""

    def __init__(self, record: Data) -> None:
        super().__init__(record.get("current_node"))
        for id, node in record["mapping"].items():
            message = as_object(as_object(node).get("message"))
            time = parse_time(message.get("create_time"))
            self._add(id, as_object(node).get("parent"), message, time)

    def build_entries(self, id: str) -> Iterator[Entry]:
        """Yield the entries of a node."""
        message = self.messages[id]
        content = as_object(message.get("content"))
        time = self._times[id]
        text = read_text(content)
        match as_object(message.get("author")).get("role"):
            case "assistant":
                yield build_answer(id, message, text, time)
            case "tool":
                yield self._build_result(id, content, text, time)
            case "user" if text or content.get("parts"):
                data = None
                if content.get("content_type") == "user_editable_context":
                    data = {"meta": "instructions"}
                yield Entry(id, "user", text, data, time)
            case "system" if text.strip():
                yield Entry(id, "system", text, None, time)

    def _build_result(self, id: str, content: Data, text: str, time: int | None) -> Entry:
        call = self._find_call(id)
        if call is None:
            return Entry(id, "user", text, {"meta": "tool"}, time)
        is_error = content.get("content_type") == "system_error"
        return build_result_entry(call, "", text, time, is_error=is_error)._replace(id=id)

    def _find_call(self, id: str) -> str | None:
        """Return the nearest call above a result."""
        visited: set[str] = set()
        parent = self._parents[id]
        while parent in self.messages and parent not in visited:
            visited.add(parent)
            message = self.messages[parent]
            role = as_object(message.get("author")).get("role")
            if role == "assistant" and is_call(message):
                return parent
            if role in ("user", "assistant"):
                return None
            parent = self._parents[parent]
        return None


def is_call(message: Data) -> bool:
    """Return True if an assistant's text is for a tool."""
    recipient = message.get("recipient")
    return isinstance(recipient, str) and recipient != "all"


def build_answer(id: str, message: Data, text: str, time: int | None) -> Entry:
    """Return the entry of an assistant's node."""
    data = pick_texts(as_object(message.get("metadata")), {"model": "model_slug"})
    content_type = as_object(message.get("content")).get("content_type")
    if content_type in ("thoughts", "reasoning_recap"):
        return Entry(id, "note", "chatgpt.thoughts", {"text": text}, time)
    if is_call(message):
        call = build_call(id, message["recipient"], text, id)
        return Entry(name_call(id), "tool_call", None, {**call, **data}, time)
    return Entry(id, "assistant", text, data or None, time)


def read_text(content: Data) -> str:
    """Return the text of a content of any type."""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(read_part(part) for part in parts)
    for key in ("text", "result", "content", "user_instructions"):
        if isinstance(content.get(key), str):
            return to_text(content[key])
    thoughts = list_objects(content.get("thoughts"))
    return "\n".join(join_text(one) or to_text(one.get("summary")) for one in thoughts)


def read_part(part: Any) -> str:
    """Return the text of a part. The export does not contain files: their type is all there is."""
    if not isinstance(part, dict):
        return to_text(part)
    if isinstance(part.get("text"), str):
        return to_text(part["text"])
    return f"[{to_text(part.get('content_type')) or 'file'}]"
