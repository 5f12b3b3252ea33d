"""`--dry-run`: an import that reads, counts and checks everything, and writes nothing."""

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.intake import Intake, Source
from backstory.transcripts.writer import Target


class Rehearsal:
    """A store as an import sees it, without the last step."""

    def __init__(self, store: Target) -> None:
        self._store = store

    def intake(self) -> Intake:
        """A way in that ends before the store."""
        return _DeadEnd(self._store.intake())

    def source(self, tool: str, id: str) -> Source | None:
        """What the store knows of a source."""
        return self._store.source(tool, id)

    def agents(self, *, session: str) -> list[Agent]:
        """The agents of a session; none of one that would be new."""
        try:
            return self._store.agents(session=session)
        except AgentNotFound:
            return []

    def keyed(self, key: str) -> Agent:
        """The agent with a key."""
        return self._store.keyed(key)

    def agent(self, ref: str) -> Agent:
        """The agent with an id."""
        return self._store.agent(ref)


class _DeadEnd(Intake):
    """Checks what is handed over as ever, and drops it."""

    def __init__(self, real: Intake) -> None:
        super().__init__(real._log)

    def commit(self) -> int:
        """Drop what was handed over."""
        self._waiting, self._sources = [], []
        return 0
