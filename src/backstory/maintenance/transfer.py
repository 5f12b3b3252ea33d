"""Export and import: sessions as JSON lines, without loss, between any two stores.

The format is a contract: docs/export-format.md. An export reads a page at a time. An import checks
every line against the rules of the log before it writes anything. Events that the store already has
must be the same in the export; the rest is added, a batch at a time.
"""

import json
import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple, Protocol

from backstory.errors import (
    Busy,
    Conflict,
    Corrupt,
    Invalid,
    InvalidEvent,
    KeyTaken,
    NameTaken,
    Remedy,
)
from backstory.log.checks import check_name
from backstory.log.digests import WIDTH, is_erased
from backstory.log.erasure import replace_erased_digests
from backstory.log.events import StoredRow, parse_object, to_json
from backstory.log.json_text import escape_unseen
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.problems import is_id, is_time
from backstory.maintenance.checker import AgentChecker
from backstory.storage.agent_trees import find_row, list_session, read_own_rows, sort_parents_first
from backstory.storage.ids import find_agent_by_id, name_deleted_agent, new_salts
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    NewAgent,
    SourceRecord,
    Transaction,
)

FORMAT = "backstory-export"
# Version 2 had no salts, and version 1 no keys and digests, either. Both are read.
VERSION = 3
FIRST_WITH_SALTS = 3
BATCH = 1_000  # agents, events and sources that an import writes in one transaction
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
            self._sources.setdefault(source.agent_id, []).append(source)

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
        if find_agent_by_id(self._backend, agent.id) is None:
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
    if row.salt is not None:
        fields["salt"] = row.salt.hex()
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
    """Add an export. Agents and events that the store already has must be the same.

    All lines are checked first, without a lock, and those that are new are kept in a temporary
    file. Then they are written in short transactions, so others wait for one batch at most. If that
    is interrupted, a part is there, and repeating the import adds the rest."""
    stream = iter(lines)
    version = _check_header(next(stream, ""))
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
        batches = BatchFile(spool)
        checker = ExportChecker(backend, batches, has_salts=version >= FIRST_WITH_SALTS)
        for number, line in enumerate(stream, 2):
            try:
                checker.check_line(line)
            except KeyError as error:
                raise _build_refusal(number, f"{error} is missing") from error
            except RecursionError as error:
                raise _build_refusal(number, "it is nested too deeply") from error
            except (Invalid, ValueError, TypeError) as error:
                raise _build_refusal(number, str(error)) from error
        checker.check_complete()
        for batch in batches.read():  # at least one: a store that is read-only refuses every import
            _write_batch(backend, batch)
    return Transfer(**checker.added)


def _build_refusal(number: int, problem: str) -> Invalid:
    return Invalid(f"nothing was imported: line {number} of the export: {problem}")


def _check_header(line: str | bytes) -> int:
    """Return the version of the format."""
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
    return int(version)


class NewRow(NamedTuple):
    """A new event, and the ids of its session and its agent."""

    session: str
    agent_id: str
    row: StoredRow


Item = AgentRecord | NewRow | SourceRecord  # something new that an import writes


