"""Reads a history page by page, so that the first line of a long one is printed at once."""

from collections.abc import Iterator

from backstory.agent import Agent
from backstory.log.events import Event
from backstory.log.replay import Explanation

PAGE = 1_000  # events read at a time

ExplainedEvent = tuple[Event, Explanation]


def read_history(
    agent: Agent, after: int, until: int, at: int | None = None
) -> Iterator[ExplainedEvent]:
    """Yield the events after `after` and up to `until`, each with the reason why it is or is not
    in the context at `at`."""
    while after < until:
        yield from agent.explain(after=after, until=min(after + PAGE, until), at=at)
        after += PAGE


def read_live_history(
    agent: Agent, after: int, until: int, at: int | None = None
) -> Iterator[ExplainedEvent]:
    """Yield only the live events. Dead ones are not even read."""
    for first, last in find_live_ranges(agent, until if at is None else at):
        for event, why in read_history(agent, max(first - 1, after), min(last, until), at):
            if why.live:
                yield event, why


def follow_history(agent: Agent, after: int) -> Iterator[ExplainedEvent]:
    """Yield the events after `after` as they are committed, without end."""
    for event in agent.follow(after):
        yield from agent.explain(after=event.seq - 1, until=event.seq, at=event.seq)


def find_live_ranges(agent: Agent, at: int) -> list[tuple[int, int]]:
    """Return the live positions at `at` as ranges (first, last), oldest first. They include clears
    and events without an effect."""
    ranges = []
    last = at
    for move in reversed(agent.moves()):
        if move.seq <= last:
            ranges.append((move.seq, last))
            last = move.base
    if last > 0:
        ranges.append((1, last))
    return ranges[::-1]
