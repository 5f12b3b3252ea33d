"""The same interface for async callers, on top of threads.

Each method runs the synchronous one in a thread and awaits it. `lift` does that once, with its types, so
there is no second implementation to maintain. Cancelling a call waits until its thread is done: when
CancelledError arrives, an append has either happened or never will.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from datetime import datetime
from functools import partial, update_wrapper, wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
)

from backstory import store as sync
from backstory.agent import Agent
from backstory.aio.follower import AsyncFollower
from backstory.aio.threads import in_thread
from backstory.intake import Intake
from backstory.log.events import Event
from backstory.maintenance.removal import Removed
from backstory.storage.protocols import AgentRecord
from backstory.store import Store

if TYPE_CHECKING:
    from backstory.log.diff import Comparison

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


__all__ = [
    "AsyncAgent",
    "AsyncFollower",
    "AsyncHit",
    "AsyncHits",
    "AsyncIntake",
    "AsyncReference",
    "AsyncStore",
    "in_thread",
    "open",
]


def lift(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate["Lifted", P], Coroutine[Any, Any, R]]:
    """A synchronous method as one to be awaited."""

    @wraps(method)
    async def lifted(self: "Lifted", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await in_thread(partial(method, self.sync, *args, **kwargs))

    return lifted


def lift_agent(
    method: Callable[Concatenate[Any, P], Agent],
) -> Callable[Concatenate["Lifted", P], Coroutine[Any, Any, "AsyncAgent"]]:
    """The same for a method that returns an agent."""
    plain = lift(method)

    @wraps(method)
    async def lifted(self: "Lifted", /, *args: P.args, **kwargs: P.kwargs) -> "AsyncAgent":
        return AsyncAgent(await plain(self, *args, **kwargs))

    return lifted


def shown_as(method: Callable[..., Any]) -> Callable[[F], F]:
    """For a method that is written out here: help() shows the synchronous docstring, type checkers see this
    one."""

    def decorate(function: F) -> F:
        return cast(F, update_wrapper(function, method))

    return decorate


class Lifted(Protocol):
    """A wrapper around a synchronous object."""

    @property
    def sync(self) -> Any:
        """The object underneath."""


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

    id: str = property(lambda self: self.sync.id)  # type: ignore[assignment]
    name: str = property(lambda self: self.sync.name)  # type: ignore[assignment]
    session: str = property(lambda self: self.sync.session)  # type: ignore[assignment]
    parent: str | None = property(lambda self: self.sync.parent)  # type: ignore[assignment]
    fork_seq: int = property(lambda self: self.sync.fork_seq)  # type: ignore[assignment]
    born_seq: int = property(lambda self: self.sync.born_seq)  # type: ignore[assignment]
    spawned: bool = property(lambda self: self.sync.spawned)  # type: ignore[assignment]
    created_at: datetime = property(lambda self: self.sync.created_at)  # type: ignore[assignment]
    key: str | None = property(lambda self: self.sync.key)  # type: ignore[assignment]
    about: dict[str, Any] = property(lambda self: self.sync.about)  # type: ignore[assignment]
    snapshot: AgentRecord = property(lambda self: self.sync.snapshot)  # type: ignore[assignment]

    @property
    def head(self) -> Awaitable[int]:
        """The newest position: `await agent.head`."""
        return in_thread(lambda: self.sync.head)

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
    labels = lift(Agent.labels)
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
    fork = lift_agent(Agent.fork)
    spawn = lift_agent(Agent.spawn)
    rename = lift(Agent.rename)
    context = lift(Agent.context)
    conversation = lift(Agent.conversation)
    marks = lift(Agent.marks)
    messages = lift(Agent.messages)
    texts = lift(Agent.texts)
    tail = lift(Agent.tail)
    notes = lift(Agent.notes)
    last_note = lift(Agent.last_note)
    find = lift(Agent.find)
    places = lift(Agent.places)
    read = lift(Agent.read)
    digest = lift(Agent.digest)
    event = lift(Agent.event)
    events = lift(Agent.events)
    explain = lift(Agent.explain)
    explained = lift(Agent.explained)
    live_ranges = lift(Agent.live_ranges)
    position = lift(Agent.position)
    outline = lift(Agent.outline)

    @shown_as(Agent.diff)
    async def diff(self, other: "AsyncAgent | None" = None, **options: Any) -> "Comparison":
        """How this context differs from another agent's: see `Agent.diff`."""
        return await in_thread(partial(self.sync.diff, underneath(other), **options))

    @shown_as(Agent.follow)
    def follow(
        self, after: int | str | datetime | None = None, *, timeout: float | None = None
    ) -> "AsyncFollower[Event]":
        """The events after `after` as they are committed: an async iterator."""
        return AsyncFollower(partial(self.sync.follow, after, timeout=timeout), lambda event: event)

    preview = lift(Agent.preview)


