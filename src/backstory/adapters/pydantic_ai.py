"""pydantic-ai: `BackstoryConversations("history.db")` in place of `InMemoryConversationStore()`.

A conversation is an agent, an entry its messages with the entry's id as key, the record a note
after them. A branch is a jump, a fork is a fork. Deleting a conversation erases what no fork of it
needs.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import pydantic
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse

from backstory import Agent, AgentNotFound, Ambiguous, Conflict, Event, KeyTaken, PositionNotFound
from backstory.adapters.items import (
    Item,
    ItemReader,
    TurnItem,
    add_usage,
    build_item,
    build_message,
    build_note,
    clean_text,
    describe_media,
    read_note,
    write_content,
)
from backstory.adapters.stores import (
    SLICE,
    AdapterStore,
    DraftTuple,
    KeylessDraft,
    KnownHeads,
    Where,
    build_clear,
    build_jump,
    build_key,
    copy_in_slices,
)
from backstory.aio import in_thread
from backstory.log.arguments import DERIVED_END, LONGEST_KEY
from backstory.log.items import write_item
from backstory.wire.media import media
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import AnswerTurn, Media, MessageTurn, Part, Text, text_of

__all__ = ["BackstoryConversations", "MessageHistory"]

ADAPTER = "pydantic_ai"
NOTE = f"{ADAPTER}.message"  # a message without text, calls and results
RECORD = f"{ADAPTER}.record"
PREFIX = f"{ADAPTER}:"  # how the keys of conversations begin
SCOPE = "scope"  # in an agent's details: the scope of its conversation, as a key
MOST_PLACES = 1_000
PAGE = 100  # conversations that a listing with a limit reads at once
OTHERS = "backstory"  # how the ids begin of entries for messages of others
OTHERS_ID = re.compile(rf"{OTHERS}:(.+):([0-9]{{1,19}})")  # an agent and a position
FAILED = ("failed", "denied", "retried")
Records: pydantic.TypeAdapter[ConversationRecord] = pydantic.TypeAdapter(ConversationRecord)

Form = dict[str, Any]  # a message, or a part of it, as pydantic-ai serializes it


class EntryNotFound(LookupError):
    """No conversation has an entry with this id."""


class Place(NamedTuple):
    """The position of an entry's last event."""

    agent: Agent
    position: int


class Tail(NamedTuple):
    """The end of a conversation's context: its newest record and its last entry."""

    head: int
    record: Form | None
    entry_id: str | None
    position: int  # of the last entry
    is_own: bool  # False: somebody else wrote the last message


