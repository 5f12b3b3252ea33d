"""The newest live notes of all agents."""

from contextlib import suppress

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.log.events import Event
from backstory.storage.log import Log
from backstory.storage.protocols import Wanted
from backstory.storage.survey import NewestNote


def last_notes(log: Log, name: str, prefix: str) -> list[tuple[Agent, Event]]:
    """The newest live note with a name, for each agent that has one. Two statements find nearly all of them.
    Only agents that moved since, or that may inherit the note, are read separately."""
    agents = {
        record.id: Agent(log, record)
        for record in log.backend.agents(Wanted(key_prefix=prefix or None))
    }
    found = []
    for newest in log.backend.newest_notes(name, prefix or None):
        agent = agents.get(newest.agent)
        if agent is None:
            continue  # it was created in between
        with suppress(AgentNotFound):  # it was deleted in between
            note = agent.last_note(name) if _is_doubtful(newest, agent) else newest.note
            if note is not None:
                found.append((agent, note))
    return found


def _is_doubtful(newest: NewestNote, agent: Agent) -> bool:
    """Whether the newest own note may be dead, or an inherited one may be needed."""
    if newest.note is None:
        return agent.fork_seq > 0
    return newest.jump > newest.note.seq
