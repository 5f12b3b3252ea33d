"""The async face: the same as the synchronous one, and safe to cancel."""

import asyncio
import inspect
import threading
from functools import partial

import pytest
import trio

import backstory
from backstory import Agent, Intake, Store
from backstory.aio import AsyncAgent, AsyncIntake, AsyncStore
from backstory.threads import in_thread, open_in_thread, run_abandonable


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


WITH = {"intake"}  # what is not awaited but entered: `async with store.intake() as intake`


def test_the_async_face_has_all_names_of_the_synchronous_one():
    assert public(AsyncAgent) == public(Agent)
    assert public(AsyncStore) == public(Store)
    assert public(AsyncIntake) == public(Intake)


def test_every_method_is_awaitable_and_documented():
    for kind in (AsyncAgent, AsyncStore, AsyncIntake):
        for name in public(kind) - WITH:
            member = getattr(kind, name)
            if callable(member):
                assert inspect.iscoroutinefunction(member) or name == "follow", name
                assert member.__doc__, name


def test_the_face_with_await(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main", system="s")
            call = await agent.tool_call("glob", {"pattern": "*"})
            await agent.tool_result(call, "a.py")
            await agent.mark("x")
            await agent.user("dead")
            await agent.rewind("x")
            child = await agent.fork("child", at=3)
            await child.assistant("hi")
            assert await agent.head == 6
            assert [e.seq for e in (await agent.context()).messages] == [1, 2, 3, 4, 6]
            assert [e.seq for e in (await child.context()).messages] == [1, 2, 3, 4]
            assert (child.name, child.parent, child.fork_seq) == ("child", agent.id, 3)
            assert [a.name for a in await store.agents()] == ["main", "child"]
            assert await store.agent("child") == child
            assert child.fork_seq == 3
            assert (await agent.explain(5)).status == "rewound"
            assert await store.verify() == []

    asyncio.run(main())


def test_a_listing_continues_after_an_async_agent(url):
    async def main():
        async with backstory.aio.open(url) as store:
            for name in ("a", "b", "c"):
                await store.start(name)
            first, *_ = await store.agents(limit=1)
            assert [agent.name for agent in await store.agents(after=first)] == ["b", "c"]

    asyncio.run(main())


def test_removals_name_who_removed_something_with_await(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            await agent.user("hello")
            await agent.erase([1], why="on request", by="ada")
            await store.delete(agent, by="bob")
            records = await store.removals()
            assert [(record.action, record.by) for record in records] == [
                ("erase", "ada"),
                ("delete", "bob"),
            ]

    asyncio.run(main())


def test_what_is_found_is_awaited_too(url):
    """Each way to find agents gives async ones."""

    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start("main")
            other = await store.start("other")
            await other.describe(title="apple pie")
            for text in ("an apple", "a pear", "an apple and a pear"):
                await agent.user(text)
            await agent.append("user", "with a key", key="k")
            mark = await agent.mark("here")
            assert await store.resolve("main@2") == (agent, 2, None)
            assert await store.resolve("main@here") == (agent, mark.seq, "here")
            hits = await store.search("apple", agent=agent)
            assert {(hit.agent, hit.event.seq) for hit in hits} == {(agent, 1), (agent, 3)}
            hits = await store.search("apple", limit=1)
            assert hits.titled == [other]
            assert hits.missing == 0
            [next_hit] = await store.search("apple", limit=1, after=hits[-1])
            assert {hits[-1].event.seq, next_hit.event.seq} == {1, 3}
            assert [(owner, event.seq) for owner, event in await store.find("k")] == [(agent, 4)]
            assert await store.marks(agent.session) == [(agent, mark)]
            note = await agent.note("n")
            assert await store.last_notes("n") == [(agent, note)]

    asyncio.run(main())


def test_what_happened_elsewhere_is_taken_in_with_await(url):
    async def main():
        async with backstory.aio.open(url) as store:
            async with store.intake() as intake:
                agent = await intake.agent("tool/1", name="one")
                await intake.extend(agent, [("user", "a", None, "k")], expected=0)
                child = await intake.agent("tool/2", name="two", parent=agent, at=1)
                await intake.describe(agent, title="t")
                await intake.remember("tool", "1", agent=agent, cursor={"n": 1})
                assert await intake.commit() == 1
                assert await intake.find_keys(["k", "l"]) == {"k"}
                assert await intake.find_positions(child, ["k"]) == {"k": 1}
                assert (await intake.source("tool", "1")).cursor == {"n": 1}
                await intake.extend(child, [("user", "b")])
            assert [e.content for e in (await child.context()).messages] == ["a", "b"]
            assert (await store.intake().source("tool", "1")).agent_id == agent.id
            assert (await store.agent("t")) == agent

    asyncio.run(main())


def test_open_can_be_awaited_too(url):
    async def main():
        store = await backstory.aio.open(url)
        agent = await store.start()
        await asyncio.gather(*(agent.user(str(n)) for n in range(20)))
        assert sorted(int(e.content) for e in await agent.events()) == list(range(20))
        await store.close()

    asyncio.run(main())


def test_errors_come_through(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start()
            with pytest.raises(backstory.Conflict):
                await agent.append("user", "x", expected=7)

    asyncio.run(main())


class BlockedCall:
    """A call that has begun in its thread, and does not return before `go_on` is set."""

    def __init__(self):
        self.begun, self.go_on, self.done = threading.Event(), threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        self.go_on.wait()
        self.done.set()
        return self


async def cancel_when_begun(call, coroutine):
    task = asyncio.create_task(coroutine)
    await asyncio.to_thread(call.begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_returns_before_its_thread_is_done():
    call = BlockedCall()

    async def main():
        await cancel_when_begun(call, run_abandonable(call))
        assert not call.done.is_set()
        call.go_on.set()
        await asyncio.to_thread(call.done.wait)

    asyncio.run(main())


def test_a_cancelled_call_returns_before_its_thread_is_done_under_trio():
    call = BlockedCall()

    async def main():
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_abandonable, call)
                await trio.to_thread.run_sync(call.begun.wait)
                scope.cancel()
        assert not call.done.is_set()
        call.go_on.set()
        await trio.to_thread.run_sync(call.done.wait)

    trio.run(main)


def test_a_cancelled_call_that_waits_for_a_thread_is_not_made():
    blocked = [BlockedCall() for _ in range(40)]  # more than there are threads

    async def main():
        tasks = [asyncio.create_task(run_abandonable(call)) for call in blocked]
        await asyncio.to_thread(blocked[0].begun.wait)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for call in blocked:
            call.go_on.set()
        await run_abandonable(lambda: None)  # after all that had been submitted
        assert not blocked[-1].done.is_set()

    asyncio.run(main())


def test_what_a_cancelled_call_opens_is_closed():
    call, closed = BlockedCall(), threading.Event()

    async def main():
        await cancel_when_begun(call, open_in_thread(call, lambda _: closed.set()))
        assert not closed.is_set()
        call.go_on.set()
        assert await asyncio.to_thread(closed.wait, 20)

    asyncio.run(main())


def test_what_was_opened_just_before_the_cancellation_is_closed():
    opened, closed = threading.Event(), threading.Event()

    async def main():
        task = asyncio.create_task(open_in_thread(opened.set, lambda _: closed.set()))
        await asyncio.sleep(0)
        opened.wait(10)  # the loop stands still, so it does not receive the result
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert closed.wait(10)


@pytest.mark.parametrize("run", [in_thread, run_abandonable])
def test_a_call_that_raises_stop_iteration_ends(run):
    async def main():
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(run(partial(next, iter(()))), 10)

    asyncio.run(main())


def test_a_call_that_must_be_finished_is_finished_before_the_cancellation_arrives():
    call = BlockedCall()

    async def main():
        task = asyncio.create_task(in_thread(call))
        await asyncio.to_thread(call.begun.wait)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)  # it is told now
        assert not task.done()
        call.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert call.done.is_set()

    asyncio.run(main())


def test_a_cancelled_append_with_a_key_can_be_repeated(durable_url):
    async def main():
        async with backstory.aio.open(durable_url) as store:
            agent = await store.start()
            for n in range(30):
                task = asyncio.create_task(agent.append("user", str(n), key=str(n)))
                await asyncio.sleep(0.0005 * (n % 4))  # at different moments of the append
                task.cancel()
                await asyncio.wait([task])  # cancelled, or quicker than we were
                await agent.append("user", str(n), key=str(n))
            events = await agent.events()
            assert [event.content for event in events] == [str(n) for n in range(30)]
            assert await store.verify() == []

    asyncio.run(main())


def test_a_loop_within_a_call_does_not_wait_for_the_threads_of_the_loop_around_it():
    """A tool, for example, is called in a thread, and may run a loop of its own."""
    found = []
    count = 40  # more than there are threads

    async def once():
        return await run_abandonable(lambda: 1)

    async def main():
        together = [run_abandonable(lambda: asyncio.run(once())) for _ in range(count)]
        found.extend(await asyncio.gather(*together))

    # Not waited for without end: if they wait for each other, the test fails instead of hanging.
    around = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    around.start()
    around.join(60)
    assert found == [1] * count


def test_an_error_in_a_cancelled_call_is_not_reported_as_lost():
    begun, go_on = threading.Event(), threading.Event()

    def fails():
        begun.set()
        go_on.wait()
        raise ValueError("nobody listens")

    async def main():
        task = asyncio.create_task(run_abandonable(fails))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_what_is_not_an_agent_is_refused_in_our_words(url):
    async def main():
        async with backstory.aio.open(url) as store:
            agent = await store.start()
            async with store.intake() as intake:
                calls = [
                    lambda: agent.diff("main"),
                    lambda: store.search("x", agent=5),
                    lambda: store.agents(after=5),
                    lambda: store.delete(5),
                    lambda: store.write(5),
                    lambda: store.write([5]),
                    lambda: store.write([("main", [])]),
                    lambda: intake.agent("k", parent="main"),
                    lambda: intake.extend("main", []),
                    lambda: intake.describe(None, title="x"),
                    lambda: intake.remember("tool", "id", agent="main"),
                    lambda: intake.find_positions("main", []),
                ]
                for call in calls:
                    with pytest.raises(backstory.Error):
                        await call()
                assert (await intake.agent("k", "named")).name == "named"

    asyncio.run(main())