class BackstoryConversations(ConversationStore):
    """A store of conversations that lasts. `repair=False` leaves calls of other programs open that
    have no result."""

    def __init__(self, where: Where, *, repair: bool = True) -> None:
        self._store = AdapterStore(where, ADAPTER)
        self._reader = ItemReader(ADAPTER, [NOTE], PydanticMessageWriter(), repair)
        self._tails: KnownHeads[Tail] = KnownHeads()
        # The last entries of records that were read: usually, their histories are read next. This
        # saves four statements of a turn.
        self._places: dict[str, Place] = {}

    def agent(self, conversation_id: str) -> Agent:
        """Return the agent of a conversation. It is created if it does not exist."""
        return self._store.ensure(self._store.build_key(conversation_id))

    def history(self, key: str) -> "MessageHistory":
        """Return the messages of the agent with a key, whichever program began it, for
        `message_history=`."""
        return MessageHistory(self._store, key, self._reader)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    # --- the framework's interface ---

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation."""
        key = self._store.build_key(conversation_id)
        read = partial(self._load_record, conversation_id)
        return await in_thread(partial(self._store.read, key, read, None))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, those saved last first."""
        return await in_thread(partial(self._list_records, scope, limit))

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries, both or neither."""
        forms = await copy_in_slices(_dump_message, [entry.message for entry in new_entries])
        ids = [entry.id for entry in new_entries]
        parent = new_entries[0].parent_id if new_entries else record.head_id
        form = Records.dump_python(record, mode="json")
        save = RecordSave(form, ids, forms, parent, expected_revision)
        await in_thread(partial(self._save_record, save))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation. What a fork of it needs stays."""

        def delete(agent: Agent) -> bool:
            record = self._load_record(conversation_id, agent)
            if record is None or record.revision != expected_revision:
                return False
            self._store.store.delete(agent.id)
            return True

        key = self._store.build_key(conversation_id)
        if not await in_thread(partial(self._store.read, key, delete, False)):
            raise ConversationConflict(conversation_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return the entry with an id. Raises LookupError if there is none."""
        history = await self.read_history(entry_id, limit=1)
        return history[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to the one with an id, or the newest of them, in one read."""
        if head_id is None:
            return []
        return await in_thread(partial(self._read_entries, head_id, limit))

    # --- reading ---

    def _load_record(self, conversation_id: str, agent: Agent) -> ConversationRecord | None:
        """Return the record in the context. If others wrote after it, its history ends with their
        messages, and it has a revision of its own."""
        with self._tails.hold(agent) as known:
            tail = known.value
            if tail is None or tail.head != agent.head:
                tail = known.value = _read_tail(agent)
        if tail.entry_id is not None:
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            self._places[tail.entry_id] = Place(agent, tail.position)
        return _build_record(conversation_id, tail)

    def _list_records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        """Return the records. With a limit, only agents are read that are not older than so many
        records."""
        records: list[ConversationRecord] = []
        size = None if limit is None else PAGE
        for agent, note in self._list_notes(scope, size):
            newer = [record for record in records if record.updated_at >= agent.updated_at]
            if limit is not None and len(newer) >= limit:
                break
            record = self._read_listed_record(agent, note)
            if record is not None and scope in (None, record.scope):
                records.append(record)
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    def _list_notes(self, scope: str | None, size: int | None) -> Iterator[tuple[Agent, Event]]:
        """Yield the agents in a scope with their newest records, those written to last first."""
        store = self._store.store
        last: Agent | None = None
        while True:
            page = store.agents(prefix=PREFIX, order="updated", limit=size, after=last)
            found = [agent for agent in page if _is_in_scope(agent, scope)]
            notes = dict(store.last_notes(RECORD, keys=[agent.key or "" for agent in found]))
            for agent in found:
                if agent in notes:
                    yield agent, notes[agent]
            if size is None or len(page) < size:
                return
            last = page[-1]

    def _read_listed_record(self, agent: Agent, note: Event) -> ConversationRecord | None:
        """Return the record of an agent in a listing. None if it is inherited from another
        agent."""
        form = read_note(note)
        if form is None or agent.key != self._store.build_key(form["conversation_id"]):
            return None
        if note.seq == agent.listed_head:  # nothing came after the record
            return Records.validate_python(form)
        try:
            return self._load_record(form["conversation_id"], agent)
        except AgentNotFound:  # it was deleted meanwhile
            return None

    def _read_entries(self, entry_id: str, limit: int | None) -> list[ConversationEntry]:
        most = None if limit is None else limit + 1
        while True:
            agent, position = self._find_place(entry_id)
            with suppress(AgentNotFound):  # it was deleted, and a fork may have the entry
                items = self._reader.read_context(agent, most, position)
                break
        if not items:
            raise EntryNotFound(f"no entry {entry_id!r}")
        entries: list[ConversationEntry] = []
        parent: str | None = None
        position = 0
        for item, message in zip(items, _build_messages(items), strict=True):
            position = max(position, item.last)  # results may be later than a message after them
            id = f"{OTHERS}:{agent.id}:{position}" if item.id is None else item.id
            if item is items[-1]:
                id = entry_id
            entries.append(ConversationEntry(id=id, parent_id=parent, message=message))
            parent = id
        if limit is None:
            return entries
        return entries[-limit:] if limit else []

    def _find_place(self, entry_id: str) -> Place:
        """Return the place of an entry. Raises EntryNotFound."""
        store = self._store.store
        known = self._places.pop(entry_id, None)
        if known is not None:
            return known
        for agent, event in store.find(build_entry_key(entry_id)):
            return Place(agent, event.seq)
        found = _parse_id(entry_id)
        if found is not None:
            with suppress(AgentNotFound, Ambiguous, PositionNotFound):
                agent = store.agent(found[0])
                [event] = agent.events([found[1]])
                return Place(agent, event.seq)
        raise EntryNotFound(f"no entry {entry_id!r}")

    # --- writing ---

    def _save_record(self, save: "RecordSave") -> None:
        """Write after the entry that `save` continues, or raise ConversationConflict."""
        key = self._store.build_key(save.conversation_id)
        append = partial(self._append, save)
        try:
            head_id = save.record["head_id"]
            if head_id is not None and head_id not in save.ids:
                self._find_place(head_id)
            if self._store.read(key, append, False):
                return
            self._begin(save, key)
            is_written = self._store.read(key, append, False)
        except (EntryNotFound, AgentNotFound, KeyTaken):
            is_written = False
        if not is_written:
            raise ConversationConflict(save.conversation_id)

    def _begin(self, save: "RecordSave", key: str) -> None:
        """Create the agent of a conversation, as a fork of the one with the entry that it
        continues."""
        if save.revision is not None:
            raise ConversationConflict(save.conversation_id)
        if save.parent is None:
            self._store.ensure(key)
        else:
            source, position = self._find_place(save.parent)
            self._store.fork(source, key, position)

    def _append(self, save: "RecordSave", agent: Agent) -> bool:
        """Append after the end of the conversation. Return True: the agent exists."""
        with self._tails.hold(agent) as known:
            tail, known.value = known.value, None  # Forget it until the write succeeds.
            while True:
                if tail is None or not save.continues(tail):
                    head = agent.head
                    tail = _read_tail(agent)._replace(head=head)
                    if not save.continues(tail):
                        raise ConversationConflict(save.conversation_id)
                try:
                    agent.extend(save.build_batch(agent, tail), expected=tail.head)
                    break
                except Conflict:  # somebody else appended: read again
                    tail = None
        scope = save.record["scope"]
        if scope is not None and not _is_in_scope(agent, scope):
            agent.describe(**{SCOPE: build_key(SCOPE, scope)})
        return True


class RecordSave(NamedTuple):
    """A record to write, with its new entries."""

    record: Form
    ids: list[str]  # of the new entries
    forms: list[Form]  # their messages
    parent: str | None  # the entry that they continue
    revision: str | None  # the expected one

    @property
    def conversation_id(self) -> str:
        """The id of the conversation."""
        return str(self.record["conversation_id"])

    def continues(self, tail: Tail) -> bool:
        """Return True if the record there is the expected one."""
        record = _build_record(self.conversation_id, tail)
        return (record.revision if record else None) == self.revision

    def build_batch(self, agent: Agent, tail: Tail) -> list[DraftTuple]:
        """Build the move to the entry that the new ones continue, if it is not the last one, the
        new entries and the record."""
        batch: list[DraftTuple] = []
        if self.parent is None and tail.entry_id is not None:
            batch.append(build_clear(ADAPTER))
        elif self.parent is not None and not _is_last(tail, self.parent):
            target = self._find_position(agent, self.parent)
            batch.append(build_jump(ADAPTER, target))
        for id, form in zip(self.ids, self.forms, strict=True):
            batch += build_drafts(form, id)
        return [*batch, build_note(RECORD, self.record)]

    def _find_position(self, agent: Agent, entry_id: str) -> int:
        event = agent.find(build_entry_key(entry_id))
        if event is not None:
            return event.seq
        found = _parse_id(entry_id)
        if found is not None and 0 < found[1] <= agent.head:
            return found[1]
        raise EntryNotFound(f"no entry {entry_id!r}")


class MessageHistory:
    """The messages of one agent, for programs that pass `message_history=` themselves."""

    def __init__(self, store: AdapterStore, key: str, reader: ItemReader) -> None:
        self._store = store
        self._key = key
        self._reader = reader

    @property
    def agent(self) -> Agent:
        """The agent. It is created if it does not exist."""
        return self._store.ensure(self._key)

    async def load(self, limit: int | None = None) -> list[ModelMessage]:
        """Return the messages in the context, or the newest of them."""

        def read(agent: Agent) -> list[ModelMessage]:
            return _build_messages(self._reader.read_context(agent, limit))

        nothing: list[ModelMessage] = []
        return await in_thread(partial(self._store.read, self._key, read, nothing))

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Append new messages, such as `result.new_messages()`, all or none."""
        self._store.check_open()
        if messages:
            forms = await copy_in_slices(_dump_message, messages)
            write = partial(_append_messages, forms=forms)
            await in_thread(partial(self._store.write, self._key, write))


def _is_in_scope(agent: Agent, scope: str | None) -> bool:
    """Return True if an agent's conversation is in a scope. None: all are."""
    return scope is None or agent.about.get(SCOPE) == build_key(SCOPE, scope)


def _append_messages(agent: Agent, forms: Sequence[Form]) -> None:
    drafts: list[DraftTuple] = []
    for form in forms:
        drafts += build_drafts(form, str(uuid4()))
    agent.extend(drafts)


def _dump_message(message: ModelMessage) -> Form:
    if not isinstance(message, ModelRequest | ModelResponse):
        raise TypeError(
            f"a message is a ModelRequest or a ModelResponse, not {type(message).__name__}"
        )
    [form] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    return form  # type: ignore[no-any-return]


def _build_messages(items: Sequence[Item]) -> list[ModelMessage]:
    """Build messages, some at a time: other threads wait while pydantic validates."""
    messages: list[ModelMessage] = []
    for start in range(0, len(items), SLICE):
        forms = [item.value for item in items[start : start + SLICE]]
        messages += ModelMessagesTypeAdapter.validate_python(forms)
    return messages


def build_entry_key(id: str) -> str:
    """Return the key of an entry's last event: its id, or a hash of an id that cannot be a key."""
    is_reserved = DERIVED_END.search(id) is not None
    if 0 < len(id) <= LONGEST_KEY and clean_text(id) == id and not is_reserved:
        return id
    return f"{ADAPTER}:{sha256(id.encode(errors='surrogatepass')).hexdigest()}"


def _parse_id(entry_id: str) -> tuple[str, int] | None:
    """Return the agent and the position in the id of an entry for messages of others; None for
    other ids."""
    found = OTHERS_ID.fullmatch(entry_id)
    return (found[1], int(found[2])) if found else None


def _read_tail(agent: Agent) -> Tail:
    """Return the end of the context. Its head is that of the newest event that was read."""
    events = agent.messages(notes=[NOTE], last=[RECORD], limit=2)
    head = events[-1].seq if events else 0
    if [_is_record(event) for event in events] != [False, True]:  # somebody else wrote since
        events = [*agent.messages(notes=[NOTE], limit=1), *agent.last_notes([RECORD]).values()]
    tail = Tail(head, None, None, 0, is_own=False)
    for event in events:
        if _is_record(event):
            tail = tail._replace(record=read_note(event))
            continue
        id = _read_own_id(event)
        if id is None:
            id = f"{OTHERS}:{agent.id}:{event.seq}"
        else:
            tail = tail._replace(is_own=True)
        tail = tail._replace(entry_id=id, position=event.seq)
    return tail


def _read_own_id(event: Event) -> str | None:
    """Return the id of the entry that ends with an event; None if somebody else wrote it."""
    tag = (event.data or {}).get("item")
    if isinstance(tag, dict) and tag.get("of") == ADAPTER:
        return tag.get("id")
    return None


def _is_record(event: Event) -> bool:
    return event.kind == "note" and event.content == RECORD


def _build_record(conversation_id: str, tail: Tail) -> ConversationRecord | None:
    if tail.record is None or tail.record["conversation_id"] != conversation_id:
        return None
    record = Records.validate_python(tail.record)
    if not _is_last(tail, record.head_id):
        record.head_id = tail.entry_id
        record.revision += f"@{tail.position}"
    return record


def _is_last(tail: Tail, entry_id: str | None) -> bool:
    """Return True if the context ends with an entry. Messages of others are known by their
    position, which is the same in forks."""
    if tail.is_own or tail.entry_id is None or entry_id is None:
        return tail.entry_id == entry_id
    found = _parse_id(entry_id)
    return found is not None and found[1] == tail.position


# --- messages in and out ---


def build_drafts(form: Form, id: str) -> list[DraftTuple]:
    """Build the events of a message; the last one has a key made of its id."""
    events = _build_answer(form, id) if form.get("kind") == "response" else _build_request(form)
    key = build_entry_key(id)
    return build_item(ADAPTER, form, events or [("note", NOTE, None)], id=id, key=key)


def _build_request(form: Form) -> list[KeylessDraft]:
    events: list[KeylessDraft] = []
    for part in form.get("parts") or ():
        content = part.get("content")
        match part.get("part_kind"):
            case "system-prompt":
                events.append(("system", _write_text(content), None))
            case "user-prompt":
                contents = [content] if isinstance(content, str) else content or ()
                events.append(build_message("user", list(_read_parts(contents))))
            case "tool-return":
                events.append(_build_result(part, part.get("outcome") in FAILED))
            case "retry-prompt" if part.get("tool_name"):
                events.append(_build_result(part, True))
            case "retry-prompt" | "retry-feedback":
                events.append(("user", _write_text(content), None))
    return events


def _build_result(part: Form, failed: bool) -> KeylessDraft:
    data: Form = {"id": part["tool_call_id"], "name": part["tool_name"]}
    if failed:
        data["error"] = True
    files: list[Media] = []
    content = _take_files(part.get("content"), files)
    if not files:
        return "tool_result", _write_text(content), data
    texts: list[Part] = []
    for value in content if isinstance(content, list) else [content]:
        if value is not None:
            texts.append(Text(_write_text(value)))
    return build_message("tool_result", [*texts, *files], data)


def _take_files(value: Any, files: list[Media]) -> Any:
    """Return the content of a result without its files, which are added to `files`."""
    file = _read_file(value)
    if file is not None:
        files.append(file)
        return None
    if isinstance(value, dict):
        return {name: _take_files(inner, files) for name, inner in value.items()}
    if isinstance(value, list):
        return [_take_files(inner, files) for inner in value]
    return value


def _read_parts(contents: Sequence[Any]) -> Iterator[Part]:
    """Yield the text and the files of a prompt."""
    for content in contents:
        file = _read_file(content)
        if file is not None:
            yield file
            continue
        match content:
            case str():
                yield Text(content)
            case {"kind": "text-content", "content": str(text)}:
                yield Text(text)
            case {"kind": "uploaded-file"}:
                yield Text("(a document that cannot be shown here)")
            case {"kind": "structured-content"}:
                yield Text(_write_text(content.get("content")))


def _read_file(value: Any) -> Media | None:
    match value:
        case {"kind": "binary", "data": str(data), "media_type": str(type)}:
            return media(type, data=data)
        case {"kind": "image-url" | "audio-url" | "video-url" | "document-url", "url": str(url)}:
            kind = value["kind"].removesuffix("-url")
            return Media(kind, value.get("media_type"), url=url)
    return None


def _build_answer(form: Form, id: str) -> list[KeylessDraft]:
    events: list[KeylessDraft] = []
    for part in form.get("parts") or ():
        draft = _build_answer_part(part, form.get("model_name"))
        if draft is not None:
            kind, content, data = draft
            events.append((kind, content, (data or {}) | {"answer": id}))
    usage = form.get("usage") or {}
    return add_usage(
        events or [("assistant", "", {"answer": id})],
        form.get("model_name"),
        input=usage.get("input_tokens"),
        output=usage.get("output_tokens"),
        cached=usage.get("cache_read_tokens"),
    )


def _build_answer_part(part: Form, model: str | None) -> KeylessDraft | None:
    match part.get("part_kind"):
        case "text":
            return "assistant", part["content"], None
        case "thinking":
            return _build_thinking(part, model)
        case "tool-call":
            arguments = part.get("args")
            data = {"id": part["tool_call_id"], "name": part["tool_name"]}
            return "tool_call", None, data | {"arguments": {} if arguments is None else arguments}
    return None


def _build_thinking(part: Form, model: str | None) -> KeylessDraft | None:
    """Build the event of thinking. It is no text for others; its own provider gets it back."""
    match part.get("provider_name"):
        case "anthropic":
            provider, block = "anthropic", _write_anthropic_thinking(part)
        case "openai":
            provider, block = "openai-responses", _write_openai_reasoning(part)
        case _:
            return None
    if block is None:
        return None
    native: Form = {"provider": provider, "wire": [block]}
    if model:
        native["model"] = model
    return "assistant", "", {"native": native}


def _write_anthropic_thinking(part: Form) -> Form | None:
    signature = part.get("signature")
    if part.get("id") == "redacted_thinking":
        return {"type": "redacted_thinking", "data": signature}
    if not signature:
        return None
    return {"type": "thinking", "thinking": part.get("content"), "signature": signature}


def _write_openai_reasoning(part: Form) -> Form | None:
    if not part.get("signature"):
        return None
    block: Form = {"type": "reasoning", "summary": []}
    if part.get("id"):
        block["id"] = part["id"]
    if part.get("content"):
        block["summary"] = [{"type": "summary_text", "text": part["content"]}]
    return block | {"encrypted_content": part["signature"]}


def _write_text(content: Any) -> str:
    return content if isinstance(content, str) else write_item(content)


class PydanticMessageWriter:
    """Writes messages of others as pydantic-ai's."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a system or user message as a request."""
        kind = "system-prompt" if turn.role == "system" else "user-prompt"
        parts = list_parts(turn)
        content = text_of(parts) if turn.role == "system" else write_content(parts, _write_part)
        part = {"part_kind": kind, "content": content, "timestamp": _write_time(event)}
        yield TurnItem({"kind": "request", "parts": [part]}, event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write an answer: its texts and its calls."""
        parts: list[Form] = []
        for text in turn.texts:
            parts.append({"part_kind": "text", "content": text})
        for call in turn.calls:
            names = {"tool_name": call.name, "tool_call_id": call.id}
            arguments = call.arguments if call.is_sound else call.text or call.arguments
            parts.append({"part_kind": "tool-call", **names, "args": arguments})
        form = {"kind": "response", "parts": parts, "timestamp": _write_time(event)}
        yield TurnItem(form, event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls as one request."""
        parts: list[Form] = []
        for call, result in calls:
            part: Form = {"part_kind": "tool-return", "tool_name": call.name}
            part["tool_call_id"] = call.id
            part["content"] = write_content(list_parts(result), _write_part)
            if result.is_error:
                part["outcome"] = "failed"
            parts.append(part | {"timestamp": _write_time(event)})
        yield TurnItem({"kind": "request", "parts": parts}, event.seq)


def _write_part(part: Part) -> str | Form:
    if not isinstance(part, Media):
        return text_of([part])
    if part.data is not None and part.type is not None:
        return {"kind": "binary", "data": part.data, "media_type": part.type}
    if part.url is not None:
        file = {"kind": f"{part.kind}-url", "url": part.url}
        return file | {"media_type": part.type} if part.type else file
    return describe_media(part)


def _write_time(event: Event) -> str:
    return event.created_at.isoformat()
