"""Compaction by the model: it summarizes the conversation, and the summary replaces the older part.

    for update in compacted(agent, model): ...

The summary is yielded as it comes in. Nothing is written until it is complete. Then one batch is written
after the head that was summarized; `agent.undo()` takes it back.
"""

from collections.abc import Generator, Sequence

from backstory.agent import Agent
from backstory.errors import NotFound
from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.log.moves import is_prompt
from backstory.runtime.models import (
    ContextTooLong,
    Model,
    ModelError,
    Response,
    Retrying,
    TextDelta,
    ThinkingDelta,
    stream_of,
)
from backstory.runtime.models.arguments import storable
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation, conversation_of

MOST_TURNS = 2  # that stay as they are
SHARE = 0.3  # the largest part of the window for what stays
LONGEST_RESULT = 2_000  # characters of a tool's result that the summary is made from
ATTEMPTS = 4  # each with half of what the one before had
PROMPT = """\
Summarize this conversation so that you can continue it with nothing but your summary: the messages above will
not be there any more. Write down, in this order:

1. What the user wants: the task as a whole, every requirement, preference and decision, in the user's own
   words where they matter.
2. What was done and found out: files with their paths, commands, names, numbers and error messages, exactly
   as they were.
3. What did not work, and why, so that it is not tried again.
4. Where things stand now, and what comes next.

Do not greet, do not ask, do not call tools, do not add what was not said. Write only the summary."""
FOCUS = "\n\nKeep this in mind above all: {}"
HEADING = "Summary of the conversation so far:\n\n"

Compaction = Generator[TextDelta | ThinkingDelta | Retrying, None, None]


def compacted(
    agent: Agent, model: Model, tools: Sequence[Tool] = (), *, focus: str = "", at_least: int = 0
) -> Compaction:
    """Summarize and compact. `focus` is what the summary should keep in mind. The last turns stay: at least
    this many, more if they are small."""
    context = agent.context()
    keep = kept_messages(context.messages, model, at_least=at_least)
    if at_least and not keep:
        raise NotFound("there is nothing to compact before the last turn")
    summary = yield from _summary(context.messages, context.at, model, tools, focus)
    agent.compact(storable(HEADING + summary), keep=keep, expected=context.at)


def _summary(
    events: Sequence[Event], head: int, model: Model, tools: Sequence[Tool], focus: str
) -> Generator[TextDelta | ThinkingDelta | Retrying, None, str]:
    """The model's summary of a conversation; of one that is too long, of its newer part."""
    asked = Event.of(head + 1, "user", PROMPT + (FOCUS.format(focus) if focus.strip() else ""))
    wanted = [_shortened(event) for event in events]
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return (yield from reply(model, tools, conversation_of([*wanted, asked]), "summary"))
        except ContextTooLong:
            if attempt == ATTEMPTS:
                raise
            wanted = wanted[len(wanted) // 2 :]
    raise AssertionError("the last attempt returns or raises")


def reply(
    model: Model, tools: Sequence[Tool], conversation: Conversation, wanted: str
) -> Generator[TextDelta | ThinkingDelta | Retrying, None, str]:
    """The answer of a model to something that is not in the log; `wanted` names it in errors."""
    response = Response("")
    with stream_of(model.answer(conversation, tools)) as items:
        for item in items:
            if isinstance(item, Response):
                response = item
                break
            yield item
    if not response.text.strip():
        raise ModelError(f"{model.name} gave no {wanted}: nothing was changed", remedy="try again")
    return response.text


def _shortened(event: Event) -> Event:
    """A tool's result, without the middle of a long one."""
    text = event.content or ""
    if event.kind != "tool_result" or len(text) <= LONGEST_RESULT:
        return event
    half = LONGEST_RESULT // 2
    return Event.of(event.seq, event.kind, f"{text[:half]}\n[…]\n{text[-half:]}", event.data)


def kept_messages(events: Sequence[Event], model: Model, *, at_least: int = 0) -> int:
    """How many messages stay: those of as many last turns as fit."""
    spoken = [event for event in events if KINDS[event.kind].is_message and event.kind != "system"]
    turns = [index for index, event in enumerate(spoken) if is_prompt(event)]
    for count in range(min(MOST_TURNS, len(turns)), 0, -1):
        first = turns[-count]
        if first > 0 and (count <= at_least or _fits(spoken[first:], model)):
            return len(spoken) - first
    return 0


def _fits(events: Sequence[Event], model: Model) -> bool:
    window = model.window
    return window is None or int(conversation_of(list(events)).tokens(model.name)) <= window * SHARE
