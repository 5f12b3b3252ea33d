"""Which agents have moved: one watcher for all pages, alive only while one of them listens.

A page is told heads, never texts. Heads are absolute, so a page that missed some has lost nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from starlette.concurrency import run_in_threadpool

from backstory.agent import Agent
from backstory.core.events import to_datetime
from backstory.errors import Error
from backstory.store import Store

POLL = 0.25  # seconds between two looks at a file
REMOTE_POLL = 1.0  # at a server
COMMENT = 15.0  # seconds after which a stream says that it is still there


class Heads:
    """What is known of the heads, and what of them has changed since."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, int] = {}
        self._since: datetime | None = None
        self._version = _version_of(store)
        self._seen: Any = None

    def changed(self) -> list[dict[str, Any]]:
        """The agents that are new or were written to since the last time; the first time, none."""
        version = self._version()
        if version is not None and version == self._seen:
            return []
        self._seen = version
        is_first = self._since is None
        agents = self._store.agents(since=self._since)
        found = [_head(one, self._known) for one in agents if self._known.get(one.id) != one.record.head]
        self._known.update((one.id, one.record.head) for one in agents)
        newest = max((one.record.updated_us for one in agents), default=0)
        self._since = to_datetime(newest) if newest or is_first else self._since
        return [] if is_first else found


def _head(agent: Agent, known: dict[str, int]) -> dict[str, Any]:
    record = agent.record
    return {
        "agent": agent.id,
        "session": agent.session,
        "head": record.head,
        "name": agent.name,
        "new": agent.id not in known,
    }


def _now(agent: Agent) -> int:
    return agent.head


def _version_of(store: Store) -> Callable[[], Any]:
    """A number that changes when anyone else writes to the store's file; None where there is no file."""
    import os

    if not os.path.isfile(store.url):
        return lambda: None
    import apsw

    connection = apsw.Connection(store.url, flags=apsw.SQLITE_OPEN_READONLY)

    def version() -> Any:
        try:
            return next(connection.execute("PRAGMA data_version"))[0]
        except apsw.Error:
            return None

    return version


class Watch:
    """The watcher, and the pages that listen to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[asyncio.Queue[list[dict[str, Any]] | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._poll = REMOTE_POLL if store.url.startswith("postgres") else POLL

    async def stream(self, agent: Agent | None = None) -> AsyncIterator[bytes]:
        """What one page is sent, until it goes or the server ends. The head of the agent that it shows comes
        first: what was written before the page listened is not missed."""
        queue: asyncio.Queue[list[dict[str, Any]] | None] = asyncio.Queue()
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._ready = asyncio.Event()
            self._task = asyncio.create_task(self._run())
        try:
            await self._ready.wait()
            yield b": hello\n\n"
            if agent is not None:
                yield _event([{**_head(agent, {agent.id: 0}), "head": await run_in_threadpool(_now, agent)}])
            while True:
                try:
                    heads = await asyncio.wait_for(queue.get(), COMMENT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if heads is None:
                    return
                yield _event(heads)
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """End all streams."""
        for queue in self._listeners:
            queue.put_nowait(None)

    async def _run(self) -> None:
        heads = await run_in_threadpool(Heads, self._store)
        while self._listeners:
            try:
                changed = await run_in_threadpool(heads.changed)
            except Error:  # busy or away: look again
                changed = []
            self._ready.set()
            for queue in self._listeners if changed else ():
                queue.put_nowait(changed)
            await asyncio.sleep(self._poll)


def _event(heads: list[dict[str, Any]]) -> bytes:
    from backstory.core.events import to_json

    return f"event: heads\ndata: {to_json(heads)}\n\n".encode()
