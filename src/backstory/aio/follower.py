"""Followers for async callers."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from backstory.aio.threads import in_own_thread, in_thread
from backstory.storage.follow import Follower

R = TypeVar("R")


class AsyncFollower(Generic[R]):
    """What `follow` returns to async callers, for `async for`. It begins with the first step, or at once with
    `async with`. Cancelling a step loses no event."""

    def __init__(self, follow: Callable[[], Follower[Any]], shown: Callable[[Any], R]) -> None:
        self._follow, self._shown = follow, shown
        self._follower: Follower[Any] | None = None

    async def __aenter__(self) -> Self:
        await self._begun()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        follower = await self._begun()
        while (found := await in_own_thread(follower.wait, follower.wake)) is None:
            pass  # a step that was cancelled woke it
        if not found:
            raise StopAsyncIteration
        return self._shown(follower.taken())

    async def _begun(self) -> Follower[Any]:
        if self._follower is None:
            self._follower = await in_thread(self._follow)
        return self._follower

    async def close(self) -> None:
        """Stop following."""
        if self._follower is not None:
            await in_thread(self._follower.close)
