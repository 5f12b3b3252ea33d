"""Deleting agents: which rows go, and which stay because a remaining agent inherits from them.

If others were forked or spawned from a deleted agent, its row stays, without name, key and details (`bury`),
and so do the events that the others inherit. Everything else is removed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backstory.maintenance.verify import parents_first
from backstory.storage.log import now
from backstory.storage.protocols import AgentRecord, Backend, Removal, Wanted, lost


class RemovedAgent(NamedTuple):
    """An agent that was removed."""

    id: str
    session: str
    name: str
    key: str | None
    events: int  # how many of its own events were removed
    kept: int  # how many of its own events stay, because a remaining agent inherits them


class Removed(NamedTuple):
    """What was removed, or would be."""

    agents: tuple[RemovedAgent, ...]
    events: int  # all events that were removed, including those of agents deleted earlier
    erased: int = 0  # events that were erased: still there, without their text


def delete(
    backend: Backend, agent: AgentRecord, *, below: bool = False, dry_run: bool = False
) -> Removed:
    """Delete an agent; `below` also deletes its forks and sub-agents."""

    def doomed(agents: Sequence[AgentRecord]) -> set[str]:
        here = {record.id: record for record in agents if record.deleted_us is None}
        if agent.id not in here or here[agent.id].created_us != agent.created_us:
            raise lost(agent)
        return {agent.id, *(_below(agent.id, agents) if below else ())} & here.keys()

    if dry_run:
        agents = backend.agents(Wanted(session=agent.session, deleted=True))
        return _removed(agents, doomed(agents))
    with backend.removal() as removal:
        agents = removal.held(agent.session)
        return _remove(removal, agents, doomed(agents))


def expire(backend: Backend, before_us: int, *, prefix: str = "", dry_run: bool = True) -> Removed:
    """Delete the sessions last written to before a time. A session that is written to in the meantime
    stays."""
    removed: list[Removed] = []
    for session in _idle(backend.agents(), before_us, prefix):
        if dry_run:
            agents = backend.agents(Wanted(session=session, deleted=True))
            removed.append(_removed(agents, _live(agents)))
            continue
        with backend.removal() as removal:
            agents = removal.held(session)
            if _idle(agents, before_us, ""):
                removed.append(_remove(removal, agents, _live(agents)))
    return Removed(
        tuple(agent for one in removed for agent in one.agents), sum(one.events for one in removed)
    )


def _idle(agents: Iterable[AgentRecord], before_us: int, prefix: str) -> list[str]:
    """The sessions whose newest event is older than a time and whose root's key begins like this."""
    newest: dict[str, int] = {}
    keys: dict[str, str] = {}
    for agent in agents:
        if agent.deleted_us is None:
            newest[agent.session] = max(newest.get(agent.session, 0), agent.updated_us)
            if agent.id == agent.session:
                keys[agent.id] = agent.key or ""
    return [
        id for id, at in newest.items() if at < before_us and keys.get(id, "").startswith(prefix)
    ]


def _live(agents: Iterable[AgentRecord]) -> set[str]:
    return {agent.id for agent in agents if agent.deleted_us is None}


def _below(id: str, agents: Sequence[AgentRecord]) -> set[str]:
    """All agents below an agent: its forks and sub-agents, theirs, and so on."""
    found = {id}
    for agent in parents_first({agent.id: agent for agent in agents}):
        if agent.parent in found:
            found.add(agent.id)
    return found


def kept_events(agents: Sequence[AgentRecord], doomed: set[str]) -> dict[str, int | None]:
    """For each deleted agent, the last of its own events that a remaining agent inherits (its fork position
    if there is none), or None if not even its row is needed."""
    gone = doomed | {agent.id for agent in agents if agent.deleted_us is not None}
    last: dict[str, int | None] = {}
    children: dict[str, list[AgentRecord]] = {}
    for agent in reversed(parents_first({agent.id: agent for agent in agents})):
        if agent.id in gone:
            staying = [
                child for child in children.get(agent.id, ()) if last.get(child.id, 0) is not None
            ]
            inherited = [child.fork_seq for child in staying if _inherits(child, gone, last)]
            needed = bool(staying) or (agent.id not in doomed and _is_keyed(agent.id))
            last[agent.id] = max([agent.fork_seq, *inherited]) if needed else None
        children.setdefault(agent.parent or "", []).append(agent)
    return last


def _inherits(child: AgentRecord, gone: set[str], last: dict[str, int | None]) -> bool:
    """Whether a child, deleted or not, still has a history that goes through its parent."""
    return child.id not in gone or (last[child.id] or 0) > child.fork_seq


def _is_keyed(id: str) -> bool:
    """Whether an id was derived from a key. The next agent with that key has the id of the next generation
    and is found through this row, so the row must stay."""
    return id[14] == "5"  # the version of the UUID


def _removed(agents: Sequence[AgentRecord], doomed: set[str]) -> Removed:
    last = kept_events(agents, doomed)
    gone = {agent.id: agent.head - _end(agent, last) for agent in agents if agent.id in last}
    removed = (
        RemovedAgent(
            agent.id,
            agent.session,
            agent.name,
            agent.key,
            gone[agent.id],
            agent.head - agent.fork_seq - gone[agent.id],
        )
        for agent in agents
        if agent.id in doomed
    )
    return Removed(tuple(removed), sum(gone.values()))


def _end(agent: AgentRecord, last: dict[str, int | None]) -> int:
    kept = last[agent.id]
    return agent.fork_seq if kept is None else kept


def _remove(removal: Removal, agents: Sequence[AgentRecord], doomed: set[str]) -> Removed:
    at = now()
    last = kept_events(agents, doomed)
    for agent in agents:
        if agent.id in last and _end(agent, last) < agent.head:
            removal.cut(agent, _end(agent, last))
        if last.get(agent.id) is not None:
            removal.bury(agent, at, inherits=_end(agent, last) > agent.fork_seq)
    removal.remove([agent for agent in agents if agent.id in last and last[agent.id] is None], at)
    return _removed(agents, doomed)
