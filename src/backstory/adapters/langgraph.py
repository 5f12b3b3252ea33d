"""LangGraph: `builder.compile(checkpointer=BackstorySaver("history.db"))`.

A thread is an agent, the namespace of a subgraph an agent below it. A checkpoint is a note, and its
conversation is the context at this note: messages are written once, so a store grows with the
conversation and not with its square. The other channels are in the note, or in the earlier note
that has the same value.
"""

import base64
import zlib
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from copy import deepcopy
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from backstory import Agent, Conflict, Error, Event, wire
from backstory.adapters.items import (
    ItemReader,
    TurnItem,
    add_usage,
    build_item,
    build_media,
    build_message,
    build_note,
    describe_media,
    read_note,
    write_content,
)
from backstory.adapters.stores import (
    AdapterStore,
    At,
    DraftTuple,
    KeylessDraft,
    KnownHeads,
    Where,
    build_clear,
    build_jump,
    build_key,
    build_prefix,
    call_in_thread,
    read_ids,
)
from backstory.aio import in_thread
from backstory.log.items import write_item
from backstory.wire.media import media
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import AnswerTurn, Media, MessageTurn, Part, Text, text_of

__all__ = ["BackstorySaver"]

ADAPTER = "langgraph"
NOTE = f"{ADAPTER}.message"  # a message that only LangGraph can read
CHECKPOINT = f"{ADAPTER}.checkpoint"
WRITES = f"{ADAPTER}.writes"  # with the id of a checkpoint
CONVERSATION = "messages"  # the channel that is the conversation, if there is one of that name
# The ids of conversations that other programs began: before a position, and older than all others.
BEGUN_ELSEWHERE = "00000000-0000-6000-8000-"

Form = dict[str, Any]
Write = tuple[str, str, Any]  # task, channel, value
ValuePositions = dict[tuple[str, Any], int]  # by channel and version, the note that has the value
Threads = list["GraphThread"]  # in a class with a method `list`


