"""Adding rows from elsewhere to a store in memory, unchanged, and where its agents came from."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from backstory.log.events import Stored
from backstory.storage.memory.rows import HeldRows, Memory, OwnRows
from backstory.storage.protocols import AgentRecord, NewAgent, Packed, SourceRecord

KeptSources = dict[tuple[str, str], SourceRecord]  # by id and tool


class MemoryIntake(HeldRows):
    """Adds agents and events unchanged, while the backend holds its lock and a copy to go back to."""

    def __init__(
        self, backend: Memory, agents: Mapping[str, OwnRows], sources: KeptSources
    ) -> None:
        super().__init__(backend)
        self._agents = agents
        self._sources = sources

    def add_agent(self, new: NewAgent, created_us: int) -> AgentRecord:
        return self._backend.add_agent(new, created_us)

    def add_events(self, agent: AgentRecord, rows: Sequence[Stored]) -> None:
        own = self._agents[agent.pk]
        for row in rows:
            own.add(row.event, row.base, row.digest)
        self._backend.announce()

    def add_packed(self, agent: AgentRecord, rows: Packed) -> None:
        self.add_events(agent, cast("Sequence[Stored]", rows))

    def describe(
        self, agent: AgentRecord, change: Callable[[str | None], str | None]
    ) -> str | None:
        own = self._agents[agent.pk]
        own.about = change(own.about)
        return own.about

    def remember(self, sources: Sequence[SourceRecord]) -> None:
        for new in sources:
            old = self._sources.get((new.id, new.tool), new)
            kept = SourceRecord(new.tool, new.id, new.agent or old.agent, new.cursor or old.cursor)
            self._sources[new.id, new.tool] = kept


def sources_in(
    kept: KeptSources, tool: str | None, id: str | None, prefix: str | None
) -> list[SourceRecord]:
    """The matching sources."""
    return [
        source
        for _, source in sorted(kept.items())
        if tool in (None, source.tool)
        and id in (None, source.id)
        and source.id.startswith(prefix or "")
    ]
