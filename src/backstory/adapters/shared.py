"""The parts that all adapters share.

An *item* is one message of a framework. It becomes one or more ordinary events, and the last of
them also carries the item's exact JSON (`log.items`). Reading has one rule: an item comes back
exactly if all its events are live; otherwise its live events are translated, as if somebody else
had written them. *Others* are the other programs that write to the same agent.

Every adapter has the same parts in the same order: its class with `agent`, `fork` and `close`; the
framework's interface; reading; writing; and the messages in (`build_drafts`) and out (a
`MessageWriter`). `langgraph` also has threads, between the interface and reading, and the values of
channels, before the messages.

This file has two halves. Their parts, in reading order:

- The store: the open store (`AdapterStore`), keys and names of agents, calls from the event loop,
  and appending, with a lock for each agent (`KnownHeads`).
- The items: writing (`build_item`), reading (`ItemReader`), text and files, and state beside the
  messages (`StateNotes`).
"""

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from hashlib import sha256
from itertools import groupby
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar
from urllib.parse import quote, unquote

import backstory
from backstory import (
    Agent,
    AgentNotFound,
    Conflict,
    Event,
    InvalidEvent,
    KeyTaken,
    NameTaken,
    Store,
    replay,
)
from backstory.aio import in_thread
from backstory.log.arguments import LONGEST_KEY, LONGEST_NAME
from backstory.log.checks import check_data
from backstory.log.items import read_item, read_json, shorten_item, write_item
from backstory.storage.targets import At as At  # for the adapters
from backstory.wire.formats import get_format
from backstory.wire.media import (
    OWN,
    as_words,
    describe_lost_media,
    from_url,
    media,
    write_own_block,
)
from backstory.wire.neutral import AnsweredCall, list_answered_calls, read_turns
from backstory.wire.turns import AnswerTurn, Call, Media, MessageTurn, Part, Result, Text, text_of

Where = str | os.PathLike[str] | Store
KeylessDraft = tuple[str, str | None, dict[str, Any] | None]  # kind, content, data
DraftTuple = KeylessDraft | tuple[str, str | None, dict[str, Any] | None, str | None]  # and a key
logger = logging.getLogger("backstory")
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

# --- the open store ---

MOST_HANDLES = 10_000  # agents that are kept at hand


class SharedStore:
    """An open store and the number of its users: the adapters of this process that name its
    address, and the caller who passed it in."""

    def __init__(self, store: Store, users: int = 0) -> None:
        self.store = store
        self.users = users

    def release(self) -> None:
        """Close the store with its last user."""
        with _shared_lock:
            self.users -= 1
            is_last = self.users == 0
        if is_last:
            self.store.close()


_shared_lock = threading.RLock()  # a finalizer may run while this thread has it
_shared_stores: "weakref.WeakValueDictionary[str, SharedStore]" = weakref.WeakValueDictionary()


