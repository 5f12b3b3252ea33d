"""Which agents were written to: one watcher for all browsers, only while one of them listens.

A stream contains heads and no texts. Heads are absolute, so a browser that missed some asks once
for what is new.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from backstory.errors import Error
from backstory.listings import AgentHead, HeadWatch
from backstory.log.events import to_json
from backstory.present.text import stamp
from backstory.store import Store
from backstory.threads import open_in_thread

REST = 0.1  # seconds between two looks at the heads, however much is written
RETRY = 0.5  # seconds until a store that does not answer is asked again
CHECK = 2.0  # seconds after which the watcher looks whether the store was replaced
COMMENT = 15.0  # seconds after which a stream shows that it is still there

Heads = list[dict[str, Any]]


class LiveFeed:
    """Sends changed heads to every listening browser. Watches the store only while one listens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: set[asyncio.Queue[Heads | None]] = set()
        self._watch: HeadWatch | None = None
        self._opening = asyncio.Lock()  # two browsers that come at once share one watcher

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the changed heads as server-sent events, until the browser or the server ends."""
        queue: asyncio.Queue[Heads | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            async with self._opening:
                if self._watch is None:
                    await self._start()
            yield b": hello\n\n"
            while True:
                try:
                    heads = await asyncio.wait_for(queue.get(), COMMENT)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if heads is None:
                    return
                yield f"event: heads\ndata: {to_json(heads)}\n\n".encode()
        except Error:
            return  # the browser asks again, and its other requests say what is wrong
        finally:
            self._queues.discard(queue)
            if not self._queues and self._watch is not None:
                self._watch.close()
                self._watch = None

    def close(self) -> None:
        """End all streams."""
        self._send(None)

    async def _start(self) -> None:
        self._watch = await open_in_thread(self._store.watch, HeadWatch.close)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(self._watch, loop), daemon=True).start()

    def _run(self, watch: HeadWatch, loop: asyncio.AbstractEventLoop) -> None:
        """Send what changed, until nobody listens. End all streams if the store was replaced: the
        browsers then learn that from their next request."""
        while not watch.closed:
            try:
                heads: Heads | None = [build_head(one) for one in watch.wait(CHECK)]
                if self._store.is_replaced():
                    heads = None
            except Error:
                time.sleep(RETRY)
                continue
            if heads != [] and not loop.is_closed():
                loop.call_soon_threadsafe(self._send, heads)
            time.sleep(REST)

    def _send(self, heads: Heads | None) -> None:
        for queue in self._queues:
            queue.put_nowait(heads)


def build_head(changed: AgentHead) -> dict[str, Any]:
    """Return what a browser learns of an agent that was written to."""
    agent = changed.agent
    return {
        "agent": agent.id,
        "session": agent.session,
        "head": changed.head,
        "name": agent.name,
        "updated_at": stamp(agent.updated_at),
        "new": changed.is_new,
    }
