"""The guided tour: a model whose answers are scripted, on the real log with the real tools.

Each answer is the next step that the person has not done yet. What was done is read from the log,
so that the tour continues after `kill -9`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.log.data_keys import UNDO
from backstory.log.moves import read_command
from backstory.runtime.models import Response, StreamItem, TextDelta, ToolCall
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["FIRST_WORDS", "TOUR", "TourModel", "is_over"]

TOUR = "tour"  # the name to ask for it, and of its first agent
NAME = "tour (scripted)"
LABEL = "Scripted tour, step {} of {}: "
FIRST_WORDS = (
    "This is a tour: no model answers, a script does. Ask, for example: Which files are here?"
)


class TourStep(NamedTuple):
    """What the tour says until the person has done it."""

    text: str
    is_done: Callable[[Agent], bool]
    tool: str = ""  # called with the next prompt
    arguments: Callable[[], dict[str, Any]] = dict
    announcement: str = ""  # said with the call, instead of the text


def has_listed_files(agent: Agent) -> bool:
    """Return True if the tour has called glob, and its result is in the log."""
    return any(event.kind == "tool_result" for event in agent.events())


def was_killed(agent: Agent) -> bool:
    """Return True if the tour has asked for `kill -9`, whatever came of it."""
    return count_events(agent, "tool_call") > 1


def has_undone(agent: Agent) -> bool:
    """Return True if something was undone, as the log says."""
    return any(read_command(event) == UNDO for event in agent.events())


def has_forked(agent: Agent) -> bool:
    """Return True in a fork."""
    return agent.parent is not None


def never(_agent: Agent) -> bool:
    """Return False: nothing comes after the last step."""
    return False


def count_events(agent: Agent, kind: str) -> int:
    """Return how many events of a kind are in the log, in the context or not."""
    return sum(event.kind == kind for event in agent.events())


STEPS = (
    TourStep(
        "a model would look at the folder now, so I call the tool `glob`. The call and its result "
        "are events in the log, as your question is.",
        has_listed_files,
        "glob",
        lambda: {"pattern": "*"},
    ),
    TourStep(
        "those files are real. Now the worst case: send `go`, and I ask to run `kill -9` on this "
        "very program. You see the exact command first; say `yes`. Then start it again, with the "
        "same command, and send `back`.",
        was_killed,
        "bash",
        lambda: {"command": f"kill -9 {os.getpid()}"},
        "this is the command. `yes` and Enter run it; anything else is a no.",
    ),
    TourStep(
        "whatever happened to the program, your questions, the files and the last call are here, "
        "and a model would be sent all of it again. Now type `/undo`, which takes back this turn, "
        "and then send `undone`.",
        has_undone,
    ),
    TourStep(
        "what you undid is out of the context, but still in the log: `/log` shows it, `/redo` "
        "would bring it back. Now type `/fork idea`, which continues in a branch, and then send "
        "`forked`.",
        has_forked,
    ),
    TourStep(
        "this branch has everything from before, and the other one does not see what is said here: "
        "`/diff tour` compares the two, `/switch tour` goes back. That was the tour. Leave with "
        "Ctrl-D; `backstory log` shows all of it in a shell, and the next start lists the models "
        "that you can use.",
        never,
    ),
)


class TourModel:
    """Answers with the next step of the tour."""

    name = NAME
    window: int | None = None

    def __init__(self) -> None:
        self.find_agent: Callable[[], Agent] | None = None  # whose log says what was done

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """Yield the scripted answer."""
        assert self.find_agent is not None, "the chat sets it"
        agent = self.find_agent()
        number, step = find_step(agent)
        is_reporting = agent.context().messages[-1].kind == "tool_result"
        calls: tuple[ToolCall, ...] = ()
        text = step.text
        if step.tool and not is_reporting:
            calls = (ToolCall(f"call_{os.urandom(6).hex()}", step.tool, step.arguments()),)
            text = step.announcement or text
        labelled = LABEL.format(number, len(STEPS)) + text
        for word in re.findall(r"\S+\s*", labelled):
            yield TextDelta(word)
        yield Response(labelled, calls, {"model": NAME})


def find_step(agent: Agent) -> tuple[int, TourStep]:
    """Return the number of the first step that was not done, and the step."""
    for number, step in enumerate(STEPS, 1):
        if not step.is_done(agent):
            return number, step
    raise AssertionError("the last step is never done")


def is_over(agent: Agent) -> bool:
    """Return True if the last step was said."""
    last = LABEL.format(len(STEPS), len(STEPS))
    for event in agent.events():
        if event.kind == "assistant" and (event.content or "").startswith(last):
            return True
    return False
