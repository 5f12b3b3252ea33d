"""Reports inert events. They are found when they are written, and again whenever they are read."""

from backstory.log.replay import log_inert
from backstory.storage.protocol import AgentRecord

# The ids and births of agents, and the positions of their events that were reported.
_reported: set[tuple[str, int, int]] = set()


def report_inert(agent: AgentRecord, seq: int, problem: str) -> None:
    """Log an inert event once in this process, however often it is read."""
    # An agent with a key has the same id in every store, but not the same birth.
    event = (agent.id, agent.created_us, seq)
    if event not in _reported:
        _reported.add(event)
        log_inert(f"{agent.name!r} ({agent.id})", seq, problem)
