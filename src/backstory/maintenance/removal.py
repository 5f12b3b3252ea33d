"""Deletes agents.

If others were forked or spawned from a deleted agent, its row stays, without name, key and details,
and so do the events that the others inherit. Everything else is removed.
"""

from collections.abc import Sequence
from typing import NamedTuple

from backstory.log.arguments import check_author, is_derived_from_key
from backstory.storage.agent_trees import AgentTree, list_session, sort_parents_first
from backstory.storage.erase import build_removal
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Reader,
    RemovalAction,
    RemovalRecord,
    Transaction,
)


class RemovedAgent(NamedTuple):
    """An agent that was removed."""

    id: str
    session: str
    name: str
    key: str | None
    events: int  # how many of its own events were removed
    kept: int  # how many of its own events stay, because a remaining agent inherits them


class Removed(NamedTuple):
    """The agents and events that were removed, or would be."""

    agents: tuple[RemovedAgent, ...]
    events: int  # all events that were removed, including those of agents deleted earlier
    erased: int = 0  # events that were erased: still there, without their text
    skipped: tuple[str, ...] = ()  # sessions that did not expire, because they were in use


NOTHING_REMOVED = Removed((), 0)


def delete_agent(
    backend: Backend,
    agent: AgentRecord,
    *,
    below: bool = False,
    dry_run: bool = False,
    by: str | None = None,
) -> Removed:
    """Delete an agent and, with `below`, all agents that come from it."""
    author = check_author(by)
    if dry_run:
        return _plan_deletion(backend, agent, below).report()
    with backend.begin(sessions=[agent.session]) as transaction:
        plan = _plan_deletion(transaction, agent, below)
        plan.carry_out(transaction, "delete", author)
        return plan.report()


class RemovalPlan:
    """The effect of deleting some agents of one session."""

    def __init__(self, agents: Sequence[AgentRecord], deleted: set[str]) -> None:
        self.agents = agents
        self._deleted = deleted
        # For each agent that is deleted, now or earlier: the last of its own events that a
        # remaining agent inherits (its fork position, if there is none), or None if nobody needs
        # its row.
        self._keep: dict[str, int | None] = {}
        self._children: dict[str, list[AgentRecord]] = {}  # rows that stay, by their parents
        self._children_first = list(reversed(sort_parents_first(agents)))
        for agent in self._children_first:
            self._decide(agent)

    def _decide(self, agent: AgentRecord) -> None:
        if agent.id in self._deleted or agent.deleted_us is not None:
            keep = self._find_last_needed(agent)
            self._keep[agent.id] = keep
            if keep is None:
                return
        if agent.parent is not None:
            siblings = self._children.setdefault(agent.parent, [])
            siblings.append(agent)

    def _find_last_needed(self, agent: AgentRecord) -> int | None:
        children = self._children.get(agent.id, [])
        # The next agent with a key has the id of the next generation, and is found through the row
        # of the agent that was deleted earlier.
        leads_to_next = agent.id not in self._deleted and is_derived_from_key(agent.id)
        if not children and not leads_to_next:
            return None
        last = agent.fork_seq
        for child in children:
            if self._inherits(child):
                last = max(last, child.fork_seq)
        return last

    def _inherits(self, child: AgentRecord) -> bool:
        """Return True if a remaining history goes through the child to its parent."""
        if child.id not in self._keep:
            return True
        keep = self._keep[child.id]
        return keep is not None and keep > child.fork_seq

    def list_deleted(self) -> list[AgentRecord]:
        """Return the agents that are deleted."""
        return [agent for agent in self.agents if agent.id in self._deleted]

    def carry_out(
        self, transaction: Transaction, action: RemovalAction, author: str | None
    ) -> None:
        """Remove the rows, children before their parents, and record that."""
        now_us = transaction.read_clock()
        for agent in self._children_first:
            if agent.id not in self._keep:
                continue
            keep = self._keep[agent.id]
            is_unchanged = agent.deleted_us is not None and keep == agent.head
            if not is_unchanged:
                transaction.remove_agent(agent, keep, now_us)
        transaction.record_removals(self._build_records(action, author, now_us))

    def _build_records(
        self, action: RemovalAction, author: str | None, now_us: int
    ) -> list[RemovalRecord]:
        """Return a record for each agent that is deleted, and for each agent deleted earlier whose
        last events go now."""
        records = []
        for agent in self.agents:
            events = self._count_removed(agent)
            if events > 0 or agent.id in self._deleted:
                records.append(build_removal(agent, now_us, action, events, author))
        return records

    def _count_removed(self, agent: AgentRecord) -> int:
        """Return how many of an agent's own events the plan removes."""
        if agent.id not in self._keep:
            return 0
        keep = self._keep[agent.id]
        last = agent.fork_seq if keep is None else keep
        return agent.head - last

    def report(self) -> Removed:
        """Return the agents and events that the plan removes."""
        removed = []
        total = 0
        for agent in self.agents:
            events = self._count_removed(agent)
            total += events
            if agent.id in self._deleted:
                report = RemovedAgent(
                    id=agent.id,
                    session=agent.session,
                    name=agent.name,
                    key=agent.key,
                    events=events,
                    kept=agent.head - agent.fork_seq - events,
                )
                removed.append(report)
        return Removed(tuple(removed), total)


def _plan_deletion(reader: Reader, agent: AgentRecord, below: bool) -> RemovalPlan:
    agents = list_session(reader, agent.session)
    tree = AgentTree(agents)
    tree.check_agent(agent)
    deleted = {agent.id}
    if below:
        deleted = _find_descendants(agent.id, agents)
    return RemovalPlan(agents, deleted)


def _find_descendants(id: str, agents: Sequence[AgentRecord]) -> set[str]:
    """Return the agent, its forks and sub-agents, theirs, and so on, without those that were
    deleted earlier."""
    found = {id}
    living = set()
    for agent in sort_parents_first(agents):
        if agent.parent in found:
            found.add(agent.id)
        if agent.deleted_us is None:
            living.add(agent.id)
    return found & living
