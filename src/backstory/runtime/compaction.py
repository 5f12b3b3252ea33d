"""Compaction by the model: it summarizes the older part of the context, and the summary replaces
it.

    for update in compact_context(agent, model): ...

The summary is yielded as it comes in. Nothing is written until it is complete. Then one batch is
written after the head that was summarized; `agent.undo()` takes it back. The newest messages stay
as they are. In the middle of a turn, the request of the person is written below the summary, word
for word.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import NotFound
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.log.moves import is_prompt
from backstory.runtime.models import (
    ContextTooLong,
    Model,
    ModelError,
    Response,
    Retrying,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    storable,
    stream_of,
)
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation, conversation_of

MAX_TURNS = 2  # that stay as they are
SHARE = 0.3  # the largest part of the window for what stays
MAX_RESULT = 2_000  # characters of a tool's result that the summary is made from
ATTEMPTS = 4  # each with half of what the one before had
PROMPT = """\
Summarize this conversation so that you can continue it with nothing but your summary: the
messages above will not be there any more. Write down, in this order:

1. What the user wants: the task as a whole, every requirement, preference and decision, in the
   user's own words where they matter.
2. What was done and found out: files with their paths, commands, names, numbers and error
   messages, exactly as they were.
3. What did not work, and why, so that it is not tried again.
4. Where things stand now, and what comes next.

Do not greet, do not ask, do not call tools, do not add what was not said. Write only the
summary."""
FOCUS = "\n\nKeep this in mind above all: {}"
HEADING = "Summary of the conversation so far:\n\n"
REQUEST_HEADING = "\n\nThe current request, word for word:\n\n"


class Compacted(NamedTuple):
    """The context was compacted."""

    before: int  # tokens
    after: int
    seconds: float
    data: dict[str, Any]  # of the summary's answer: model and usage
    position: int  # of the last event of the compaction


Compaction = Generator[TextDelta | ThinkingDelta | Retrying | Compacted, None, None]
OpenStream = Callable[[Conversation, Sequence[Tool]], Iterator[StreamItem]]
SummaryParts = Generator[TextDelta | ThinkingDelta | Retrying, None, Response]


def compact_context(
    agent: Agent,
    model: Model,
    tools: Sequence[Tool] = (),
    *,
    focus: str = "",
    open_stream: OpenStream | None = None,
) -> Compaction:
    """Summarize and compact. `focus` is what the summary should keep in mind. `open_stream` is
    called instead of `model.answer`. Raises NotFound if there is nothing before what stays."""
    began = time.monotonic()
    context = agent.context()
    messages = list_messages(context.messages)
    start = find_start(messages, model)
    request = quote_request(messages, start)
    if request and start == 1:
        raise NotFound("there is nothing to compact before the last turn")
    before = count_tokens(context.messages, model)
    summarizer = Summarizer(model, tools, open_stream or model.answer)
    response = yield from summarizer.summarize(context.messages, context.at, focus)
    summary = storable(HEADING + response.text + request)
    written = agent.compact(summary, keep=len(messages) - start, expected=context.at)
    after = count_tokens(agent.context().messages, model)
    seconds = time.monotonic() - began
    yield Compacted(before, after, seconds, dict(response.data or {}), written[-1].seq)


def list_messages(events: Sequence[Event]) -> list[Event]:
    """Return the messages that a compaction may replace."""
    return [event for event in events if KINDS[event.kind].is_message and event.kind != "system"]


def find_start(messages: Sequence[Event], model: Model) -> int:
    """Return the index of the first message that stays: the newest messages stay that fit into
    their share of the window, but at most those of the last turns."""
    is_in_turn = is_unanswered(messages)
    prompts = [index for index, event in enumerate(messages) if index and is_prompt(event)]
    if prompts:
        start = prompts[-MAX_TURNS:][0]
    else:
        start = min(1, len(messages)) if is_in_turn else len(messages)
    window = model.window
    if window is None:
        if not is_in_turn:
            return start
        window = count_tokens(messages, model)  # it was too long
    size = 0
    for index in range(len(messages) - 1, start - 1, -1):
        size += count_tokens([messages[index]], model)
        if size > window * SHARE:
            return index + 1
    return start


def is_unanswered(messages: Sequence[Event]) -> bool:
    """Return True in the middle of a turn."""
    return bool(messages) and messages[-1].kind != "assistant"


def quote_request(messages: Sequence[Event], start: int) -> str:
    """Return the person's request in the middle of a turn, if it does not stay as a message."""
    if not is_unanswered(messages):
        return ""
    for index in range(len(messages) - 1, -1, -1):
        event = messages[index]
        if event.kind == "user":
            return "" if index >= start else REQUEST_HEADING + read_request(event)
    return ""


def read_request(event: Event) -> str:
    """Return the request in a prompt, or below an earlier summary."""
    text = event.content or ""
    if COMPACTED in (event.data or {}):
        return text.partition(REQUEST_HEADING)[2]
    return text


def count_tokens(events: Sequence[Event], model: Model) -> int:
    """Return the tokens of some events."""
    return int(conversation_of(list(events)).tokens(model.name))


class Summarizer:
    """Asks a model for a summary. The question and the answer are not in the log."""

    def __init__(self, model: Model, tools: Sequence[Tool], open_stream: OpenStream) -> None:
        self._model = model
        self._tools = tools
        self._open_stream = open_stream

    def summarize(self, events: Sequence[Event], head: int, focus: str) -> SummaryParts:
        """Return the summary of a conversation; of one that is too long, of its newer part."""
        request = PROMPT + (FOCUS.format(focus) if focus.strip() else "")
        question = Event.of(head + 1, "user", request)
        wanted = [shorten_event(event) for event in events]
        for _ in range(ATTEMPTS - 1):
            try:
                return (yield from self._ask(conversation_of([*wanted, question])))
            except ContextTooLong:
                wanted = wanted[len(wanted) // 2 :]
        return (yield from self._ask(conversation_of([*wanted, question])))

    def _ask(self, conversation: Conversation) -> SummaryParts:
        response = Response("")
        with stream_of(self._open_stream(conversation, self._tools)) as parts:
            for part in parts:
                if isinstance(part, Response):
                    response = part
                    break
                yield part
        if not response.text.strip():
            name = self._model.name
            raise ModelError(f"{name} gave no summary: nothing was changed", remedy="try again")
        return response


def shorten_event(event: Event) -> Event:
    """Return a tool's result without the middle of a long one."""
    text = event.content or ""
    if event.kind != "tool_result" or len(text) <= MAX_RESULT:
        return event
    half = MAX_RESULT // 2
    return Event.of(event.seq, event.kind, f"{text[:half]}\n[…]\n{text[-half:]}", event.data)
