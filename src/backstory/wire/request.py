"""Builds a request: the one path from the messages of a context to a provider's body."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.settings import Settings
from backstory.wire.context import AUTO, RequestContext, RequestOptions
from backstory.wire.formats import get_format
from backstory.wire.formats.base import Body
from backstory.wire.reading import Readable, TurnReader
from backstory.wire.repair import RULES, find_stored_conversation, name_stored_conversation
from backstory.wire.turns import AnswerTurn, Repair, Result, Turn


class Dump(NamedTuple):
    """A request's body, and where it differs from the log."""

    body: dict[str, Any]
    repairs: list[Repair]


class BuiltRequest(NamedTuple):
    """A request, its differences from the log, and where its messages come from."""

    body: dict[str, Any]
    repairs: list[Repair]
    sources: list[Turn | Result]  # as in `WrittenBody`
    starts: Sequence[int]

    def list_origins(self) -> list[list[int]]:
        """Return for each message of the body the positions of its events."""
        origins: list[list[int]] = []
        for start, end in pairwise([*self.starts, len(self.sources)]):
            origins.append(list_positions(self.sources[start:end]))
        return origins


def create_context(format: str, options: RequestOptions) -> RequestContext:
    """Return the context of a request. Raises Invalid if an option does not exist."""
    known = RequestOptions.__annotations__
    for name in options:
        if name not in known:
            remedy = f"use one of {', '.join(known)}"
            raise Invalid(f"{name!r} is not an option of a request", remedy=remedy)
    return RequestContext(get_format(format), **options)


def list_positions(sources: Iterable[Turn | Result]) -> list[int]:
    """Return the positions of the events in turns and results."""
    positions: set[int | None] = set()
    for source in sources:
        positions.add(source.position)
        if isinstance(source, AnswerTurn):
            positions.update([call.position for call in source.calls])
    return sorted([position for position in positions if position is not None])


def build_request(
    messages: Iterable[Readable], request: RequestContext, settings: Settings | None = None
) -> BuiltRequest:
    """Build the request for `messages`, with the model, tools and parameters of `settings`."""
    turns = read_repaired_turns(messages, request)
    body, sources, starts = request.format.write_body(turns)
    body = complete_request(body, request, settings)
    repairs = request.repairs
    # In the order of the log; those of the whole request come last.
    repairs.sort(key=lambda repair: (repair.at is None, repair.at or 0))
    if request.strict and repairs:
        raise Invalid(describe_repairs(repairs, request.format.name))
    return BuiltRequest(body, repairs, sources, starts)


def complete_request(body: Body, request: RequestContext, settings: Settings | None) -> Body:
    """Return the body of messages as a whole request."""
    format = request.format
    if request.continued is not None:
        # A request that is not stored itself has to say so.
        names = name_stored_conversation(request.continued)
        body |= names if request.stored else request.continued
    changes: list[str] = []
    if request.has_native:
        body, changes = format.finish_body(body)
    if settings is not None:
        body, repairs = format.add_settings(body, settings, request.model)
        request.repairs += repairs
    if request.cache == AUTO:
        body = format.mark_cache(body, request.model)
    if request.has_native or settings is not None:
        body, more = format.drop_extra_marks(body)
        changes = [*changes, *more]
    for why in changes:
        request.report("native", None, why)
    return body


def read_repaired_turns(messages: Iterable[Readable], request: RequestContext) -> list[Turn]:
    """Return the repaired turns of `messages`."""
    turns: list[Any] = TurnReader(request).read(messages)
    if request.has_stored:
        request.continued = find_stored_conversation(turns, request)
    for apply_rule in RULES:
        turns = apply_rule(turns, request)
    return turns


def describe_repairs(repairs: list[Repair], format: str) -> str:
    """Return a text that names each repair."""
    lines = [f"the request for {format} differs from the log:"]
    for repair in repairs:
        where = "" if repair.at is None else f" at {repair.at}"
        lines.append(f"- {repair.rule}{where}: {repair.why}")
    return "\n".join(lines)