class BackstorySaver(BaseCheckpointSaver[Any]):
    """Checkpoints of LangGraph in a backstory store, for synchronous and asynchronous graphs.

    `repair=False` leaves calls of other programs open that have no result.
    """

    def __init__(
        self, where: Where, *, serde: SerializerProtocol | None = None, repair: bool = True
    ) -> None:
        super().__init__(serde=serde)
        self.repair = repair
        self._store = AdapterStore(where, ADAPTER)
        self._known: KnownHeads[ThreadState] = KnownHeads()

    def agent(self, thread_id: str, checkpoint_ns: str = "") -> Agent:
        """Return the agent of a thread, or of a subgraph in it. It is created if it does not
        exist."""
        key = self._store.build_key(str(thread_id), "")
        if not checkpoint_ns:
            return self._store.ensure(key)
        return self._store.spawn(key, self._store.build_key(str(thread_id), checkpoint_ns))

    def fork(self, thread_id: str, new_thread_id: str, at: At = None) -> Agent:
        """Return the agent of a new thread that continues a position of another one: one row,
        nothing is copied. Raises AgentNotFound and KeyTaken."""
        source = self._store.store.agent(key=self._store.build_key(str(thread_id), ""))
        return self._store.fork(source, self._store.build_key(str(new_thread_id), ""), at)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    # --- LangGraph's interface: reading ---

    def get_next_version(self, current: Any, channel: Any = None) -> Any:
        """Return the next version of a channel: a whole number, which is short. The text versions
        of other savers continue as text."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else int(current) + 1

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint with an id, or the newest one of the context."""
        id = get_checkpoint_id(config)
        return self._read(config, lambda thread: thread.read_checkpoint(id), None)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes of which the values of `DeltaChannel`s consist, those of pruned
        checkpoints included."""
        if not channels:
            return {}
        id = get_checkpoint_id(config)
        nothing: dict[str, Any] = {channel: {"writes": []} for channel in channels}
        found: dict[str, DeltaChannelHistory] = self._read(
            config, lambda thread: thread.read_deltas(id, nothing), nothing
        )
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first: of a thread, of a namespace, or of all threads."""
        names = config["configurable"] if config else {}
        id = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        found = []
        for thread in self._list_threads(names.get("thread_id"), names.get("checkpoint_ns")):
            for entry in thread.list_entries():
                if entry.matches(id, end, filter or {}):
                    found.append((thread, entry))
        found.sort(key=lambda each: each[1].id, reverse=True)
        for thread, entry in found[:limit]:
            yield thread.read_tuple(entry)

    # --- LangGraph's interface: writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Append a checkpoint after its parent. If the parent is gone, nothing is written."""
        id, ns = _read_names(config)
        parent = config["configurable"].get("checkpoint_id")
        if parent and parent.startswith(BEGUN_ELSEWHERE):
            parent = None
        facts = get_checkpoint_metadata(config, metadata)
        draft = CheckpointDraft(self._codec, checkpoint, facts, parent, new_versions)
        self._write(config, lambda thread: self._append(thread, draft), may_create=parent is None)
        return _build_config(id, ns, draft.id)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Append what a task wrote before its checkpoint is complete."""
        values = []
        for number, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, number)
            values.append([index, channel, self._codec.write_value(value)])
        if not values:
            return
        written = {"path": task_path, "task": task_id, "values": values}
        note = build_note(_name_writes(config["configurable"]["checkpoint_id"]), written)
        self._write(config, lambda thread: self._append_notes(thread, [note]))

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread with all its namespaces. Copies of it stay."""
        self._store.delete_tree(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of some runs. Their bytes are erased with their thread."""
        for thread in self._list_threads():
            entries = thread.list_entries()
            self._hide(thread, [each for each in entries if each.metadata.get("run_id") in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread: one row for each namespace."""
        for thread in self._list_threads(source_thread_id):
            key = self._store.build_key(str(target_thread_id), thread.ns)
            self._store.fork(thread.agent, key)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all checkpoints of threads except the newest of each namespace, or delete the
        threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"{strategy!r} is not a strategy: use 'keep_latest' or 'delete'")
        for id in thread_ids:
            if strategy == "delete":
                self.delete_thread(id)
                continue
            for thread in self._list_threads(id):
                self._hide(thread, thread.list_entries()[:-1])

    # --- LangGraph's interface: async ---

    aget_tuple = call_in_thread(get_tuple)
    aget_delta_channel_history = call_in_thread(get_delta_channel_history)
    aput = call_in_thread(put)
    aput_writes = call_in_thread(put_writes)
    adelete_thread = call_in_thread(delete_thread)
    adelete_for_runs = call_in_thread(delete_for_runs)
    acopy_thread = call_in_thread(copy_thread)
    aprune = call_in_thread(prune)

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield what `list` yields, each read in a thread."""
        found = self.list(config, **options)
        while (each := await in_thread(partial(next, found, None))) is not None:
            yield each

    # --- threads ---

    @property
    def _codec(self) -> "ValueCodec":
        return ValueCodec(self.serde)  # LangGraph copies a saver and replaces its serializer

    def _open_thread(self, agent: Agent, id: str, ns: str) -> "GraphThread":
        return GraphThread(agent, id, ns, self._codec, self.repair)

    def _read(
        self, config: RunnableConfig, call: "Callable[[GraphThread], Any]", default: Any
    ) -> Any:
        id, ns = _read_names(config)
        key = self._store.build_key(id, ns)
        return self._store.read(key, lambda agent: call(self._open_thread(agent, id, ns)), default)

    def _write(
        self, config: RunnableConfig, call: "Callable[[GraphThread], bool]", may_create: bool = True
    ) -> None:
        if not self._read(config, call, False) and may_create:
            id, ns = _read_names(config)
            call(self._open_thread(self.agent(id, ns), id, ns))

    def _list_threads(self, thread_id: Any = None, ns: str | None = None) -> Threads:
        """Return the threads with these names. None: of any name."""
        prefix = build_prefix(ADAPTER)
        if thread_id is not None:
            prefix = build_prefix(ADAPTER, str(thread_id))
        threads: Threads = []
        for agent in self._store.store.agents(prefix=prefix):
            ids = read_ids(agent)
            if len(ids) != 2:  # another program made this key: it is not one of a thread
                continue
            id, its_ns = ids
            if ns in (None, its_ns):
                threads.append(self._open_thread(agent, id, its_ns))
        return threads

    def _append(self, thread: "GraphThread", draft: "CheckpointDraft") -> bool:
        """Append a checkpoint with the messages that are new, and return True: the thread exists.
        One statement, if this process wrote the newest checkpoint, and that is the parent."""
        with self._known.hold(thread.agent) as known:
            while True:
                state, known.value = known.value, None  # Forget it until the write succeeds.
                if state is None or state.newest != draft.parent:
                    state = thread.read_state()
                continued = thread.find_continued_state(state, draft)
                if continued is None:
                    return True
                channels = draft.list_channels(continued.positions)
                batch = draft.build_batch(continued, channels)
                try:
                    events = thread.agent.extend(batch, expected=state.head)
                except Conflict:  # somebody else appended: read again
                    continue
                known.value = draft.build_state(continued, channels, events[-1].seq)
                return True

    def _append_notes(self, thread: "GraphThread", notes: Sequence[DraftTuple]) -> bool:
        """Append notes, and return True: the thread exists."""
        with self._known.hold(thread.agent) as known:
            state, known.value = known.value, None
            events = thread.agent.extend(notes)
            if state is not None and events[0].seq == state.head + 1:
                known.value = state._replace(head=events[-1].seq)
        return True

    def _hide(self, thread: "GraphThread", entries: "Iterable[CheckpointEntry]") -> None:
        notes = [build_note(_name_writes(entry.id), {"is_hidden": True}) for entry in entries]
        if notes:
            self._append_notes(thread, notes)


def _read_names(config: RunnableConfig) -> tuple[str, str]:
    """Return the ids of a thread and of a namespace in it."""
    names = config["configurable"]
    return str(names["thread_id"]), names.get("checkpoint_ns") or ""


def _build_config(id: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    """Return the names of a checkpoint."""
    names = {"thread_id": id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": names}


def _name_writes(checkpoint_id: Any) -> str:
    """Return the name of the notes with the writes of a checkpoint's tasks."""
    return build_key(WRITES, str(checkpoint_id))


