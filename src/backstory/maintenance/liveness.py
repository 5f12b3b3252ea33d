"""Counts the events in each agent's context, for all agents of a store at once.

It reads the agents, and the few events that have a base or are not part of a context; the rest is arithmetic.
What a fork inherits is counted once, for its parent, so a deep chain of forks costs no more than as many
separate agents.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from backstory.log.kinds import ALWAYS_SHOWN, MOVES
from backstory.storage.protocols import AgentRecord, Agents, Wanted, broken_lineage
from backstory.storage.survey import Survey


class Surveyed(Agents, Survey, Protocol):
    """What can be asked of all agents at once."""


class Live(NamedTuple):
    """Of one agent."""

    own: int  # events that it wrote itself and that are in its context
    context: int  # all events in its context


class _Owned:
    """The irregular events of one agent."""

    def __init__(self) -> None:
        self.jumps: list[int] = []
        self.bases: list[int] = []
        self.hidden: list[int] = []

    def shown(self, low: int, high: int) -> int:
        """How many events of a range are part of a context."""
        return high - low + 1 - (bisect_right(self.hidden, high) - bisect_left(self.hidden, low))


_REGULAR = _Owned()  # what most agents have


class Liveness:
    """The contexts of all agents, counted."""

    def __init__(self, backend: Surveyed) -> None:
        self.agents = {record.id: record for record in backend.agents(Wanted(deleted=True))}
        self._owned: dict[str, _Owned] = {}
        self._seen: dict[
            str, set[tuple[int, int]]
        ] = {}  # for each deleted agent, what is in some context
        self._known: dict[tuple[str, int], int] = {}  # the size of an agent's context at a position
        for agent, seq, kind, base in backend.irregular(ALWAYS_SHOWN):
            owned = self._owned.get(agent) or self._owned.setdefault(agent, _Owned())
            if base is not None:
                owned.jumps.append(seq)
                owned.bases.append(base)
            if base is None or kind not in ALWAYS_SHOWN | MOVES:
                owned.hidden.append(seq)

    def of(self, agent: AgentRecord) -> Live:
        """What is live of an agent. Raises Corrupt where its lineage is broken."""
        own, _ = self._own(agent, agent.head)
        return Live(own, self._context(agent))

    def of_deleted(self) -> int:
        """How many events of deleted agents are in the contexts of those that were asked for."""
        return sum(
            self._owned.get(id, _REGULAR).shown(low, high)
            for id, seen in self._seen.items()
            for low, high in _united(seen)
        )

    def _context(self, agent: AgentRecord) -> int:
        """Go up the ancestry until something is known, then back."""
        way: dict[tuple[str, int], int] = {}
        here, at = agent, agent.head
        while at and (here.id, at) not in self._known:
            if (here.id, at) in way:
                raise broken_lineage(agent, at)
            own, rest = self._own(here, at)
            way[here.id, at] = own
            if rest and here.parent not in self.agents:
                raise broken_lineage(agent, rest)
            here, at = self.agents.get(here.parent or "", here), rest
        total = self._known[here.id, at] if at else 0
        for place, own in reversed(way.items()):
            total += own
            self._known[place] = total
        return total

    def _own(self, agent: AgentRecord, at: int) -> tuple[int, int]:
        """How many of the agent's own events are live at a position, and where the context continues in its
        parent (0: nowhere)."""
        owned, count = self._owned.get(agent.id, _REGULAR), 0
        while at > agent.fork_seq:
            place = bisect_right(owned.jumps, at) - 1
            if place < 0:
                return count + self._shown(agent, agent.fork_seq + 1, at), agent.fork_seq
            jump, base = owned.jumps[place], owned.bases[place]
            if base >= jump:
                raise broken_lineage(agent, at)
            count, at = count + self._shown(agent, jump, at), base
        return count, at

    def _shown(self, agent: AgentRecord, low: int, high: int) -> int:
        """How many events of a live range are part of a context."""
        if agent.deleted_us is not None:
            self._seen.setdefault(agent.id, set()).add((low, high))
        return self._owned.get(agent.id, _REGULAR).shown(low, high)


def _united(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same positions in ranges that do not overlap."""
    united: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if united and low <= united[-1][1]:
            united[-1] = united[-1][0], max(high, united[-1][1])
        else:
            united.append((low, high))
    return united
