"""LangGraph: `builder.compile(checkpointer=BackstorySaver("history.db"))`.

A thread is an agent, the namespace of a subgraph an agent below it. The conversation of a checkpoint is the
context at its note: messages are written once, so the store grows with the conversation and not with its
square. The other channels are in the note, or in the earlier note that has the same value.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

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

from backstory import Agent, AgentNotFound, Conflict, KeyTaken
from backstory.adapters.keys import agent_key, key_prefix, whole_path
from backstory.adapters.langchain_messages import ADAPTER, Codec
from backstory.adapters.langgraph_thread import Entry, Known, Thread
from backstory.adapters.stores import History, Where, ids_of
from backstory.aio import in_thread

__all__ = ["BackstorySaver"]

Threads = list[Thread]  # in the class, `list` is a method


class BackstorySaver(BaseCheckpointSaver[Any]):
    """Checkpoints of LangGraph in a backstory store, for synchronous and asynchronous graphs."""

    def __init__(self, where: Where, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._history = History(where)
        self._known: Known = {}

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, thread_id: str, checkpoint_ns: str = "") -> Agent:
        """The agent that holds a thread, or a subgraph's part of it, made if it is not there."""
        id = str(thread_id)
        main = self._history.ensured(agent_key(ADAPTER, id, ""), id)
        self._history.told(main, whole_path(ADAPTER, id, ""))
        if not checkpoint_ns:
            return main
        below = self._history.spawned(main, agent_key(ADAPTER, id, checkpoint_ns), checkpoint_ns)
        return self._history.told(below, whole_path(ADAPTER, id, checkpoint_ns))

    def fork(self, thread_id: str, new_thread_id: str, at: Any = None) -> Agent:
        """A new thread that goes on from a position of another one: one row. Raises AgentNotFound and
        KeyTaken."""
        source = self._history.store.agent(key=agent_key(ADAPTER, str(thread_id), ""))
        return self._forked(source, str(new_thread_id), "", at)

    def _forked(self, source: Agent, id: str, ns: str, at: Any = None) -> Agent:
        new = self._history.forked(source, agent_key(ADAPTER, id, ns), ns or id, at)
        return self._history.told(new, whole_path(ADAPTER, id, ns))

    def get_next_version(self, current: Any, channel: Any = None) -> Any:
        """Whole numbers, which are short; text versions of other savers go on as text."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else int(current) + 1

    # --- reading ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that is named, or the newest one in the context."""
        ids, id = _named(config), get_checkpoint_id(config)

        def read(agent: Agent) -> CheckpointTuple | None:
            thread = Thread(agent, Codec(self.serde), *ids)
            entry = thread.newest() if id is None else thread.entry(id)
            return None if entry is None else self._tuple(thread, entry, is_newest=id is None)

        return self._history.read(agent_key(ADAPTER, *ids), read, None)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What a `DeltaChannel` is made of, pruned checkpoints included."""
        ids, id = _named(config), get_checkpoint_id(config)
        nothing: Mapping[str, Any] = {channel: {"writes": []} for channel in channels}

        def read(agent: Agent) -> Mapping[str, Any]:
            thread = Thread(agent, Codec(self.serde), *ids)
            entry = thread.newest() if id is None else thread.entry(id)
            return nothing if entry is None else thread.deltas(entry, channels)

        return self._history.read(agent_key(ADAPTER, *ids), read, nothing) if channels else {}

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first: of a thread, of a namespace, or of all threads."""
        id = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        found = [
            (entry.id, number, thread, entry)
            for number, thread in enumerate(self._threads(config))
            for entry in thread.entries()
            if id in (None, entry.id)
            and (until is None or entry.id < until)
            and _fits(entry, filter)
        ]
        for _, _, thread, entry in sorted(found, key=lambda each: each[:2], reverse=True)[:limit]:
            yield self._tuple(thread, entry)

    def _threads(self, config: RunnableConfig | None) -> Threads:
        named = config["configurable"] if config else {}
        store = self._history.store
        if "thread_id" not in named:
            agents = store.agents(prefix=f"{ADAPTER}:")
        else:
            agents = store.agents(prefix=key_prefix(ADAPTER, str(named["thread_id"])))
        threads = [
            Thread(agent, Codec(self.serde), *_thread_and_namespace(agent)) for agent in agents
        ]
        return [thread for thread in threads if named.get("checkpoint_ns", thread.ns) == thread.ns]

    def _tuple(self, thread: Thread, entry: Entry, *, is_newest: bool = False) -> CheckpointTuple:
        named = {"thread_id": thread.id, "checkpoint_ns": thread.ns}
        parent = {"configurable": named | {"checkpoint_id": entry.parent}} if entry.parent else None
        return CheckpointTuple(
            config={"configurable": named | {"checkpoint_id": entry.id}},
            checkpoint=thread.checkpoint(entry, is_newest=is_newest),
            metadata=entry.metadata,
            parent_config=parent,
            pending_writes=thread.writes(entry.id),
        )

    # --- writing ---

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Write a checkpoint behind its parent. If the parent is not there any more, nothing is written."""
        id, ns = _named(config)
        parent = config["configurable"].get("checkpoint_id")
        told = get_checkpoint_metadata(config, metadata)
        codec = Codec(self.serde)
        result: RunnableConfig = {
            "configurable": {
                "thread_id": id,
                "checkpoint_ns": ns,
                "checkpoint_id": checkpoint["id"],
            }
        }

        def write(agent: Agent) -> bool:
            while True:
                thread = Thread(agent, codec, id, ns, self._known)
                batch = thread.put(checkpoint, told, new_versions, parent)
                try:
                    if batch:
                        thread.written(checkpoint, agent.extend(batch, expected=thread.head))
                    return True
                except Conflict:  # someone else wrote in between: look again
                    continue

        if not self._history.read(agent_key(ADAPTER, id, ns), write, False) and parent is None:
            codec.form([checkpoint, told])  # what cannot be serialized makes no thread
            write(self.agent(id, ns))  # with a parent, the thread was deleted meanwhile
        return result

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote before its checkpoint is complete. Of ordinary writes the first stays."""
        ids, codec = _named(config), Codec(self.serde)
        checkpoint = str(config["configurable"]["checkpoint_id"])
        named = [
            (WRITES_IDX_MAP.get(channel, number), channel, value)
            for number, (channel, value) in enumerate(writes)
        ]
        key = partial(agent_key, ADAPTER, checkpoint, task_id)
        keyed = [
            (key(str(index)) if index >= 0 else None, index, channel, value)
            for index, channel, value in named
        ]

        def write(agent: Agent) -> bool:
            thread = Thread(agent, codec, *ids)
            while True:
                keys = [key for key, *_ in keyed if key is not None]
                known = {event.key for event in agent.events(keys=keys)} if keys else set()
                batch = [
                    thread.write(checkpoint, (task_path, task_id, index, channel, value), key)
                    for key, index, channel, value in keyed
                    if key not in known
                ]
                try:
                    agent.extend(batch) if batch else None
                    return True
                except KeyTaken:  # another process wrote the same meanwhile: look again
                    continue

        if not self._history.read(agent_key(ADAPTER, *ids), write, False):
            codec.form(list(writes))
            write(self.agent(*ids))

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread with all its namespaces. Copies of it stay."""
        for thread in reversed(self._threads({"configurable": {"thread_id": thread_id}})):
            try:
                self._history.store.delete(thread.agent.id)
            except AgentNotFound:  # someone else was quicker
                continue

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Make the checkpoints of some runs unreadable; their bytes go with the thread."""
        for thread in self._threads(None):
            thread.forget(
                [entry.id for entry in thread.entries() if entry.metadata.get("run_id") in run_ids]
            )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A thread with the same checkpoints: one row for each namespace."""
        for thread in self._threads({"configurable": {"thread_id": source_thread_id}}):
            self._forked(thread.agent, str(target_thread_id), thread.ns)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Make all but the newest checkpoint of each namespace unreadable, or delete the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"{strategy!r} is not a strategy: use 'keep_latest' or 'delete'")
        for id in thread_ids:
            if strategy == "delete":
                self.delete_thread(id)
                continue
            for thread in self._threads({"configurable": {"thread_id": id}}):
                thread.forget([entry.id for entry in thread.entries()[:-1]])

    # --- the same for async callers ---

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, to be awaited."""
        return await in_thread(partial(self.get_tuple, config))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history`, to be awaited."""
        return await in_thread(
            partial(self.get_delta_channel_history, config=config, channels=channels)
        )

    async def alist(
        self, config: RunnableConfig | None, **options: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` for async callers."""
        found = self.list(config, **options)
        while (each := await in_thread(partial(next, found, None))) is not None:
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put`, to be awaited."""
        return await in_thread(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """`put_writes`, to be awaited."""
        await in_thread(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, to be awaited."""
        await in_thread(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs`, to be awaited."""
        await in_thread(partial(self.delete_for_runs, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread`, to be awaited."""
        await in_thread(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """`prune`, to be awaited."""
        await in_thread(partial(self.prune, thread_ids, strategy=strategy))


def _named(config: RunnableConfig) -> tuple[str, str]:
    named = config["configurable"]
    return str(named["thread_id"]), named.get("checkpoint_ns") or ""


def _thread_and_namespace(agent: Agent) -> tuple[str, str]:
    id, ns = ids_of(agent)
    return id, ns


def _fits(entry: Entry, filter: dict[str, Any] | None) -> bool:
    return all(entry.metadata.get(key) == value for key, value in (filter or {}).items())
