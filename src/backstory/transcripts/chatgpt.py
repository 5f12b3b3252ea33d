"""ChatGPT: the export's conversations.json, a tree of nodes for each conversation. Pure.

An edited question and an answer made again are branches. What an assistant's node says to
a recipient other than "all" is a call, and the tool's node behind it the result.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.transcripts.entries import (
    Data,
    as_text,
    call_data,
    microseconds,
    named,
    result_data,
    text_in,
)
from backstory.transcripts.forest import Forest, Node
from backstory.transcripts.format import Format, Head, Source
from backstory.transcripts.transcript import Entry, Move, Report, Session, Step, Thread, Unit

NAME = "chatgpt"
FILE = "conversations.json"


def fits(head: Head) -> bool:
    """Conversations with a mapping, in a zip or bare."""
    return head.has_records_with("mapping", dict, member=FILE)


class Tree:
    """The nodes of a conversation that say something."""

    def __init__(self, conversation: Data) -> None:
        mapping = conversation.get("mapping")
        given = mapping if isinstance(mapping, dict) else {}
        self.nodes: dict[str, Data] = {
            id: node for id, node in given.items() if isinstance(node, dict)
        }
        self.told = {id: list(self._entries(id, node)) for id, node in self.nodes.items()}
        # The order of the mapping is none: the nodes' times are.
        times = {id: entries[0].time or 0 for id, entries in self.told.items() if entries}
        order = {id: number for number, id in enumerate(sorted(times, key=times.__getitem__))}
        self.forest = Forest(Node(id, self._above(id), order[id], order[id]) for id in times)
        current = conversation.get("current_node")
        shown = self._at(current) if isinstance(current, str) and current in self.nodes else None
        self.leaf = shown if shown is not None else self.forest.leaf()

    def _parent(self, id: str) -> str | None:
        parent = self.nodes[id].get("parent")
        return parent if isinstance(parent, str) and parent in self.nodes else None

    def _at(self, id: str | None) -> str | None:
        """The nearest node at or above one that says something."""
        seen = set()
        while id is not None and not self.told[id] and id not in seen:
            seen.add(id)
            id = self._parent(id)
        return id if id is not None and self.told[id] else None

    def _above(self, id: str) -> str | None:
        return self._at(self._parent(id))

    def steps(self) -> Iterator[Step]:
        """The units, oldest first, then a move to the one that is shown."""
        told: str | None = None
        for number, node in enumerate(self.forest.ordered(), 1):
            yield Unit(node.id, node.parent, tuple(self.told[node.id]), number)
            told = node.id
        if told != self.leaf:
            yield Move(self.leaf)

    # -------------------------------------------------------------- what a node says

    def _entries(self, id: str, node: Data) -> Iterator[Entry]:
        message = node.get("message")
        if not isinstance(message, dict):
            return
        time = microseconds(message.get("create_time"))
        author = message.get("author")
        role = author.get("role") if isinstance(author, dict) else None
        content = message.get("content")
        content = content if isinstance(content, dict) else {}
        text = words(content)
        match role:
            case "assistant":
                yield from self._answer(id, message, content, text, time)
            case "tool":
                yield self._result(id, message, text, time)
            case "user" if text or content.get("parts"):
                meta = (
                    {"meta": "instructions"}
                    if content.get("content_type") == "user_editable_context"
                    else None
                )
                yield Entry(id, "user", text, meta, time)
            case "system" if text.strip():
                yield Entry(id, "system", text, None, time)

    def _answer(
        self, id: str, message: Data, content: Data, text: str, time: int | None
    ) -> Iterator[Entry]:
        metadata = message.get("metadata")
        model = metadata.get("model_slug") if isinstance(metadata, dict) else None
        data: Data = {"model": model} if isinstance(model, str) and model else {}
        recipient = message.get("recipient")
        if content.get("content_type") in ("thoughts", "reasoning_recap"):
            if text.strip():
                yield Entry(id, "note", "chatgpt.thoughts", {"text": text}, time)
        elif isinstance(recipient, str) and recipient != "all":
            yield Entry(id, "tool_call", None, call_data(id, recipient, text, id) | data, time)
        else:
            yield Entry(id, "assistant", text, data or None, time)

    def _result(self, id: str, message: Data, text: str, time: int | None) -> Entry:
        """The result of the nearest call above; without one it is the tool speaking."""
        content = message["content"] if isinstance(message.get("content"), dict) else {}
        failed = content.get("content_type") == "system_error"
        at = self._parent(id)
        seen = set()
        while at is not None and at not in seen:
            seen.add(at)
            above = self.nodes[at].get("message")
            above = above if isinstance(above, dict) else {}
            author = above.get("author")
            role = author.get("role") if isinstance(author, dict) else None
            if role == "assistant" and above.get("recipient") not in (None, "all"):
                return Entry(id, "tool_result", text, result_data(at, id, error=failed), time)
            if role in ("user", "assistant"):
                break
            at = self._parent(at)
        return Entry(id, "user", text, {"meta": "tool"}, time)


def words(content: Data) -> str:
    """The words of a content, whatever its type."""
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(part if isinstance(part, str) else _pointer(part) for part in parts)
    for key in ("text", "result", "content", "user_instructions"):
        if isinstance(content.get(key), str):
            return str(content[key])
    thoughts = content.get("thoughts")
    if isinstance(thoughts, list):
        return "\n".join(
            text_in(t) or as_text(t.get("summary")) for t in thoughts if isinstance(t, dict)
        )
    return ""


def _pointer(part: Any) -> str:
    """A part that is not text: what it points at, as the export leaves it out."""
    if not isinstance(part, dict):
        return as_text(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"[{as_text(part.get('content_type')) or 'file'}]"


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each conversation."""
    for source in sources:
        report = Report()
        for number, conversation in enumerate(source.items(FILE, report)):
            if not isinstance(conversation, dict) or not isinstance(
                conversation.get("mapping"), dict
            ):
                report.unknown[f"a conversation without a mapping ({NAME})"] += 1
                continue
            tree = Tree(conversation)
            id = conversation.get("conversation_id") or conversation.get("id")
            name = named(id, f"{source.stem}#{number}")
            found = {
                "title": conversation.get("title"),
                "model": conversation.get("default_model_slug"),
            }
            about = {key: value for key, value in found.items() if isinstance(value, str) and value}
            if tree.forest.nodes:
                yield Session(
                    NAME, name, [Thread(name, None, tree.steps, None, about)], source.path, report
                )
                report = Report()


FORMAT = Format(name=NAME, fits=fits, sessions=sessions)