def underneath(agent: Any) -> Any:
    """The agent that an asynchronous one stands on. Anything else goes to the synchronous method, which says
    what is wrong with it."""
    return agent.sync if isinstance(agent, AsyncAgent) else agent


def batch_underneath(batch: Any) -> Any:
    """A batch of `store.write`, with the agent underneath in its first place."""
    return (
        (underneath(batch[0]), *batch[1:]) if isinstance(batch, tuple | list) and batch else batch
    )


class AsyncIntake:
    """An intake for async callers; `sync` is the intake underneath."""

    def __init__(self, intake: Intake) -> None:
        self.sync = intake

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.commit()

    @shown_as(Intake.agent)
    async def agent(
        self, key: str, name: str | None = None, *, parent: AsyncAgent | None = None, **birth: Any
    ) -> AsyncAgent:
        """The agent with this key: see `Intake.agent`."""
        over = underneath(parent)
        return AsyncAgent(
            await in_thread(partial(self.sync.agent, key, name, parent=over, **birth))
        )

    @shown_as(Intake.extend)
    async def extend(self, agent: AsyncAgent, events: Any, *, expected: int | None = None) -> None:
        """Add events: see `Intake.extend`."""
        await in_thread(partial(self.sync.extend, underneath(agent), events, expected=expected))

    @shown_as(Intake.describe)
    async def describe(self, agent: AsyncAgent, /, **about: Any) -> None:
        """Set details of an agent: see `Intake.describe`."""
        await in_thread(partial(self.sync.describe, underneath(agent), **about))

    @shown_as(Intake.remember)
    async def remember(
        self, tool: str, id: str, *, agent: AsyncAgent | None = None, cursor: Any = None
    ) -> None:
        """Record what is known about a source: see `Intake.remember`."""
        await in_thread(
            partial(self.sync.remember, tool, id, agent=underneath(agent), cursor=cursor)
        )

    @shown_as(Intake.places)
    async def places(self, agent: AsyncAgent, ids: Any) -> dict[str, int]:
        """The positions of events with these keys: see `Intake.places`."""
        return await in_thread(partial(self.sync.places, underneath(agent), ids))

    seen = lift(Intake.seen)
    cursor = lift(Intake.cursor)
    commit = lift(Intake.commit)


class AsyncReference(NamedTuple):
    """An agent, and a position of its lineage; None if the text names none."""

    agent: AsyncAgent
    at: int | None
    label: str | None


class AsyncHit(NamedTuple):
    """One event that a search found; the fields are those of `Hit`."""

    agent: AsyncAgent
    event: Event
    live: bool
    score: float
    snippet: str
    spans: tuple[tuple[int, int], ...]


