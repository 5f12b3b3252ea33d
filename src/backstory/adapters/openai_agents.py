"""The OpenAI Agents SDK: `Runner.run(agent, "…", session=BackstorySession("42", "history.db"))`.

An item of the SDK is an item of OpenAI's Responses API: it becomes an event, and its exact JSON is
kept with it. Clearing and popping are moves in the log, so nothing is lost.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agents.memory import session as memory
from agents.memory.session_settings import SessionSettings, coerce_session_settings

from backstory import Agent, Conflict, Error, Event, wire
from backstory.adapters.items import (
    Item,
    ItemReader,
    TurnItem,
    build_item,
    write_blocks,
)
from backstory.adapters.stores import (
    AdapterStore,
    At,
    DraftTuple,
    KeylessDraft,
    Where,
    build_clear,
    build_jump,
    copy_in_slices,
    make_key,
)
from backstory.aio import in_thread
from backstory.log.items import NATIVE_IS_ITEM, write_item
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import AnswerTurn, MessageTurn

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["BackstorySession"]

ADAPTER = "openai_agents"
FORMAT: Final = "openai-responses"
NOTE = f"{ADAPTER}.item"  # an item that is not a message
SNAPSHOT = "_CompactionSnapshot"  # the SDK's class, which it does not export
# OpenAI's own tools whose calls the caller answers. Beside an output, the wire reads them as calls.
OUTPUTS = {
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
END = 3  # events that show the newest item of this adapter
T = TypeVar("T")


class BackstorySession:
    """A session of the OpenAI Agents SDK whose history is an agent of a backstory store.

    With `repair=True`, unlimited reads leave out outputs whose calls are gone: no model accepts
    them. `key` opens the agent with this key, whichever program began it.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        db_path: Where = ":memory:",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        repair: bool = False,
        key: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self.repair = repair
        self._store = AdapterStore(db_path, ADAPTER)
        self._key = self._store.build_key(session_id) if key is None else key

    @property
    def agent(self) -> Agent:
        """The agent of the session: for marks, rewinds, earlier contexts and everything else."""
        return self._store.ensure(self._key)

    def fork(self, new_id: str, at: At = None) -> "BackstorySession":
        """Return a new session that continues from here, or from an earlier position: one row,
        nothing is copied."""
        self._store.fork(self.agent, self._store.build_key(new_id), at)
        fork = copy(self)
        fork.session_id = new_id
        fork._store = self._store.share()
        fork._key = fork._store.build_key(new_id)
        return fork

    def close(self) -> None:
        """Release the store. Every later call raises RuntimeError."""
        self._store.close()

    # --- the SDK's interface ---

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the newest `limit` items, oldest first. None: the limit of the settings, else all
        items."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit < 0:  # all items, as in SQLiteSession
            limit = None
        nothing: list[Any] = []
        return await self._read(lambda agent: self._read_values(agent, limit), nothing)

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Append items, all or none. Raises TypeError for what is not JSON."""
        self._store.check_open()
        if items:
            texts = await copy_in_slices(_dump_item, items)
            write = partial(_append_items, texts=texts)
            await in_thread(partial(self._store.write, self._key, write))

    async def pop_item(self) -> "TResponseInputItem | None":
        """Remove the newest item from the context and return it, or None if there is none."""
        return await self._read(_pop_item, None)

    async def clear_session(self) -> None:
        """Empty the context."""
        await self._read(_clear, None)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Any:
        """Return the newest items and a function that replaces the last of them. The SDK asks for
        this by name, to compact in one step."""
        nothing: tuple[int, list[Item]] = (0, [])
        head, found = await self._read(lambda agent: _read_newest(agent, limit + 1), nothing)
        shown = found[-limit:]

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            if not shown[start:]:
                return False
            replace = partial(
                _replace_items,
                head=head,
                count=len(shown) - start,
                texts=[_dump_item(item) for item in output],
                prune=prune_prefix,
            )
            try:
                return await self._read(replace, False)
            except Conflict:
                return False

        snapshot = getattr(memory, SNAPSHOT)
        return snapshot([item.value for item in shown], len(found) <= limit, replace_suffix)

    # --- reading ---

    async def _read(self, call: Callable[[Agent], T], default: T) -> T:
        return await in_thread(partial(self._store.read, self._key, call, default))

    def _read_values(self, agent: Agent, limit: int | None) -> list[Any]:
        values = [item.value for item in _read_items(agent, limit)]
        if self.repair and limit is None:
            return _drop_orphans(values)
        return values


def _read_items(agent: Agent, limit: int | None = None) -> list[Item]:
    return _open_reader().read_context(agent, limit)


def _open_reader() -> ItemReader:
    return ItemReader(ADAPTER, [NOTE], OpenaiItemWriter())


def _read_newest(agent: Agent, limit: int) -> tuple[int, list[Item]]:
    """Return the head and the newest items."""
    return agent.head, _read_items(agent, limit)


def _drop_orphans(items: list[Any]) -> list[Any]:
    """Return the items without outputs whose calls are gone."""
    calls = {item.get("call_id") for item in items if not _is_output(item)}
    calls.discard(None)  # of messages
    return [item for item in items if not _is_output(item) or item.get("call_id") in calls]


def _is_output(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call_output")


# --- writing ---


def _dump_item(item: Any) -> str:
    """Return the JSON of an item."""
    if not isinstance(item, dict):
        raise TypeError(f"an item of a session is a dict, not {type(item).__name__}")
    try:
        return write_item(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"an item of a session is JSON, and this one is not ({error})") from error


def _append_items(agent: Agent, texts: Sequence[str]) -> None:
    agent.extend(_build_batch(texts))


def _build_batch(texts: Sequence[str]) -> list[DraftTuple]:
    drafts: list[DraftTuple] = []
    for text in texts:
        drafts += build_drafts(text)
    return drafts


def _pop_item(agent: Agent) -> Any:
    """Remove the newest item and return it. None: there is none."""
    while True:
        head = agent.head
        items = _read_end(agent)
        if not items:
            return None
        try:
            agent.extend(_build_removal(items[:-1], items[-1:]), expected=head)
        except Conflict:
            continue
        return items[-1].value


def _read_end(agent: Agent) -> list[Item]:
    """Return the newest item if this adapter wrote the newest event; otherwise all items."""
    events = agent.messages(notes=[NOTE], limit=END)
    newest = _open_reader().read_events(events)[-1:]
    if newest and newest[0].is_own and newest[0].last == events[-1].seq:
        return newest
    return _read_items(agent)


def _build_removal(remaining: Sequence[Item], removed: Sequence[Item]) -> list[DraftTuple]:
    """Build the jump to before the `removed` items, which are the last ones. Remaining items are
    written again if their events come after the target: a result of others may be late, and the
    output of an open call has the position of the call."""
    if not removed:
        return []
    start = min(item.first for item in removed)
    while True:
        later = [item for item in remaining if item.first >= start]
        first_call = _find_first_call(remaining, [*later, *removed])
        if first_call is None or first_call >= start:
            break
        start = first_call
    return [_jump_before(start), *_build_batch([write_item(item.value) for item in later])]


def _find_first_call(items: Sequence[Item], outputs: Sequence[Item]) -> int | None:
    """Return the first position of the calls of others among `items` that have an output among
    `outputs`. If only the output were removed, the call would be "interrupted"."""
    ids = [item.value.get("call_id") for item in outputs if _is_output(item.value)]
    positions: list[int] = []
    for item in items:
        is_call = "call_id" in item.value and not _is_output(item.value)
        if is_call and not item.is_own and item.value["call_id"] in ids:
            positions.append(item.first)
    return min(positions, default=None)


def _clear(agent: Agent) -> None:
    agent.clear(by=ADAPTER)


def _replace_items(
    agent: Agent,
    head: int,
    count: int,
    texts: Sequence[str],
    prune: Callable[[Any], bool] | None,
) -> bool:
    """Replace the last `count` items, and leave out the first items that `prune` accepts. Raises
    Conflict if the head has moved."""
    items = _read_items(agent)
    batch = _build_removal(items[:-count], items[-count:])
    if prune is not None:
        before = [item.value for item in items[:-count]]
        kept = list(dropwhile(prune, before))
        if len(kept) < len(before):
            batch = [build_clear(ADAPTER, make_key(ADAPTER))]
            batch += _build_batch([write_item(item) for item in kept])
    batch += _build_batch(texts)
    return bool(agent.extend(batch, expected=head))


def _jump_before(position: int) -> DraftTuple:
    return build_jump(ADAPTER, position - 1, make_key(ADAPTER))


# --- messages in and out ---


def build_drafts(text: str) -> list[DraftTuple]:
    """Build the events of an item, given as JSON."""
    item = json.loads(text)
    events = _load_item(item)
    if not events:
        return build_item(ADAPTER, item, [("note", NOTE, None)], text=text)
    *parts, (kind, content, data) = events
    data = dict(data or {})
    if "native" in data:
        data["native"] = {"provider": FORMAT, "wire": NATIVE_IS_ITEM}
    return build_item(ADAPTER, item, [*parts, (kind, content, data)], text=text)


def _load_item(item: dict[str, Any]) -> list[KeylessDraft]:
    """Return the events that the wire reads from an item; none if it is not a message."""
    items = [item]
    output = OUTPUTS.get(str(item.get("type")))
    if output is not None and isinstance(item.get("call_id"), str):
        items.append({"type": output, "call_id": item["call_id"], "id": item["call_id"]})
    try:
        found: list[KeylessDraft] = list(wire.load({"input": items}, FORMAT))
    except Error:
        return []
    return found[:1] if len(items) > 1 else found


class OpenaiItemWriter:
    """Writes messages of others as items."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a system or user message."""
        content = write_blocks(FORMAT, list_parts(turn))
        yield TurnItem({"role": turn.role, "content": content}, event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write the texts and the calls of an answer, one by one."""
        for text in turn.texts:
            yield TurnItem({"role": "assistant", "content": text}, event.seq)
        for call in turn.calls:
            item = {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.text or write_item(call.arguments),
            }
            yield TurnItem(item, call.position or event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls, one by one."""
        for call, result in calls:
            output = write_blocks(FORMAT, list_parts(result), in_result=True)
            item = {"type": "function_call_output", "call_id": call.id, "output": output}
            yield TurnItem(item, result.position or event.seq)