# --- reading ---


class CheckpointEntry(NamedTuple):
    """A checkpoint, as its note has it."""

    position: int
    id: str
    parent: str | None
    metadata: Any
    checkpoint: Form  # all but the values of the channels
    channels: dict[str, Form]  # a value, or the position of the note that has it
    conversation: str | None  # the channel whose value is the messages there
    writes: list[Form]
    events: Sequence[Event] | None = None  # the messages, if they were read with the note

    @property
    def is_hidden(self) -> bool:
        """True if the checkpoint was pruned."""
        return any("is_hidden" in form for form in self.writes)

    def matches(self, id: str | None, end: str | None, filter: Mapping[str, Any]) -> bool:
        """Return True if the checkpoint has the id, is older than `end`, and has the metadata of
        `filter`. None: it may have any id."""
        if id not in (None, self.id) or (end is not None and self.id >= end):
            return False
        return all(self.metadata.get(key) == value for key, value in filter.items())


class ThreadState(NamedTuple):
    """The state that a checkpoint continues: a thread at its head, or where moves lead to."""

    head: int
    newest: str | None  # the id of the newest checkpoint in the context
    messages: list[BaseMessage]
    positions: ValuePositions  # of the values of its channels
    moves: tuple[DraftTuple, ...] = ()


class GraphThread:
    """Reads the checkpoints and messages of one agent."""

    def __init__(self, agent: Agent, id: str, ns: str, codec: "ValueCodec", repair: bool) -> None:
        self.agent = agent
        self.id = id
        self.ns = ns
        self._codec = codec
        self._reader = ItemReader(ADAPTER, [NOTE], LangchainWriter(), repair)

    def read_checkpoint(self, id: str | None) -> CheckpointTuple | None:
        """Return the checkpoint with an id, or the newest one."""
        entry = self._find_entry(id)
        return None if entry is None else self.read_tuple(entry)

    def _find_entry(self, id: str | None) -> CheckpointEntry | None:
        """Return the checkpoint with an id, or the newest one of the context."""
        if id is None:
            return self._find_newest()
        if id.startswith(BEGUN_ELSEWHERE):
            position = int(id.removeprefix(BEGUN_ELSEWHERE), 16)
            if position > self.agent.head:
                return None
            return self._begin_elsewhere(self.agent.messages(position, limit=1))
        entry = self._read_entry(self._find_note(id))
        return None if entry is None or entry.is_hidden else entry

    def _find_newest(self) -> CheckpointEntry | None:
        """Return the newest checkpoint of the context, with what others wrote after it."""
        note, events = self._read_head()
        entry = self._read_entry(note)
        if entry is None:  # there is none, or an older version wrote it
            entry = self._begin_elsewhere(events)
        if entry is not None and not entry.is_hidden:
            return entry._replace(events=events)
        entries = self.list_entries()
        return entries[-1] if entries else None

    def list_entries(self) -> list[CheckpointEntry]:
        """Return all checkpoints, by their ids."""
        notes: dict[str, list[Event]] = defaultdict(list)
        for note in self.agent.notes(live=False):
            notes[note.content or ""].append(note)
        entries: list[CheckpointEntry] = []
        for note in notes[CHECKPOINT]:
            entry = self._read_entry(note, notes)
            if entry is not None and not entry.is_hidden:
                entries.append(entry)
        return sorted(entries, key=attrgetter("id"))

    def read_tuple(self, entry: CheckpointEntry) -> CheckpointTuple:
        """Return a checkpoint with the values of its channels."""
        parent = None
        if entry.parent is not None:
            parent = _build_config(self.id, self.ns, entry.parent)
        values = self._read_values(entry, entry.channels)
        if entry.conversation is not None:
            values[entry.conversation] = self._read_messages(entry.position, entry.events)
        checkpoint: Any = {**entry.checkpoint, "channel_values": values}
        return CheckpointTuple(
            config=_build_config(self.id, self.ns, entry.id),
            checkpoint=checkpoint,
            metadata=entry.metadata,
            parent_config=parent,
            pending_writes=self._sort_writes(entry.writes),
        )

    def read_deltas(self, id: str | None, found: dict[str, Any]) -> dict[str, Any]:
        """Return `found` with the writes of each channel on the way to a checkpoint, oldest first,
        and the value with which they begin. Hidden checkpoints count: the newest may continue
        them."""
        unseeded = set(found)
        above = self._find_entry(id)
        while unseeded and above is not None and above.parent is not None:
            above = self._read_entry(self._find_note(above.parent))
            if above is None:
                break
            for write in reversed(self._sort_writes(above.writes)):
                if write[1] in unseeded:
                    found[write[1]]["writes"].insert(0, write)
            seeds = self._read_values(above, unseeded & above.channels.keys())
            if above.conversation in unseeded:
                seeds[above.conversation] = self._read_messages(above.position)
            for channel, seed in seeds.items():
                found[channel]["seed"] = seed
            unseeded -= seeds.keys()
        return found

    def read_state(self) -> ThreadState:
        """Return the state at the head."""
        head = self.agent.head
        note, events = self._read_head()
        messages = self._read_messages(head, events)
        newest = read_note(note)
        if note is None or newest is None:
            return ThreadState(head, None, messages, {})
        return ThreadState(
            head, newest["id"], messages, self._find_value_positions(newest, note.seq)
        )

    def find_continued_state(
        self, state: ThreadState, draft: "CheckpointDraft"
    ) -> ThreadState | None:
        """Return the state that a checkpoint continues. None: its parent is gone, or the checkpoint
        was put before."""
        if draft.parent == state.newest:
            if draft.count_common(state.messages) == len(state.messages):
                return state
            return self._move_to(state.head, state, draft)
        if self.agent.find(draft.key) is not None:
            return None
        if draft.parent is None:
            return ThreadState(state.head, None, [], {}, (build_clear(ADAPTER),))
        note = self._find_note(draft.parent)
        data = read_note(note)
        if note is None or data is None:
            return None
        state = state._replace(positions=self._find_value_positions(data, note.seq))
        return self._move_to(note.seq, state, draft)

    def _find_value_positions(self, note: Form, position: int) -> ValuePositions:
        """Return the positions of the values in a checkpoint's note."""
        checkpoint = self._codec.read_value(note["checkpoint"])
        return _list_value_positions(note["channels"], checkpoint["channel_versions"], position)

    def _move_to(self, position: int, state: ThreadState, draft: "CheckpointDraft") -> ThreadState:
        """Return the state after a jump to `position`, or before the first message that the
        checkpoint does not have."""
        while True:
            items = self._reader.read_context(self.agent, at=position)
            messages = [self._codec.read_message(item.value) for item in items]
            count = draft.count_common(messages)
            if count == len(messages):
                moves = (build_jump(ADAPTER, position),)
                return state._replace(messages=messages, moves=moves)
            position = items[count].first - 1

    def _read_head(self) -> tuple[Event | None, list[Event]]:
        """Return the newest checkpoint's note, and it with the messages in the context."""
        events = self.agent.messages(notes=[NOTE], last=[CHECKPOINT])
        for event in reversed(events):
            if event.kind == "note" and event.content == CHECKPOINT:
                return event, events
        return None, events

    def _begin_elsewhere(self, events: Sequence[Event]) -> CheckpointEntry | None:
        """Return the checkpoint of a conversation that another program began. Nothing of it is in
        the log."""
        if self.ns or not events:
            return None
        position = events[-1].seq
        id = f"{BEGUN_ELSEWHERE}{position:012x}"
        checkpoint = {
            "v": 1,
            "id": id,
            "ts": "1970-01-01T00:00:00+00:00",
            "channel_versions": {CONVERSATION: 1},
            "versions_seen": {},
            "updated_channels": None,
        }
        metadata = {"source": "input", "step": -1, "parents": {}}
        writes = self._read_writes(id)
        return CheckpointEntry(position, id, None, metadata, checkpoint, {}, CONVERSATION, writes)

    def _find_note(self, id: str) -> Event | None:
        return self.agent.find(build_key(ADAPTER, id))

    def _read_entry(
        self, note: Event | None, notes: Mapping[str, list[Event]] | None = None
    ) -> CheckpointEntry | None:
        """Return the checkpoint in a note; None if an older version wrote it. `notes` are all notes
        by their names, if they are there already."""
        data = read_note(note)
        if note is None or data is None:
            return None
        return CheckpointEntry(
            note.seq,
            data["id"],
            data["parent"],
            self._codec.read_value(data["metadata"]),
            self._codec.read_value(data["checkpoint"]),
            data["channels"],
            data["conversation"],
            self._read_writes(data["id"], notes),
        )

    def _read_writes(self, id: str, notes: Mapping[str, list[Event]] | None = None) -> list[Form]:
        name = _name_writes(id)
        found = self.agent.notes(name, live=False) if notes is None else notes.get(name, [])
        forms: list[Form] = []
        for note in found:
            form = read_note(note)
            if form is not None:  # else an older version wrote it
                forms.append(form)
        return forms

    def _sort_writes(self, writes: Iterable[Form]) -> list[Write]:
        """Return writes in LangGraph's order. Of ordinary ones with the same number the first
        counts, of special ones the newest."""
        found: dict[tuple[str, str, int], tuple[str, Form]] = {}
        for form in writes:
            for index, channel, value in form.get("values", ()):
                place = (form["path"], form["task"], index)
                if index < 0 or place not in found:
                    found[place] = (channel, value)
        sorted_writes: list[Write] = []
        for place in sorted(found):
            channel, value = found[place]
            sorted_writes.append((place[1], channel, self._codec.read_value(value)))
        return sorted_writes

    def _read_values(self, entry: CheckpointEntry, channels: Iterable[str]) -> dict[str, Any]:
        """Return the values of channels. Those in earlier notes are read at once."""
        forms = {channel: entry.channels[channel] for channel in channels}
        notes: dict[int, Any] = {}
        positions = {form["at"] for form in forms.values() if "at" in form}
        if positions:
            notes = {note.seq: read_note(note) for note in self.agent.events(positions)}
        values = {}
        for channel, form in forms.items():
            if "at" in form:
                form = notes[form["at"]]["channels"][channel]
            values[channel] = self._codec.read_value(form)
        return values

    def _read_messages(
        self, position: int, events: Sequence[Event] | None = None
    ) -> list[BaseMessage]:
        """Return the messages in `events`, or else those at a position."""
        if events is None:
            events = self.agent.messages(position, notes=[NOTE])
        return [self._codec.read_message(item.value) for item in self._reader.read_events(events)]


