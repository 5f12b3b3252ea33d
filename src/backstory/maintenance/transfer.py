"""Export and import: sessions as JSON lines, without loss, between any two stores.

The format is a contract: docs/export-format.md. An export reads a page at a time. An import checks
every line against the rules of the log before it writes the line, and writes everything or nothing.
Events that the store already has must be the same in the export; the rest is added.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

from backstory.errors import Busy, Conflict, Corrupt, Invalid, InvalidEvent, Remedy
from backstory.log.checks import check_name
from backstory.log.events import StoredRow, parse_object, to_json
from backstory.log.json_text import escape_unseen
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.problems import is_id, is_time
from backstory.maintenance.checker import AgentChecker
from backstory.storage.ids import name_deleted_agent
from backstory.storage.ownership import find_row, list_session, read_own_rows, sort_parents_first
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    NewAgent,
    SourceRecord,
    Transaction,
)

FORMAT = "backstory-export"
VERSION = 2  # version 1, which had no keys and digests, is read too
PAGE = 2_000  # new events written at a time
SPOOL_BYTES = 16_000_000  # of an import that are kept in memory while it is read

AGENT_FIELDS = ("id", "session", "name", "parent", "fork_seq", "born_seq", "spawned", "created_us")
SINCE_VERSION_2 = ("key", "about")  # of agents; None in a version 1 export


class Writable(Protocol):
    """A text file, or anything else with a `write` method."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class Transfer(NamedTuple):
    """The numbers of sessions, agents and events that an export wrote, or that an import added."""

    sessions: int
    agents: int
    events: int


# --- export ---


def export_sessions(
    backend: Backend, file: Writable, sessions: Sequence[str] | None = None
) -> Transfer:
    """Write sessions (None: all) as of one moment. The agents and their heads are read at once, and
    the events up to a head do not change, so the export is a snapshot. If the text of events is
    damaged, Corrupt is raised when everything else is written: that file can be read, but not
    imported."""
    agents = _list_exported(backend, sessions)
    exporter = Exporter(backend, file)
    exporter.write_line({"format": FORMAT, "version": VERSION})
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
            self._sources.setdefault(source.agent, []).append(source)

    def write_line(self, value: Any) -> None:
        """Write a JSON value in one line."""
        self._file.write(format_line(value))

    def write_agent(self, agent: AgentRecord) -> None:
        """Write an agent and its own events."""
        fields = {name: getattr(agent, name) for name in (*AGENT_FIELDS, *SINCE_VERSION_2)}
        if agent.deleted_us is not None:
            fields["deleted_us"] = agent.deleted_us
        if agent.id in self._sources:
            sources = self._sources[agent.id]
            fields["sources"] = [_build_source_fields(source) for source in sources]
        self.write_line({"agent": fields})
        self._write_events(agent)

    def _write_events(self, agent: AgentRecord) -> None:
        count = 0
        for row in read_own_rows(self._backend, agent, agent.fork_seq, agent.head):
            count += 1
            if _is_damaged(row):
                self._damaged.append((agent, row.seq))
            else:
                self.write_line({"event": _build_event_fields(row)})
        if count < agent.head - agent.fork_seq:
            self._check_not_deleted(agent)
        self.events += count

    def write_sources(self) -> None:
        """Write the sources that did not become an agent."""
        for source in self._sources.get(None, []):
            self.write_line({"source": _build_source_fields(source)})

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
        query = AgentQuery(id_prefix=agent.id, include_deleted=True)
        found = self._backend.list_agents(query)
        if not found or found[0].deleted_us is not None:
            raise Busy(
                f"agent {agent.name!r} was deleted while it was exported", remedy="export again"
            )


def _is_damaged(row: StoredRow) -> bool:
    """Return True if a message has neither text nor data, because it cannot be decompressed."""
    return row.content is None and row.data_json is None and row.kind in MESSAGE_KINDS


