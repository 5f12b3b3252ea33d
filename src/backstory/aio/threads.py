"""Calls that block, awaited from asyncio or trio: each runs in a thread."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

R = TypeVar("R")


async def in_thread(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, finish the call before the cancellation is raised."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await _in_trio_thread(call)
    context = contextvars.copy_context()
    work = loop.run_in_executor(None, context.run, call)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                continue  # cancelled again: the outcome of the call must still be known
        work.exception()  # so that an error that no one can receive is not reported as lost
        raise


async def _in_trio_thread(call: Callable[[], R]) -> R:
    """The same for trio, which the caller has imported."""
    from trio import to_thread

    return await to_thread.run_sync(call, abandon_on_cancel=False)


async def in_own_thread(call: Callable[[], R], wake: Callable[[], None]) -> R:
    """Run a call that may never return in a new thread, so that it does not occupy one of the pool. If it is
    cancelled, `wake` makes the call return, and its result is dropped."""
    try:
        return await (_in_daemon(call) if _is_asyncio() else _in_trio_daemon(call))
    except BaseException:
        wake()
        raise


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _in_daemon(call: Callable[[], R]) -> R:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()
    outcome: Future[R] = Future()
    outcome.add_done_callback(lambda _: _tell(loop, done, outcome))
    threading.Thread(target=_settle, args=(outcome, call), name="backstory-follow", daemon=True).start()
    return await done


def _settle(outcome: "Future[R]", call: Callable[[], R]) -> None:
    try:
        outcome.set_result(call())
    except BaseException as error:
        outcome.set_exception(error)


def _tell(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[R]", outcome: "Future[R]") -> None:
    def settle() -> None:
        if not done.done():
            error = outcome.exception()
            done.set_result(outcome.result()) if error is None else done.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed, and no one waits
        loop.call_soon_threadsafe(settle)


async def _in_trio_daemon(call: Callable[[], R]) -> R:
    from trio import CapacityLimiter, to_thread

    return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=CapacityLimiter(1))
