"""Writes the sessions of other tools to a store.

A session's main thread becomes a root agent. A sub-agent is born at the call that spawned it, and a
fork continues its parent. Events have the ids of their entries as keys, so that nothing is written
twice: not by a second import, not after one that was killed, and not by two at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain, count, islice
from typing import Any, NamedTuple, Protocol

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Conflict, InvalidEvent, NameTaken, NotFound
from backstory.intake import Intake, add_drafts
from backstory.log.arguments import DERIVED_END
from backstory.log.checks import check_draft
from backstory.log.erasure import build_stand_in, is_erased
from backstory.log.events import Draft, Event
from backstory.log.kinds import TOOL_KINDS
from backstory.log.times import EPOCH, to_datetime, to_microseconds
from backstory.storage.ids import name_from_key
from backstory.transcripts.content import make_unique
from backstory.transcripts.decoding import ESCAPED, escape_nul
from backstory.transcripts.masks import ContentFilter
from backstory.transcripts.matching import (
    SPEAKING_KINDS,
    KnownLog,
    LogTree,
    Matcher,
    NewEvent,
    find_shared,
    name_copy,
    name_label,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ExportedPositions,
    Fault,
    ImportedSession,
    ImportReport,
    Label,
    Origin,
    ReadWhole,
    SourceSession,
    Step,
    Thread,
    Unit,
)

LOOK_UP = 500  # steps whose entries are looked up at once
BATCH = 2_000  # events in one transaction, and
BATCH_SIZE = 4_000_000  # about this many bytes: the lock is held for a moment only
OUTLINE = 500  # positions whose kinds are read at once
ATTEMPTS = 20  # against others that import the same
LONGEST_KEY = 300  # characters of an id that are a key as they are
LONGEST_NAME = 60
LONGEST_ABOUT = 2_000  # characters of a title or another detail

DAMAGED = "backstory.damaged"  # a note in place of an event that no store can store
GONE = "backstory.erased"  # a note in place of a copy of an event that was erased
STAND_INS = (DAMAGED, GONE)
REPEATED = "id of something else, numbered"
FORKED_FROM = "forked_from"  # a detail of a fork that does not continue its origin
EARLIER = (
    "it was imported by an earlier version and is left alone: delete the session in the store,"
    " and import it again"
)
BRANCHED = "the session was continued here, too: what the tool added is a branch"


class SessionStore(Protocol):
    """The part of a store that imports use."""

    def intake(self, *, dry_run: bool = False) -> Intake: ...

    def agents(self, *, session: str) -> list[Agent]: ...

    def agent(self, ref: str | None = None, *, key: str | None = None) -> Agent: ...

    def find(self, key: str) -> list[tuple[Agent, Event]]: ...


class ThreadCursor(NamedTuple):
    """Everything that is remembered of a thread between imports."""

    head: int | None = None  # the tool's last message; None: no import was completed
    message: int | None = None  # while an import writes: the last message of the head's line, and
    home: int | None = None  # where the head was before
    newest: int = 0  # time of the newest entry or move of the newest source
    records: int = 0  # how many records that source had
    about: Data = {}  # noqa: RUF012 - never changed; the details that the source said last
    name: str | None = None  # the name that the agent got from a title


def decode_cursor(cursor: Data | None) -> ThreadCursor | None:
    """Return a cursor as it was remembered. None: an earlier version wrote it."""
    if not cursor:
        return ThreadCursor()
    if "newest" not in cursor:
        return None
    return ThreadCursor(**{name: cursor[name] for name in ThreadCursor._fields if name in cursor})


@dataclass
class ThreadImport:
    """One thread that is being written, and its agent."""

    session: SourceSession
    thread: Thread
    intake: Intake
    done: ImportedSession
    agent: Agent | None = None
    is_new: bool = False
    is_export: bool = False  # the agent is the one that the file was exported from
    cursor: ThreadCursor = field(default_factory=ThreadCursor)


class SessionWriter:
    """Writes sessions to a store, one after another."""

    def __init__(
        self, store: SessionStore, changes: ContentFilter, *, is_dry: bool = False
    ) -> None:
        self._store = store
        self._changes = changes
        # What is only compared is not counted as masked.
        self._compared = changes.copy_without_counts()
        self._is_dry = is_dry
        self._agents: dict[str, Agent] = {}  # created in a dry run, by key

    def has_origins(self, session: SourceSession) -> bool:
        """Return True if the store has the threads that a session's threads begin in."""
        for thread in session.threads:
            origin = thread.origin
            if origin is None or origin.session == session.id:
                continue
            if self._find_agent(name_agent_key(session.tool, origin.session, None)) is None:
                return False
        return True

    def write(self, session: SourceSession, *, is_busy: bool, modified: int) -> ImportedSession:
        """Add what the store lacks of a session.

        `is_busy`: leave out what the tool may still change. `modified`: the time of entries
        without one. Raises ReadWhole if the tail of a file is not enough.
        """
        done = ImportedSession(session.tool, session.source, session.id, report=session.report)
        for thread in sort_threads(session.threads):
            for attempt in range(ATTEMPTS):
                intake = self._store.intake(dry_run=self._is_dry)
                job = ThreadImport(session, thread, intake, done)
                try:
                    self._write_thread(job, is_busy, modified)
                    break
                except (Conflict, NameTaken):  # someone else writes to it: look again
                    if attempt == ATTEMPTS - 1:
                        raise
        return done

    def _write_thread(self, job: ThreadImport, is_busy: bool, modified: int) -> None:
        if not self._find_thread(job):
            job.done.report.notes.append(Fault(job.session.source, None, EARLIER))
            return
        report = ImportReport()
        steps = mend_steps(job.thread.read_steps(report), report)
        if job.agent is None:
            first = read_beginning(steps, is_busy)
            began = find_first_time(first) or modified
            origin = job.thread.origin
            is_spawned = origin is not None and origin.is_spawned
            if job.thread.tail is not None:
                raise ReadWhole
            if not is_spawned and not has_message(first, is_busy):
                job.done.unfinished += count_incomplete(first)
                job.done.report.add(report)
                return  # nothing was said yet
            self._create_agent(job, began)
            steps = chain(first, steps)
        writer = ThreadWriter(job, self._changes, is_busy)
        writer.write(steps)
        self._finish(job, writer)
        job.done.report.add(report)

    # --- agents ---

    def _find_thread(self, job: ThreadImport) -> bool:
        """Find the agent of a thread and its cursor. Return False if it has to be left alone."""
        thread = job.thread
        known = job.intake.source(job.session.tool, name_source(thread))
        cursor = decode_cursor(None if known is None else known.cursor)
        if cursor is None:
            return False
        job.cursor = cursor
        job.agent = self._find_exported(thread.exported)
        if job.agent is None:
            job.agent = self._find_agent(
                name_agent_key(job.session.tool, thread.session, thread.id)
            )
        else:
            job.is_export = True
        return True

    def _find_exported(self, exported: ExportedPositions | None) -> Agent | None:
        """Return the agent that a file was exported from, if the store has it as it was then."""
        if exported is None:
            return None
        try:
            agent = self._store.agent(exported.agent)
            return agent if agent.digest(exported.at) == exported.digest else None
        except NotFound:
            return None

    def _find_agent(self, key: str) -> Agent | None:
        if key in self._agents:
            return self._agents[key]
        try:
            return self._store.agent(key=key)
        except AgentNotFound:
            return None

    def _create_agent(self, job: ThreadImport, began: int) -> None:
        """Create the agent of a thread, below the thread that it begins in."""
        tool, thread, intake = job.session.tool, job.thread, job.intake
        birth = self._find_birth(job, began)
        parent = birth.get("parent")
        about = self._list_details(thread)
        wanted = about.get("title") or about.get("agent_type") or tool
        name = self._find_free_name(str(wanted), None if parent is None else parent.session)
        key = name_agent_key(tool, thread.session, thread.id)
        job.agent = intake.agent(key, name=name, created_at=build_moment(began), **birth)
        job.is_new = True
        job.cursor = job.cursor._replace(name=name)
        intake.remember(tool, name_source(thread), agent=job.agent)
        if self._is_dry:
            self._agents[key] = job.agent
        elif birth.get("inherits") or (parent is not None and not birth.get("spawned")):
            intake.commit()  # what it inherits can be looked up from then on

    def _find_birth(self, job: ThreadImport, began: int) -> dict[str, Any]:
        """Return the arguments of `intake.agent` that say where an agent is born."""
        origin = job.thread.origin
        if origin is None:
            return self._find_copied_thread(job)
        parent = self._find_agent(name_agent_key(job.session.tool, origin.session, origin.thread))
        if parent is None and not origin.is_spawned:
            return {}
        if parent is None:
            parent = self._create_orphanage(job, origin, began)
        parent, call = self._find_call(job.intake, parent, origin)
        shared = self._find_fork_position(job, parent, origin, call)
        birth = {"parent": parent, "spawned": origin.is_spawned}
        if shared:
            return {**birth, "at": shared, "inherits": True}
        return {**birth, "at": call} if origin.is_spawned else {}

    def _find_call(self, intake: Intake, parent: Agent, origin: Origin) -> tuple[Agent, int | None]:
        """Return the agent with the call that spawned a thread, and the call's position."""
        position = find_position(intake, parent, origin.call)
        if position is not None or origin.call is None or not origin.is_spawned or self._is_dry:
            return parent, position
        for agent in self._store.agents(session=parent.session):
            position = find_position(intake, agent, origin.call)
            if position is not None:
                return agent, position
        return parent, None

    def _find_copied_thread(self, job: ThreadImport) -> dict[str, Any]:
        """Return where a thread is born that begins with a copy of another session, and does not
        say so."""
        if not job.thread.has_global_ids:
            return {}
        birth: dict[str, Any] = {}
        tried: set[str] = set()
        id = find_first_unknown(job.intake, None, job.thread.read_units())
        while id is not None:
            owners = [agent for agent, _ in self._store.find(shorten_key(id))]
            owners = [agent for agent in owners if agent.id not in tried and not agent.spawned]
            if not owners:
                break
            parent = owners[0]
            tried.add(parent.id)
            shared = find_last_shared(job.intake, parent, job.thread.read_units())
            if shared is None:
                break
            birth = {"parent": parent, "at": shared}
            id = find_first_unknown(job.intake, parent, job.thread.read_units())
        return birth

    def _find_fork_position(
        self, job: ThreadImport, parent: Agent, origin: Origin, call: int | None
    ) -> int | None:
        """Return the position of the last entry that a thread shares with its parent."""
        if origin.copies_content:
            positions = find_shared(list_entries(job.thread), parent.events())
            last = positions[-1] if positions else 0
            if origin.is_spawned and origin.call is not None:
                # It inherits only if it copied everything up to its call.
                return last if call is not None and last >= call else None
            return last
        if origin.entry is not None:
            return find_position(job.intake, parent, origin.entry)
        if origin.is_spawned:
            return None
        return find_last_shared(job.intake, parent, job.thread.read_units())

    def _create_orphanage(self, job: ThreadImport, origin: Origin, began: int) -> Agent:
        """Create a root without events for a thread whose parent is not here."""
        tool, intake = job.session.tool, job.intake
        key = name_agent_key(tool, origin.session, origin.thread)
        agent = intake.agent(key, name=build_name(tool), created_at=build_moment(began))
        intake.remember(tool, name_thread(origin.session, origin.thread), agent=agent)
        if self._is_dry:
            self._agents[key] = agent
        intake.commit()
        job.done.is_new = True
        return agent

    # --- details ---

    def _finish(self, job: ThreadImport, writer: "ThreadWriter") -> None:
        """Commit the rest of a thread with its details and its cursor, and count."""
        agent, done = job.agent, job.done
        assert agent is not None
        cursor = writer.build_final_cursor()
        if not job.is_export:
            cursor = self._describe(job, agent, cursor)
        if cursor != job.cursor or job.is_new:
            source = name_source(job.thread)
            job.intake.remember(job.session.tool, source, agent=agent, cursor=cursor._asdict())
        writer.commit()
        if not job.is_export and not self._is_dry:
            self._rename(job, agent, cursor)
        done.open_calls += writer.count_open_calls()
        done.unfinished += writer.matcher.unfinished
        if writer.matcher.has_new_branch:
            done.report.notes.append(Fault(job.session.source, None, BRANCHED))
        self._count_agent(job, agent)

    def _count_agent(self, job: ThreadImport, agent: Agent) -> None:
        done, thread = job.done, job.thread
        done.new_agents += job.is_new
        if thread.id is None and thread.session == job.session.id:
            done.is_new = done.is_new or job.is_new
            done.agent, done.title = agent.id, self._list_details(thread).get("title")
        elif done.agent is None:
            done.agent = agent.session

    def _list_details(self, thread: Thread) -> Data:
        """Return what a source says of a thread, as it is stored."""
        details = {}
        for name, value in thread.about.items():
            if name != "source":
                details[name] = self._prepare_detail(value, self._compared)
        return details

    def _prepare_detail(self, value: Any, changes: ContentFilter) -> Any:
        if isinstance(value, str):
            value = escape_nul(value)[:LONGEST_ABOUT]
        return changes.filter_value(value)

    def _describe(self, job: ThreadImport, agent: Agent, cursor: ThreadCursor) -> ThreadCursor:
        """Set the details that changed since the source said them last: a person's title stays."""
        details = self._list_details(job.thread)
        missed = self._find_missed_origin(job.thread, agent)
        if missed is not None:
            details[FORKED_FROM] = missed
        before = cursor.about
        changed = {}
        for name, value in details.items():
            if value and before.get(name) != value:
                changed[name] = value
        new = {}
        for name, value in changed.items():
            given = job.thread.about.get(name, value)
            new[name] = self._prepare_detail(given, self._changes)
        if job.is_new or "source" not in agent.about:
            source = {"tool": job.session.tool, "session": escape_nul(job.thread.session)}
            if job.thread.id is not None:
                source["thread"] = escape_nul(job.thread.id)
            new["source"] = source
        if new:
            job.intake.describe(agent, **new)
        return cursor._replace(about={**before, **changed})

    def _find_missed_origin(self, thread: Thread, agent: Agent) -> str | None:
        """Return the session that a thread is a fork of, if its agent does not continue it."""
        origin = thread.origin
        if origin is None or origin.is_spawned or origin.session == thread.session:
            return None
        return shorten_key(origin.session) if agent.parent is None else None

    def _rename(self, job: ThreadImport, agent: Agent, cursor: ThreadCursor) -> None:
        """Name an agent after a title that came later. A name that a person gave it stays."""
        title = cursor.about.get("title")
        if not title or title == job.cursor.about.get("title") or agent.name != cursor.name:
            return
        name = self._find_free_name(str(title), agent.session, besides=agent.name)
        if name == agent.name:
            return
        agent.rename(name)
        intake = self._store.intake()
        renamed = cursor._replace(name=name)._asdict()
        intake.remember(job.session.tool, name_source(job.thread), cursor=renamed)
        intake.commit()

    def _find_free_name(self, wanted: str, session: str | None, besides: str = "") -> str:
        """Return a name that no other agent of a session has."""
        taken = set()
        if session is not None and not self._is_dry:
            taken = {agent.name for agent in self._store.agents(session=session)} - {besides}
        name = unique = build_name(wanted)
        for number in count(2):
            if unique not in taken:
                break
            unique = f"{name}-{number}"
        return unique


