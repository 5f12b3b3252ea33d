"""Errors about agents and their positions, which all backends raise in the same words, and the
report of inert events."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def build_position_error(
    name: str, position: int | str, head: int, first: int = 0
) -> PositionNotFound:
    """Return the error for a position that the lineage of the agent with this name does not
    have."""
    if head >= first:
        remedy = f"its lineage goes from {first} to {head}"
    else:
        remedy = "it has no events yet"
    return PositionNotFound(f"agent {name!r} has no position {position}", remedy=remedy)


def suggest_name(name: str, names: Sequence[str]) -> str:
    """Return a question whether one of these names was meant, or nothing."""
    from difflib import get_close_matches  # here: few processes need it

    near = get_close_matches(name, names)
    if not near:
        return ""
    listed = " or ".join(map(repr, near))
    return f" (did you mean {listed}?)"


# --- inert events ---

# The ids and births of agents, and the positions of their events that were reported.
_reported: set[tuple[str, int, int]] = set()


class InertEvent(NamedTuple):
    """An event without effect. It is reported when its transaction is committed."""

    seq: int
    problem: str


def report_inert_events(agent: AgentRecord, events: Iterable[InertEvent]) -> None:
    """Log the inert events of an agent, each once in this process, however often it is read."""
    for seq, problem in events:
        # An agent with a key has the same id in every store, but not the same birth.
        identity = (agent.id, agent.created_us, seq)
        if identity not in _reported:
            _reported.add(identity)
            log_inert(f"{agent.name!r} ({agent.id})", seq, problem)


def log_inert(agent: str, seq: int, problem: str) -> None:
    """Log an inert event in one line."""
    import logging  # here: most processes never need it, and it would double our import time

    logging.getLogger("backstory").warning(
        "agent %s, position %d: %s; the event is inert", agent, seq, problem
    )
