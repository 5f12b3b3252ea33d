"""Sub-agents: a tool that gives a task to a new agent, whose last answer is the result.

The agent is spawned below the one that asks, in the same log, with an empty context: it can be listed, read
and continued like any other. It has the tools that need no consent, and those that `allow` lets run: it works
in the background, where nobody can be asked.
"""

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing

from backstory.agent import Agent
from backstory.errors import Error, NameTaken
from backstory.runtime.loop import Allow, EventWritten, Loop, Stopped
from backstory.runtime.tools import Tool, ToolError

__all__ = ["Subagents"]

NAME = "task"
SECONDS = 1_800.0
SYSTEM = (
    "You work on one task for another assistant, on your own: nobody can answer questions. Use the tools to "
    "look things up instead of guessing. Your last message is your report, and all that the other assistant "
    "gets to read."
)


class Subagents:
    """The sub-agents of one loop, and the tool that starts them."""

    def __init__(
        self, loop: Callable[[], Loop], tools: Sequence[Tool], *, allow: Allow | None = None
    ) -> None:
        """`loop`: the one whose model calls the tool. `tools`: what sub-agents can use."""
        self._loop = loop
        self._tools = tuple(tools)
        self._allow = allow
        self._running: set[threading.Event] = set()  # each is set to stop one

    @property
    def tool(self) -> Tool:
        """The tool for the model."""
        return Tool.of(self.task, seconds=SECONDS, cancel=self.stop)

    def task(self, description: str, prompt: str) -> str:
        """Hand a task to a sub-agent with an empty context, and get its report. Good for looking something up
        in many files. description: three to eight words; prompt: everything that it has to know."""
        if not prompt.strip():
            raise ToolError("the prompt is empty: say what the sub-agent should do")
        above = self._loop()
        child = _spawned(above.agent, description)
        child.describe(title=description)
        child.extend([("clear",), ("system", SYSTEM)])
        stopped = threading.Event()
        self._running.add(stopped)
        try:
            return self._report(
                Loop(child, above.model, self._tools, allow=self._allow), prompt, stopped
            )
        finally:
            self._running.discard(stopped)

    def _report(self, loop: Loop, prompt: str, stopped: threading.Event) -> str:
        report = ""
        try:
            with closing(loop.ask(prompt)) as updates:
                for update in updates:
                    if stopped.is_set():
                        raise ToolError(f"the sub-agent {loop.agent.name!r} was stopped")
                    match update:
                        case EventWritten(event) if event.kind == "assistant":
                            report = event.content or ""
                        case Stopped(why):
                            raise ToolError(
                                f"the sub-agent {loop.agent.name!r} gave no answer: {why}"
                            )
        except Error as error:
            raise ToolError(f"the sub-agent {loop.agent.name!r} failed: {error.message}") from error
        return report

    def stop(self) -> None:
        """Stop all that are running; their partial answers are kept."""
        for stopped in tuple(self._running):
            stopped.set()


def _spawned(above: Agent, description: str) -> Agent:
    """A new agent below another, named after its task."""
    name = "-".join(re.findall(r"\w+", description.lower())[:6])[:60] or NAME
    for number in range(1, 1_000):
        try:
            return above.spawn(name if number == 1 else f"{name}-{number}")
        except NameTaken:
            continue
    return above.spawn()
