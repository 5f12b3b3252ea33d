"""The turns of a conversation in no provider's format, for programs with messages of their own.

The rules are those of a request: each result is bound to its call, the newest result of a call
counts, open calls say that they were interrupted, and what providers keep in their own forms is
translated to text and media.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from backstory.log.events import Event
from backstory.wire.context import RequestContext
from backstory.wire.conversation import list_readable
from backstory.wire.formats.base import Format
from backstory.wire.reading import TurnReader
from backstory.wire.repair import TURN_RULES
from backstory.wire.turns import AnswerTurn, Call, Media, MessageTurn, Part, Result, Text, Turn

ANYTHING = re.compile(r"(?s).+")


class NeutralFormat(Format):
    """A format that takes everything as it is, and that no form comes from."""

    name = "neutral"
    call_ids = ANYTHING
    tool_names = ANYTHING
    has_detail = True

    def write_media(self, found: Media, in_result: bool) -> Any:
        """Return the media: nothing has to be left out."""
        return found


class AnsweredCall(NamedTuple):
    """A call and its result."""

    call: Call
    result: Result

    @property
    def is_interrupted(self) -> bool:
        """True if no result was recorded."""
        return self.result.position == self.call.position


def read_turns(runs: Iterable[Sequence[Event]]) -> list[Turn]:
    """Return the turns in several runs of events, oldest first. An answer ends with its run, but
    its results may be in later ones. Empty texts are left out."""
    request = RequestContext(NeutralFormat(), placeholders=True)
    reader = TurnReader(request)
    for run in runs:
        reader.read(list_readable(run))
        reader.end_answer()
    turns: list[Any] = reader.turns
    for apply_rule in TURN_RULES:
        turns = apply_rule(turns, request)
    for index, turn in enumerate(turns):
        if isinstance(turn, AnswerTurn):
            turns[index] = turn.replace(texts=[text for text in turn.texts if text])
    return turns


def list_parts(turn: MessageTurn | Result) -> list[Part]:
    """Return the text and media of a message or a result, in order."""
    if turn.content is not None:
        return list(turn.content)
    return [Text(turn.text)] if turn.text else []


def list_answered_calls(turn: AnswerTurn) -> list[AnsweredCall]:
    """Return the calls of an answer with their results."""
    answered: list[AnsweredCall] = []
    for call, result in zip(turn.calls, turn.results, strict=True):
        if result is not None:
            answered.append(AnsweredCall(call, result))
    return answered
