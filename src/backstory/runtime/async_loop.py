"""The turn loop for async callers: the same loop, each step of it in a thread.

async for update in AsyncLoop(agent, model, tools).ask("Which files are here?"): ...
"""

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from backstory.agent import Agent
from backstory.aio import AsyncAgent, in_thread
from backstory.runtime.loop import Allow, Loop, Update, Updates
from backstory.runtime.models import Model
from backstory.runtime.tools import Tool

__all__ = ["AsyncLoop", "AsyncUpdates"]

AsyncUpdates = AsyncGenerator[Update, None]


class AsyncLoop:
    """An agent, a model and tools, working together; `sync` is the loop underneath."""

    def __init__(
        self,
        agent: AsyncAgent | Agent,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        allow: Allow | None = None,
        **options: Any,
    ) -> None:
        """The arguments of `Loop`. Models, tools and `allow` are called in threads."""
        under = agent.sync if isinstance(agent, AsyncAgent) else agent
        self.sync = Loop(under, model, tools, allow=allow, **options)

    @property
    def agent(self) -> AsyncAgent:
        """The agent that the loop writes to: after a `Forked` (of the agents underneath), the
        fork."""
        return AsyncAgent(self.sync.agent)

    def ask(
        self, text: str, *, key: str | None = None, expected: int | None = None
    ) -> AsyncUpdates:
        """Write a prompt, and continue until the model has answered: see `Loop.ask`."""
        return self._yield_updates(self.sync.ask(text, key=key, expected=expected))

    def resume(self) -> AsyncUpdates:
        """Let the model answer, and run the tools that it calls, until it calls no more."""
        return self._yield_updates(self.sync.resume())

    def cancel(self) -> None:
        """Stop the turn: see `Loop.cancel`."""
        self.sync.cancel()

    async def _yield_updates(self, updates: Updates) -> AsyncUpdates:
        """Yield each update as it comes. If this is cancelled or closed early, the connection to
        the model is closed, and the partial answer is in the log, marked as interrupted."""
        try:
            while True:
                update = await in_thread(partial(next, updates, None), self.sync.cancel)
                if update is None:
                    return
                yield update
        finally:
            updates.close()  # synchronously: nothing can be awaited after a scope was cancelled
