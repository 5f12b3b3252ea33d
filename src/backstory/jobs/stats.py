"""How much there is: events live and dead, and bytes, counted by the database; on request, tokens.

Without tokens no text is read. With them every context is, because there is one way to count tokens.
"""

from collections.abc import Iterable
from typing import NamedTuple

from backstory.agent import Agent
from backstory.core.kinds import ALWAYS_SHOWN, MOVES
from backstory.storage.log import Log
from backstory.storage.protocols import Census


class AgentStats(NamedTuple):
    """One agent in numbers."""

    agent: Agent
    events: int  # that it wrote itself
    live: int  # of these: in its context now
    bytes: int  # of these: their content and data
    context: int  # events in its context, inherited ones included
    tokens: int | None  # of its context, if they were asked for


class Stats(NamedTuple):
    """A store in numbers; dead events are those that are no longer in the context of the agent that wrote
    them."""

    sessions: int
    agents: list[AgentStats]  # the largest first
    events: int
    live: int
    dead: int
    bytes: int  # of all content and data
    size: int  # of the store where it is kept, indexes and all
    tokens: int | None  # of all contexts together, if they were asked for
    kinds: dict[str, int]


def stats(log: Log, *, tokens: bool = False) -> Stats:
    """Count a whole store; with `tokens`, what its contexts are for a model, too."""
    kinds: dict[str, int] = {}
    owned: dict[str, list[Census]] = {}
    for one in log.backend.censuses():
        owned.setdefault(one.agent, []).append(Census(one.kind, one.events, one.with_base, one.bytes))
    counted = []
    for record in log.backend.agents():
        own = owned.get(record.id, [])
        for census in own:
            kinds[census.kind] = kinds.get(census.kind, 0) + census.events
        counted.append(_agent_stats(log, Agent(log, record), own, tokens=tokens))
    counted.sort(key=lambda one: (-one.bytes, one.agent.id))
    events, live = sum(one.events for one in counted), sum(one.live for one in counted)
    return Stats(
        sessions=len({one.agent.session for one in counted}),
        agents=counted,
        events=events,
        live=live,
        dead=events - live,
        bytes=sum(one.bytes for one in counted),
        size=log.backend.size(),
        tokens=sum(one.tokens or 0 for one in counted) if tokens else None,
        kinds=dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
    )


def _agent_stats(log: Log, agent: Agent, own: list[Census], *, tokens: bool) -> AgentStats:
    """The numbers of one agent. Only one that inherits, or that ever moved, has to be looked at by itself:
    of all others, everything is live."""
    record = agent.snapshot
    mine, rest = own, list[Census]()
    if agent.fork_seq or any(census.with_base for census in own):
        walked = log.walk(record).pieces
        mine = log.backend.census(record, [piece for piece in walked if piece.owner == record.pk])
        rest = log.backend.census(record, [piece for piece in walked if piece.owner != record.pk])
    return AgentStats(
        agent=agent,
        events=sum(census.events for census in own),
        live=_shown(mine),
        bytes=sum(census.bytes for census in own),
        context=_shown(mine) + _shown(rest),
        tokens=int(agent.conversation().tokens()) if tokens else None,
    )


def _shown(counted: Iterable[Census]) -> int:
    """Of events in live ranges, how many are part of the context."""
    return sum(
        census.events if census.kind in ALWAYS_SHOWN else census.with_base
        for census in counted
        if census.kind in ALWAYS_SHOWN or census.kind in MOVES
    )
