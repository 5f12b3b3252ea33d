"""Calls that block, awaited from asyncio or trio: each runs in a thread."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

R = TypeVar("R")


async def in_thread(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, finish the call before the cancellation is raised."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return await _in_trio_thread(call)
    job = _Job(call, loop)
    _pool().submit(job.run)
    try:
        await job.waiter
    except asyncio.CancelledError:
        while not job.is_done:
            job.waiter = loop.create_future()
            with suppress(
                asyncio.CancelledError
            ):  # again: the outcome of the call must still be known
                await job.waiter
        raise
    return job.outcome()


class _Job(Generic[R]):
    """A call for a thread. Only the loop's own thread touches the future that is waited for: less work than a
    future of the pool, one of the loop, and a shield around them."""

    def __init__(self, call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._context = contextvars.copy_context()
        self._result: R | None = None
        self._error: BaseException | None = None
        self.waiter: asyncio.Future[None] = loop.create_future()
        self.is_done = False

    def run(self) -> None:
        """Make the call, and tell the loop."""
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self.is_done = True
        if not self.waiter.done():
            self.waiter.set_result(None)

    def outcome(self) -> R:
        """What the call returned or raised."""
        error, self._error = self._error, None  # its traceback leads back to this job
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]


class _Own(threading.local):
    """What each thread has for itself."""

    pool: ThreadPoolExecutor | None = None


_own = _Own()


def _pool() -> ThreadPoolExecutor:
    """The threads for the calls of this thread. Such a call may run a loop, too: if its calls had to wait for
    a thread of the same pool, they could wait for each other for ever."""
    if _own.pool is None:
        _own.pool = ThreadPoolExecutor(thread_name_prefix="backstory")
    return _own.pool


def _forget_pool() -> None:
    """In a forked child: the threads stayed with the parent."""
    _own.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


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
    threading.Thread(
        target=_settle, args=(outcome, call), name="backstory-follow", daemon=True
    ).start()
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