def _build_event_fields(row: StoredRow) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    fields["seq"] = row.seq
    fields["kind"] = row.kind
    fields["content"] = row.content
    if row.data_json is None:
        fields["data"] = None
    else:
        data = parse_object(row.data_json)
        # Data as an object only if that gives back the exact text.
        if data is not None and _is_written_as(data, row.data_json):
            fields["data"] = data
        else:
            fields["data_text"] = row.data_json
    fields["created_us"] = row.created_us
    fields["base"] = row.base
    if row.key is not None:
        fields["key"] = row.key
    fields["digest"] = row.digest.hex()
    return fields


def _is_written_as(data: dict[str, Any], text: str) -> bool:
    try:
        return to_json(data) == text
    except (ValueError, RecursionError):
        return False


def _build_source_fields(source: SourceRecord) -> list[str | None]:
    return [source.tool, source.id, source.cursor]


def format_line(value: Any) -> str:
    """Return a JSON value as a line. Only characters that could control a terminal are escaped."""
    return escape_unseen(to_json(value)) + "\n"


# --- import ---


def import_lines(backend: Backend, lines: Iterable[str | bytes]) -> Transfer:
    """Add an export, completely or not at all. Agents and events that the store already has must be
    the same. The store is locked only after everything was read, so a slow stream keeps nobody
    waiting."""
    stream = iter(lines)
    _check_header(next(stream, ""))
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
        sessions = _copy_lines(stream, spool)
        spool.seek(0)
        with backend.begin(sessions=sorted(sessions)) as transaction:
            loader = ExportLoader(transaction, sessions)
            for number, line in enumerate(spool, 2):
                try:
                    loader.add_line(line)
                except KeyError as error:
                    raise _build_refusal(number, f"{error} is missing") from error
                except (Invalid, ValueError, TypeError, RecursionError) as error:
                    raise _build_refusal(number, str(error)) from error
            return loader.finish()


def _build_refusal(number: int, problem: str) -> Invalid:
    return Invalid(f"nothing was imported: line {number} of the export: {problem}")


def _check_header(line: str | bytes) -> None:
    try:
        header = json.loads(line)
        is_export = header.get("format") == FORMAT
    except (ValueError, AttributeError, RecursionError):
        is_export = False
    if not is_export:
        raise Invalid("this is not an export of backstory: its first line does not name the format")
    version = header.get("version")
    if version not in range(1, VERSION + 1):
        raise Invalid(
            f"the export has version {version!r} of the format, and this backstory knows "
            f"up to {VERSION}",
            remedy="upgrade backstory",
        )


def _copy_lines(lines: Iterable[str | bytes], spool: IO[bytes]) -> set[str]:
    """Write all lines to a temporary file, and return the ids of their sessions."""
    sessions = set()
    for line in lines:
        data = line.encode(errors="surrogatepass") if isinstance(line, str) else line
        spool.write(data if data.endswith(b"\n") else data + b"\n")
        session = _find_session(data)
        if session is not None:
            sessions.add(session)
    return sessions


