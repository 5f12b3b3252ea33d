"""A process that uses an adapter while another one does the same.

    python -m tests.adapters.writers ADAPTER URL NAME

Each does fifty operations on the same session; the tests look at what is there afterwards.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

OPERATIONS = 50


async def openai_agents(url: str, name: str) -> None:
    from backstory.adapters.openai_agents import BackstorySession

    session = BackstorySession("shared", url)
    for n in range(OPERATIONS):
        batch = [{"role": "user", "content": f"{name} {n} {part}"} for part in ("a", "b")]
        await session.add_items(batch)
        if n % 10 == 9:
            await session.pop_item()
    session.close()


WRITERS: dict[str, Callable[[str, str], Awaitable[None]]] = {"openai_agents": openai_agents}

if __name__ == "__main__":
    adapter, url, name = sys.argv[1:]
    asyncio.run(WRITERS[adapter](url, name))  # type: ignore[arg-type]
