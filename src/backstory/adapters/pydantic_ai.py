"""pydantic-ai: `BackstoryConversations("history.db")` in place of `InMemoryConversationStore()`.

A conversation is an agent, an entry its messages with the entry's id as key, the record a note behind them. A
branch is a jump, a fork is a fork. Deleting a conversation erases what no fork of it needs.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
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
from backstory.adapters.items import Batch, Carried, Draft, kept, kept_in, newest_items
from backstory.adapters.keys import agent_key
from backstory.adapters.pydantic_messages import (
    ADAPTER,
    Form,
    Translation,
    drafts,
    entry_key,
    joined,
)
from backstory.adapters.stores import History, Where
from backstory.aio import in_thread

__all__ = ["BackstoryConversations", "MessageHistory"]

RECORD = "pydantic_ai.record"
PREFIX = f"{ADAPTER}:"  # how the keys of conversations begin
OTHERS = "backstory"  # how the ids begin of entries for what others wrote
OTHERS_ID = re.compile(rf"{OTHERS}:(.+):([0-9]{{1,19}})")  # an agent and a position
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
Records: pydantic.TypeAdapter[ConversationRecord] = pydantic.TypeAdapter(ConversationRecord)

R = TypeVar("R")


class BackstoryConversations(ConversationStore):
    """A store of conversations that lasts."""

    def __init__(self, where: Where) -> None:
        self._history = History(where)

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, conversation_id: str) -> Agent:
        """The agent that holds a conversation, made if it is not there."""
        return self._history.ensured(agent_key(ADAPTER, conversation_id), conversation_id)

    def history(self, key: str) -> "MessageHistory":
        """The messages of the agent with a key, whoever began it, for `message_history=`."""
        return MessageHistory(self._history, key)

    # --- the framework's five primitives, and a history in one read ---

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation."""
        return await self._with(conversation_id, partial(_record, conversation_id), None)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records, those saved last first."""

        def read() -> list[ConversationRecord | None]:
            return [
                _listed(*found) for found in self._history.store.last_notes(RECORD, prefix=PREFIX)
            ]

        found = await in_thread(read)
        records = [
            record for record in found if record is not None and scope in (None, record.scope)
        ]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Write a record and its new entries, both or neither."""
        forms = _forms([entry.message for entry in new_entries])
        for entry in new_entries:
            _check_id(entry.id)
        pairs = zip(new_entries, forms, strict=True)
        batch: Batch = [event for entry, form in pairs for event in drafts(form, entry.id)]
        data = Records.dump_python(record, mode="json")
        batch.append(("note", RECORD, kept("record", data)))
        ids = {entry.id for entry in new_entries}
        parent = new_entries[0].parent_id if new_entries else record.head_id
        write = _Write(self._history, record.conversation_id, expected_revision, parent)
        if record.head_id not in {None, *ids}:
            await in_thread(partial(write.check_is_there, record.head_id or ""))
        await in_thread(partial(write.run, batch))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation. What a fork of it needs stays."""

        def delete() -> None:
            agent = self._history.found(agent_key(ADAPTER, conversation_id))
            record = _record(conversation_id, agent) if agent else None
            if agent is None or record is None or record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            try:
                self._history.store.delete(agent.id)
            except AgentNotFound:
                raise ConversationConflict(conversation_id) from None

        await in_thread(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry with an id; LookupError if there is none."""
        history = await self.read_history(entry_id, limit=1)
        return history[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to the one with an id, in one read."""
        if head_id is None:
            return []
        found = await in_thread(partial(_entries_up_to, self._history, head_id, limit))
        messages = ModelMessagesTypeAdapter.validate_python([item for _, item in found])
        ids = [None, *(id for id, _ in found)]
        entries = [
            ConversationEntry(id=id, parent_id=parent, message=message)
            for parent, (id, _), message in zip(ids, found, messages, strict=False)
        ]
        return entries if limit is None else entries[-limit:] if limit else []

    async def _with(self, conversation_id: str, call: Callable[[Agent], R], otherwise: R) -> R:
        key = agent_key(ADAPTER, conversation_id)
        return await in_thread(partial(self._history.read, key, call, otherwise))


class MessageHistory:
    """The messages of one agent, for programs that pass `message_history=` themselves."""

    def __init__(self, history: History, key: str) -> None:
        self._history = history
        self._key = key

    @property
    def agent(self) -> Agent:
        """The agent, made if it is not there."""
        return self._history.ensured(self._key, self._key)

    async def load(self, limit: int | None = None) -> list[ModelMessage]:
        """The messages in the context, or the newest of them."""
        nothing: list[Carried] = []
        read: Callable[[Agent], list[Carried]] = partial(_newest, limit=limit)
        found = await in_thread(partial(self._history.read, self._key, read, nothing))
        return ModelMessagesTypeAdapter.validate_python([each.item for each in found])

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Write new messages, such as `result.new_messages()`, behind the others: all or none."""
        self._history.store  # noqa: B018  a closed store refuses even an empty list
        batch = [event for form in _forms(messages) for event in drafts(form, str(uuid4()))]
        if batch:
            write: Callable[[Agent], list[Event]] = lambda agent: agent.extend(batch)  # noqa: E731
            await in_thread(partial(self._history.write, self._key, self._key, write))


def _forms(messages: Sequence[ModelMessage]) -> list[Form]:
    given = list(messages)
    for message in given:
        if not isinstance(message, ModelRequest | ModelResponse):
            raise TypeError(
                f"a message is a ModelRequest or a ModelResponse, not {type(message).__name__}"
            )
    return ModelMessagesTypeAdapter.dump_python(given, mode="json")  # type: ignore[no-any-return]


def _check_id(entry_id: str) -> None:
    if not isinstance(entry_id, str):
        raise TypeError(f"an entry's id is a text, not {type(entry_id).__name__}")
    if LONE_SURROGATE.search(entry_id):
        raise TypeError(
            f"an entry's id is a text, and {entry_id!r} is none: it has half of a surrogate pair"
        )


# --- reading ---


def _newest(agent: Agent, limit: int | None = None, at: int | None = None) -> list[Carried]:
    return newest_items(ADAPTER, agent, Translation(), limit, at=at, join=joined)


def _entry_id(agent: Agent, found: Carried) -> str:
    return f"{OTHERS}:{agent.id}:{found.end}" if found.id is None else found.id


def _parsed(note: Event) -> ConversationRecord:
    return Records.validate_python(kept_in(note.data, "record"))


def _record(conversation_id: str, agent: Agent) -> ConversationRecord | None:
    """The record in the context. Where others wrote behind it, its history ends with what they wrote, and it
    has a revision of its own."""
    note = agent.last_notes([RECORD]).get(RECORD)
    record = _parsed(note) if note else None
    if note is None or record is None or record.conversation_id != conversation_id:
        return None
    if not _ends_with(agent, record.head_id):
        last = _newest(agent, 1)
        record.head_id = _entry_id(agent, last[0]) if last else None
        record.revision += f"@{agent.head}"
    return record


def _listed(agent: Agent, note: Event) -> ConversationRecord | None:
    """The same for an agent whose newest record is known; None if that is inherited from another one."""
    record = _parsed(note)
    if agent.key != agent_key(ADAPTER, record.conversation_id):
        return None
    return record if agent.listed_head == note.seq else _record(record.conversation_id, agent)


def _ends_with(agent: Agent, entry_id: str | None) -> bool:
    """Whether an entry is the last of the context. What others wrote is known by its position, which is the
    same in forks."""
    last = _newest(agent, 1)
    if not last or entry_id is None:
        return not last and entry_id is None
    if last[0].id is not None:
        return last[0].id == entry_id
    its = _place_in_id(entry_id)
    return its is not None and its[1] == last[0].end and agent.find(entry_key(entry_id)) is None


def _place_in_id(entry_id: str) -> tuple[str, int] | None:
    """The agent and the position in the id of an entry for what others wrote; None for any other id. The
    framework may give an entry such an id, too: first look for one."""
    found = OTHERS_ID.fullmatch(entry_id)
    return (found[1], int(found[2])) if found else None


def _place(history: History, entry_id: str) -> tuple[Agent, int]:
    """The agent and the position of an entry's last event; LookupError if there is none."""
    for agent, event in history.store.find(entry_key(entry_id)):
        return agent, event.seq
    if its := _place_in_id(entry_id):
        try:
            agent = history.store.agent(its[0])
            return agent, agent.event(its[1]).seq
        except (AgentNotFound, Ambiguous, PositionNotFound):
            pass
    raise LookupError(f"no entry {entry_id!r}")


def _entries_up_to(history: History, entry_id: str, limit: int | None) -> list[tuple[str, Form]]:
    agent, seq = _place(history, entry_id)
    found = _newest(agent, None if limit is None else limit + 1, at=seq)
    return [(_entry_id(agent, each), each.item) for each in found]


# --- writing ---


class _Write:
    """One save of a conversation: behind the entry that it continues, or not at all."""

    def __init__(self, history: History, id: str, revision: str | None, parent: str | None) -> None:
        self._history = history
        self._id = id
        self._key = agent_key(ADAPTER, id)
        self._revision = revision
        self._parent = parent

    def check_is_there(self, entry_id: str) -> None:
        """Raise a conflict if an entry is not in the store."""
        try:
            _place(self._history, entry_id)
        except LookupError:
            raise ConversationConflict(self._id) from None

    def run(self, batch: Batch) -> None:
        """Write, once the record there is the expected one."""
        while True:
            agent = self._history.found(self._key) or self._begun()
            head = agent.head
            record = _record(self._id, agent)
            if (record.revision if record else None) != self._revision:
                raise ConversationConflict(self._id)
            try:
                agent.extend([*self._move(agent), *batch], expected=head)
                return
            except Conflict:  # someone else wrote in between: look again
                continue

    def _begun(self) -> Agent:
        """A new agent: a fork of the one that has the entry to go on from."""
        if self._revision is not None:
            raise ConversationConflict(self._id)
        if self._parent is None:
            return self._history.ensured(self._key, self._id)
        try:
            source, at = _place(self._history, self._parent)
            return self._history.forked(source, self._key, self._id, at)
        except (KeyTaken, LookupError):
            raise ConversationConflict(self._id) from None

    def _move(self, agent: Agent) -> list[Draft]:
        """What leads to the entry that the new ones continue, if the context does not end with it."""
        if _ends_with(agent, self._parent):
            return []
        if self._parent is None:
            return [("clear", None, {"by": ADAPTER})]
        return [
            (
                "jump",
                None,
                {"target_message_id": self._position_in(agent, self._parent), "by": ADAPTER},
            )
        ]

    def _position_in(self, agent: Agent, entry_id: str) -> int:
        if event := agent.find(entry_key(entry_id)):
            return event.seq
        its = _place_in_id(entry_id)
        if its and 0 < its[1] <= agent.head:
            return its[1]
        raise ConversationConflict(self._id)
