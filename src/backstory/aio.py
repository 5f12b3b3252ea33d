"""The same interface for async callers, on top of threads.

Each method runs the synchronous one in a thread and awaits it. `lift` does that once, with its
types, so there is no second implementation to maintain. Cancelling a call returns at once. If its
thread has begun, it continues until it is done, or until the timeout of the store ends it: an
append may still be written. With a key, it can be repeated.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    overload,
)

from backstory import store as sync
from backstory.agent import Agent
from backstory.intake import Intake
from backstory.listings import HeadWatch
from backstory.log.events import Event
from backstory.references import Reference
from backstory.storage.follow import Follower, WaitResult
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.targets import At
from backstory.store import Store
from backstory.threads import in_thread, open_in_thread, run_abandonable, run_in_own_thread

if TYPE_CHECKING:
    from backstory.maintenance.export_format import Transfer
    from backstory.maintenance.indexing import Progress

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")

__all__ = [
    "AsyncAgent",
    "AsyncFollower",
    "AsyncHead",
    "AsyncHeadWatch",
    "AsyncHit",
    "AsyncHits",
    "AsyncIntake",
    "AsyncReference",
    "AsyncStore",
    "in_thread",
    "open",
    "restore",
]

# --- from synchronous to async ---


@overload
def lift(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]: ...


@overload
def lift(
    method: Callable[Concatenate[Any, P], R], wrap: Callable[[R], W]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, W]]: ...


def lift(method: Callable[..., Any], wrap: Callable[[Any], Any] | None = None) -> Any:
    """Return a synchronous method as one to be awaited. `wrap` makes an async object of its
    result."""

    @wraps(method)
    async def run_in_thread(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        found = await run_abandonable(partial(method, self.sync, *args, **kwargs))
        return found if wrap is None else wrap(found)

    return run_in_thread


class SyncAttribute(Generic[R]):
    """An attribute that an async object takes from the synchronous one."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: Any, owner: type | None = None) -> R:
        if wrapper is None:
            return self  # type: ignore[return-value]
        return cast(R, getattr(wrapper.sync, self._name))


class AsyncFollower(Generic[R]):
    """An iterator for `async for` over what is committed. It begins with the first step, or at once
    with `async with`. Cancelling a step loses no event."""

    def __init__(self, follow: Callable[[], Follower[Any]], wrap: Callable[[Any], R]) -> None:
        self._follow, self._wrap = follow, wrap
        self._follower: Follower[Any] | None = None

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        follower = await self._begin()
        result = WaitResult.WOKEN
        while result is WaitResult.WOKEN:  # by a step that was cancelled
            result = await run_in_own_thread(follower.wait, follower.wake)
        if result is WaitResult.ENDED:
            raise StopAsyncIteration
        return self._wrap(follower.take())

    async def _begin(self) -> Follower[Any]:
        if self._follower is None:
            self._follower = await run_abandonable(self._follow)
        return self._follower

    async def close(self) -> None:
        """Stop following."""
        if self._follower is not None:
            await run_abandonable(self._follower.close)


# --- agents ---


def wrap_agent(agent: Agent) -> "AsyncAgent":
    """Return an agent for async callers."""
    return AsyncAgent(agent)


