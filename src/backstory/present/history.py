"""Reads a history page by page, so that the first line of a long one is printed at once."""

from collections.abc import Iterator

from backstory.agent import Agent
from backstory.log.events import Event
from backstory.log.explanation import Explanation

PAGE = 1_000  # events read at a time

Told = tuple[Event, Explanation]


def told(agent: Agent, after: int, until: int, at: int | None = None) -> Iterator[Told]:
    """The events after a position, up to another one, each with why it is live or dead."""
    while after < until:
        yield from agent.explain(after=after, until=min(after + PAGE, until), at=at)
        after += PAGE


def followed(agent: Agent, after: int) -> Iterator[Told]:
    """The events after a position as they are committed, without end, each with why it is live or inert."""
    for event in agent.follow(after):
        yield from agent.explain(after=event.seq - 1, until=event.seq, at=event.seq)


def told_live(agent: Agent, after: int, until: int, at: int | None = None) -> Iterator[Told]:
    """The same for live events only; dead ones are not even read."""
    for low, high in find_live_ranges(agent, until if at is None else at):
        for one in told(agent, max(low - 1, after), min(high, until), at):
            if one[1].live:
                yield one


def find_live_ranges(agent: Agent, at: int) -> list[tuple[int, int]]:
    """Return the live positions at a position as ranges (first, last), oldest first. They include clears and
    inert events."""
    ranges = []
    high = at
    for move in reversed(agent.moves()):
        if move.seq <= high:
            ranges.append((move.seq, high))
            high = move.base
    if high > 0:
        ranges.append((1, high))
    return ranges[::-1]
