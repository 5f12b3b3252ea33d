"""One namespace of a LangGraph thread: its checkpoints and writes as the notes of an agent."""

from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from backstory import Agent, Event
from backstory.adapters.items import Batch, Carried, Draft, all_items, newest_items
from backstory.adapters.keys import agent_key
from backstory.adapters.langchain_messages import ADAPTER, Codec, Form, joined, message_of

CHECKPOINT, WRITES, GONE = "langgraph.checkpoint", "langgraph.writes", "langgraph.gone"
CONVERSATION = "messages"  # the channel that is the conversation, if there is one of that name

BEGUN_ELSEWHERE = (
    "00000000-0000-6000-8000-"  # before a position: ids older than any that LangGraph makes
)

Known = dict[
    str, tuple[Event, list[BaseMessage]]
]  # an agent -> a checkpoint's note, the messages there


class Entry(NamedTuple):
    """A checkpoint's note."""

    seq: int
    id: str
    parent: str | None
    metadata: Any
    data: dict[str, Any]


class Thread:
    """An agent's checkpoints. `known` keeps the messages at a position of each agent: the context at a
    position never changes."""

    def __init__(
        self, agent: Agent, codec: Codec, id: str, ns: str, known: Known | None = None
    ) -> None:
        self.agent = agent
        self.id = id
        self.ns = ns
        self._codec = codec
        self._known: Known = {} if known is None else known
        self._kept: list[BaseMessage] = []  # of a put, the messages that were there before

    @cached_property
    def head(self) -> int:
        """The position that a put goes behind."""
        return self.agent.head

    # --- reading ---

    @cached_property
    def _gone(self) -> set[str]:
        notes = self.agent.notes(GONE, live=False)
        return {id for note in notes for id in (note.data or {}).get("ids", ())}

    def _entry(self, note: Event) -> Entry | None:
        data = note.data or {}
        if data.get("id") in self._gone:
            return None
        return Entry(
            note.seq, data["id"], data["parent"], self._codec.value(data["metadata"]), data
        )

    def entry(self, id: str) -> Entry | None:
        """The checkpoint with an id."""
        if id.startswith(BEGUN_ELSEWHERE):
            return self._begun_elsewhere(int(id.removeprefix(BEGUN_ELSEWHERE), 16))
        note = self.agent.find(agent_key(ADAPTER, id))
        return self._entry(note) if note else None

    def newest(self) -> Entry | None:
        """The newest checkpoint in the context, else of all."""
        note = self.agent.last_notes([CHECKPOINT]).get(CHECKPOINT)
        if note is None:
            return self._begun_elsewhere(self.head) if self.head and not self.ns else None
        return self._entry(note) or next(reversed(self.entries()), None)

    def _begun_elsewhere(self, seq: int) -> Entry | None:
        """The checkpoint that a conversation is which something else began: nothing of it is in the log."""
        if seq > self.head or not self.agent.messages(seq, limit=1):
            return None
        id = f"{BEGUN_ELSEWHERE}{seq:012x}"
        rest = {
            "v": 1,
            "id": id,
            "ts": datetime.fromtimestamp(0, UTC).isoformat(),
            "channel_versions": {CONVERSATION: 1},
            "versions_seen": {},
            "updated_channels": None,
        }
        data = {"checkpoint": {"json": rest}, "channels": {CONVERSATION: CONVERSATION}}
        return Entry(seq, id, None, {"source": "input", "step": -1, "parents": {}}, data)

    def entries(self) -> list[Entry]:
        """All checkpoints, by their ids."""
        notes = self.agent.notes(CHECKPOINT, live=False)
        found = (self._entry(note) for note in notes)
        return sorted((entry for entry in found if entry is not None), key=lambda entry: entry.id)

    def checkpoint(self, entry: Entry, *, is_newest: bool) -> Any:
        """A checkpoint as it was put. The newest one has what others wrote behind it, too."""
        at = None if is_newest else entry.seq
        held = entry.data["channels"]
        values = {channel: self._value(channel, each, at) for channel, each in held.items()}
        return {**self._codec.value(entry.data["checkpoint"]), "channel_values": values}

    def _value(self, channel: str, held: Any, at: int | None) -> Any:
        """The value of a channel: the messages at a position, what is held, or what an earlier note holds."""
        if held == CONVERSATION:
            return self._read(at)
        if "at" in held:
            [note] = self.agent.events([held["at"]])
            held = (note.data or {})["channels"][channel]
        return self._codec.value(held)

    def deltas(self, entry: Entry, channels: Sequence[str]) -> dict[str, dict[str, Any]]:
        """For each channel the writes to it on the way to a checkpoint, oldest first, and the value that they
        begin with. Checkpoints that are unreadable otherwise count here: the newest may stand on them."""
        found: dict[str, dict[str, Any]] = {channel: {"writes": []} for channel in channels}
        parent = entry.parent
        while parent and (note := self.agent.find(agent_key(ADAPTER, parent))):
            data = note.data or {}
            writes = self.writes(parent)
            for channel, each in found.items():
                if "seed" not in each:
                    each["writes"][:0] = [write for write in writes if write[1] == channel]
                    if channel in data["channels"]:
                        each["seed"] = self._value(channel, data["channels"][channel], note.seq)
            parent = None if all("seed" in each for each in found.values()) else data["parent"]
        return found

    def _items(self, at: int | None) -> list[Carried]:
        return newest_items(ADAPTER, self.agent, message_of, None, at=at, join=joined)

    def writes(self, id: str) -> list[tuple[str, str, Any]]:
        """The writes of a checkpoint's tasks, in LangGraph's order; of special ones the newest counts."""
        found: dict[tuple[str, int], Any] = {}
        for note in self.agent.notes(agent_key(WRITES, id), live=False):
            data = note.data or {}
            found[data["task"], data["index"]] = data
        ordered = sorted(
            found.values(), key=lambda data: (data["path"], data["task"], data["index"])
        )
        return [
            (data["task"], data["channel"], self._codec.value(data["value"])) for data in ordered
        ]

    # --- writing ---

    def write(self, id: str, given: tuple[str, str, int, str, Any], key: str | None) -> Draft:
        """The note of one write."""
        path, task, index, channel, value = given
        data = {"path": path, "task": task, "index": index, "channel": channel}
        return ("note", agent_key(WRITES, id), data | {"value": self._codec.form(value)}, key)

    def forget(self, ids: Sequence[str]) -> None:
        """Make checkpoints unreadable."""
        if ids:
            self.agent.note(GONE, {"ids": list(ids)})

    def put(self, checkpoint: Any, metadata: Any, new_versions: Any, parent: str | None) -> Batch:
        """The batch that a checkpoint is: perhaps a move, the messages that are new, the note."""
        if parent and parent.startswith(BEGUN_ELSEWHERE):
            parent = None
        above = self.agent.find(agent_key(ADAPTER, parent)) if parent else None
        if parent and above is None:
            return []  # the thread was deleted and made again meanwhile
        self.head  # noqa: B018  from here on no one else can write
        values = dict(checkpoint["channel_values"])
        conversation = _conversation(values)
        messages = values.get(conversation, []) if conversation else []
        batch = self._said(messages, above, is_first=parent is None)
        channels = {
            channel: CONVERSATION if channel == conversation else self._held(channel, value, above)
            for channel, value in values.items()
        }
        rest = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        data = {
            "id": checkpoint["id"],
            "parent": parent,
            "metadata": self._codec.form(metadata),
            "checkpoint": self._codec.form(rest),
            "channels": channels,
        }
        key = agent_key(ADAPTER, checkpoint["id"])
        return [] if self.agent.find(key) else [*batch, ("note", CHECKPOINT, data, key)]

    def _held(self, channel: str, value: Any, above: Event | None) -> Form:
        """A channel's value, or where it is if the parent has the same."""
        form = self._codec.form(value)
        data = (above.data or {}) if above else {}
        before = data.get("channels", {}).get(channel)
        if above is None or not isinstance(before, dict):
            return form
        at = before.get("at", above.seq)
        [note] = [above] if at == above.seq else self.agent.events([at])
        same = (note.data or {})["channels"][channel] == form
        return {"at": at} if same and len(str(form)) > len(str({"at": at})) else form

    def _said(self, messages: list[BaseMessage], above: Event | None, *, is_first: bool) -> Batch:
        """The moves and messages that make the context's conversation this one."""
        newest = self.agent.last_notes([CHECKPOINT]).get(CHECKPOINT)
        moves: list[Draft] = []
        at = None
        if is_first and newest is not None:
            moves, before = [("clear", None, {"by": ADAPTER})], []
        else:
            if above is not None and (newest is None or newest.seq != above.seq):
                at = above.seq
                moves = [("jump", None, {"target_message_id": at, "by": ADAPTER})]
            before = self._messages(at)
        same = _common(before, messages)
        self._kept = before[:same]
        if same < len(before):
            target = self._items(at)[same].event.seq - 1
            moves = [("jump", None, {"target_message_id": target, "by": ADAPTER})]
        return [
            *moves,
            *(event for message in messages[same:] for event in self._codec.drafts(message)),
        ]

    def _messages(self, at: int | None) -> list[BaseMessage]:
        """The messages at a position; those at the head are kept at hand, and still good if only notes have
        been written since. A thread that was deleted and made again has the same id, but not the note."""
        last, known = self._known.get(self.agent.id, (None, []))
        if at is None and last is not None and last.seq <= self.head:
            note, *since = self.agent.events(after=last.seq - 1, until=self.head)
            if note == last and all(map(_is_plain_note, since)):
                return known
        return self._read(at)

    def _read(self, at: int | None) -> list[BaseMessage]:
        """The messages at a position, from the store."""
        found = all_items(ADAPTER, self.agent, message_of, at=at, join=joined)
        return list(map(self._codec.message, found))

    def written(self, checkpoint: Any, events: Sequence[Event]) -> None:
        """Keep the messages of a checkpoint that has been written."""
        conversation = _conversation(checkpoint["channel_values"])
        messages = checkpoint["channel_values"][conversation] if conversation else []
        new = deepcopy(messages[len(self._kept) :])  # the graph may change its messages in place
        self._known[self.agent.id] = (events[-1], [*self._kept, *new])


def _is_plain_note(event: Event) -> bool:
    return event.kind == "note" and "item" not in (event.data or {})


def _conversation(values: dict[str, Any]) -> str | None:
    """The channel that is a conversation: `messages`, or the first that is a list of messages."""
    for channel in (CONVERSATION, *values):
        value = values.get(channel)
        if type(value) is list and value and all(isinstance(each, BaseMessage) for each in value):
            return channel
    return None


def _common(one: list[BaseMessage], other: list[BaseMessage]) -> int:
    """How many messages are the same from the start, by what is in them: they may be changed in place."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if type(mine) is not type(theirs) or mine.__dict__ != theirs.__dict__:
            break
        count += 1
    return count
