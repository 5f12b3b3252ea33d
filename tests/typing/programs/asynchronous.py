"""The same with await."""

from typing import assert_type

from backstory import Event, aio
from backstory.aio import AsyncAgent, AsyncStore


async def main() -> None:
    async with aio.open("history.db") as store:
        assert_type(store, AsyncStore)
        agent = await store.start("main", system="Be careful.")
        assert_type(agent, AsyncAgent)
        assert_type(await agent.user("hello"), Event)
        assert_type(await agent.head, int)
        assert_type(await agent.fork("idea"), AsyncAgent)
        assert_type(await store.agents(), list[AsyncAgent])
        assert_type([hit.agent for hit in await store.search("hello")], list[AsyncAgent])
        assert_type((await store.resolve("main@3")).agent, AsyncAgent)
        await agent.user(3)  # type: ignore[arg-type]
        print(agent.user("forgotten").content)  # type: ignore[attr-defined]
        await agent.diff(await agent.fork("other"))
        await store.agents(after=agent)
        await store.delete(agent)
        await store.delete((await store.sessions())[0])  # type: ignore[arg-type]
