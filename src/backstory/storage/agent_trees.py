"""The agents of a session as a tree: who owns a position, who inherits it, and the rows that an
agent owns."""

from collections.abc import Iterable, Iterator

from backstory.log.events import StoredRow
from backstory.storage.agent_errors import build_deletion_error, build_lineage_error
from backstory.storage.protocol import AgentQuery, AgentRecord, Reader

ROWS_AT_ONCE = 2_000  # rows read at a time


def list_session(reader: Reader, session: str) -> list[AgentRecord]:
    """Return all agents of a session, including the deleted ones that others need."""
    return reader.list_agents(AgentQuery(session=session, include_deleted=True))


def group_by_session(agents: Iterable[AgentRecord]) -> dict[str, list[AgentRecord]]:
    """Return the agents of each session, in their order."""
    sessions: dict[str, list[AgentRecord]] = {}
    for agent in agents:
        sessions.setdefault(agent.session, []).append(agent)
    return sessions


def find_root(agents: Iterable[AgentRecord]) -> AgentRecord | None:
    """Return the root of a session, given all its agents. None if it was deleted."""
    for agent in agents:
        if agent.id == agent.session:
            return agent
    return None


def has_key_prefix(agents: Iterable[AgentRecord], prefix: str) -> bool:
    """Return True if the key of a session's root begins with `prefix`, given all its agents."""
    root = find_root(agents)
    key = None if root is None else root.key
    return (key or "").startswith(prefix)


class AgentTree:
    """Agents of one or more sessions, oldest first, and the lineages that connect them."""

    def __init__(self, agents: Iterable[AgentRecord]) -> None:
        self.agents = {agent.id: agent for agent in agents}
        self._forks: dict[str, list[AgentRecord]] = {}
        for agent in self.agents.values():
            if agent.parent is not None and agent.fork_seq:
                siblings = self._forks.setdefault(agent.parent, [])
                siblings.append(agent)

    def check_agent(self, agent: AgentRecord) -> AgentRecord:
        """Return the agent as it is now. Raises AgentNotFound if it was deleted."""
        current = self.agents.get(agent.id)
        if current is None or current.deleted_us is not None:
            raise build_deletion_error(agent)
        if current.pk != agent.pk:  # another agent that was created with the same key
            raise build_deletion_error(agent)
        return current

    def list_owners(self, agent: AgentRecord) -> Iterator[tuple[AgentRecord, int]]:
        """Yield the agent and the ancestors that it inherits from, each with the last of its
        positions that the agent sees. Raises Corrupt."""
        owner, last = agent, agent.head
        while True:
            yield owner, last
            if owner.fork_seq == 0:
                return
            parent = self.agents.get(owner.parent or "")
            # A parent's own fork position is earlier, except in a damaged store, whose ancestry may
            # be a circle.
            if parent is None or parent.fork_seq >= owner.fork_seq:
                raise build_lineage_error(agent, owner.fork_seq)
            owner, last = parent, owner.fork_seq

    def find_owner(self, agent: AgentRecord, position: int) -> AgentRecord:
        """Return the agent that owns a position of `agent`'s lineage. Position 0 belongs to the
        first agent of a lineage. Raises Corrupt."""
        owner = agent
        for owner, _ in self.list_owners(agent):
            if position > owner.fork_seq:
                break
        return owner

    def list_heirs(self, owner: AgentRecord, position: int) -> Iterator[AgentRecord]:
        """Yield the owner of an event, and all agents that inherit the event, nearest first."""
        waiting = [owner]
        for heir in waiting:
            yield heir
            for fork in self._forks.get(heir.id, []):
                # A circle, as in a damaged store, would lead back to the owner.
                if fork.fork_seq >= position and fork.id != owner.id:
                    waiting.append(fork)

    def find_heir(self, owner: AgentRecord, position: int) -> AgentRecord | None:
        """Return the owner of a position or, if the owner was deleted, the oldest living agent that
        inherits the position. None if no living agent has it."""
        if owner.deleted_us is None:
            return owner
        for agent in self.agents.values():
            if agent.deleted_us is None and self.find_last_position(agent, owner) >= position:
                return agent
        return None

    def find_last_position(self, agent: AgentRecord, owner: AgentRecord) -> int:
        """Return the last position of `owner` that `agent` sees; 0 if it sees none."""
        for ancestor, last in self.list_owners(agent):
            if ancestor.id == owner.id:
                return last
        return 0


def sort_parents_first(agents: Iterable[AgentRecord]) -> list[AgentRecord]:
    """Return the agents, each after its parent. Those in a circle come in any order."""
    by_id = {agent.id: agent for agent in agents}
    placed: set[str] = set()
    ordered = []
    for agent in by_id.values():
        line = []  # the agent and its ancestors that are not placed yet
        ancestor: AgentRecord | None = agent
        while ancestor is not None and ancestor.id not in placed:
            placed.add(ancestor.id)
            line.append(ancestor)
            ancestor = by_id.get(ancestor.parent or "")
        ordered += reversed(line)
    return ordered


def find_row(reader: Reader, owner: AgentRecord, position: int) -> StoredRow | None:
    """Return the row at a position that `owner` itself owns. None if there is none."""
    for row in reader.read_rows(owner, position - 1, 1):
        if row.seq == position:
            return row
    return None


def read_own_rows(reader: Reader, owner: AgentRecord, after: int, last: int) -> Iterator[StoredRow]:
    """Yield the rows that `owner` itself owns after a position, up to position `last`."""
    while after < last:
        page = reader.read_rows(owner, after, min(ROWS_AT_ONCE, last - after))
        if not page:
            return
        for row in page:
            if row.seq <= last:
                yield row
        after = page[-1].seq
