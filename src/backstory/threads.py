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
from functools import partial
from typing import TypeVar

R = TypeVar("R")


async def run_abandonable(call: Callable[[], R]) -> R:
    """Run a call in a thread. If it is cancelled, the thread continues, and its result is dropped.
    A call that has not begun is not made."""
    loop = _find_loop()
    if loop is None:
        return await _in_trio_thread(call, abandon=True)
    return await _submit(call, loop)


async def in_thread(call: Callable[[], R], wake: Callable[[], None] | None = None) -> R:
    """Run a call in a thread. If it is cancelled, finish the call before the cancellation is
    raised. `wake` is called then, and may make the call return sooner."""
    loop = _find_loop()
    if loop is None:
        if wake is None:
            return await _in_trio_thread(call, abandon=False)
        return await _in_woken_trio_thread(call, wake)
    future = _submit(call, loop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if wake is not None:
            wake()
        while not future.done():
            # Another cancellation: the outcome of the call must still be known.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise


async def run_in_own_thread(call: Callable[[], R], wake: Callable[[], None]) -> R:
    """Run a call that may never return in a new thread, so that it does not occupy one of the pool.
    If it is cancelled, `wake` makes the call return, and its result is dropped."""
    loop = _find_loop()
    try:
        if loop is None:
            return await _in_trio_thread(call, abandon=True, is_extra=True)
        future: Future[R] = Future()
        target = partial(contextvars.copy_context().run, _fulfill, future, call)
        threading.Thread(target=target, name="backstory-follow", daemon=True).start()
        return await asyncio.wrap_future(future)
    except BaseException:
        wake()
        raise


def _find_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop of asyncio. None: it is one of trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _submit(call: Callable[[], R], loop: asyncio.AbstractEventLoop) -> asyncio.Future[R]:
    """Run a call in a thread of the pool, in the context of the caller."""
    context = contextvars.copy_context()
    return loop.run_in_executor(_get_pool(), context.run, _make_call, call)


def _make_call(call: Callable[[], R]) -> R:
    """Return or raise what a call returns or raises. A future cannot raise StopIteration: whoever
    waits for it would wait for ever."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("a call in a thread raised StopIteration") from error


def _fulfill(future: Future[R], call: Callable[[], R]) -> None:
    """Make a call, and set its result or error."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(_make_call(call))
    except BaseException as error:
        future.set_exception(error)


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

    async with open_nursery() as nursery:
        nursery.start_soon(wake_when_cancelled)
        with CancelScope(shield=True):
            await _in_trio_thread(partial(_fulfill, future, call), abandon=False)
        nursery.cancel_scope.cancel()
    return future.result()


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
    """Open something in a thread. If this is cancelled, close what was opened, now or later."""
    opened: Future[R] = Future()

    def open_and_return() -> R:
        _fulfill(opened, open)
        return opened.result()

    def close_if_opened(_: Future[R]) -> None:
        if opened.exception() is None:
            close(opened.result())

    try:
        return await run_abandonable(open_and_return)
    except BaseException:
        opened.add_done_callback(close_if_opened)
        raise