def _find_session(line: bytes) -> str | None:
    """Return the session in the line of an agent, if it is an id."""
    if b'"agent"' not in line:  # most lines are events
        return None
    try:
        session = json.loads(line)["agent"]["session"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # the loader will refuse the line, or it is the line of an event
    return session if is_id(session) else None


class ExportLoader:
    """Checks the lines of one import, and writes them."""

    def __init__(self, transaction: Transaction, sessions: set[str]) -> None:
        self._transaction = transaction
        self._sessions = sessions  # that are locked
        self._session = ""  # of the agents that are being read
        self._stored: dict[str, AgentRecord] = {}  # the agents of that session in the store
        self._checkers: dict[str, AgentChecker] = {}  # of the agents of that session in the export
        self._agent: AgentRecord | None = None  # whose events are being read
        self._stored_rows: Iterator[StoredRow] = iter(())  # that it had before the import
        self._new_rows: list[StoredRow] = []
        self._read = dict.fromkeys(Transfer._fields, 0)  # how many lines of each there were
        self._added = dict.fromkeys(Transfer._fields, 0)  # how many are new in the store
        self._is_complete = False

    def add_line(self, line: bytes) -> None:
        """Check a line, and write the agent, event or source in it."""
        value = json.loads(line)
        if not isinstance(value, dict) or len(value) != 1:
            raise Invalid("it is not an object with an agent or an event")
        if self._is_complete:
            raise Invalid("there is more after the end")
        match value:
            case {"agent": dict(fields)}:
                self._add_agent(parse_agent(fields))
                self._add_sources(fields.get("sources", ()))
            case {"event": dict(fields)}:
                self._add_event(parse_event(fields))
            case {"source": list(fields)}:
                self._transaction.remember_sources([parse_source(fields, None)])
            case {"end": dict(end)}:
                self._check_end(end)
            case _:
                raise Invalid("it is not an object with an agent or an event")

    def finish(self) -> Transfer:
        """Write the remaining events, after the last line. Return the numbers of sessions, agents
        and events that are new in the store."""
        if not self._is_complete:
            raise Invalid("nothing was imported: the export is cut off, its last line is missing")
        self._write_new_rows()
        return Transfer(**self._added)

    def _check_end(self, end: dict[str, Any]) -> None:
        if end != self._read:
            raise Invalid(f"the end counts {end}, but there were {self._read}: lines are missing")
        self._is_complete = True

    # --- agents ---

    def _add_agent(self, agent: AgentRecord) -> None:
        self._write_new_rows()
        if agent.session != self._session and is_id(agent.session):
            self._start_session(agent.session)
        if agent.id in self._checkers:
            raise Invalid(f"the agent {agent.id} comes twice")
        self._checkers[agent.id] = self._check_agent(agent)
        stored = self._stored.get(agent.id)
        if stored is None:
            stored = self._create_agent(agent)
            self._stored[agent.id] = stored
        else:
            _check_same_agent(stored, agent)
        self._agent = stored
        self._stored_rows = read_own_rows(self._transaction, stored, stored.fork_seq, stored.head)
        self._read["agents"] += 1

    def _start_session(self, session: str) -> None:
        if session not in self._sessions:  # `_find_session` did not recognize the line
            raise Invalid('the key "agent" is written with escapes')
        self._session = session
        self._checkers = {}
        self._stored = {agent.id: agent for agent in list_session(self._transaction, session)}
        self._read["sessions"] += 1
        if not self._stored:
            self._added["sessions"] += 1

    def _check_agent(self, agent: AgentRecord) -> AgentChecker:
        parent = forked_at = None
        if agent.parent is not None:
            parent = self._checkers.get(agent.parent)
            if parent is None:
                raise Invalid(f"its parent {agent.parent} does not come before it")
            forked_at = find_row(self._transaction, self._stored[agent.parent], agent.fork_seq)
        checker = AgentChecker(agent, parent, forked_at)
        for problem in checker.problems:
            raise Invalid(problem)
        return checker

    def _create_agent(self, agent: AgentRecord) -> AgentRecord:
        if agent.deleted_us is None:
            name = check_name(agent.name)
        else:
            name = name_deleted_agent(agent.id)
        new = NewAgent(
            agent.id,
            agent.session,
            name,
            parent_pk=self._stored[agent.parent].pk if agent.parent else None,
            fork_seq=agent.fork_seq,
            born_seq=agent.born_seq,
            spawned=agent.spawned,
            key=agent.key,
            about=agent.about,
            deleted_us=agent.deleted_us,
        )
        self._added["agents"] += 1
        return self._transaction.create_agent(new, [], agent.created_us)

    def _add_sources(self, sources: Iterable[Any]) -> None:
        if self._agent is not None:
            records = [parse_source(fields, self._agent.id) for fields in sources]
            self._transaction.remember_sources(records)

    # --- events ---

    def _add_event(self, row: StoredRow) -> None:
        agent = self._agent
        if agent is None:
            raise Invalid("the event comes before its agent")
        checker = self._checkers[agent.id]
        if not row.digest:  # version 1 of the format has none
            row = row._replace(digest=checker.compute_digest(row))
        for wrong in checker.check(row):
            if wrong.severity == "error":
                raise InvalidEvent(f"position {row.seq}: {wrong.problem}")
        self._read["events"] += 1
        stored = next(self._stored_rows, None)
        if stored is None:
            self._new_rows.append(row)
        elif stored != row:
            raise Conflict(
                f"nothing was imported: agent {agent.name!r} ({agent.id}) has another "
                f"event at {row.seq}, so the two histories have diverged",
                remedy="import into another store",
                head=agent.head,
            )
        if len(self._new_rows) >= PAGE:
            self._write_new_rows()

    def _write_new_rows(self) -> None:
        if self._new_rows and self._agent is not None:
            self._transaction.add_rows(self._agent, self._new_rows)
            self._added["events"] += len(self._new_rows)
            self._new_rows = []


def _check_same_agent(stored: AgentRecord, agent: AgentRecord) -> None:
    """Refuse an agent that is a different one in the store. One that was deleted elsewhere may
    still exist here, and its name may have changed."""
    if agent.deleted_us is not None:
        return
    if stored.deleted_us is not None:
        raise Invalid(
            f"agent {stored.id} was deleted from this store, which still has agents that come "
            "from it",
            remedy="import into another store",
        )
    for name in AGENT_FIELDS:
        if name != "name" and getattr(stored, name) != getattr(agent, name):
            raise Invalid(f"the store has another agent with the id {stored.id}")


# --- the values of a line ---


def parse_agent(fields: Mapping[str, Any]) -> AgentRecord:
    """Return the agent of a line, without a backend's key. Raises Invalid if a number is none, and
    KeyError if a field is missing."""
    values = {name: fields[name] for name in AGENT_FIELDS}
    for name in SINCE_VERSION_2:
        values[name] = fields.get(name)
    numbers = (values["fork_seq"], values["born_seq"], values["created_us"])
    if not all(map(_is_whole_number, numbers)) or not isinstance(values["spawned"], bool):
        raise Invalid(
            "fork_seq, born_seq and created_us must be whole numbers, and spawned true or false"
        )
    created_us, deleted_us = values["created_us"], fields.get("deleted_us")
    if deleted_us is not None and (not is_time(deleted_us) or deleted_us < created_us):
        raise Invalid("the agent was deleted before it was made")
    return AgentRecord(
        pk=None,
        head=values["fork_seq"],
        updated_us=created_us,
        deleted_us=deleted_us,
        **values,
    )


def parse_event(fields: Mapping[str, Any]) -> StoredRow:
    """Return the row of an event; without a digest, if the line has none. Raises InvalidEvent if a
    number is none, and KeyError if a field is missing."""
    base = fields["base"]
    for number in (fields["seq"], fields["created_us"], 0 if base is None else base):
        if not _is_whole_number(number):
            raise InvalidEvent("seq, created_us and base must be whole numbers")
    if "data_text" in fields:
        data_json = fields["data_text"]
    else:
        data_json = None if fields["data"] is None else to_json(fields["data"])
    return StoredRow(
        seq=fields["seq"],
        kind=fields["kind"],
        content=fields["content"],
        data_json=data_json,
        created_us=fields["created_us"],
        key=fields.get("key"),
        base=base,
        digest=bytes.fromhex(fields.get("digest") or ""),
    )


def parse_source(fields: Any, agent: str | None) -> SourceRecord:
    """Return the source of a line, or one of an agent's sources."""
    match fields:
        case [str(tool), str(id), None | str() as cursor]:
            (tool + id + (cursor or "")).encode()  # raises ValueError for a lone surrogate
            return SourceRecord(tool, id, agent, cursor)
    raise Invalid("a source is a list of a tool, an id and a cursor, which may be null")


def _is_whole_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
