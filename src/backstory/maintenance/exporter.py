"""Exports sessions as JSON lines, without loss, a page at a time."""

from collections.abc import Sequence
from typing import Any, Protocol

from backstory.errors import Busy, Corrupt, Remedy
from backstory.log.events import StoredRow
from backstory.log.kinds import MESSAGE_KINDS
from backstory.maintenance.export_format import (
    Transfer,
    build_agent_fields,
    build_event_fields,
    build_header,
    build_source_fields,
    format_line,
)
from backstory.storage.agent_trees import read_own_rows, sort_parents_first
from backstory.storage.ids import find_agent_by_id
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend, SourceRecord


class Writable(Protocol):
    """A text file, or anything else with a `write` method."""

    def write(self, text: str, /) -> object:
        """Take some text."""


def export_sessions(
    backend: Backend, file: Writable, sessions: Sequence[str] | None = None
) -> Transfer:
    """Write sessions (None: all) as of one moment: the agents and their heads are read at once, and
    the events up to a head change only if they are erased meanwhile. If the text of events is
    damaged, Corrupt is raised when everything else is written: that file can be read, but not
    imported."""
    agents = _list_exported(backend, sessions)
    exporter = Exporter(backend, file)
    exporter.write_line(build_header())
    for agent in agents:
        exporter.write_agent(agent)
    exporter.check_damage()
    if sessions is None:  # a store with only some of the sessions has not read these files
        exporter.write_sources()
    written_sessions = {agent.session for agent in agents}
    written = Transfer(len(written_sessions), len(agents), exporter.events)
    exporter.write_line({"end": written._asdict()})
    return written


def _list_exported(backend: Backend, sessions: Sequence[str] | None) -> list[AgentRecord]:
    """Return the agents of some sessions, and the deleted ones that others come from, parents
    first."""
    agents = backend.list_agents(AgentQuery(include_deleted=True))
    parents = {agent.parent for agent in agents}
    exported = []
    for agent in agents:
        is_wanted = sessions is None or agent.session in sessions
        is_needed = agent.deleted_us is None or agent.id in parents
        if is_wanted and is_needed:
            exported.append(agent)
    exported.sort(key=lambda agent: (agent.session, agent.id))
    return sort_parents_first(exported)


class Exporter:
    """Writes the lines of one export."""

    def __init__(self, backend: Backend, file: Writable) -> None:
        self.events = 0
        self._backend = backend
        self._file = file
        self._damaged: list[tuple[AgentRecord, int]] = []
        # The sources of each agent, and under None those that did not become an agent.
        self._sources: dict[str | None, list[SourceRecord]] = {}
        for source in backend.list_sources():
            self._sources.setdefault(source.agent_id, []).append(source)

    def write_line(self, value: Any) -> None:
        """Write a JSON value in one line."""
        self._file.write(format_line(value))

    def write_agent(self, agent: AgentRecord) -> None:
        """Write an agent and its own events."""
        fields = build_agent_fields(agent)
        if agent.id in self._sources:
            sources = self._sources[agent.id]
            fields["sources"] = [build_source_fields(source) for source in sources]
        self.write_line({"agent": fields})
        self._write_events(agent)

    def _write_events(self, agent: AgentRecord) -> None:
        count = 0
        for row in read_own_rows(self._backend, agent, agent.fork_seq, agent.head):
            count += 1
            if _is_damaged(row):
                self._damaged.append((agent, row.seq))
            else:
                self.write_line({"event": build_event_fields(row)})
        if count < agent.head - agent.fork_seq:
            self._check_not_deleted(agent)
        self.events += count

    def write_sources(self) -> None:
        """Write the sources that did not become an agent."""
        for source in self._sources.get(None, []):
            self.write_line({"source": build_source_fields(source)})

    def check_damage(self) -> None:
        """Raise Corrupt if an event could not be written."""
        if not self._damaged:
            return
        agent, seq = self._damaged[0]
        more = len(self._damaged) - 1
        others = f", and {more:,} more" if more else ""
        raise Corrupt(
            f"the export cannot be completed, because event {seq} of agent {agent.name!r} is "
            f"damaged{others}",
            remedy=Remedy(
                "{} shows everything that is; restore a backup, or export other sessions", "verify"
            ),
        )

    def _check_not_deleted(self, agent: AgentRecord) -> None:
        """Raise Busy if events are missing because they were deleted since the agents were read.
        From a damaged store, the remaining events are exported."""
        if find_agent_by_id(self._backend, agent.id) is None:
            raise Busy(
                f"agent {agent.name!r} was deleted while it was exported", remedy="export again"
            )


def _is_damaged(row: StoredRow) -> bool:
    """Return True if a message has neither text nor data, because it cannot be decompressed."""
    return row.content is None and row.data_json is None and row.kind in MESSAGE_KINDS
