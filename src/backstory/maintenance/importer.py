"""Imports exports. Every line is checked against the rules of the log before anything is written.
Events that the store already has must be the same in the export; the rest is added, a batch at a
time."""

import json
import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from backstory.errors import Conflict, Invalid, InvalidEvent, KeyTaken, NameTaken
from backstory.log.arguments import check_name
from backstory.log.chain import WIDTH
from backstory.log.erasure import is_erased, replace_erased_digests
from backstory.log.events import StoredRow
from backstory.log.problems import is_id
from backstory.maintenance.checker import AgentChecker
from backstory.maintenance.export_format import (
    AGENT_FIELDS,
    Transfer,
    check_header,
    parse_agent,
    parse_event,
    parse_source,
)
from backstory.storage.agent_trees import find_row, list_session, read_own_rows
from backstory.storage.ids import find_agent_by_id, name_deleted_agent, new_salts
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    NewAgent,
    SourceRecord,
    Transaction,
)
from backstory.storage.work_folder import report_errors

FIRST_WITH_SALTS = 3  # version of the format
IMPORT_BATCH = 1_000  # agents, events and sources that are written in one transaction
SPOOL_BYTES = 16_000_000  # of an import that are kept in memory while it is read


def import_lines(backend: Backend, lines: Iterable[str | bytes]) -> Transfer:
    """Add an export. Agents and events that the store already has must be the same.

    All lines are checked first, without a lock, and those that are new are kept in a temporary
    file. Then they are written in short transactions, so others wait for one batch at most. If that
    is interrupted, a part is there, and repeating the import adds the rest."""
    stream = iter(lines)
    version = check_header(next(stream, ""))
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


class NewRow(NamedTuple):
    """A new event, the ids of its session and its agent, and whether the export has that agent as a
    deleted one."""

    session: str
    agent_id: str
    row: StoredRow
    is_deleted: bool


Item = AgentRecord | NewRow | SourceRecord  # something new that an import writes


class BatchFile:
    """A temporary file with the items that an import writes, in batches of one transaction each."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._batch: list[Item] = []

    def add(self, item: Item) -> None:
        """Add an item at the end."""
        self._batch.append(item)
        if len(self._batch) == IMPORT_BATCH:
            self._end_batch()

    def _end_batch(self) -> None:
        with report_errors(tempfile.gettempdir()):
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
        if checker.problems:
            raise Invalid(checker.problems[0])
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
            is_deleted = agent.deleted_us is not None
            self._items.add(NewRow(agent.session, agent.id, row, is_deleted))
            self.added["events"] += 1
        elif stored != row:
            raise Conflict(
                f"nothing was imported: agent {agent.name!r} ({agent.id}) has another "
                f"event at {row.seq}, so the two histories have diverged",
                remedy="import into another store",
                head=self._stored[agent.id].head,
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
        self._may_be_deleted = False  # their agent
        self._rows: list[StoredRow] = []

    def add(self, item: Item) -> None:
        """Write an item. The rows of one agent are written together, when the next item comes."""
        match item:
            case NewRow():
                if item.agent_id != self._agent_id:
                    self.write_rows()
                    self._agent_id = item.agent_id
                    self._may_be_deleted = item.is_deleted
                self._rows.append(item.row)
            case AgentRecord():
                self.write_rows()
                self._create_agent(item)
            case SourceRecord():
                self._transaction.remember_sources([item])

    def write_rows(self) -> None:
        """Write the rows that are not written yet. Raises Conflict if they do not follow the head
        of their agent, or if it was deleted."""
        if not self._rows:
            return
        agent = self._find_agent(self._agent_id)
        was_deleted = agent.deleted_us is not None and not self._may_be_deleted
        if was_deleted or agent.head != self._rows[0].seq - 1:
            raise _build_change_error(agent.name, agent.head)
        self._transaction.add_rows(agent, self._rows)
        self._rows = []

    def _create_agent(self, agent: AgentRecord) -> None:
        parent_pk = None
        if agent.parent is not None:
            parent_pk = self._find_agent(agent.parent).pk
        new = NewAgent.copy_of(agent, parent_pk)
        self._transaction.create_agent(new, [], agent.created_us)

    def _find_agent(self, id: str) -> AgentRecord:
        """Return an agent by its id, even if it is deleted. Raises Conflict if it is gone."""
        found = find_agent_by_id(self._transaction, id, include_deleted=True)
        if found is None:
            raise _build_change_error(id, None)
        return found


def _build_change_error(agent: str, head: int | None) -> Conflict:
    return Conflict(
        f"agent {agent!r} was changed while it was imported, so the import is not complete",
        remedy="import again",
        head=head,
    )
