"""Errors about agents and their positions, which all backends raise in the same words."""

from backstory.errors import AgentNotFound, Conflict, Corrupt, KeyTaken, PositionNotFound, Remedy
from backstory.storage.protocol import AgentRecord, NewAgent, Reader


def build_lineage_error(agent: AgentRecord, at: int) -> Corrupt:
    """Return the error for an agent whose ancestry does not lead to the beginning."""
    return Corrupt(
        f"the history of agent {agent.name!r} ({agent.id}) breaks off at position {at}: a parent "
        "is missing, or the ancestry runs in a circle",
        remedy=Remedy("{} shows what is wrong", "verify"),
    )


def build_deletion_error(agent: AgentRecord) -> AgentNotFound:
    """Return the error for an agent whose row has gone from the database."""
    return AgentNotFound(
        f"agent {agent.name!r} ({agent.id}) was deleted",
        remedy=Remedy("{} lists those that exist", "agents"),
    )


def check_exists(reader: Reader, agent: AgentRecord) -> None:
    """Raise AgentNotFound if the agent was deleted."""
    reader.read_head(agent)


def check_head(agent: AgentRecord, head: int, expected: int | None) -> None:
    """Raise Conflict if the agent's head is not the expected one."""
    if expected is not None and expected != head:
        raise Conflict.at(agent.name, expected, head)


def build_key_error(agent: AgentRecord) -> KeyTaken:
    """Return the error for an append to an agent that itself has an event with the same key."""
    return KeyTaken(
        f"agent {agent.name!r} already has an event with one of these keys",
        remedy="use another key",
    )


def build_parent_error(new: NewAgent) -> AgentNotFound:
    """Return the error for a new agent whose parent was deleted while it was being created."""
    return AgentNotFound(
        f"{new.name!r} was not created: the agent that it should come from was deleted",
        remedy=Remedy("{} lists those that exist", "agents"),
    )


def build_position_error(name: str, position: int, head: int, first: int = 0) -> PositionNotFound:
    """Return the error for a position that the lineage of the agent with this name does not
    have."""
    if head >= first:
        remedy = f"its lineage goes from {first} to {head}"
    else:
        remedy = "it has no events yet"
    return PositionNotFound(f"agent {name!r} has no position {position}", remedy=remedy)
