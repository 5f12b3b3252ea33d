"""ChatGPT: the conversations.json of an export, where each conversation is a tree of nodes.

Edited questions and repeated answers are branches. A text that an assistant writes to a recipient
other than "all" is a call, and the tool's node below it is the result.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from backstory.transcripts.content import (
    as_object,
    build_call,
    build_result_entry,
    choose_name,
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
    Thread,
    Unit,
    order_nodes,
)

NAME = "chatgpt"
FILE = "conversations.json"


class ChatGptFormat(TranscriptFormat):
    """ChatGPT's exports."""

    name: ClassVar[str] = NAME

    def recognize(self, head: SourceHead) -> bool:
        """Return True for conversations with a mapping, in a zip or bare."""
        return head.has_items_with("mapping", dict, member=FILE)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the conversations."""
        for source in sources:
            for number, value in enumerate(source.read_items(FILE, report)):
                record = as_object(value)
                if not isinstance(record.get("mapping"), dict):
                    report.unknown[f"a conversation without a mapping ({NAME})"] += 1
                    continue
                conversation = ChatGptConversation(record)
                if conversation.is_empty():
                    continue
                id = record.get("conversation_id") or record.get("id")
                name = choose_name(id, f"{source.stem}#{number}")
                about = pick_texts(record, {"title": "title", "model": "default_model_slug"})
                thread = Thread(name, None, conversation.read_steps, None, about)
                yield SourceSession(NAME, name, [thread], source.path, ImportReport())


class ChatGptConversation:
    """The nodes of one conversation."""

    def __init__(self, record: Data) -> None:
        self._messages: dict[str, Data] = {}
        self._parents: dict[str, str | None] = {}
        for id, node in record["mapping"].items():
            parent = as_object(node).get("parent")
            self._parents[id] = parent if isinstance(parent, str) else None
            self._messages[id] = as_object(as_object(node).get("message"))
        self._current = record.get("current_node")

    def is_empty(self) -> bool:
        """Return True if nothing was said."""
        return not any(True for id in self._messages for _ in self._build_entries(id))

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each node, then a move to the one that is shown."""
        messages = self._messages
        times = {id: parse_time(said.get("create_time")) or 0 for id, said in messages.items()}
        parents = {id: self._parents[id] for id in sorted(messages, key=times.__getitem__)}
        last: str | None = None
        for id, parent in order_nodes(parents).items():
            yield Unit(id, parent, tuple(self._build_entries(id)))
            last = id
        if isinstance(self._current, str) and self._current in messages:
            last = self._current
        yield SourceMove(last)

    def _build_entries(self, id: str) -> Iterator[Entry]:
        message = self._messages[id]
        content = as_object(message.get("content"))
        time = parse_time(message.get("create_time"))
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
        while parent in self._messages and parent not in visited:
            visited.add(parent)
            message = self._messages[parent]
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
