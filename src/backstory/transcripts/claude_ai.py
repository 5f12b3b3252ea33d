"""Claude.ai: the export's conversations.json, a tree where messages name their parents. Pure.

Calls and their results stand inside the answer; what is said behind a result is the next step.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.transcripts.chain import Calls
from backstory.transcripts.entries import (
    Data,
    anthropic_answer,
    anthropic_result,
    as_text,
    microseconds,
    named,
    text_in,
)
from backstory.transcripts.forest import Forest, Node
from backstory.transcripts.format import Format, Head, Source
from backstory.transcripts.transcript import Entry, Move, Report, Session, Step, Thread, Unit
from backstory.transcripts.words import Words

NAME = "claude-ai"
FILE = "conversations.json"
SPOKEN = Words({"text", "thinking", "redacted_thinking", "tool_use"})


def fits(head: Head) -> bool:
    """Conversations with chat messages, in a zip or bare."""
    return head.has_records_with("chat_messages", list, member=FILE)


class Tree:
    """The messages of a conversation."""

    def __init__(self, conversation: Data) -> None:
        given = conversation.get("chat_messages")
        messages = [m for m in (given if isinstance(given, list) else ()) if isinstance(m, dict)]
        self.messages = {named(m.get("uuid"), f"#{n}"): m for n, m in enumerate(messages)}
        # The first message names a root that is not in the export; where nobody names anything, it is a row.
        self._is_row = all(_parent_of(message) is None for message in messages)
        order = {id: number for number, id in enumerate(self._in_time())}
        nodes = []
        before: str | None = None
        for id, number in order.items():
            nodes.append(Node(id, self._parent(id, before), number, number))
            before = id
        self.forest = Forest(nodes)
        leaf = conversation.get("current_leaf_message_uuid")
        self.leaf = leaf if isinstance(leaf, str) and leaf in self.messages else self.forest.leaf()

    def _in_time(self) -> list[str]:
        times = {
            id: microseconds(message.get("created_at")) or 0
            for id, message in self.messages.items()
        }
        return sorted(times, key=times.__getitem__)

    def _parent(self, id: str, before: str | None) -> str | None:
        message = self.messages[id]
        if self._is_row or "parent_message_uuid" not in message:
            return before
        parent = _parent_of(message)
        return parent if parent in self.messages else None

    def steps(self) -> Iterator[Step]:
        """The messages, oldest first, then a move to the live one."""
        told: str | None = None
        for number, node in enumerate(self.forest.ordered(), 1):
            entries = tuple(message_entries(self.messages[node.id], node.id))
            yield Unit(node.id, node.parent, entries, number)
            told = node.id
        if told != self.leaf:
            yield Move(self.leaf)


def _parent_of(message: Data) -> str | None:
    parent = message.get("parent_message_uuid")
    return parent if isinstance(parent, str) else None


def message_entries(message: Data, id: str) -> Iterator[Entry]:
    """What a message says."""
    time = microseconds(message.get("created_at"))
    content = message.get("content")
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    if message.get("sender") == "human":
        text = "".join(as_text(b.get("text")) for b in blocks if b.get("type") == "text")
        yield Entry(id, "user", text or as_text(message.get("text")), None, time)
        yield from _attachments(message.get("attachments"), id, time)
        return
    if not blocks:
        yield Entry(id, "assistant", as_text(message.get("text")), None, time)
    yield from _answer(blocks, id, time)


def _attachments(given: Any, id: str, time: int | None) -> Iterator[Entry]:
    """Files whose text was put beside the prompt."""
    for number, one in enumerate(given if isinstance(given, list) else ()):
        text = one.get("extracted_content") if isinstance(one, dict) else None
        if isinstance(text, str) and text:
            data = {"meta": "attachment", "name": as_text(one.get("file_name"))}
            yield Entry(f"{id}/attachment {number}", "user", text, data, time)


def _answer(blocks: list[Data], id: str, time: int | None) -> Iterator[Entry]:
    calls = Calls()
    run: list[tuple[int, Data]] = []
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            yield from _step(run, id, time, calls)
            run = []
            yield _result(block, f"{id}:{number}", time, calls)
        elif block.get("type") in SPOKEN:
            run.append((number, _named(block, f"{id}:{number}")))
    yield from _step(run, id, time, calls)


def _named(block: Data, otherwise: str) -> Data:
    """A call with an id and arguments: older exports have neither."""
    if block.get("type") == "tool_use":
        given = block.get("input")
        tidy = {
            "type": "tool_use",
            "id": named(block.get("id"), otherwise),
            "name": named(block.get("name"), "tool"),
        }
        return tidy | {"input": given if isinstance(given, dict) else {}}
    keys = {"text": ("type", "text"), "thinking": ("type", "thinking", "signature")}
    wanted = keys.get(as_text(block.get("type")))
    return {key: block[key] for key in wanted if key in block} if wanted else block


def _step(run: list[tuple[int, Data]], id: str, time: int | None, calls: Calls) -> Iterator[Entry]:
    if not run:
        return
    numbers = [number for number, _ in run]
    for part in anthropic_answer([block for _, block in run], None, id):
        entry = Entry(f"{id}:{numbers[part.block]}", part.kind, part.content, part.data, time)
        yield calls.entry(entry) if part.kind == "tool_call" else entry


def _result(block: Data, id: str, time: int | None, calls: Calls) -> Entry:
    given = block.get("tool_use_id")
    text, data = anthropic_result({key: value for key, value in block.items() if key != "name"}, id)
    bound = calls.result(given if isinstance(given, str) and given else None)
    data = data | {"id": bound or data["id"]}
    content = block.get("content")
    return Entry(
        id,
        "tool_result",
        text or text_in(content) or (as_text(content) if content else ""),
        data,
        time,
    )


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each conversation in which something was said."""
    for source in sources:
        report = Report()
        for number, conversation in enumerate(source.items(FILE, report)):
            if not isinstance(conversation, dict) or not isinstance(
                conversation.get("chat_messages"), list
            ):
                report.unknown[f"a conversation without messages ({NAME})"] += 1
                continue
            tree = Tree(conversation)
            id = named(conversation.get("uuid"), f"{source.stem}#{number}")
            title = conversation.get("name")
            about = {"title": title} if isinstance(title, str) and title else {}
            if tree.messages:
                yield Session(
                    NAME, id, [Thread(id, None, tree.steps, None, about)], source.path, report
                )
                report = Report()


FORMAT = Format(name=NAME, fits=fits, sessions=sessions)