def _list_value_positions(
    channels: Mapping[str, Form], versions: Mapping[str, Any], position: int
) -> ValuePositions:
    """Return the positions of the values of channels, as the note at a position has them."""
    return {
        (channel, versions.get(channel)): form.get("at", position)
        for channel, form in channels.items()
    }


# --- writing ---

LONGEST_COPY = 40  # characters of JSON; a reference to an earlier note saves nothing below


class CheckpointDraft:
    """A checkpoint that is to be written. Its values are serialized first: what LangGraph's
    serializer refuses creates no thread."""

    def __init__(
        self,
        codec: "ValueCodec",
        checkpoint: Checkpoint,
        metadata: Any,
        parent: str | None,
        changed: Container[str],
    ) -> None:
        values = checkpoint["channel_values"]
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        conversation = _find_conversation(values)
        self.id = checkpoint["id"]
        self.key = build_key(ADAPTER, self.id)
        self.parent = parent
        self.messages: list[BaseMessage] = values.get(conversation, [])
        self._codec = codec
        self._changed = changed
        self._versions = checkpoint["channel_versions"]
        self._note = {
            "id": self.id,
            "parent": parent,
            "metadata": codec.write_value(metadata),
            "checkpoint": codec.write_value(rest),
            "conversation": conversation,
        }
        self._forms = {
            channel: codec.write_value(value)
            for channel, value in values.items()
            if channel != conversation
        }

    def count_common(self, messages: Sequence[BaseMessage]) -> int:
        """Return how many messages are equal from the start. They may have been changed in
        place."""
        count = 0
        for mine, theirs in zip(self.messages, messages, strict=False):
            if type(mine) is not type(theirs) or mine.__dict__ != theirs.__dict__:
                break
            count += 1
        return count

    def build_batch(self, continued: ThreadState, channels: Mapping[str, Form]) -> list[DraftTuple]:
        """Build the moves, the new messages and the note."""
        batch = list(continued.moves)
        for message in self.messages[len(continued.messages) :]:
            batch += build_drafts(self._codec, message)
        return [*batch, build_note(CHECKPOINT, self._note | {"channels": channels}, self.key)]

    def build_state(
        self, continued: ThreadState, channels: Mapping[str, Form], position: int
    ) -> ThreadState:
        """Return the state of the thread after the checkpoint's note was written at `position`."""
        # The graph may change its messages in place.
        new = deepcopy(self.messages[len(continued.messages) :])
        positions = _list_value_positions(channels, self._versions, position)
        return ThreadState(position, self.id, [*continued.messages, *new], positions)

    def list_channels(self, positions: ValuePositions) -> dict[str, Form]:
        """Return the values of the channels. A long one that the parent has is a reference:
        `positions` are those of the parent's values. Nothing is new in a copy of a checkpoint, but
        its parent is older than that."""
        channels = dict(self._forms)
        for channel, form in self._forms.items():
            position = positions.get((channel, self._versions.get(channel)))
            if position is None or channel in self._changed:
                continue
            if len(write_item(form)) > LONGEST_COPY:
                channels[channel] = {"at": position}
        return channels


