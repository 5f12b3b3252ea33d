"""Following for async callers, under asyncio and trio."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

import backstory
from tests.processes import PATIENCE

RUNNERS = {"asyncio": asyncio.run, "trio": lambda coroutine: trio.run(lambda: coroutine)}


@pytest.fixture(params=RUNNERS)
def run(request):
    return RUNNERS[request.param]


def test_an_agent_and_a_store_are_followed_with_async_for(url, run):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            async with (
                agent.follow(timeout=PATIENCE) as events,
                store.follow(timeout=PATIENCE) as pairs,
            ):
                await agent.user("a")
                await agent.user("b")
                assert [(await anext(events)).content, (await anext(events)).content] == ["a", "b"]
                owner, event = await anext(pairs)
                assert (owner, event.content) == (agent, "a")
            assert [event.content async for event in agent.follow(0, timeout=0)] == ["a", "b"]
            assert [mark.label for _, mark in await store.marks("main")] == []
            assert [row.size for row in await agent.outline()] == [1, 1]

    run(main())


def test_an_error_at_the_beginning_comes_through(url, run):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            with pytest.raises(backstory.PositionNotFound):
                await anext(agent.follow(5))

    run(main())


def test_closing_the_store_ends_the_iteration(url, run):
    async def main():
        store = await backstory.aio.open(url)
        agent = await store.start("main")
        async with agent.follow() as events:
            await store.close()
            assert [event async for event in events] == []

    run(main())


def test_a_step_that_is_cancelled_loses_nothing(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            async with agent.follow(timeout=PATIENCE) as events:
                for n in range(20):
                    step = asyncio.ensure_future(anext(events))
                    await asyncio.sleep(0)
                    step.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await step
                    await agent.user(str(n))
                assert [(await anext(events)).content for _ in range(20)] == [
                    str(n) for n in range(20)
                ]

    asyncio.run(main())


def test_a_step_that_is_cancelled_under_trio_loses_nothing(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            async with agent.follow(timeout=PATIENCE) as events:
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await anext(events)
                assert scope.cancelled_caught
                await agent.user("a")
                assert (await anext(events)).content == "a"

    trio.run(main)


def test_followers_take_no_threads_from_other_calls(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            followers = [agent.follow(timeout=PATIENCE) for _ in range(3)]
            steps = [asyncio.ensure_future(anext(follower)) for follower in followers]
            while not all(follower._follower for follower in followers):
                await asyncio.sleep(0)
            await agent.user("a")
            assert [event.content for event in await asyncio.gather(*steps)] == ["a"] * len(
                followers
            )
            for follower in followers:
                await follower.close()

    asyncio.run(main())
