"""Claude.ai: the conversations.json of an export, where messages name their parents.

Calls and their results are inside an answer; the text after a result is the next answer of the
model.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from backstory.transcripts.chatgpt import FILE
from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    as_object,
    choose_name,
    join_text,
    list_objects,
    name_result,
    parse_time,
    pick_texts,
    read_anthropic_result,
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

NAME = "claude-ai"


class ClaudeAiFormat(TranscriptFormat):
    """Claude.ai's exports."""

    name: ClassVar[str] = NAME

    def recognize(self, head: SourceHead) -> bool:
        """Return True for conversations with chat messages, in a zip or bare."""
        return head.has_items_with("chat_messages", list, member=FILE)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the conversations in which something was said."""
        for source in sources:
            for number, value in enumerate(source.read_items(FILE, report)):
                record = as_object(value)
                if not isinstance(record.get("chat_messages"), list):
                    report.unknown[f"a conversation without messages ({NAME})"] += 1
                    continue
                conversation = ClaudeAiConversation(record)
                if not conversation.messages:
                    continue
                id = choose_name(record.get("uuid"), f"{source.stem}#{number}")
                about = pick_texts(record, {"title": "name"})
                thread = Thread(id, None, conversation.read_steps, None, about)
                yield SourceSession(NAME, id, [thread], source.path, ImportReport())


class ClaudeAiConversation:
    """The messages of one conversation."""

    def __init__(self, record: Data) -> None:
        self.messages: dict[str, Data] = {}
        for number, message in enumerate(list_objects(record.get("chat_messages"))):
            self.messages[choose_name(message.get("uuid"), f"#{number}")] = message
        self._current = record.get("current_leaf_message_uuid")

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each message, then a move to the one that is shown."""
        times = {id: parse_time(one.get("created_at")) for id, one in self.messages.items()}
        binder = CallBinder()
        last: str | None = None
        given = self._find_parents()
        parents = {id: given[id] for id in sorted(given, key=lambda one: times[one] or 0)}
        for id, parent in order_nodes(parents).items():
            entries = build_entries(id, self.messages[id], times[id])
            yield Unit(id, parent, tuple(binder.bind(entry) for entry in entries))
            last = id
        if isinstance(self._current, str) and self._current in self.messages:
            last = self._current
        yield SourceMove(last)

    def _find_parents(self) -> dict[str, str | None]:
        """Return the parent of each message. In older exports each continues the one before."""
        parents: dict[str, str | None] = {}
        before: str | None = None
        for id, message in self.messages.items():
            parent = message.get("parent_message_uuid")
            parents[id] = parent if isinstance(parent, str) else before
            before = id
        return parents


def build_entries(id: str, message: Data, time: int | None) -> Iterator[Entry]:
    """Yield the entries of a message."""
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
    waiting: list[AnswerBlock] = []
    answer = id
    for number, block in enumerate([*blocks, {"type": "end"}]):
        type_ = block.get("type")
        if type_ in ("tool_result", "end") and waiting:
            yield from AnswerBuilder(answer, time, wire_format="anthropic").build(waiting)
            waiting, answer = [], f"{id}:{number}"
        if type_ == "tool_result":
            yield build_result(block, time)
        elif type_ == "text":
            waiting.append(AnswerBlock("text", to_text(block.get("text"))))
        elif type_ == "thinking":
            text = to_text(block.get("thinking"))
            waiting.append(AnswerBlock("thinking", text, seal=block.get("signature")))
        elif type_ == "redacted_thinking":
            waiting.append(AnswerBlock("thinking", seal=block.get("data"), is_redacted=True))
        elif type_ == "tool_use":
            # Older exports have no ids.
            call = choose_name(block.get("id"), f"{id}:{number}")
            name, arguments = choose_name(block.get("name"), "tool"), block.get("input")
            waiting.append(AnswerBlock("call", "", call, name, arguments))


def build_result(block: Data, time: int | None) -> Entry:
    """Return the entry of a result."""
    form = {key: value for key, value in block.items() if key != "name"}
    text, data = read_anthropic_result(form, "")
    return Entry(name_result(data["id"]), "tool_result", text or join_text(block), data, time)