def _find_conversation(values: Mapping[str, Any]) -> str | None:
    """Return the channel that is a conversation: `messages`, or the first with a list of
    messages."""
    for channel in (CONVERSATION, *values):
        value = values.get(channel)
        if type(value) is not list or not value:
            continue
        if all(isinstance(message, BaseMessage) for message in value):
            return channel
    return None


# --- values ---

LEAST_TO_COMPRESS = 300  # bytes


class ValueCodec:
    """Writes values and messages as JSON. LangGraph's serializer writes what JSON would change, and
    everything if it encrypts."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde
        self.is_encrypting = "+" in serde.dumps_typed("")[0]

    def write_value(self, value: Any) -> Form:
        """Return any value as a form."""
        if not self.is_encrypting and _is_json(value):
            return {"json": value}
        type_, data = self._serde.dumps_typed(value)
        # Messages are in the writes of tasks, too: without this, a thread takes a quarter more.
        if len(data) > LEAST_TO_COMPRESS and not self.is_encrypting:
            return {"type": type_, "zlib": _encode(zlib.compress(data, 1))}
        return {"type": type_, "base64": _encode(data)}

    def read_value(self, form: Form) -> Any:
        """Return the value that a form was made of."""
        if "json" in form:
            return form["json"]
        data = base64.b64decode(form.get("base64") or form["zlib"])
        if "zlib" in form:
            data = zlib.decompress(data)
        return self._serde.loads_typed((form["type"], data))

    def write_message(self, message: BaseMessage) -> Form:
        """Return a message as a form: LangChain's own, if JSON does not change it."""
        if not self.is_encrypting and type(message) in CLASSES.values():
            form: Form = message_to_dict(message)
            if _is_json(form):
                return form
        return self.write_value(message)

    def read_message(self, form: Form) -> BaseMessage:
        """Return the message that a form was made of."""
        if "data" not in form:
            message: BaseMessage = self.read_value(form)
            return message
        # Its values were checked when it was made.
        return CLASSES[form["type"]].model_construct(**form["data"])


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _is_json(value: Any) -> bool:
    """Return True if JSON gives back a value as it is, with its types."""
    if value is None or type(value) in (bool, int, float, str):
        return True
    if type(value) is list:
        return all(_is_json(each) for each in value)
    if type(value) is dict:
        return all(type(key) is str and _is_json(each) for key, each in value.items())
    return False


