"""The same interface for async callers, on top of threads.

Each method runs the synchronous one in a thread and awaits it. `lift` does that once, with its
types, so there is no second implementation to maintain. Cancelling a call returns at once. If its
thread has begun, it goes on until it is done, or until the timeout of the store ends it: an append
may still be written. With a key, it can be repeated.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
from backstory.maintenance.removal import Removed
from backstory.references import Reference
from backstory.storage.follow import Follower, WaitResult
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.protocol import ListOrder
from backstory.storage.targets import At
from backstory.store import Store

if TYPE_CHECKING:
    from backstory.log.diff import Change, Comparison
    from backstory.maintenance.search import Progress
    from backstory.maintenance.transfer import Transfer

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

# --- threads ---


async def run_abandonable(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, the thread goes on, and its result is dropped. A
    call that has not begun is not made."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await _in_trio_thread(call, abandon=True)
    job = ThreadJob(call, loop)
    future = _get_pool().submit(job.run)
    try:
        await job.waiter
    except asyncio.CancelledError:
        future.cancel()
        raise
    return job.get_result()


async def in_thread(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, finish the call before the cancellation is
    raised."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await _in_trio_thread(call, abandon=False)
    job = ThreadJob(call, loop)
    _get_pool().submit(job.run)
    try:
        await job.waiter
    except asyncio.CancelledError:
        while not job.is_done:
            job.waiter = loop.create_future()
            # Another cancellation: the outcome of the call must still be known.
            with suppress(asyncio.CancelledError):
                await job.waiter
        raise
    return job.get_result()


class ThreadJob(Generic[R]):
    """A call for a thread. Only the thread of the loop touches the future that is waited for: less
    work than a future of the pool, one of the loop, and a shield around them."""

    def __init__(self, call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._context = contextvars.copy_context()
        self._result: R | None = None
        self._error: BaseException | None = None
        self.waiter: asyncio.Future[None] = loop.create_future()
        self.is_done = False

    def run(self) -> None:
        """Make the call, and notify the loop."""
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self.is_done = True
        if not self.waiter.done():
            self.waiter.set_result(None)

    def get_result(self) -> R:
        """Return or raise what the call returned or raised."""
        error, self._error = self._error, None  # its traceback leads back to this job
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]


class ThreadLocals(threading.local):
    """The pool of each thread."""

    pool: ThreadPoolExecutor | None = None


_locals = ThreadLocals()


def _get_pool() -> ThreadPoolExecutor:
    """Return the threads for the calls of this thread. Such a call may run a loop, too: if its
    calls had to wait for a thread of the same pool, they could wait for each other for ever."""
    if _locals.pool is None:
        _locals.pool = ThreadPoolExecutor(thread_name_prefix="backstory")
    return _locals.pool


def _forget_pool() -> None:
    """Forget the pool in a forked child: the threads stayed with the parent."""
    _locals.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


async def _in_trio_thread(call: Callable[[], R], *, abandon: bool) -> R:
    """Run a call in a thread of trio, which the caller has imported."""
    from trio import to_thread

    return await to_thread.run_sync(call, abandon_on_cancel=abandon)


async def open_in_thread(open: Callable[[], R], close: Callable[[R], object]) -> R:
    """Open something in a thread. If this is cancelled, close what was opened."""
    opening = Opening(open, close)
    try:
        return await run_abandonable(opening.run)
    except BaseException:
        opening.abandon()
        raise


class Opening(Generic[R]):
    """Opens something in one thread for another one, which may give up at any moment."""

    def __init__(self, open: Callable[[], R], close: Callable[[R], object]) -> None:
        self._open = open
        self._close = close
        self._lock = threading.Lock()
        self._opened: list[R] = []
        self._is_abandoned = False

    def run(self) -> R:
        """Return what was opened. Close it if nobody waits for it any more."""
        opened = self._open()
        with self._lock:
            self._opened.append(opened)
            is_abandoned = self._is_abandoned
        if is_abandoned:
            self._close(opened)
        return opened

    def abandon(self) -> None:
        """Close what was opened, now or when it is."""
        with self._lock:
            self._is_abandoned = True
            opened = list(self._opened)
        for one in opened:
            self._close(one)


async def in_own_thread(call: Callable[[], R], wake: Callable[[], None]) -> R:
    """Run a call that may never return in a new thread, so that it does not occupy one of the pool.
    If it is cancelled, `wake` makes the call return, and its result is dropped."""
    try:
        return await _in_daemon(call)
    except BaseException:
        wake()
        raise


async def _in_daemon(call: Callable[[], R]) -> R:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        from trio import CapacityLimiter, to_thread

        return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=CapacityLimiter(1))
    job = ThreadJob(call, loop)
    threading.Thread(target=job.run, name="backstory-follow", daemon=True).start()
    await job.waiter
    return job.get_result()


# --- followers ---


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
            result = await in_own_thread(follower.wait, follower.wake)
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


# --- agents and stores ---


def unwrap(value: Any) -> Any:
    """Return the synchronous object of an async one. Anything else is returned as it is: the
    synchronous method refuses it."""
    if isinstance(value, AsyncAgent | AsyncHeadWatch | AsyncIntake | AsyncStore):
        return value.sync
    return value


async def run(method: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    """Call a synchronous method in a thread, with the synchronous objects of async ones."""
    plain = {name: unwrap(value) for name, value in kwargs.items()}
    return await run_abandonable(partial(method, *map(unwrap, args), **plain))


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
        found = await run(method, self, *args, **kwargs)
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


def wrap_agent(agent: Agent) -> "AsyncAgent":
    """Return an agent for async callers."""
    return AsyncAgent(agent)


def wrap_pairs(pairs: Iterable[tuple[Agent, Event]]) -> list[tuple["AsyncAgent", Event]]:
    """Return agents with their events for async callers."""
    return [(AsyncAgent(agent), event) for agent, event in pairs]


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
    mark = lift(Agent.mark)
    label = lift(Agent.label)
    clear = lift(Agent.clear)
    rewind = lift(Agent.rewind)
    jump = lift(Agent.jump)
    undo = lift(Agent.undo)
    redo = lift(Agent.redo)
    compact = lift(Agent.compact)
    erase = lift(Agent.erase)
    note = lift(Agent.note)
    settings = lift(Agent.settings)
    describe = lift(Agent.describe)
    fork = lift(Agent.fork, wrap_agent)
    spawn = lift(Agent.spawn, wrap_agent)
    rename = lift(Agent.rename)
    context = lift(Agent.context)
    conversation = lift(Agent.conversation)
    marks = lift(Agent.marks)
    messages = lift(Agent.messages)
    notes = lift(Agent.notes)
    last_notes = lift(Agent.last_notes)
    measure = lift(Agent.measure)
    lineage = lift(Agent.lineage)
    moves = lift(Agent.moves)
    find = lift(Agent.find)
    digest = lift(Agent.digest)
    event = lift(Agent.event)
    events = lift(Agent.events)
    explain = lift(Agent.explain)
    outline = lift(Agent.outline)

    preview = lift(Agent.preview)

    # Methods that take async agents, or that are not awaited, are written out.

    async def diff(
        self,
        other: "AsyncAgent | None" = None,
        *,
        at: At = None,
        other_at: At = None,
        after: "Change | None" = None,
        limit: int | None = None,
    ) -> "Comparison":
        """Compare this context with another agent's: see `Agent.diff`."""
        return await run(
            Agent.diff, self, other, at=at, other_at=other_at, after=after, limit=limit
        )

    def follow(self, after: At = None, *, timeout: float | None = None) -> AsyncFollower[Event]:
        """Return an async iterator over the events after `after`: see `Agent.follow`."""
        return AsyncFollower(partial(self.sync.follow, after, timeout=timeout), lambda event: event)