class AdapterStore:
    """The store of one adapter. `close()`, or the last reference to the adapter, releases it.

    Adapters of one process that name the same address share an open store; a `:memory:` store
    belongs to its adapter alone, and a store that was passed in stays open.
    """

    def __init__(self, where: Where | SharedStore, adapter: str) -> None:
        self._adapter = adapter
        self._agents: dict[str, Agent] = {}  # by key; a deleted one is noticed when it is used
        self._paths: dict[str, str] = {}  # of keys that have only hashes of ids: the ids
        self._is_closed = False
        with _shared_lock:
            self._shared = _find_shared(where)
            self._shared.users += 1
        self._store = self._shared.store
        self._release = weakref.finalize(self, self._shared.release)

    def share(self) -> "AdapterStore":
        """Return another user of the open store, which is closed with the last of them."""
        self.check_open()
        return AdapterStore(self._shared, self._adapter)

    @property
    def store(self) -> Store:
        """The open store. Raises RuntimeError after `close()`."""
        self.check_open()
        return self._store

    def check_open(self) -> None:
        """Raise RuntimeError after `close()`."""
        if self._is_closed:
            raise RuntimeError(f"the adapter of {self._store.url!r} is closed")

    def close(self) -> None:
        """Release the store."""
        self._is_closed = True
        self._release()

    def build_key(self, *ids: str) -> str:
        """Return the key of the agent that the framework knows by `ids`."""
        key = build_key(self._adapter, *ids)
        path = f"{self._adapter}:" + "/".join(map(_quote, ids))
        if path != key and len(path) <= LONGEST_IDS:
            self._paths[key] = path
        return key

    def find(self, key: str) -> Agent | None:
        """Return the agent with `key`, or None."""
        self.check_open()
        agent = self._agents.get(key)
        if agent is not None:
            return agent
        try:
            return self._remember(key, self.store.agent(key=key))
        except AgentNotFound:
            return None

    def ensure(self, key: str) -> Agent:
        """Return the agent with `key`. It is created if it does not exist, and named after the last
        id in the key."""
        self.check_open()
        agent = self._agents.get(key)
        if agent is not None:
            return agent
        return self._remember(key, self.store.ensure(key, name=build_name(key)))

    def start(self, key: str, events: Sequence[DraftTuple]) -> Agent | None:
        """Create the agent with `key` and its first events in one step. Return None if there is
        one with this key."""
        try:
            agent = self.store.start(build_name(key), key=key, events=events)
        except KeyTaken:
            return None
        return self._remember(key, agent)

    def spawn(self, parent_key: str, key: str) -> Agent:
        """Return the agent with `key`. It is created below the one with `parent_key` if it does not
        exist, and so is that one."""
        found = self.find(key)
        if found is not None:
            return found
        try:
            return self.write(parent_key, lambda parent: self._create(parent.spawn, key))
        except KeyTaken:  # another process was faster
            return self.store.agent(key=key)

    def fork(self, source: Agent, key: str, at: At = None) -> Agent:
        """Return a new agent with `key` that continues a position of `source`. Raises KeyTaken."""
        return self._create(partial(source.fork, at=at), key)

    def _create(self, create: Callable[..., Agent], key: str) -> Agent:
        name = build_name(key)
        try:
            return self._remember(key, create(name, key=key))
        except NameTaken:
            return self._remember(key, create(build_other_name(name, key), key=key))

    def delete(self, agents: Iterable[Agent]) -> None:
        """Delete agents and forget their handles. It is no error if another process was faster."""
        for agent in agents:
            with suppress(AgentNotFound):
                self.store.delete(agent.id)
            self._agents.pop(agent.key or "", None)

    def delete_tree(self, *ids: str) -> None:
        """Delete the agent that the framework knows by `ids`, and all agents below it."""
        key = self.build_key(*ids)
        self._agents.pop(key, None)  # the handle of an agent that was deleted and created again
        agents = self.store.agents(prefix=build_prefix(self._adapter, *ids))
        top = self.find(key)
        if top is not None:
            agents.insert(0, top)
        self.delete(reversed(agents))

    def read(self, key: str, call: Callable[[Agent], T], default: T) -> T:
        """Return `call(agent)` for the agent with `key`, or `default` if there is none."""
        agent = self.find(key)
        try:
            return default if agent is None else call(agent)
        except AgentNotFound:  # it was deleted, and may have been created again
            self._agents.pop(key, None)
        agent = self.find(key)
        return default if agent is None else call(agent)

    def write(self, key: str, call: Callable[[Agent], T]) -> T:
        """Return `call(agent)` for the agent with `key`, which is created if it does not exist."""
        try:
            return call(self.ensure(key))
        except AgentNotFound:  # the handle was of a deleted agent
            self._agents.pop(key, None)
            return call(self.ensure(key))

    def _remember(self, key: str, agent: Agent) -> Agent:
        if len(self._agents) >= MOST_HANDLES:
            self._agents.clear()
        self._agents[key] = agent
        path = self._paths.get(key)
        if path is not None and agent.about.get(IDS) != path:
            agent.describe(**{IDS: path})
        return agent


