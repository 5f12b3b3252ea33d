"""Events by their keys, in whole stores."""

from backstory.agent import Agent
from backstory.core.events import Event, checked_key
from backstory.storage.log import Log
from backstory.storage.protocols import Wanted


def find(log: Log, key: str) -> list[tuple[Agent, Event]]:
    """The events with a key, each with the agent that owns it, or with one that inherits it from a deleted
    agent."""
    found: list[tuple[Agent, Event]] = []
    for id, _ in log.backend.found(checked_key(key)):
        for owner in log.backend.agents(Wanted(prefix=id, deleted=True)):
            heirs = log.backend.agents(Wanted(session=owner.session)) if owner.deleted_us else [owner]
            events = ((agent, agent.find(key)) for agent in (Agent(log, heir) for heir in heirs))
            found += [(agent, event) for agent, event in events if event is not None][:1]
    return found