class AsyncAgent:
    """One branch of a session, for async callers; `sync` is the agent underneath."""

    def __init__(self, agent: Agent) -> None:
        self.sync = agent

    def __repr__(self) -> str:
        return f"<AsyncAgent {self.name!r} {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncAgent) and self.sync == other.sync

    def __hash__(self) -> int:
        return hash(self.sync)

    id = SyncAttribute[str]()
    name = SyncAttribute[str]()
    session = SyncAttribute[str]()
    parent = SyncAttribute[str | None]()
    fork_seq = SyncAttribute[int]()
    born_seq = SyncAttribute[int]()
    spawned = SyncAttribute[bool]()
    created_at = SyncAttribute[datetime]()
    key = SyncAttribute[str | None]()
    about = SyncAttribute[dict[str, Any]]()
    updated_at = SyncAttribute[datetime]()
    listed_head = SyncAttribute[int]()

    @property
    def head(self) -> Awaitable[int]:
        """The newest position: `await agent.head`."""
        return run_abandonable(lambda: self.sync.head)

    append = lift(Agent.append)
    extend = lift(Agent.extend)
    system = lift(Agent.system)
    user = lift(Agent.user)
    record = lift(Agent.record)
    assistant = lift(Agent.assistant)
    tool_call = lift(Agent.tool_call)
    tool_result = lift(Agent.tool_result)
    note = lift(Agent.note)
    settings = lift(Agent.settings)
    mark = lift(Agent.mark)
    label = lift(Agent.label)
    clear = lift(Agent.clear)
    rewind = lift(Agent.rewind)
    jump = lift(Agent.jump)
    undo = lift(Agent.undo)
    redo = lift(Agent.redo)
    compact = lift(Agent.compact)
    expand = lift(Agent.expand)
    erase = lift(Agent.erase)
    describe = lift(Agent.describe)
    rename = lift(Agent.rename)
    fork = lift(Agent.fork, wrap_agent)
    spawn = lift(Agent.spawn, wrap_agent)
    context = lift(Agent.context)
    conversation = lift(Agent.conversation)
    messages = lift(Agent.messages)
    marks = lift(Agent.marks)
    notes = lift(Agent.notes)
    last_notes = lift(Agent.last_notes)
    open_calls = lift(Agent.open_calls)
    unanswered = lift(Agent.unanswered)
    events = lift(Agent.events)
    outline = lift(Agent.outline)
    lineage = lift(Agent.lineage)
    moves = lift(Agent.moves)
    find = lift(Agent.find)
    digest = lift(Agent.digest)
    explain = lift(Agent.explain)
    diff = lift(Agent.diff)
    preview = lift(Agent.preview)

    def follow(self, after: At = None, *, timeout: float | None = None) -> AsyncFollower[Event]:
        """Return an async iterator over the events after `after`: see `Agent.follow`."""
        return AsyncFollower(partial(self.sync.follow, after, timeout=timeout), lambda event: event)


def wrap_agents(agents: Iterable[Agent]) -> list[AsyncAgent]:
    """Return agents for async callers."""
    return [AsyncAgent(agent) for agent in agents]


def wrap_pair(pair: tuple[Agent, Event]) -> tuple[AsyncAgent, Event]:
    """Return an agent and an event for async callers."""
    agent, event = pair
    return AsyncAgent(agent), event


def wrap_pairs(pairs: Iterable[tuple[Agent, Event]]) -> list[tuple[AsyncAgent, Event]]:
    """Return agents with their events for async callers."""
    return [wrap_pair(pair) for pair in pairs]


# --- stores ---


class AsyncIntake:
    """An intake for async callers; `sync` is the intake underneath."""

    def __init__(self, intake: Intake) -> None:
        self.sync = intake

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.commit()

    agent = lift(Intake.agent, AsyncAgent)
    extend = lift(Intake.extend)
    describe = lift(Intake.describe)
    remember = lift(Intake.remember)
    find_keys = lift(Intake.find_keys)
    find_positions = lift(Intake.find_positions)
    source = lift(Intake.source)
    commit = lift(Intake.commit)


class AsyncReference(NamedTuple):
    """An agent, and a position of its lineage; None if the text names none."""

    agent: AsyncAgent
    at: int | None
    label: str | None


def wrap_reference(found: Reference) -> AsyncReference:
    """Return a reference for async callers."""
    return AsyncReference(AsyncAgent(found.agent), found.at, found.label)


class AsyncHit(NamedTuple):
    """One event that a search found; the fields are those of `Hit`."""

    agent: AsyncAgent
    event: Event
    live: bool
    score: float
    snippet: str
    spans: tuple[tuple[int, int], ...]


class AsyncHits(list[AsyncHit]):
    """The events that a search found, best first; `missing` and `titled` are those of `Hits`."""

    missing = 0
    titled: list[AsyncAgent]


class AsyncHead(NamedTuple):
    """An agent that was written to; the fields are those of `AgentHead`."""

    agent: AsyncAgent
    head: int
    is_new: bool