def _find_shared(where: Where | SharedStore) -> SharedStore:
    if isinstance(where, SharedStore):
        return where
    if isinstance(where, Store):
        return SharedStore(where, users=1)
    address = os.fspath(where)
    if address == ":memory:":
        return SharedStore(backstory.open(address))
    place = address if "://" in address else os.path.abspath(address)
    shared = _shared_stores.get(place)
    if shared is None or shared.users == 0:
        shared = SharedStore(backstory.open(address))
        _shared_stores[place] = shared
    return shared


# --- keys and names of agents ---

LONGEST_PART = 400  # of a part that others follow: two of them and a hash are a key
IDS = "path"  # in an agent's details: its ids, if its key has only hashes of them
LONGEST_IDS = 60_000


def build_key(adapter: str, *ids: str) -> str:
    """Return the key of the agent that a framework knows by `ids`: `ADAPTER:part/part`. An id that
    is too long is a hash."""
    *first, last = ids
    prefix = build_prefix(adapter, *first)
    key = prefix + _quote(last)
    if len(key) > LONGEST_KEY:
        key = prefix + _hash(last)
    return key


def build_prefix(adapter: str, *ids: str) -> str:
    """Return the beginning of the keys of all agents whose first ids are these."""
    prefix = f"{adapter}:"
    for id in ids:
        part = _quote(id)
        if len(part) > LONGEST_PART:
            part = _hash(id)
        prefix += f"{part}/"
    return prefix


def read_ids(agent: Agent) -> list[str]:
    """Return the ids by which a framework knows an agent."""
    path = agent.about.get(IDS) or agent.key or ""
    parts = path.partition(":")[2].split("/")
    return [unquote(part, errors="surrogatepass") for part in parts]


def build_name(key: str) -> str:
    """Return a name for the agent with a key: its last id, as far as names can have its
    characters."""
    last = key.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    name = ""
    for char in unquote(last, errors="surrogatepass"):
        name += char if char.isprintable() and char not in "/@" else "_"
    return name.strip()[:LONGEST_NAME].strip() or "session"


def build_other_name(name: str, key: str) -> str:
    """Return another name for the agent with `key`, because `name` is taken."""
    return f"{name[: LONGEST_NAME - 9].strip()}-{sha256(key.encode()).hexdigest()[:8]}"


def _quote(id: str) -> str:
    check_type(id, str, "an id")
    return quote(id, safe="", errors="surrogatepass")


def _hash(id: str) -> str:
    return sha256(id.encode(errors="surrogatepass")).hexdigest()


def check_type(value: object, type_: type, what: str) -> None:
    """Raise TypeError if a value is not of its type. `what` names the value in the message."""
    if not isinstance(value, type_):
        raise TypeError(f"{what} is of the type {type_.__name__}, not {type(value).__name__}")


# --- in the event loop ---

SLICE = 500  # items that are copied before other tasks get their turn


def _do_nothing() -> None:
    """Do nothing, in a thread: meanwhile other tasks get their turn."""


