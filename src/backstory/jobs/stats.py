"""How much there is: events live and dead, and bytes, counted by the database; on request, tokens.

Without tokens no text is read. With them every context is, because there is one way to count tokens.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.core.kinds import ALWAYS_SHOWN, MOVES
from backstory.storage.log import Log
from backstory.storage.protocols import AgentRecord, Census, Piece, Wanted


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
    them, or where that was deleted, of any agent that inherits them."""

    sessions: int
    agents: list[AgentStats]  # the largest first
    events: int  # of all agents, and those that forks of deleted ones still need
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
    for census in (one for own in owned.values() for one in own):
        kinds[census.kind] = kinds.get(census.kind, 0) + census.events
    records = log.backend.agents(Wanted(deleted=True))
    inherited = _Inherited(record for record in records if record.deleted_us is not None)
    counted = [
        _agent_stats(log, Agent(log, record), owned.get(record.id, []), inherited, tokens=tokens)
        for record in records
        if record.deleted_us is None
    ]
    counted.sort(key=lambda one: (-one.bytes, one.agent.id))
    events = sum(kinds.values())
    live = sum(one.live for one in counted) + inherited.live(log)
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


class _Inherited:
    """What is left of deleted agents, and which of it is in the contexts of those that inherit it."""

    def __init__(self, deleted: Iterable[AgentRecord]) -> None:
        self._owners = {(record.session, record.pk): record for record in deleted}
        self._seen: dict[tuple[str, Any], set[int]] = {}

    def add(self, session: str, pieces: Iterable[Piece]) -> None:
        """Note the live pieces of an agent."""
        for piece in pieces:
            if (session, piece.owner) in self._owners:
                self._seen.setdefault((session, piece.owner), set()).update(range(piece.low, piece.high + 1))

    def live(self, log: Log) -> int:
        """How many of the events are in a context."""
        counted = (
            log.backend.census(self._owners[owner], _runs(owner[1], sorted(seen)))
            for owner, seen in self._seen.items()
        )
        return sum(map(_shown, counted))


def _runs(owner: Any, positions: list[int]) -> list[Piece]:
    """Positions as pieces."""
    pieces: list[Piece] = []
    for position in positions:
        if pieces and pieces[-1].high == position - 1:
            pieces[-1] = pieces[-1]._replace(high=position)
        else:
            pieces.append(Piece(owner, position, position))
    return pieces


def _agent_stats(
    log: Log, agent: Agent, own: list[Census], inherited: _Inherited, *, tokens: bool
) -> AgentStats:
    """The numbers of one agent. Only one that inherits, or that ever moved, has to be looked at by itself:
    of all others, everything is live."""
    record = agent.snapshot
    mine, rest = own, list[Census]()
    if agent.fork_seq or any(census.with_base for census in own):
        walked = log.walk(record).pieces
        inherited.add(record.session, walked)
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
