"""Events by their keys, in whole stores."""

from itertools import islice

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.log.events import Event, checked_key
from backstory.storage.log import Log
from backstory.storage.protocols import Wanted


def find(log: Log, key: str) -> list[tuple[Agent, Event]]:
    """The events with a key, each with the agent that owns it, or with one that inherits it from a deleted
    agent."""
    found: list[tuple[Agent, Event]] = []
    for id, _ in log.backend.found(checked_key(key)):
        for owner in log.backend.agents(Wanted(prefix=id, deleted=True)):
            heirs = (
                log.backend.agents(Wanted(session=owner.session)) if owner.deleted_us else [owner]
            )
            having = (pair for heir in heirs for pair in _having(Agent(log, heir), key))
            found += list(islice(having, 1))
    return found


def _having(agent: Agent, key: str) -> list[tuple[Agent, Event]]:
    """The agent with its event that has a key; nothing, if it has none, or was deleted in between."""
    try:
        event = agent.find(key)
    except AgentNotFound:
        return []
    return [] if event is None else [(agent, event)]