async def copy_in_slices(copy: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Return `copy(value)` for each value. The caller may change its values while they are written,
    so they are copied in the event loop, some at a time."""
    copies: list[R] = []
    for start in range(0, len(values), SLICE):
        if start:
            await in_thread(_do_nothing)
        copies += [copy(value) for value in values[start : start + SLICE]]
    return copies


def call_in_thread(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a method as an async one, which calls it in a thread."""

    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(partial(method, *args, **kwargs))

    return call


# --- appending ---


def append_to_head(agent: Agent, build: Callable[[], Sequence[DraftTuple]]) -> list[Event]:
    """Append what `build()` returns after the head. Build again if somebody else appended
    meanwhile."""
    while True:
        head = agent.head
        batch = build()
        if not batch:
            return []
        try:
            return agent.extend(batch, expected=head)
        except Conflict:
            continue


def make_key(adapter: str) -> str:
    """Return a new key. Without one, an event is a repeat if another process has written an equal
    one after the same head."""
    return f"{adapter}:{secrets.token_hex(8)}"


def build_jump(adapter: str, position: int, key: str | None = None) -> DraftTuple:
    """Build an adapter's own jump to a position."""
    return ("jump", None, {"target_message_id": position, "by": adapter}, key)


def build_clear(adapter: str, key: str | None = None) -> DraftTuple:
    """Build an adapter's own clear."""
    return ("clear", None, {"by": adapter}, key)


def undo_own_moves(adapter: str, agent: Agent, events: Iterable[Event]) -> list[Event]:
    """Return the messages and notes of the context as it would be without the moves of an adapter:
    its framework leaves out by itself what it rewound."""
    kept: list[Event] = []
    for event in events:
        is_move = event.kind in ("clear", "jump")
        if is_move and (event.data or {}).get("by") == adapter:
            event = Event.of(event.seq, "note", f"{adapter}.move")
        kept.append(event)
    return replay(kept, agent=agent.name).messages


class LockedValue(Generic[T]):
    """A value known about one agent, and its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: T | None = None


class KnownHeads(Generic[T]):
    """Values that this process knows about agents at their heads, with a lock for each agent.

    A value is only used for a write with `expected=` its head, so another process cannot make it
    wrong.
    """

    MOST = 1_000  # agents

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: dict[str, LockedValue[T]] = {}

    @contextmanager
    def hold(self, agent: Agent) -> Iterator[LockedValue[T]]:
        """Lock what is known about an agent."""
        with self._lock:
            if len(self._heads) >= self.MOST:
                self._heads.clear()
            known = self._heads.setdefault(agent.id, LockedValue())
        with known.lock:
            yield known


# --- items: writing ---

REQUIRED = {"tool_call": ("id", "name"), "tool_result": ("id",)}


class Item(NamedTuple):
    """A message of the framework: as it was written, or translated from events of others."""

    value: Any
    first: int  # positions of its first and last event
    last: int
    id: str | None = None  # the framework's own id, if it was given one
    is_own: bool = True


def build_item(
    adapter: str,
    value: Any,
    events: Sequence[KeylessDraft],
    *,
    id: str | None = None,
    key: str | None = None,
    text: str | None = None,
) -> list[DraftTuple]:
    """Build the events of an item. The last one gets its exact JSON, `id` and `key`; the others say
    how many follow. `text` is the JSON of `value`, if the caller has it. What a store refuses in
    the events is replaced."""
    *parts, (kind, content, data) = [clean_draft(*event) for event in events]
    if text is None:
        text = write_item(value)
    tag = {"of": adapter, "json": shorten_item(text, content, data), "events": len(events)}
    if id is not None:
        tag["id"] = id
    drafts: list[DraftTuple] = []
    for index, (part_kind, part_content, part_data) in enumerate(parts):
        part_tag = {"of": adapter, "part": len(parts) - index}
        drafts.append((part_kind, part_content, part_data | {"item": part_tag}))
    return [*drafts, (kind, content, data | {"item": tag}, key)]


def build_note(name: str, value: Any, key: str | None = None) -> DraftTuple:
    """Build a note with any JSON in it, as text: a store would refuse NaN, deep nesting and lone
    surrogates."""
    return ("note", name, {"json": write_item(value)}, key)


def read_note(note: Event | None) -> Any:
    """Return the value that `build_note` was given; None if there is no note, or if an older
    version wrote it."""
    text = (note.data or {}).get("json") if note is not None else None
    return read_json(text) if isinstance(text, str) else None


def clean_draft(
    kind: str, content: str | None, data: Mapping[str, Any] | None
) -> tuple[str, str | None, dict[str, Any]]:
    """Return a draft that a store accepts. Values that it refuses become text, or are left out: the
    item has them anyway."""
    cleaned: dict[str, Any] = {}
    for name, value in (data or {}).items():
        if _is_storable(kind, {name: value}):
            cleaned[name] = value
        elif name in ("id", "name", "arguments"):
            words = value if isinstance(value, str) else write_item(value)
            cleaned[name] = clean_text(words)
    for name in REQUIRED.get(kind, ()):
        value = cleaned.get(name)
        if not isinstance(value, str) or not value.strip():
            cleaned[name] = "unknown"
    return kind, None if content is None else clean_text(content), cleaned


def _is_storable(kind: str, data: dict[str, Any]) -> bool:
    try:
        check_data(kind, data)
    except InvalidEvent:
        return False
    return True


def clean_text(text: str) -> str:
    """Return `text` without U+0000 and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


# --- items: reading ---


class TurnItem(NamedTuple):
    """A message of the framework that was translated, and the position of its first event."""

    value: Any
    first: int


class MessageWriter(Protocol):
    """Writes the messages of others as messages of one framework. `event` is the first of the
    events that a message comes from."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterable[TurnItem]:
        """Write a system or user message."""

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterable[TurnItem]:
        """Write an answer of a model: its texts, which are not empty, and its calls."""

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterable[TurnItem]:
        """Write results of the calls of one answer."""


class ItemReader(NamedTuple):
    """Reads the items of one adapter, and the messages of others as items.

    With `repair`, calls that others left open get the result "interrupted".
    """

    adapter: str
    notes: Sequence[str]  # the names of the notes that carry items
    writer: MessageWriter
    repair: bool = True

    def read_context(self, agent: Agent, limit: int | None = None, at: At = None) -> list[Item]:
        """Return the items of the context, or the newest `limit` of them, which reads only the end
        of the log."""
        if limit is None:
            return self.read_events(agent.messages(at, notes=self.notes))
        if limit <= 0:
            return []
        size = limit + 2
        while True:
            events = agent.messages(at, notes=self.notes, limit=size)
            items = self.read_events(events)
            if len(events) < size or len(items) - self._count_cut(items, events) >= limit:
                return items[-limit:]
            size *= 4

    def _count_cut(self, items: Sequence[Item], events: Sequence[Event]) -> int:
        """Return how many of the first items may lack events before `events`: those of an answer
        and of its results, and parts of an own item, up to the first item that is certainly
        complete.

        If `events` begin with the second call of an answer, its result and a question, the items
        are an answer, a result and the question: the first two are cut.
        """
        by_position = {event.seq: event for event in events}
        for index, item in enumerate(items):
            first = by_position[item.first]
            is_part = _has_tag(self.adapter, first)
            if item.is_own or (first.kind in ("user", "system") and not is_part):
                return index
        return len(items)

    def read_events(self, events: Sequence[Event]) -> list[Item]:
        """Return the items in `events`. An item whose events are all there comes back exactly;
        everything else is grouped into turns and translated."""
        own = read_own_items(self.adapter, events)
        owners: dict[int, int] = {}
        for item in own:
            owners.update(dict.fromkeys(range(item.first, item.last + 1), item.last))
        messages = [event for event in events if event.kind != "note" or event.seq in owners]
        if all(event.seq in owners for event in messages):
            return own
        return _Translation(self, messages, owners).add_turns(own)


def read_own_items(adapter: str, events: Sequence[Event]) -> list[Item]:
    """Return the items of this adapter whose events are all there."""
    items: list[Item] = []
    for index, event in enumerate(events):
        data = _read_carrier(adapter, event)
        if data is None:
            continue
        tag = data["item"]
        count = tag["events"]
        if _are_parts(adapter, events[max(index + 1 - count, 0) : index], count - 1):
            first = events[index + 1 - count].seq
            items.append(Item(read_item(event.content, data), first, event.seq, tag.get("id")))
    return items


def _read_carrier(adapter: str, event: Event) -> dict[str, Any] | None:
    """Return the data of an event that carries an item of this adapter."""
    if not _has_tag(adapter, event, ',"json":'):
        return None
    data = event.data or {}
    item = data.get("item")
    if isinstance(item, dict) and item.get("of") == adapter and "json" in item:
        return data
    return None


def _has_tag(adapter: str, event: Event, next_field: str = "") -> bool:
    """Return True if an event seems to belong to an item of this adapter. Its data may be large,
    and are not parsed: `build_item` puts `of` and `json` first, and a store keeps their order."""
    return f'"item":{{"of":"{adapter}"{next_field}' in (event.data_json or "")


def _are_parts(adapter: str, events: Sequence[Event], count: int) -> bool:
    """Return True if `events` are the `count` parts of the item that the next event carries."""
    if len(events) != count:
        return False
    for index, event in enumerate(events):
        tag = (event.data or {}).get("item")
        if tag != {"of": adapter, "part": count - index}:
            return False
    return True


class Placement(NamedTuple):
    """An item with its place. Results have the position at which their answer ends."""

    position: int
    is_result: bool
    item: Item


# An example. Positions 2 and 3 are one own item: an answer that calls `f` and then says something.
#
#     events                      owners    placements
#     1  user "Look."                       (1, False)  the translated question
#     2  tool_call "f" (a part)   3
#     3  assistant "I look."      3         (3, False)  the own item, placed at its end
#     4  user "Well?"                       (4, False)  the translated question
#     5  tool_result of "f"                 (3, True)   the translated result, after its answer
#
# Sorted, they are the items: question, answer, result, question.


class _Translation:
    """Translates the messages of others. `owners` has the position of each event of an own item,
    with the position at which the item ends."""

    def __init__(self, reader: ItemReader, messages: list[Event], owners: dict[int, int]) -> None:
        self._writer = reader.writer
        self._repair = reader.repair
        self._messages = messages
        self._events = {event.seq: event for event in messages}
        self._owners = owners
        self._newest_other = max(self._events.keys() - owners.keys())
        self._placements: list[Placement] = []

    def add_turns(self, own: Sequence[Item]) -> list[Item]:
        """Return the own items and the turns of others in their order."""
        self._placements = [Placement(item.last, False, item) for item in own]
        runs = groupby(self._messages, key=lambda event: self._owners.get(event.seq))
        for turn in read_turns([list(run) for _, run in runs]):
            if isinstance(turn, AnswerTurn):
                self._add_answer(turn)
            else:
                position = turn.position or 0
                if position not in self._owners:
                    written = self._writer.write_message(turn, self._events[position])
                    self._place(position, position, written)
        self._placements.sort(key=lambda placement: placement[:2])
        return [placement.item for placement in self._placements]

    def _add_answer(self, turn: AnswerTurn) -> None:
        """Place an answer of others at its first position, and the results that no own item has at
        `end`: the last position of the answer, or of the own item that it is."""
        position = turn.position or 0
        end = _find_last([turn, *turn.calls])
        end = self._owners.get(end, end)
        is_own = position in self._owners
        if not is_own and (turn.texts or turn.calls):
            written = self._writer.write_answer(turn, self._events[position])
            self._place(position, end, written)
        missing = [each for each in list_answered_calls(turn) if self._is_missing(each, is_own)]
        if missing:
            first = self._events[missing[0].result.position or 0]
            last_result = _find_last([each.result for each in missing])
            written = self._writer.write_results(missing, first)
            self._place(end, max(end, last_result), written, is_result=True)

    def _is_missing(self, answered: AnsweredCall, is_own: bool) -> bool:
        """Return True if no item of this adapter has the result of a call. An own call stays open
        until a message of somebody else follows it."""
        position = answered.result.position or 0
        if not answered.is_interrupted:
            return position not in self._owners
        return self._repair and (not is_own or self._newest_other > position)

    def _place(
        self, position: int, last: int, written: Iterable[TurnItem], *, is_result: bool = False
    ) -> None:
        """Place items at `position`. `last` is the position of the last event that they come
        from."""
        for value, first in written:
            item = Item(value, first, max(first, last), is_own=False)
            self._placements.append(Placement(position, is_result, item))


def _find_last(parts: Iterable[AnswerTurn | Call | Result]) -> int:
    """Return the highest position of `parts`."""
    return max(part.position or 0 for part in parts)


# --- text and files ---


def build_media(uri: str, type: str | None, name: str | None = None) -> Media:
    """Build the media at a URL, or in a data URL."""
    found = from_url(uri, "")
    return media(found.type or type, data=found.data, url=found.url, name=name)


def write_block(format: str, part: Part, *, in_result: bool = False) -> Any:
    """Write text or a file as a block of a provider's format. A file that the format cannot carry
    becomes a sentence."""
    writer = get_format(format)
    if isinstance(part, Media):
        block = writer.write_media(part, in_result)
        if block is not None and not isinstance(block, str):
            return block
        return writer.write_text(block or describe_media(part))
    return writer.write_text(part.text if isinstance(part, Text) else "")


def write_content(parts: Sequence[Part], write: Callable[[Part], Any]) -> str | list[Any]:
    """Write text as a string, and text with files as a list of blocks."""
    if any(isinstance(part, Media) for part in parts):
        return [write(part) for part in parts]
    return text_of(parts)


def write_blocks(format: str, parts: Sequence[Part], *, in_result: bool = False) -> str | list[Any]:
    """Write text as a string, and text with files as blocks of a provider's format."""
    return write_content(parts, partial(write_block, format, in_result=in_result))


def describe_media(part: Media) -> str:
    """Return the text that stands in place of a file: that of a text document, else a sentence,
    which is reported."""
    words = as_words(part)
    if words is not None:
        return words
    _report_lost_media(part.kind, part.type)
    return describe_lost_media([part])


@cache  # sessions are read again and again
def _report_lost_media(kind: str, type_: str | None) -> None:
    """Log that a file is left out: once in a process for each type."""
    logger.warning("a framework is given a sentence in place of a file: %s (%s)", kind, type_)


def build_message(
    kind: str, parts: Sequence[Part], data: Mapping[str, Any] | None = None
) -> KeylessDraft:
    """Build a message or result of texts and files. Files are kept in our own neutral form, which
    every wire format and every adapter reads."""
    whole = dict(data or {})
    if any(isinstance(part, Media) for part in parts):
        blocks = [write_own_block(part) for part in parts if isinstance(part, Text | Media)]
        whole["native"] = {"provider": OWN, "wire": blocks}
    return kind, text_of(parts), whole


def add_usage(
    events: Sequence[KeylessDraft], model: str | None, **tokens: int | None
) -> list[KeylessDraft]:
    """Add the model and its usage to the first event of an answer, as `agent.record` names them:
    `input`, `output` and `cached`."""
    kind, content, data = events[0]
    first = dict(data or {})
    usage = {name: count for name, count in tokens.items() if count}
    if model:
        first["model"] = model
    if usage:
        first["usage"] = usage
    return [(kind, content, first), *events[1:]]


# --- state beside the messages ---

LEAST_CHANGES = 4_000  # characters of JSON that are never worth a complete state


class State(NamedTuple):
    """A state as two notes have it: the newest complete one, and what changed since."""

    values: dict[str, Any]
    changes: dict[str, Any]
    position: int  # of the complete state; 0: there is none

    @property
    def current(self) -> dict[str, Any]:
        """The state with its changes."""
        return self.values | self.changes


class StateNotes(NamedTuple):
    """A dict that changes often, as two notes: `state` has all of it, `update` all that changed
    since. Once the changes are longer than the state, it is written again."""

    state: str
    update: str

    def read(self, agent: Agent) -> State:
        """Return the state in the context; if there is none, the newest of the lineage."""
        notes = agent.last_notes([self.state, self.update])
        if self.state in notes:
            return self.join(notes[self.state], notes.get(self.update))
        states = agent.notes(self.state, live=False)
        if not states:
            return State({}, {}, 0)
        updates = agent.notes(self.update, live=False)
        return self.join(states[-1], updates[-1] if updates else None)

    def join(self, state: Event, update: Event | None) -> State:
        """Return the state in the newest note of each name."""
        complete = read_note(state) or {"values": {}}
        newer = read_note(update)
        changes: dict[str, Any] = {}
        if newer is not None and newer["since"] == state.seq:
            changes = newer["changes"]
        return State(complete["values"], changes, state.seq)

    def build(self, before: State, changes: Mapping[str, Any]) -> DraftTuple:
        """Build the note for `changes`."""
        changed = before.changes | dict(changes)
        size = len(write_item(changed))
        complete_size = len(write_item(before.values))
        if before.position == 0 or size > complete_size + LEAST_CHANGES:
            return self.build_complete(before.values | changed)
        return build_note(self.update, {"changes": changed, "since": before.position})

    def build_complete(self, values: Mapping[str, Any]) -> DraftTuple:
        """Build the note for a complete state."""
        return build_note(self.state, {"values": dict(values)})
