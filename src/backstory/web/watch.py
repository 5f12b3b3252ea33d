"""Which agents have moved: one watcher for all pages, alive only while one of them listens.

A page is told heads, never texts. Heads are absolute, so a page that missed some has lost nothing.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from backstory.agent import Agent
from backstory.errors import Error
from backstory.listings import HeadWatch
from backstory.store import Store
from backstory.threads import open_in_thread

REST = 0.1  # seconds between two looks at the heads, however much is written
RETRY = 0.5  # seconds until a store that does not answer is asked again
COMMENT = 15.0  # seconds after which a stream says that it is still there

Heads = list[dict[str, Any]]


def head_json(agent: Agent, head: int, *, new: bool) -> dict[str, Any]:
    """What a page is told of an agent."""
    return {
        "agent": agent.id,
        "session": agent.session,
        "head": head,
        "name": agent.name,
        "new": new,
    }


class Watch:
    """The watcher, and the pages that listen to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[asyncio.Queue[Heads | None]] = set()
        self._watching: HeadWatch | None = None
        self._beginning = asyncio.Lock()  # two pages that open at once have one watcher

    async def stream(self, agent: Agent | None = None) -> AsyncIterator[bytes]:
        """What one page is sent, until it goes or the server ends. The head of the agent that it shows comes
        first: what was written before the page listened is not missed."""
        queue: asyncio.Queue[Heads | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            async with self._beginning:
                if self._watching is None:
                    await self._begin()
            yield b": hello\n\n"
            if agent is not None:
                yield _event([await run_in_threadpool(_now, agent)])
            while True:
                try:
                    heads = await asyncio.wait_for(queue.get(), COMMENT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if heads is None:
                    return
                yield _event(heads)
        except Error:
            return  # the page asks again; what is wrong with the store it learns from its other requests
        finally:
            self._listeners.discard(queue)
            if not self._listeners and self._watching is not None:
                self._watching.close()
                self._watching = None

    def close(self) -> None:
        """End all streams."""
        for queue in self._listeners:
            queue.put_nowait(None)

    async def _begin(self) -> None:
        self._watching = await open_in_thread(self._store.watch, HeadWatch.close)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(self._watching, loop), daemon=True).start()

    def _run(self, watching: HeadWatch, loop: asyncio.AbstractEventLoop) -> None:
        """Tell what changed, until nobody listens."""
        while not watching.closed:
            try:
                changed = watching.wait()
            except Error:
                time.sleep(RETRY)
                continue
            heads = [head_json(one.agent, one.head, new=one.is_new) for one in changed]
            if heads and not loop.is_closed():
                loop.call_soon_threadsafe(self._tell, heads)
            time.sleep(REST)

    def _tell(self, heads: Heads) -> None:
        for queue in self._listeners:
            queue.put_nowait(heads)


def _now(agent: Agent) -> dict[str, Any]:
    return head_json(agent, agent.head, new=False)


def _event(heads: Heads) -> bytes:
    from backstory.log.events import to_json

    return f"event: heads\ndata: {to_json(heads)}\n\n".encode()
