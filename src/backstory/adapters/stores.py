"""The store of an adapter, which all adapters share.

Every adapter has the same parts in the same order: its class with `agent`, `fork` and `close`; the
framework's interface; reading; writing; and the messages in (`build_drafts`) and out (a
`MessageWriter`). `langgraph` also has threads, between the interface and reading, and the values of
channels, before the messages.

The parts here, in reading order: the open store (`AdapterStore`), keys and names of agents, calls
from the event loop, and appending, with a lock for each agent (`KnownHeads`).
"""

import os
import secrets
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from hashlib import sha256
from typing import Any, Generic, ParamSpec, TypeVar
from urllib.parse import quote, unquote

import backstory
from backstory import Agent, AgentNotFound, Conflict, Event, KeyTaken, NameTaken, Store, replay
from backstory.aio import in_thread
from backstory.log.arguments import LONGEST_KEY, LONGEST_NAME
from backstory.storage.targets import At as At  # for the adapters

Where = str | os.PathLike[str] | Store
KeylessDraft = tuple[str, str | None, dict[str, Any] | None]  # kind, content, data
DraftTuple = KeylessDraft | tuple[str, str | None, dict[str, Any] | None, str | None]  # and a key
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