# --- messages in and out ---

CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
# LangChain's names of the kinds of media.
FILES = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
KINDS = {name: kind for kind, name in FILES.items()}


def build_drafts(codec: ValueCodec, message: BaseMessage) -> list[DraftTuple]:
    """Build the events of a message."""
    events: list[KeylessDraft] = []
    if not codec.is_encrypting:
        events = _build_events(message)
    return build_item(ADAPTER, codec.write_message(message), events or [("note", NOTE, None)])


def _build_events(message: BaseMessage) -> list[KeylessDraft]:
    if isinstance(message, AIMessage):
        return _build_answer(message)
    if isinstance(message, HumanMessage):
        return [build_message("user", _read_parts(message))]
    if isinstance(message, SystemMessage):
        return [("system", text_of(_read_parts(message)), None)]
    if isinstance(message, ToolMessage):
        data: Form = {"id": message.tool_call_id}
        if message.status == "error":
            data["error"] = True
        return [build_message("tool_result", _read_parts(message), data)]
    return []


def _build_answer(message: AIMessage) -> list[KeylessDraft]:
    metadata = message.response_metadata
    model = metadata.get("model_name") or metadata.get("model")
    events = _load_thinking(message, model)
    if not events:
        text = "".join(part.text for part in _read_parts(message) if isinstance(part, Text))
        calls = [_build_call(call) for call in (*message.tool_calls, *message.invalid_tool_calls)]
        events = [("assistant", text, None), *calls] if text or not calls else calls
    usage = message.usage_metadata
    tokens: Mapping[str, Any] = usage or {}
    details = tokens.get("input_token_details") or {}
    return add_usage(
        events,
        model if isinstance(model, str) else None,
        input=tokens.get("input_tokens"),
        output=tokens.get("output_tokens"),
        cached=details.get("cache_read"),
    )


