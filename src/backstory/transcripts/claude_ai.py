"""Claude.ai: the conversations.json of an export, where messages name their parents.

Calls and their results are inside an answer; the text after a result is the next answer of the
model.
"""

from collections.abc import Iterator
from typing import ClassVar

from backstory.transcripts.chatgpt import ChatExportFormat, ExportedTree
from backstory.transcripts.content import (
    AnswerBuilder,
    CallBinder,
    choose_name,
    is_one_of,
    join_text,
    list_objects,
    name_result,
    parse_time,
    read_anthropic_blocks,
    read_anthropic_result,
    to_text,
)
from backstory.transcripts.model import Data, Entry, ImportReport, Step, Unit

FIELDS = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
}


class ClaudeAiFormat(ChatExportFormat):
    """Claude.ai's exports."""

    name = "claude-ai"
    key = "chat_messages"
    type = list
    about: ClassVar[dict[str, str]] = {"title": "name"}

    def open(self, record: Data) -> "ClaudeAiConversation":
        """Return a conversation."""
        return ClaudeAiConversation(record)


class ClaudeAiConversation(ExportedTree):
    """The messages of one conversation."""

    def __init__(self, record: Data) -> None:
        super().__init__(record.get("current_leaf_message_uuid"))
        before: str | None = None
        for number, message in enumerate(list_objects(record["chat_messages"])):
            id = choose_name(message.get("uuid"), f"#{number}")
            # In older exports each message continues the one before.
            parent = message.get("parent_message_uuid") or before
            self._add(id, parent, message, parse_time(message.get("created_at")))
            before = id

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield the steps, with call ids that are unique."""
        binder = CallBinder()
        for step in super().read_steps(report):
            if isinstance(step, Unit):
                step = step._replace(entries=tuple(map(binder.bind, step.entries)))
            yield step

    def build_entries(self, id: str) -> Iterator[Entry]:
        """Yield the entries of a message."""
        message, time = self.messages[id], self._times[id]
        blocks = list_objects(message.get("content"))
        if message.get("sender") != "human":
            yield from build_answers(id, blocks or [{"type": "text", **message}], time)
            return
        text = join_text([block for block in blocks if block.get("type") == "text"])
        yield Entry(id, "user", text or to_text(message.get("text")), None, time)
        for number, file in enumerate(list_objects(message.get("attachments"))):
            text = to_text(file.get("extracted_content"))
            if text:
                data = {"meta": "attachment", "name": to_text(file.get("file_name"))}
                yield Entry(f"{id}/attachment {number}", "user", text, data, time)


def build_answers(id: str, blocks: list[Data], time: int | None) -> Iterator[Entry]:
    """Yield the answers in a message and the results between them."""
    waiting: list[Data] = []
    answer = id
    for number, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            yield from build_answer(answer, waiting, time)
            if waiting:
                waiting, answer = [], f"{id}:{number}"
            yield build_result(block, time)
        elif is_one_of(block.get("type"), FIELDS):
            waiting.append(pick_fields(block))
    yield from build_answer(answer, waiting, time)


def build_answer(id: str, blocks: list[Data], time: int | None) -> list[Entry]:
    """Return the entries of an answer, if there is one."""
    if not blocks:
        return []
    builder = AnswerBuilder(id, time, wire_format="anthropic")
    return builder.build(read_anthropic_blocks(blocks))


def pick_fields(block: Data) -> Data:
    """Return a block without the fields that only the export has, such as times."""
    names = ("type", *FIELDS[block["type"]])
    return {name: block[name] for name in names if block.get(name) is not None}


def build_result(block: Data, time: int | None) -> Entry:
    """Return the entry of a result."""
    form = {key: value for key, value in block.items() if key != "name"}
    text, data = read_anthropic_result(form, "")
    return Entry(name_result(data["id"]), "tool_result", text or join_text(block), data, time)
