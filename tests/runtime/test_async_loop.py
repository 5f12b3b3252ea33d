"""The loop for async callers: the same updates and the same log, also when it is cancelled."""

import asyncio
import threading

import pytest
import trio

import backstory
from backstory.runtime.async_loop import AsyncLoop
from backstory.runtime.loop import EventWritten, Forked
from backstory.runtime.models import ModelError, Response, TextDelta, ToolCall
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.tools import Tool
from tests.runtime.acting import Actor, speaks
from tests.runtime.scripted import Say, scripted


def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


async def conversation(url):
    async with backstory.aio.open(url) as store:
        agent = await store.start("main", system="s")
        model = Actor(speaks("", ToolCall("c1", "shout", {"text": "hi"})), speaks("All done."))
        loop = AsyncLoop(agent, model, [Tool.of(shout)])
        updates = [update async for update in loop.ask("Shout")]
        kinds = [update.event.kind for update in updates if isinstance(update, EventWritten)]
        assert kinds == ["user", "tool_call", "tool_result", "assistant"]
        assert [update.text for update in updates if isinstance(update, TextDelta)] == [
            "All",
            "done.",
        ]
        assert loop.agent == agent
        model.acts.append(speaks("More."))
        assert [update async for update in loop.resume()][-1].event.content == "More."


@pytest.mark.parametrize("run", [asyncio.run, lambda main: trio.run(lambda: main)])
def test_questions_calls_and_answers_with_asyncio_and_trio(url, run):
    run(conversation(url))


def test_an_answer_behind_someone_elses_words_becomes_a_fork_that_the_loop_goes_on_in(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main", system="s")

            class Slow(Actor):
                def answer(self, conversation, tools):
                    agent.sync.user("Somebody else says this.")
                    yield from super().answer(conversation, tools)

            loop = AsyncLoop(agent, Slow(speaks("Four.")))
            updates = [update async for update in loop.ask("Two and two?")]
            [forked] = [update for update in updates if isinstance(update, Forked)]
            assert (forked.before, forked.agent) == (agent.sync, loop.agent.sync)
            assert loop.agent != agent
            assert [m.content for m in await loop.agent.conversation()] == [
                "s",
                "Two and two?",
                "Four.",
            ]
            assert [m.content for m in await agent.conversation()][-1] == "Somebody else says this."

    asyncio.run(main())


def test_what_goes_wrong_comes_out_of_the_loop():
    async def main():
        async with backstory.aio.open(":memory:") as store:
            agent = await store.start("main")
            with pytest.raises(ModelError, match="gone"):
                async for _ in AsyncLoop(agent, Actor([TextDelta("half"), ModelError("gone")])).ask(
                    "Hi"
                ):
                    pass
            kept = [
                event for event in (await agent.context()).messages if event.kind == "assistant"
            ]
            assert kept[-1].data["interrupted"] is True

    asyncio.run(main())


def test_a_cancelled_answer_is_kept_as_far_as_it_came():
    goes_on = threading.Event()

    class Slow(Actor):
        def answer(self, conversation, tools):
            yield TextDelta("half ")
            assert goes_on.wait(60)
            yield TextDelta("an answer")
            yield Response("half an answer and more")

    async def main():
        async with backstory.aio.open(":memory:") as store:
            agent = await store.start("main")
            heard = asyncio.Event()

            async def ask():
                async for update in AsyncLoop(agent, Slow()).ask("Hi"):
                    if isinstance(update, TextDelta):
                        heard.set()

            task = asyncio.create_task(ask())
            await heard.wait()
            task.cancel()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            last = (await agent.context()).messages[-1]
            assert last.content.startswith("half")
            assert last.data["interrupted"] is True

    asyncio.run(main())


async def cancel_a_silent_answer(url, run_cancelled):
    with scripted(Say("half an answer", held=True)) as server:
        model = OpenAIModel("m", base_url=server.url)
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            await run_cancelled(AsyncLoop(agent, model).ask("Hi"))
            last = (await agent.context()).messages[-1]
        model.close()
    assert (last.content, last.data["interrupted"]) == ("half an answer", True)


def test_a_cancelled_task_closes_the_connection_at_once():
    async def run_cancelled(updates):
        is_heard = asyncio.Event()

        async def read():
            async for update in updates:
                if update == TextDelta(" answer"):
                    is_heard.set()

        task = asyncio.create_task(read())
        await is_heard.wait()
        task.cancel()  # the server says nothing any more
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_a_silent_answer(":memory:", run_cancelled))


def test_a_cancelled_scope_of_trio_closes_the_connection_at_once():
    async def run_cancelled(updates):
        with trio.CancelScope() as scope:
            async for update in updates:
                if update == TextDelta(" answer"):
                    scope.deadline = trio.current_time() + 0.1

    trio.run(cancel_a_silent_answer, ":memory:", run_cancelled)