def _load_thinking(message: AIMessage, model: Any) -> list[KeylessDraft]:
    """Return the events of an answer of Claude with its signed thinking; an empty list if its
    content is not Anthropic's own."""
    if not isinstance(message.content, list) or "claude" not in str(model):
        return []
    try:
        response = {"content": message.content, "model": model}
        return list(wire.load_answer(response, "anthropic"))
    except Error:
        return []


def _build_call(call: Any) -> KeylessDraft:
    arguments = {"id": call["id"], "name": call["name"], "arguments": call["args"]}
    return ("tool_call", None, arguments)


def _read_parts(message: BaseMessage) -> list[Part]:
    """Return the text and files of a message."""
    if isinstance(message.content, str):
        return [Text(message.content)]
    parts: list[Part] = []
    for block in message.content_blocks:
        part = _read_part(block)
        if part is not None:
            parts.append(part)
    return parts


def _read_part(block: Any) -> Part | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "text-plain", "text": str(text)}:
            return Media("document", block.get("mime_type"), text=text, name=block.get("title"))
        case {"type": "image" | "audio" | "video" | "file" as name}:
            return _read_file(KINDS[name], block)
        case {"type": "non_standard", "value": {"image_url": str(url)}}:
            return build_media(url, None)._replace(kind="image")
        case {"type": "non_standard", "value": {"mime_type": str(type_), "data": str(data)}}:
            return media(type_, data=data)
    return None