class BatchFile:
    """A temporary file with the items that an import writes, in batches of one transaction each."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._batch: list[Item] = []

    def add(self, item: Item) -> None:
        """Add an item at the end."""
        self._batch.append(item)
        if len(self._batch) == BATCH:
            self._end_batch()

    def _end_batch(self) -> None:
        pickle.dump(self._batch, self._file)
        self._batch = []

    def read(self) -> Iterator[list[Item]]:
        """Yield all batches. The last one may be empty. No item can be added afterwards."""
        self._end_batch()
        self._file.seek(0)
        with suppress(EOFError):
            while True:
                yield pickle.load(self._file)


class ForkPoints:
    """The times and digests of an agent's new rows, which forks of it continue. They are packed:
    24 bytes for each row."""

    def __init__(self, first: int) -> None:
        self._first = first  # the position of the first row
        self._times = array("q")
        self._digests = bytearray()

    def add(self, row: StoredRow) -> None:
        """Remember a row after the last one."""
        self._times.append(row.created_us)
        self._digests += row.digest

    def find(self, position: int) -> StoredRow | None:
        """Return the row at a position with nothing but its time and digest. None if there is
        none."""
        index = position - self._first
        if not 0 <= index < len(self._times):
            return None
        start = index * WIDTH
        digest = bytes(self._digests[start : start + WIDTH])
        return StoredRow(position, "", None, None, self._times[index], None, None, digest)


class ExportChecker:
    """Checks the lines of one import, and compares them with the store. Writes the new items to a
    file."""

    def __init__(self, backend: Backend, items: BatchFile, *, has_salts: bool) -> None:
        self.added = dict.fromkeys(Transfer._fields, 0)  # how many are new in the store
        self._backend = backend
        self._items = items
        self._has_salts = has_salts
        self._session = ""  # of the agents that are being read
        self._stored: dict[str, AgentRecord] = {}  # the agents of that session in the store
        self._names: set[str] = set()  # of all agents of that session
        self._checkers: dict[str, AgentChecker] = {}  # of the agents of that session in the export
        self._fork_points: dict[str, ForkPoints] = {}
        self._keys: set[str] = set()  # of the new agents of all sessions
        self._agent: AgentRecord | None = None  # whose events are being read
        self._sources: list[SourceRecord] = []  # of that agent
        self._stored_rows: Iterator[StoredRow] = iter(())  # of that agent
        self._read = dict.fromkeys(Transfer._fields, 0)  # how many lines of each there were
        self._is_complete = False

    def check_line(self, line: str | bytes) -> None:
        """Check a line, and keep the agent, event or source in it if it is new."""
        value = json.loads(line)
        if not isinstance(value, dict) or len(value) != 1:
            raise Invalid("it is not an object with an agent or an event")
        if self._is_complete:
            raise Invalid("there is more after the end")
        match value:
            case {"agent": dict(fields)}:
                self._add_sources()
                self._check_agent(parse_agent(fields), fields.get("sources", ()))
            case {"event": dict(fields)}:
                self._check_event(parse_event(fields))
            case {"source": list(fields)}:
                self._items.add(parse_source(fields, None))
            case {"end": dict(end)}:
                self._add_sources()
                self._check_end(end)
            case _:
                raise Invalid("it is not an object with an agent or an event")

    def check_complete(self) -> None:
        """Raise Invalid if the last line is missing."""
        if not self._is_complete:
            raise Invalid("nothing was imported: the export is cut off, its last line is missing")

    def _check_end(self, end: dict[str, Any]) -> None:
        if end != self._read:
            raise Invalid(f"the end counts {end}, but there were {self._read}: lines are missing")
        self._is_complete = True

    # --- agents ---

    def _check_agent(self, agent: AgentRecord, sources: Iterable[Any]) -> None:
        if agent.session != self._session and is_id(agent.session):
            self._start_session(agent.session)
        if agent.id in self._checkers:
            raise Invalid(f"the agent {agent.id} comes twice")
        self._checkers[agent.id] = self._start_checker(agent)
        stored = self._stored.get(agent.id)
        self._stored_rows = iter(())
        first_new = agent.fork_seq + 1
        if stored is None:
            self._add_agent(agent)
        else:
            _check_same_agent(stored, agent)
            self._stored_rows = read_own_rows(self._backend, stored, stored.fork_seq, stored.head)
            first_new = stored.head + 1
        self._agent = agent
        self._fork_points[agent.id] = ForkPoints(first_new)
        self._sources = [parse_source(fields, agent.id) for fields in sources]
        self._read["agents"] += 1

    def _start_session(self, session: str) -> None:
        self._session = session
        self._checkers = {}
        self._fork_points = {}
        self._stored = {agent.id: agent for agent in list_session(self._backend, session)}
        self._names = {agent.name for agent in self._stored.values()}
        self._read["sessions"] += 1
        if not self._stored:
            self.added["sessions"] += 1

    def _start_checker(self, agent: AgentRecord) -> AgentChecker:
        parent = forked_at = None
        if agent.parent is not None:
            parent = self._checkers.get(agent.parent)
            if parent is None:
                raise Invalid(f"its parent {agent.parent} does not come before it")
            forked_at = self._find_fork_point(agent.parent, agent.fork_seq)
        checker = AgentChecker(agent, parent, forked_at)
        for problem in checker.problems:
            raise Invalid(problem)
        return checker

    def _find_fork_point(self, parent: str, position: int) -> StoredRow | None:
        """Return the row of a parent that an agent is forked at. It is new, or in the store."""
        found = self._fork_points[parent].find(position)
        if found is None and parent in self._stored:
            found = find_row(self._backend, self._stored[parent], position)
        return found

    def _add_agent(self, agent: AgentRecord) -> None:
        if agent.deleted_us is not None:
            agent = agent._replace(name=name_deleted_agent(agent.id))
        elif check_name(agent.name) in self._names:
            raise NameTaken.of(agent.name)
        if agent.key is not None:
            self._check_key(agent.key)
        self._names.add(agent.name)
        self._items.add(agent)
        self.added["agents"] += 1

    def _check_key(self, key: str) -> None:
        if key in self._keys or self._backend.list_agents(AgentQuery(key=key)):
            raise KeyTaken.of_agent(key)
        self._keys.add(key)

    def _add_sources(self) -> None:
        """Add the sources of the agent whose events were read. They say how far it was read, so
        they come after its events."""
        for source in self._sources:
            self._items.add(source)
        self._sources = []

    # --- events ---

    def _check_event(self, row: StoredRow) -> None:
        agent = self._agent
        if agent is None:
            raise Invalid("the event comes before its agent")
        checker = self._checkers[agent.id]
        stored = next(self._stored_rows, None)
        if not (self._has_salts and row.digest):
            row = _add_salt(checker, row, stored)
        for wrong in checker.check(row):
            if wrong.severity == "error":
                raise InvalidEvent(f"position {row.seq}: {wrong.problem}")
        self._read["events"] += 1
        if stored is None:
            self._fork_points[agent.id].add(row)
            self._items.add(NewRow(agent.session, agent.id, row))
            self.added["events"] += 1
        elif stored != row:
            raise Conflict(
                f"nothing was imported: agent {agent.name!r} ({agent.id}) has another "
                f"event at {row.seq}, so the two histories have diverged",
                remedy="import into another store",
                head=agent.head,
            )


def _add_salt(checker: AgentChecker, row: StoredRow, stored: StoredRow | None) -> StoredRow:
    """Return a row without a digest, or of an older export, with the salt and digest that it has in
    the store, or else with new ones."""
    if is_erased(row.data_json):
        if stored is not None and is_erased(stored.data_json):
            return stored
        data_json = replace_erased_digests(row.data_json or "", os.urandom(32))
        row = row._replace(data_json=data_json)
    elif stored is not None:
        return row._replace(salt=stored.salt, digest=stored.digest)
    else:
        [salt] = new_salts(1)
        row = row._replace(salt=salt)
    return row._replace(digest=checker.compute_digest(row))


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


# --- writing what is new ---


def _write_batch(backend: Backend, batch: Sequence[Item]) -> None:
    """Write some items in one transaction."""
    sessions = {item.session for item in batch if not isinstance(item, SourceRecord)}
    with backend.begin(sessions=sorted(sessions)) as transaction:
        writer = ItemWriter(transaction)
        for item in batch:
            writer.add(item)
        writer.write_rows()


class ItemWriter:
    """Writes items within a transaction. They must fit what the store contains by then: others may
    have written or deleted since the items were checked."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._agent_id = ""  # of the rows that are not written yet
        self._rows: list[StoredRow] = []

    def add(self, item: Item) -> None:
        """Write an item. The rows of one agent are written together, when the next item comes."""
        match item:
            case NewRow():
                if item.agent_id != self._agent_id:
                    self.write_rows()
                    self._agent_id = item.agent_id
                self._rows.append(item.row)
            case AgentRecord():
                self.write_rows()
                self._create_agent(item)
            case SourceRecord():
                self._transaction.remember_sources([item])

    def write_rows(self) -> None:
        """Write the rows that are not written yet. Raises Conflict if they do not follow the head
        of their agent."""
        if not self._rows:
            return
        agent = self._find_agent(self._agent_id)
        if agent.head != self._rows[0].seq - 1:
            raise _build_change_error(agent.name, agent.head)
        self._transaction.add_rows(agent, self._rows)
        self._rows = []

    def _create_agent(self, agent: AgentRecord) -> None:
        parent_pk = None
        if agent.parent is not None:
            parent_pk = self._find_agent(agent.parent).pk
        new = NewAgent(
            agent.id,
            agent.session,
            agent.name,
            parent_pk=parent_pk,
            fork_seq=agent.fork_seq,
            born_seq=agent.born_seq,
            spawned=agent.spawned,
            key=agent.key,
            about=agent.about,
            deleted_us=agent.deleted_us,
        )
        self._transaction.create_agent(new, [], agent.created_us)

    def _find_agent(self, id: str) -> AgentRecord:
        """Return an agent by its id, even if it is deleted. Raises Conflict if it is gone."""
        found = find_agent_by_id(self._transaction, id, include_deleted=True)
        if found is None:
            raise _build_change_error(id, 0)
        return found


def _build_change_error(agent_id: str, head: int) -> Conflict:
    return Conflict(
        f"agent {agent_id!r} was changed while it was imported, so the import is not complete",
        remedy="import again",
        head=head,
    )


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
        salt=bytes.fromhex(fields["salt"]) if "salt" in fields else None,
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