class AsyncHits(list[AsyncHit]):
    """What a search found, best first; `behind` and `titled` are those of `Hits`."""

    behind = 0
    titled: list[AsyncAgent]


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

    url: str = property(lambda self: self.sync.url)  # type: ignore[assignment]
    read_only: bool = property(lambda self: self.sync.read_only)  # type: ignore[assignment]

    start = lift_agent(Store.start)
    ensure = lift_agent(Store.ensure)
    keyed = lift_agent(Store.keyed)
    agent = lift_agent(Store.agent)
    sessions = lift(Store.sessions)
    source = lift(Store.source)
    verify = lift(Store.verify)
    distribute = lift(Store.distribute)
    seal = lift(Store.seal)
    stats = lift(Store.stats)
    export_to = lift(Store.export_to)
    import_from = lift(Store.import_from)
    import_transcripts = lift(Store.import_transcripts)
    backup = lift(Store.backup)
    expire = lift(Store.expire)
    close = lift(Store.close)

    def intake(self) -> AsyncIntake:
        """Write events that happened elsewhere: `async with store.intake() as intake`."""
        return AsyncIntake(self.sync.intake())

    @shown_as(Store.write)
    async def write(self, batches: Any) -> list[list[Event]]:
        """Append to several agents, all or none: see `Store.write`."""
        plain = map(batch_underneath, batches) if isinstance(batches, Iterable) else batches
        return await in_thread(partial(self.sync.write, plain))

    @shown_as(Store.agents)
    async def agents(self, **wanted: Any) -> list[AsyncAgent]:
        """All agents, or those that are wanted: see `Store.agents`."""
        wanted["after"] = underneath(wanted.get("after"))
        return [AsyncAgent(agent) for agent in await in_thread(partial(self.sync.agents, **wanted))]

    @shown_as(Store.resolve)
    async def resolve(self, ref: str = "@") -> "AsyncReference":
        """The agent and position that a reference means: see `Store.resolve`."""
        found = await in_thread(partial(self.sync.resolve, ref))
        return AsyncReference(AsyncAgent(found.agent), found.at, found.label)

    @shown_as(Store.delete)
    async def delete(
        self, ref: "str | AsyncAgent", below: bool = False, **options: Any
    ) -> "Removed":
        """Remove an agent for good: see `Store.delete`."""
        return await in_thread(partial(self.sync.delete, underneath(ref), below, **options))

    @shown_as(Store.search)
    async def search(self, words: str, **options: Any) -> "AsyncHits":
        """The events that contain all words, best first: see `Store.search`."""
        options["agent"] = underneath(options.get("agent"))
        last = options.get("after")
        if isinstance(last, AsyncHit):
            from backstory.maintenance.search import Hit

            options["after"] = Hit(last.agent.sync, *last[1:])
        hits = await in_thread(partial(self.sync.search, words, **options))
        found = AsyncHits(AsyncHit(AsyncAgent(hit.agent), *hit[1:]) for hit in hits)
        found.behind, found.titled = hits.behind, [AsyncAgent(agent) for agent in hits.titled]
        return found

    @shown_as(Store.find)
    async def find(self, key: str) -> list[tuple[AsyncAgent, Event]]:
        """The events with this key, in all sessions, each with the agent that owns it."""
        found = await in_thread(partial(self.sync.find, key))
        return [(AsyncAgent(agent), event) for agent, event in found]

    @shown_as(Store.marks)
    async def marks(self, session: str) -> list[tuple[AsyncAgent, Event]]:
        """All marks of a session, dead or alive, each with the agent that owns it."""
        found = await in_thread(partial(self.sync.marks, session))
        return [(AsyncAgent(agent), mark) for agent, mark in found]

    @shown_as(Store.follow)
    def follow(
        self, after: Mapping[str, int] | None = None, *, timeout: float | None = None
    ) -> "AsyncFollower[tuple[AsyncAgent, Event]]":
        """The events of all agents as they are committed: an async iterator."""
        follow = partial(self.sync.follow, after, timeout=timeout)
        return AsyncFollower(follow, lambda found: (AsyncAgent(found[0]), found[1]))

    @shown_as(Store.last_notes)
    async def last_notes(self, name: str, prefix: str = "") -> list[tuple[AsyncAgent, Event]]:
        """The newest live note with a name, for each agent that has one."""
        found = await in_thread(partial(self.sync.last_notes, name, prefix=prefix))
        return [(AsyncAgent(agent), event) for agent, event in found]


class _Opening:
    """`await open(url)`, or `async with open(url) as store`."""

    def __init__(self, url: str | os.PathLike[str], read_only: bool) -> None:
        self._url = url
        self._read_only = read_only

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._open().__await__()

    async def _open(self) -> AsyncStore:
        opened: list[Store] = []
        try:
            await in_thread(lambda: opened.append(sync.open(self._url, read_only=self._read_only)))
        except asyncio.CancelledError:
            for store in opened:  # no one will ever use it
                store.close()
            raise
        return AsyncStore(opened[0])

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()


def open(url: str | os.PathLike[str], *, read_only: bool = False) -> _Opening:
    """Open a store: `store = await open(url)`, or `async with open(url) as store:`. `read_only`: see
    `backstory.open`."""
    return _Opening(url, read_only)
