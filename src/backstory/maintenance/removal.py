"""Deletes agents, and sessions that nobody has written to for a long time.

If others were forked or spawned from a deleted agent, its row stays, without name, key and details,
and so do the events that the others inherit. Everything else is removed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backstory.storage.ownership import AgentTree, list_session, sort_parents_first
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Reader,
    Transaction,
)
from backstory.storage.write import read_clock


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


def delete_agent(
    backend: Backend, agent: AgentRecord, *, below: bool = False, dry_run: bool = False
) -> Removed:
    """Delete an agent and, with `below`, all agents that come from it."""
    if dry_run:
        return _plan_deletion(backend, agent, below).report()
    with backend.begin(sessions=[agent.session]) as transaction:
        plan = _plan_deletion(transaction, agent, below)
        plan.carry_out(transaction)
        return plan.report()


def expire_sessions(
    backend: Backend, before_us: int, *, prefix: str = "", dry_run: bool = True
) -> Removed:
    """Delete the sessions last written to before a time whose root has a key that begins with
    `prefix`. A session that is written to in the meantime stays."""
    reports = []
    for session in _find_idle_sessions(backend.list_agents(), before_us, prefix):
        if dry_run:
            reports.append(_plan_expiry(backend, session).report())
        else:
            reports.append(_expire_session(backend, session, before_us))
    agents: list[RemovedAgent] = []
    for report in reports:
        agents.extend(report.agents)
    return Removed(tuple(agents), sum(report.events for report in reports))


def _expire_session(backend: Backend, session: str, before_us: int) -> Removed:
    with backend.begin(sessions=[session]) as transaction:
        plan = _plan_expiry(transaction, session)
        if not _find_idle_sessions(plan.agents, before_us, ""):
            return Removed((), 0)
        plan.carry_out(transaction)
        return plan.report()


def _find_idle_sessions(agents: Iterable[AgentRecord], before_us: int, prefix: str) -> list[str]:
    """Return the sessions whose newest event is older than a time and whose root's key begins with
    `prefix`."""
    newest: dict[str, int] = {}
    keys: dict[str, str] = {}
    for agent in agents:
        if agent.deleted_us is not None:
            continue
        updated_us = newest.get(agent.session, 0)
        newest[agent.session] = max(updated_us, agent.updated_us)
        if agent.id == agent.session:
            keys[agent.id] = agent.key or ""
    idle = []
    for session, updated_us in newest.items():
        if updated_us < before_us and keys.get(session, "").startswith(prefix):
            idle.append(session)
    return idle


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
        leads_to_next = agent.id not in self._deleted and _is_derived_from_key(agent.id)
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

    def carry_out(self, transaction: Transaction) -> None:
        """Remove the rows, children before their parents."""
        now_us = read_clock()
        for agent in self._children_first:
            if agent.id not in self._keep:
                continue
            keep = self._keep[agent.id]
            is_unchanged = agent.deleted_us is not None and keep == agent.head
            if not is_unchanged:
                transaction.remove_agent(agent, keep, now_us)

    def report(self) -> Removed:
        """Return the agents and events that the plan removes."""
        removed = []
        events = 0
        for agent in self.agents:
            if agent.id not in self._keep:
                continue
            keep = self._keep[agent.id]
            last = agent.fork_seq if keep is None else keep
            events += agent.head - last
            if agent.id in self._deleted:
                report = RemovedAgent(
                    id=agent.id,
                    session=agent.session,
                    name=agent.name,
                    key=agent.key,
                    events=agent.head - last,
                    kept=last - agent.fork_seq,
                )
                removed.append(report)
        return Removed(tuple(removed), events)


def _plan_deletion(reader: Reader, agent: AgentRecord, below: bool) -> RemovalPlan:
    agents = list_session(reader, agent.session)
    tree = AgentTree(agents)
    tree.check_agent(agent)
    deleted = {agent.id}
    if below:
        deleted = _find_descendants(agent.id, agents)
    return RemovalPlan(agents, deleted)


def _plan_expiry(reader: Reader, session: str) -> RemovalPlan:
    agents = list_session(reader, session)
    living = {agent.id for agent in agents if agent.deleted_us is None}
    return RemovalPlan(agents, living)


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


def _is_derived_from_key(id: str) -> bool:
    return id[14] == "5"  # the version of the UUID: `ids.derive_id` makes version 5
