"""`--dry-run`: an import that reads, counts and checks everything, and writes nothing."""

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.intake import Intake
from backstory.transcripts.writer import Target


class Rehearsal:
    """A store as an import sees it, without the last step."""

    def __init__(self, store: Target) -> None:
        self._store = store

    def intake(self, *, dry_run: bool = True) -> Intake:
        """Return an intake that checks everything and writes nothing."""
        return self._store.intake(dry_run=True)

    def agents(self, *, session: str) -> list[Agent]:
        """The agents of a session; none of one that would be new."""
        try:
            return self._store.agents(session=session)
        except AgentNotFound:
            return []

    def agent(self, ref: str | None = None, *, key: str | None = None) -> Agent:
        """Return the agent with an id or with a key."""
        return self._store.agent(ref, key=key)