class AsyncHeadWatch:
    """A watch for async callers; `sync` is the watch underneath."""

    def __init__(self, watch: HeadWatch) -> None:
        self.sync = watch

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    closed = SyncAttribute[bool]()
    close = lift(HeadWatch.close)

    async def wait(self, timeout: float | None = None) -> list[AsyncHead]:
        """Wait until agents are written to: see `HeadWatch.wait`. Cancelling closes the watch."""
        found = await run_in_own_thread(partial(self.sync.wait, timeout), self.sync.close)
        return [AsyncHead(AsyncAgent(one.agent), one.head, one.is_new) for one in found]


class AsyncStore:
    """One database with any number of sessions, for async callers; `sync` is the store."""

    def __init__(self, store: Store) -> None:
        self.sync = store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncStore {self.url!r}>"

    url = SyncAttribute[str]()
    read_only = SyncAttribute[bool]()

    start = lift(Store.start, AsyncAgent)
    ensure = lift(Store.ensure, AsyncAgent)
    agent = lift(Store.agent, AsyncAgent)
    agents = lift(Store.agents, wrap_agents)
    sessions = lift(Store.sessions)
    resolve = lift(Store.resolve, wrap_reference)
    find = lift(Store.find, wrap_pairs)
    marks = lift(Store.marks, wrap_pairs)
    last_notes = lift(Store.last_notes, wrap_pairs)
    write = lift(Store.write)
    watch = lift(Store.watch, AsyncHeadWatch)
    export_to = lift(Store.export_to)
    import_from = lift(Store.import_from)
    import_transcripts = lift(Store.import_transcripts)
    backup = lift(Store.backup)
    delete = lift(Store.delete)
    expire = lift(Store.expire)
    removals = lift(Store.removals)
    seal = lift(Store.seal)
    verify = lift(Store.verify)
    stats = lift(Store.stats)
    distribute = lift(Store.distribute)
    is_replaced = lift(Store.is_replaced)
    close = lift(Store.close)

    async def search(
        self,
        words: str,
        *,
        agent: str | AsyncAgent | None = None,
        session: str | None = None,
        kinds: Sequence[str] = (),
        live: bool = False,
        limit: int = 20,
        after: AsyncHit | None = None,
        wait: bool = True,
        progress: "Progress | None" = None,
    ) -> AsyncHits:
        """Return the events that contain all words, best first: see `Store.search`."""
        from backstory.maintenance.search import Hit

        last: Any = after
        if isinstance(after, AsyncHit):
            last = Hit(after.agent.sync, *after[1:])
        search = partial(
            self.sync.search,
            words,
            agent=agent,
            session=session,
            kinds=kinds,
            live=live,
            limit=limit,
            after=last,
            wait=wait,
            progress=progress,
        )
        hits = await run_abandonable(search)
        found = AsyncHits(AsyncHit(AsyncAgent(hit.agent), *hit[1:]) for hit in hits)
        found.missing = hits.missing
        found.titled = wrap_agents(hits.titled)
        return found

    def intake(self, *, dry_run: bool = False) -> AsyncIntake:
        """Write imported events, with their original times: `async with store.intake() as
        intake`."""
        return AsyncIntake(self.sync.intake(dry_run=dry_run))

    def follow(
        self, after: Mapping[str, int] | None = None, *, timeout: float | None = None
    ) -> AsyncFollower[tuple[AsyncAgent, Event]]:
        """Return an async iterator over the events of all agents: see `Store.follow`."""
        return AsyncFollower(partial(self.sync.follow, after, timeout=timeout), wrap_pair)


class StoreOpening:
    """`await open(url)`, or `async with open(url) as store`."""

    def __init__(self, url: str | os.PathLike[str], read_only: bool, timeout: float) -> None:
        self._open_store = partial(sync.open, url, read_only=read_only, timeout=timeout)

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._open().__await__()

    async def _open(self) -> AsyncStore:
        return AsyncStore(await open_in_thread(self._open_store, Store.close))

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()


def open(
    url: str | os.PathLike[str], *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> StoreOpening:
    """Open a store: `store = await open(url)`, or `async with open(url) as store:`. See
    `backstory.open` for `read_only` and `timeout`."""
    return StoreOpening(url, read_only, timeout)


async def restore(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    progress: "Progress | None" = None,
) -> "Transfer":
    """Put a backup in the place of a store: see `backstory.restore`."""
    from backstory.maintenance.backup import restore

    return await run_abandonable(partial(restore, backup, path, timeout=timeout, progress=progress))
