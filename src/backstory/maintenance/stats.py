"""Statistics of a store: live and dead events and bytes, counted by the database, and, on request, tokens.
Without tokens, no text is read. With them, every context is, because there is one way to count tokens.
"""

from typing import NamedTuple

from backstory.agent import Agent
from backstory.maintenance.liveness import Liveness
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
    """A store in numbers. Dead events are no longer in the context of the agent that wrote them or, if that
    was deleted, of any agent that inherits them."""

    sessions: int
    agents: list[AgentStats]  # the largest first
    events: int  # of all agents, and of deleted ones if forks still need them
    live: int
    dead: int
    bytes: int  # of all content and data
    size: int  # of the whole store, indexes included
    tokens: int | None  # of all contexts together, if they were asked for
    kinds: dict[str, int]


def stats(log: Log, *, tokens: bool = False) -> Stats:
    """Count a whole store; with `tokens`, also the tokens of all contexts."""
    kinds: dict[str, int] = {}
    owned: dict[str, list[Census]] = {}
    for one in log.backend.censuses():
        owned.setdefault(one.agent, []).append(
            Census(one.kind, one.events, one.with_base, one.bytes)
        )
    for census in (one for own in owned.values() for one in own):
        kinds[census.kind] = kinds.get(census.kind, 0) + census.events
    liveness, counted = Liveness(log.backend), []
    for record in liveness.agents.values():
        if record.deleted_us is None:
            live, context = liveness.of(record)
            own = owned.get(record.id, [])
            counted.append(_agent_stats(Agent(log, record), own, live, context, tokens=tokens))
    counted.sort(key=lambda one: (-one.bytes, one.agent.id))
    events = sum(kinds.values())
    live = sum(one.live for one in counted) + liveness.of_deleted()
    return Stats(
        sessions=len({one.agent.session for one in counted}),
        agents=counted,
        events=events,
        live=live,
        dead=events - live,
        bytes=sum(census.bytes for own in owned.values() for census in own),
        size=log.backend.size(),
        tokens=sum(one.tokens or 0 for one in counted) if tokens else None,
        kinds=dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
    )


def _agent_stats(
    agent: Agent, own: list[Census], live: int, context: int, *, tokens: bool
) -> AgentStats:
    return AgentStats(
        agent=agent,
        events=sum(census.events for census in own),
        live=live,
        bytes=sum(census.bytes for census in own),
        context=context,
        tokens=int(agent.conversation().tokens()) if tokens else None,
    )
