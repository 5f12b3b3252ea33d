"""Statistics of a store: live and dead events and bytes and, on request, tokens.

The database counts events and bytes. Live events follow from the agents and the few events that
have a base or are not part of a context, by arithmetic: the events that a fork inherits are counted
once, for its parent, so a long chain of forks costs no more than as many separate agents. Only
tokens need the texts.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import NamedTuple

from backstory.agent import Agent
from backstory.log.events import StoredRow
from backstory.log.kinds import ALWAYS_SHOWN, TARGETED_KINDS
from backstory.storage.agent_errors import build_lineage_error
from backstory.storage.agent_trees import AgentTree
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend, EventCount, EventFilter


class AgentStats(NamedTuple):
    """One agent in numbers."""

    agent: Agent
    events: int  # that it wrote itself
    live: int  # of these: in its context now
    bytes: int  # of these: their content and data
    context: int  # events in its context, inherited ones included
    tokens: int | None  # of its context, if they were asked for


class Stats(NamedTuple):
    """A store in numbers. Dead events are no longer in the context of the agent that wrote them or,
    if that was deleted, of any agent that inherits them."""

    sessions: int
    agents: list[AgentStats]  # the largest first
    events: int  # of all agents, and of deleted ones if forks still need them
    live: int
    dead: int
    bytes: int  # of all content and data
    size: int  # of the whole store, indexes included
    tokens: int | None  # of all contexts together, if they were asked for
    kinds: dict[str, int]


def compute_stats(backend: Backend, *, tokens: bool = False) -> Stats:
    """Count a store; with `tokens`, also the tokens of all contexts."""
    contexts = ContextCounter(backend)
    counts = backend.count_events()  # later, so that these are not fewer than the live ones
    agents = _count_agents(backend, counts, contexts, tokens)
    events = sum(count.events for count in counts)
    live = sum(agent.live for agent in agents) + contexts.count_live_of_deleted()
    all_tokens = None
    if tokens:
        all_tokens = sum(agent.tokens or 0 for agent in agents)
    return Stats(
        sessions=len({agent.agent.session for agent in agents}),
        agents=agents,
        events=events,
        live=live,
        dead=max(events - live, 0),  # agents may have been deleted in between
        bytes=sum(count.bytes for count in counts),
        size=backend.measure_size(),
        tokens=all_tokens,
        kinds=_count_kinds(counts),
    )


def _count_agents(
    backend: Backend, counts: list[EventCount], contexts: "ContextCounter", tokens: bool
) -> list[AgentStats]:
    events: Counter[str] = Counter()
    bytes: Counter[str] = Counter()
    for count in counts:
        events[count.agent_id] += count.events
        bytes[count.agent_id] += count.bytes
    agents = []
    for record in contexts.list_agents():
        agent = Agent(backend, record)
        stats = AgentStats(
            agent=agent,
            events=events[record.id],
            live=contexts.count_own(record, record.head).events,
            bytes=bytes[record.id],
            context=contexts.count_context(record),
            tokens=int(agent.conversation().tokens()) if tokens else None,
        )
        agents.append(stats)
    agents.sort(key=lambda stats: (-stats.bytes, stats.agent.id))
    return agents


def _count_kinds(counts: list[EventCount]) -> dict[str, int]:
    """Return how many events of each kind there are, the most frequent first."""
    kinds: Counter[str] = Counter()
    for count in counts:
        kinds[count.kind] += count.events
    by_name = sorted(kinds.items())
    return dict(sorted(by_name, key=lambda item: -item[1]))


class OwnEvents:
    """The events of one agent that have a base, or are never part of a context."""

    def __init__(self) -> None:
        self._moves: list[int] = []
        self._bases: list[int] = []
        self._hidden: list[int] = []

    def add(self, row: StoredRow) -> None:
        """Add the next event."""
        is_shown = row.kind in ALWAYS_SHOWN
        if row.base is not None:
            self._moves.append(row.seq)
            self._bases.append(row.base)
            if row.kind in TARGETED_KINDS:
                is_shown = True
        if not is_shown:
            self._hidden.append(row.seq)

    def find_start(self, at: int, first: int) -> tuple[int, int]:
        """Return the start of the live piece that ends at a position, and the position at which the
        context continues before it. The agent's own events begin at `first`."""
        newest = bisect_right(self._moves, at) - 1
        if newest < 0:
            return first, first - 1
        return self._moves[newest], self._bases[newest]

    def count_shown(self, low: int, high: int) -> int:
        """Return how many events of a range are part of a context."""
        hidden_before = bisect_left(self._hidden, low)
        hidden = bisect_right(self._hidden, high) - hidden_before
        return high - low + 1 - hidden


PLAIN_EVENTS = OwnEvents()  # of most agents


class LiveCount(NamedTuple):
    """The number of an agent's own events that are live, and the position in its parent where the
    context continues (0: it does not)."""

    events: int
    parent_seq: int


class ContextCounter:
    """Counts the events in the contexts of all agents of a store."""

    def __init__(self, backend: Backend) -> None:
        everyone = AgentQuery(include_deleted=True)
        agents = backend.list_agents(everyone)
        self._tree = AgentTree(agents)
        self._own: dict[str, OwnEvents] = {}
        moves = EventFilter(irregular_only=True)
        for id, row in backend.read_owned(everyone, moves):
            own = self._own.setdefault(id, OwnEvents())
            own.add(row)
        # The ranges of each deleted agent that are in some context.
        self._live_of_deleted: dict[str, set[tuple[int, int]]] = {}
        # The size of an agent's context at a position.
        self._sizes: dict[tuple[str, int], int] = {}

    def list_agents(self) -> list[AgentRecord]:
        """Return the agents that are not deleted."""
        return [agent for agent in self._tree.agents.values() if agent.deleted_us is None]

    def count_own(self, agent: AgentRecord, at: int) -> LiveCount:
        """Count the agent's own events that are live at a position. Raises Corrupt."""
        own = self._own.get(agent.id, PLAIN_EVENTS)
        first = agent.fork_seq + 1
        count = 0
        while at >= first:
            low, base = own.find_start(at, first)
            if base >= low:
                raise build_lineage_error(agent, at)
            count += own.count_shown(low, at)
            if agent.deleted_us is not None:
                ranges = self._live_of_deleted.setdefault(agent.id, set())
                ranges.add((low, at))
            at = base
        return LiveCount(count, at)

    def count_context(self, agent: AgentRecord) -> int:
        """Count the events in the agent's context. Raises Corrupt if its lineage is broken."""
        at = agent.head
        size = 0
        steps = []  # from the agent up to an ancestor whose size is known, or to the beginning
        for owner, _ in self._tree.list_owners(agent):
            step = (owner.id, at)
            if step in self._sizes:
                size = self._sizes[step]
                break
            own = self.count_own(owner, at)
            steps.append((step, own.events))
            at = own.parent_seq
            if at == 0:
                break
        for step, events in reversed(steps):
            size += events
            self._sizes[step] = size
        return size

    def count_live_of_deleted(self) -> int:
        """Count the events of deleted agents that are in the contexts counted so far."""
        count = 0
        for id, ranges in self._live_of_deleted.items():
            own = self._own.get(id, PLAIN_EVENTS)
            for low, high in _merge_ranges(ranges):
                count += own.count_shown(low, high)
        return count


def _merge_ranges(ranges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same positions in ranges that do not overlap."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            first, last = merged.pop()
            low = first
            high = max(high, last)
        merged.append((low, high))
    return merged
