"""Runs blocking calls in threads, for callers in a loop of asyncio or trio.

The three ways differ in what a cancellation does: `run_abandonable` leaves the thread alone,
`in_thread` waits for it, and `run_in_own_thread` makes its call return.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

R = TypeVar("R")


async def run_abandonable(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, the thread continues, and its result is dropped.
    A call that has not begun is not made."""
    loop = _find_loop()
    if loop is None:
        return await _in_trio_thread(call, abandon=True)
    job = ThreadJob(call, loop)
    future = _get_pool().submit(job.run)
    try:
        await job.waiter
    except asyncio.CancelledError:
        future.cancel()
        raise
    return job.get_result()


async def in_thread(call: Callable[[], R], wake: Callable[[], None] | None = None) -> R:
    """Run a call in a thread. If it is cancelled, finish the call before the cancellation is
    raised. `wake` is called then, and may make the call return sooner."""
    loop = _find_loop()
    if loop is None:
        if wake is None:
            return await _in_trio_thread(call, abandon=False)
        return await _in_woken_trio_thread(call, wake)
    job = ThreadJob(call, loop)
    _get_pool().submit(job.run)
    try:
        await job.waiter
    except asyncio.CancelledError:
        if wake is not None:
            wake()
        while not job.is_done:
            job.waiter = loop.create_future()
            # Another cancellation: the outcome of the call must still be known.
            with suppress(asyncio.CancelledError):
                await job.waiter
        raise
    return job.get_result()


async def run_in_own_thread(call: Callable[[], R], wake: Callable[[], None]) -> R:
    """Run a call that may never return in a new thread, so that it does not occupy one of the pool.
    If it is cancelled, `wake` makes the call return, and its result is dropped."""
    loop = _find_loop()
    try:
        if loop is None:
            return await _in_trio_thread(call, abandon=True, is_extra=True)
        job = ThreadJob(call, loop)
        threading.Thread(target=job.run, name="backstory-follow", daemon=True).start()
        await job.waiter
        return job.get_result()
    except BaseException:
        wake()
        raise


def _find_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop of asyncio. None: it is one of trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _in_trio_thread(call: Callable[[], R], *, abandon: bool, is_extra: bool = False) -> R:
    """Run a call in a thread of trio, which the caller has imported. If `is_extra`, the thread does
    not count as one of those that trio allows."""
    from trio import CapacityLimiter, to_thread

    limiter = CapacityLimiter(1) if is_extra else None
    return await to_thread.run_sync(call, abandon_on_cancel=abandon, limiter=limiter)


async def _in_woken_trio_thread(call: Callable[[], R], wake: Callable[[], None]) -> R:
    """Run a call in a thread of trio. If it is cancelled, call `wake`, and finish the call."""
    from trio import CancelScope, open_nursery, sleep_forever

    future: Future[R] = Future()

    async def wake_when_cancelled() -> None:
        try:
            await sleep_forever()
        finally:
            if not future.done():
                wake()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    async with open_nursery() as nursery:
        nursery.start_soon(wake_when_cancelled)
        with CancelScope(shield=True):
            await _in_trio_thread(run, abandon=False)
        nursery.cancel_scope.cancel()
    return future.result()


class ThreadJob(Generic[R]):
    """A call for a thread. Only the thread of the loop touches the future that is waited for: less
    work than a future of the pool, one of the loop, and a shield around them."""

    def __init__(self, call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._context = contextvars.copy_context()
        self._result: R | None = None
        self._error: BaseException | None = None
        self.waiter: asyncio.Future[None] = loop.create_future()
        self.is_done = False

    def run(self) -> None:
        """Make the call, and notify the loop."""
        try:
            self._result = self._context.run(self._call)
        except BaseException as error:
            self._error = error
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self.is_done = True
        if not self.waiter.done():
            self.waiter.set_result(None)

    def get_result(self) -> R:
        """Return or raise what the call returned or raised."""
        error, self._error = self._error, None  # its traceback leads back to this job
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]


class ThreadLocals(threading.local):
    """The pool of each thread."""

    pool: ThreadPoolExecutor | None = None


_locals = ThreadLocals()


def _get_pool() -> ThreadPoolExecutor:
    """Return the threads for the calls of this thread. Such a call may run a loop, too: if its
    calls had to wait for a thread of the same pool, they could wait for each other for ever."""
    if _locals.pool is None:
        _locals.pool = ThreadPoolExecutor(thread_name_prefix="backstory")
    return _locals.pool


def _forget_pool() -> None:
    """Forget the pool in a forked child: the threads stayed with the parent."""
    _locals.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


async def open_in_thread(open: Callable[[], R], close: Callable[[R], object]) -> R:
    """Open something in a thread. If this is cancelled, close what was opened."""
    opening = Opening(open, close)
    try:
        return await run_abandonable(opening.run)
    except BaseException:
        opening.abandon()
        raise


class Opening(Generic[R]):
    """Opens something in one thread for another one, which may give up at any moment."""

    def __init__(self, open: Callable[[], R], close: Callable[[R], object]) -> None:
        self._open = open
        self._close = close
        self._lock = threading.Lock()
        self._opened: list[R] = []
        self._is_abandoned = False

    def run(self) -> R:
        """Return what was opened. Close it if nobody waits for it any more."""
        opened = self._open()
        with self._lock:
            self._opened.append(opened)
            is_abandoned = self._is_abandoned
        if is_abandoned:
            self._close(opened)
        return opened

    def abandon(self) -> None:
        """Close what was opened, now or when it is."""
        with self._lock:
            self._is_abandoned = True
            opened = list(self._opened)
        for one in opened:
            self._close(one)
