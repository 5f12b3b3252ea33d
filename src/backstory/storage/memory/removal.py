"""Removing rows from a store in memory. What to remove is decided in `backstory.maintenance.removal`."""

from collections.abc import Sequence

from backstory.log.events import Stored
from backstory.storage.memory.intake import KeptSources
from backstory.storage.memory.rows import HeldRows, Memory, OwnRows
from backstory.storage.protocols import AgentRecord, tombstone_name


class MemoryRemoval(HeldRows):
    """Removes rows, while the backend holds its lock and a copy to go back to."""

    def __init__(self, backend: Memory, agents: dict[str, OwnRows], sources: KeptSources) -> None:
        super().__init__(backend)
        self._agents = agents
        self._sources = sources

    def naming(self, agent: AgentRecord, after: int, text: str) -> list[Stored]:
        rows = self._backend.stored(agent, after, agent.head)
        return [row for row in rows if text in (row.data_json or "")]

    def blank(self, agent: AgentRecord, seq: int, content: str | None, data_json: str) -> None:
        self._agents[agent.pk].replace(seq, content, data_json)

    def cut(self, agent: AgentRecord, last: int) -> None:
        self._agents[agent.pk].cut(last)

    def bury(self, agent: AgentRecord, now: int, *, inherits: bool) -> None:
        self._forget_sources(agent)
        own = self._agents[agent.pk]
        own.new = own.new._replace(key=None, fork_seq=own.new.fork_seq if inherits else 0)
        own.name, own.about, own.deleted_us = tombstone_name(agent.id), None, own.deleted_us or now

    def remove(self, agents: Sequence[AgentRecord], now: int) -> None:
        for agent in agents:
            self._forget_sources(agent)
            del self._agents[agent.pk]

    def _forget_sources(self, agent: AgentRecord) -> None:
        for place in [place for place, source in self._sources.items() if source.agent == agent.id]:
            del self._sources[place]