class AsyncIntake:
    """An intake for async callers; `sync` is the intake underneath."""

    def __init__(self, intake: Intake) -> None:
        self.sync = intake

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.commit()

    async def agent(
        self,
        key: str,
        name: str | None = None,
        *,
        parent: AsyncAgent | None = None,
        at: int | None = None,
        spawned: bool = False,
        inherits: bool = False,
        created_at: datetime | None = None,
    ) -> AsyncAgent:
        """Return the agent with this key, or one that the next commit creates: see
        `Intake.agent`."""
        found = await run(
            Intake.agent,
            self,
            key,
            name,
            parent=parent,
            at=at,
            spawned=spawned,
            inherits=inherits,
            created_at=created_at,
        )
        return AsyncAgent(found)

    async def extend(
        self,
        agent: AsyncAgent,
        events: Iterable[Event | tuple[Any, ...]],
        *,
        expected: int | None = None,
        repeated: Set[int] = frozenset(),
    ) -> None:
        """Add events after the agent's newest: see `Intake.extend`."""
        await run(Intake.extend, self, agent, events, expected=expected, repeated=repeated)

    async def describe(self, agent: AsyncAgent, /, **about: Any) -> None:
        """Set details of an agent: see `Intake.describe`."""
        await run(Intake.describe, self, agent, **about)

    async def remember(
        self,
        tool: str,
        id: str,
        *,
        agent: AsyncAgent | None = None,
        cursor: dict[str, Any] | None = None,
    ) -> None:
        """Record which agent a source became, or how far it was read: see `Intake.remember`."""
        await run(Intake.remember, self, tool, id, agent=agent, cursor=cursor)

    async def find_positions(self, agent: AsyncAgent, keys: Iterable[str]) -> dict[str, int]:
        """Return the positions of the events with these keys: see `Intake.find_positions`."""
        return await run(Intake.find_positions, self, agent, keys)

    find_keys = lift(Intake.find_keys)
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
        found = await in_own_thread(partial(self.sync.wait, timeout), self.sync.close)
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

    start = lift(Store.start, wrap_agent)
    ensure = lift(Store.ensure, wrap_agent)
    agent = lift(Store.agent, wrap_agent)
    resolve = lift(Store.resolve, wrap_reference)
    find = lift(Store.find, wrap_pairs)
    marks = lift(Store.marks, wrap_pairs)
    last_notes = lift(Store.last_notes, wrap_pairs)
    watch = lift(Store.watch, AsyncHeadWatch)
    sessions = lift(Store.sessions)
    is_replaced = lift(Store.is_replaced)
    verify = lift(Store.verify)
    distribute = lift(Store.distribute)
    seal = lift(Store.seal)
    stats = lift(Store.stats)
    export_to = lift(Store.export_to)
    import_from = lift(Store.import_from)
    import_transcripts = lift(Store.import_transcripts)
    backup = lift(Store.backup)
    expire = lift(Store.expire)
    removals = lift(Store.removals)
    close = lift(Store.close)

    def intake(self, *, dry_run: bool = False) -> AsyncIntake:
        """Write imported events, with their original times: `async with store.intake() as
        intake`."""
        return AsyncIntake(self.sync.intake(dry_run=dry_run))

    async def write(self, batches: Iterable[tuple[Any, ...]]) -> list[list[Event]]:
        """Append to several agents, all or none: see `Store.write`."""
        plain: Any = batches
        if isinstance(batches, Iterable):
            plain = [_unwrap_batch(batch) for batch in batches]
        return await run(Store.write, self, plain)

    async def agents(
        self,
        *,
        session: str | None = None,
        prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        order: ListOrder = "born",
        limit: int | None = None,
        after: AsyncAgent | str | None = None,
    ) -> list[AsyncAgent]:
        """Return all agents, or a page of them: see `Store.agents`."""
        found = await run(
            Store.agents,
            self,
            session=session,
            prefix=prefix,
            since=since,
            until=until,
            order=order,
            limit=limit,
            after=after,
        )
        return [AsyncAgent(agent) for agent in found]

    async def delete(
        self,
        ref: str | AsyncAgent,
        below: bool = False,
        *,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Removed:
        """Remove an agent for good: see `Store.delete`."""
        return await run(Store.delete, self, ref, below, dry_run=dry_run, by=by)

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
        hits = await run(
            Store.search,
            self,
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
        found = AsyncHits(AsyncHit(AsyncAgent(hit.agent), *hit[1:]) for hit in hits)
        found.missing = hits.missing
        found.titled = [AsyncAgent(agent) for agent in hits.titled]
        return found

    def follow(
        self, after: Mapping[str, int] | None = None, *, timeout: float | None = None
    ) -> AsyncFollower[tuple[AsyncAgent, Event]]:
        """Return an async iterator over the events of all agents: see `Store.follow`."""
        follow = partial(self.sync.follow, after, timeout=timeout)
        return AsyncFollower(follow, lambda found: (AsyncAgent(found[0]), found[1]))


def _unwrap_batch(batch: Any) -> Any:
    """Return a batch of `store.write` with the synchronous agent."""
    return list(map(unwrap, batch)) if isinstance(batch, tuple | list) else batch


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
    progress: "Progress | None" = None,
) -> "Transfer":
    """Put a backup in the place of a store: see `backstory.restore`."""
    from backstory.maintenance.backup import restore

    return await run_abandonable(partial(restore, backup, path, progress=progress))