def _read_file(kind: str, block: Form) -> Part:
    extras = block.get("extras")
    name = extras.get("filename") if isinstance(extras, dict) else None
    type_ = block.get("mime_type")
    if isinstance(block.get("base64"), str):
        part = media(type_, data=block["base64"], name=name)
    elif isinstance(block.get("url"), str):
        part = build_media(block["url"], type_, name)
    else:  # a file in the store of a service
        return Text(describe_media(Media(kind, type_)))
    return part if part.type else part._replace(kind=kind)


class LangchainWriter:
    """Writes messages of others as LangChain's. Each has an id, because LangGraph would give it a
    new one in every state."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a system or user message."""
        kind = "system" if turn.role == "system" else "human"
        yield _write_form(kind, event.seq, content=write_content(list_parts(turn), _write_part))

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write an answer: its texts and its calls."""
        calls = []
        for call in turn.calls:
            form = {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
            calls.append(form)
        yield _write_form("ai", event.seq, content="".join(turn.texts), tool_calls=calls)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls, one by one."""
        for answered in calls:
            call, result = answered
            position = result.position or event.seq
            name = f"{position}-open" if answered.is_interrupted else str(position)
            yield _write_form(
                "tool",
                position,
                name,
                content=write_content(list_parts(result), _write_part),
                tool_call_id=call.id,
                status="error" if result.is_error else "success",
            )


def _write_form(kind: str, position: int, name: str = "", **data: Any) -> TurnItem:
    id = f"backstory-{name or position}"
    return TurnItem({"type": kind, "data": {"type": kind, "id": id, **data}}, position)


def _write_part(part: Part) -> Form:
    if not isinstance(part, Media):
        return {"type": "text", "text": text_of([part])}
    block: Form = {"type": FILES[part.kind]}
    if part.type is not None:
        block["mime_type"] = part.type
    if part.data is not None:
        block["base64"] = part.data
    elif part.url is not None:
        block["url"] = part.url
    else:
        return {"type": "text", "text": describe_media(part)}
    if part.name is not None:
        block["extras"] = {"filename": part.name}
    return block