class ThreadWriter:
    """Writes the steps of one thread to its agent, in batches."""

    def __init__(self, job: ThreadImport, changes: ContentFilter, is_busy: bool) -> None:
        assert job.agent is not None
        self._job = job
        self._agent = job.agent
        self._changes = changes
        self._positions: dict[str, list[int]] = {}  # of entries that the log had
        self._certain: dict[str, int] = {}
        self._shared = self._find_shared_positions()
        self._exported = job.thread.exported if job.is_export else None
        self._calls: set[str] = set()
        self._results: set[str] = set()
        self._batch: list[NewEvent] = []
        self._size = 0
        self._floor = to_microseconds(self._agent.created_at)
        self._log = self._load_log()
        self._written = self._log.head
        self.matcher = Matcher(self._log, is_busy=is_busy, tail=job.thread.tail)

    def count_open_calls(self) -> int:
        """Return the number of calls without a result."""
        return len(self._calls - self._results)

    def write(self, steps: Iterator[Step]) -> None:
        """Write what is new. The last batch waits for `commit`."""
        for event in self.matcher.match(self._look_up(steps)):
            self._batch.append(event)
            self._size += len(event.content or "") + 200
            if event.data is not None and "native" in event.data:
                self._size += len(event.content or "") + 2_000
            if len(self._batch) >= BATCH or self._size >= BATCH_SIZE:
                self._remember_unfinished()
                self.commit()
        self._hand_over()

    def commit(self) -> None:
        """Write the batch, and count it."""
        self._hand_over()
        self._job.intake.commit()

    def build_final_cursor(self) -> ThreadCursor:
        """Return what is remembered of the thread after its last step."""
        cursor, matcher = self._job.cursor, self.matcher
        newest, records = cursor.newest, cursor.records
        if matcher.is_newer:
            newest, records = matcher.newest, matcher.count_records()
        if matcher.unfinished:
            records = 0  # the same records are more, once they are complete
        head = cursor.head if matcher.tool_message is None else matcher.tool_message
        return cursor._replace(head=head, message=None, home=None, newest=newest, records=records)

    def _remember_unfinished(self) -> None:
        """Remember where the head is and was, in case that the import is killed."""
        job = self._job
        cursor = job.cursor._replace(message=self.matcher.message, home=self._log.home)
        source = name_source(job.thread)
        job.intake.remember(job.session.tool, source, agent=self._agent, cursor=cursor._asdict())

    # --- the log ---

    def _load_log(self) -> KnownLog:
        """Return the part of the agent's log that is compared."""
        agent, cursor = self._agent, self._job.cursor
        positions = self._positions  # no reference to the writer: it has the whole source
        log = KnownLog(
            newest=cursor.newest,
            records=cursor.records,
            find=lambda entry: positions.get(entry, ()),
        )
        head = agent.listed_head
        if not head:
            return log
        moves = [(move.seq, move.base) for move in agent.moves() if move.kind != "clear"]
        tree = LogTree(moves)
        message = find_message(agent, tree, head)
        is_interrupted = cursor.message is not None and cursor.message == message
        home = cursor.home if is_interrupted and cursor.home is not None else head
        home_message = find_message(agent, tree, home)
        tool_message = cursor.head
        if tool_message is None and self._exported is not None:
            tool_message = find_message(agent, tree, self._exported.at)
        is_moved = cursor.message is not None and not is_interrupted
        if tool_message is not None:
            is_moved = home_message != tool_message
        return replace(
            log,
            tree=tree,
            head=head,
            message=message,
            time=to_microseconds(agent.updated_at),
            home=home,
            home_message=home_message,
            is_moved=is_moved,
            is_fork=bool(agent.fork_seq),
            certain=self._certain,
        )

    def _find_shared_positions(self) -> Iterator[int]:
        """Return the inherited positions of the thread's first entries, if they have other ids."""
        thread, agent = self._job.thread, self._agent
        copies = thread.origin is not None and thread.origin.copies_content
        if not copies or not agent.fork_seq:
            return iter(())
        return iter(find_shared(list_entries(thread), agent.events(until=agent.fork_seq)))

    def _look_up(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield the steps. Before one is yielded, the positions of its entries are looked up."""
        while chunk := list(islice(steps, LOOK_UP)):
            if self._log.head:
                self._find_positions(chunk)
            for step in chunk:
                if isinstance(step, Unit):
                    self._note_calls(step)
                yield step
        self.matcher.records = self._job.thread.records

    def _find_positions(self, steps: Sequence[Step]) -> None:
        """Find the positions of the entries of some steps, and of their copies."""
        ids = list(chain.from_iterable(map(list_ids, steps)))
        self._find_keys(ids)
        for step in steps:
            if not isinstance(step, Unit):
                continue
            for entry in step.entries:
                position = next(self._shared, None)
                if position is not None:
                    self._certain[entry.id] = position
            if self._exported is not None:
                self._certain.update(find_exported(self._exported, step.entries))

    def _find_keys(self, ids: Iterable[str]) -> None:
        by_key = {shorten_key(id): id for id in ids}
        for number in count(2):
            found = self._job.intake.find_positions(self._agent, by_key)
            for key, position in found.items():
                self._positions.setdefault(by_key[key], []).append(position)
            if not found or not self._log.tree.has_moves:
                return
            # The ids of copies are numbered.
            known = [by_key[key] for key in found]
            by_key = {shorten_key(name_copy(id, number)): id for id in known}

    def _note_calls(self, unit: Unit) -> None:
        for entry in unit.entries:
            if entry.kind in TOOL_KINDS and entry.copy_of is None:
                ids = self._calls if entry.kind == "tool_call" else self._results
                ids.add(str((entry.data or {}).get("id")))

    # --- events ---

    def _hand_over(self) -> None:
        """Give the batch to the intake."""
        if not self._batch:
            return
        originals = {event.original for event in self._batch if event.original is not None}
        committed = sorted(one for one in originals if one <= self._written)
        erased = self._find_erased(committed)
        drafts = []
        for new in self._batch:
            if new.original in erased:
                new = replace_erased(new, erased[new.original])
            drafts.append(self._build_draft(new))
        repeated = set(committed) - set(erased)
        add_drafts(self._job.intake, self._agent, drafts, self._written, repeated)
        self._written += len(drafts)
        kinds = [draft.kind for draft in drafts]
        done = self._job.done
        done.new_events += len(kinds)
        done.branches += kinds.count("jump")
        done.cuts += kinds.count("clear")
        self._batch, self._size = [], 0

    def _find_erased(self, positions: Sequence[int]) -> dict[int | None, Event]:
        """Return the events at these positions that were erased."""
        events = self._agent.events(positions) if positions else []
        return {event.seq: event for event in events if is_erased(event.data_json)}

    def _build_draft(self, event: NewEvent) -> Draft:
        """Return what can be stored of an event. If nothing can, a note takes its position."""
        data = self._changes.filter_value(event.data)
        if event.source_time is not None:
            data = {**(data or {}), "source": {"time": event.source_time}}
        content = event.content
        if content is not None and event.kind != "note":
            content = self._changes.filter_text(content)
        key = None if event.id is None else shorten_key(event.id)
        try:
            draft = check_draft(event.kind, content, data, key)
        except InvalidEvent as error:
            done = self._job.done
            done.report.damaged.append(Fault(done.source, None, error.message))
            why = {"kind": event.kind, "why": error.message[:500]}
            draft = check_draft("note", DAMAGED, why, key)
        return draft._replace(created_us=max(event.time or self._floor, 0))


def find_exported(exported: ExportedPositions, entries: Sequence[Entry]) -> dict[str, int]:
    """Return the positions of the entries of a unit that were in the file when it was written.

    An entry that a repair added has position 0, and so has a clear: it stands for a root. If a line
    has fewer entries than positions, its last entry stands for the rest.
    """
    found: dict[str, int] = {}
    by_line: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.copy_of is None:
            by_line.setdefault(entry.line, []).append(entry)
    for line, own in by_line.items():
        positions = exported.get_positions(line)
        if positions is None:
            continue
        for number, entry in enumerate(own):
            position = 0
            if positions and entry.kind != "clear":
                is_last = entry is own[-1]
                position = positions[-1] if is_last else positions[min(number, len(positions) - 1)]
            found[entry.id] = position
    return found


# --- the log of an agent ---


def find_message(agent: Agent, tree: LogTree, end: int) -> int:
    """Return the last position of the line that ends at `end` with a message or a clear."""
    for first, last in tree.list_runs(end):
        while last >= first:
            low = max(first - 1, last - OUTLINE)
            rows = agent.outline(low, last)
            notes = [row.seq for row in rows if row.kind == "note"]
            stand_ins = {e.seq for e in agent.events(notes[-5:]) if e.content in STAND_INS}
            for row in reversed(rows):
                if row.kind in SPEAKING_KINDS or row.seq in stand_ins:
                    return row.seq
            last = low
    return 0


def find_position(intake: Intake, agent: Agent, entry: str | None) -> int | None:
    """Return the newest position of an entry in an agent's lineage."""
    if entry is None:
        return None
    key = shorten_key(entry)
    return intake.find_positions(agent, [key]).get(key)


def find_first_unknown(intake: Intake, agent: Agent | None, units: Iterator[Unit]) -> str | None:
    """Return the id of the first entry that an agent's lineage lacks. Without one: of the first."""
    while chunk := list(islice(units, LOOK_UP)):
        ids = [entry.id for unit in chunk for entry in unit.entries]
        found = {} if agent is None else intake.find_positions(agent, map(shorten_key, ids))
        for id in ids:
            if shorten_key(id) not in found:
                return id
    return None


def find_last_shared(intake: Intake, agent: Agent, units: Iterator[Unit]) -> int | None:
    """Return the position after which a fork's first own entry comes. None: nothing is shared."""
    tips: dict[str | None, int] = {None: 0}
    last = 0
    while chunk := list(islice(units, LOOK_UP)):
        keys = {shorten_key(entry.id) for unit in chunk for entry in unit.entries}
        found = intake.find_positions(agent, keys)
        for unit in chunk:
            tip = tips.get(unit.after, last)
            for entry in unit.entries:
                position = found.get(shorten_key(entry.id))
                if position is None:
                    return tip or None
                tip = max(tip, position)
            tips[unit.id] = last = tip
    return last or None


def replace_erased(new: NewEvent, original: Event) -> NewEvent:
    """Return what is written in place of a copy of an event that was erased."""
    stand_in = build_stand_in(original)
    if stand_in is None:
        return new._replace(kind="note", content=GONE, data=None)
    return new._replace(kind=original.kind, content=stand_in.content, data=stand_in.data)


def build_moment(microseconds: int) -> datetime:
    """Return a time that every store can store."""
    try:
        return to_datetime(max(microseconds, 0))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else EPOCH


# --- steps ---


def read_beginning(steps: Iterator[Step], is_busy: bool) -> list[Step]:
    """Return the steps up to the first message."""
    first: list[Step] = []
    for step in steps:
        first.append(step)
        if has_message([step], is_busy):
            break
    return first


def has_message(steps: Iterable[Step], is_busy: bool) -> bool:
    """Return True if the steps contain a message that can be written now."""
    for step in steps:
        if not isinstance(step, Unit) or (is_busy and not step.is_complete):
            continue
        if any(entry.kind in SPEAKING_KINDS for entry in step.entries):
            return True
    return False


def count_incomplete(steps: Iterable[Step]) -> int:
    """Return the number of units that the tool may still change."""
    return sum(isinstance(step, Unit) and not step.is_complete for step in steps)


def find_first_time(steps: Iterable[Step]) -> int | None:
    """Return the time of the first entry that has one."""
    for step in steps:
        for entry in step.entries if isinstance(step, Unit) else ():
            if entry.time:
                return entry.time
    return None


def list_entries(thread: Thread) -> Iterator[Entry]:
    """Yield the messages of a thread."""
    for unit in thread.read_units():
        for entry in unit.entries:
            if entry.kind in SPEAKING_KINDS:
                yield entry


def list_ids(step: Step) -> Iterator[str]:
    """Yield the ids under which a log has what a step says, and of what it repeats."""
    if isinstance(step, Unit):
        for entry in step.entries:
            yield entry.id
            if entry.copy_of is not None:
                yield entry.copy_of
    elif isinstance(step, Label):
        yield name_label(step)


def mend_steps(steps: Iterable[Step], report: ImportReport) -> Iterator[Step]:
    """Yield steps that every store can store: U+0000 is escaped, and no id is used twice."""
    ids: set[str] = set()
    for step in steps:
        if isinstance(step, Unit):
            entries = tuple(mend_entry(entry, ids, report) for entry in step.entries)
            step = step._replace(entries=entries)
        yield step


def mend_entry(entry: Entry, ids: set[str], report: ImportReport) -> Entry:
    """Return an entry with an id that is not among `ids`, to which it is added."""
    if entry.content is not None and "\0" in entry.content:
        report.mended[ESCAPED] += 1
        entry = entry._replace(content=escape_nul(entry.content))
    if entry.id in ids:
        report.mended[REPEATED] += 1
        entry = entry._replace(id=make_unique(entry.id, ids))
    ids.add(entry.id)
    return entry


def sort_threads(threads: Sequence[Thread]) -> list[Thread]:
    """Return threads so that each comes after the thread of its session that it begins in."""
    waiting = list(threads)
    found: list[Thread] = []
    while waiting:
        ids = {thread.id for thread in waiting}
        ready = [thread for thread in waiting if not waits_for(thread, ids)] or waiting[:1]
        found += ready
        waiting = [thread for thread in waiting if thread not in ready]
    return found


def waits_for(thread: Thread, ids: set[str | None]) -> bool:
    """Return True if a thread begins in another one of its session with one of these ids."""
    origin = thread.origin
    if origin is None or origin.session != thread.session or origin.thread == thread.id:
        return False
    return origin.thread in ids


# --- names ---


def shorten_key(id: str) -> str:
    """Return an id as a key: its digest, if it is too long or cannot be a key."""
    if id and len(id) <= LONGEST_KEY and id.isprintable() and not DERIVED_END.search(id):
        return id
    digest = blake2b(id.encode(errors="surrogatepass"), digest_size=16)
    return f"digest:{digest.hexdigest()}"


def name_thread(session: str, thread: str | None) -> str:
    """Return the id under which a thread is remembered."""
    return shorten_key(session if thread is None else f"{session}/{thread}")


def name_source(thread: Thread) -> str:
    """Return the id under which a thread is remembered."""
    return name_thread(thread.session, thread.id)


def name_agent_key(tool: str, session: str, thread: str | None) -> str:
    """Return the key of a thread's agent."""
    return shorten_key(f"{tool}:{session}" if thread is None else f"{tool}:{session}/{thread}")


def build_name(text: str) -> str:
    """Return a text as a name for an agent."""
    return name_from_key(" ".join(text.split())[:LONGEST_NAME])
