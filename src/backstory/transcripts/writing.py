"""Writes the sessions of other tools to a store.

A session's main thread becomes a root agent. A sub-agent is born at the call that spawned it, and a
fork continues its parent. Events have the ids of their entries as keys, so that nothing is written
twice: not by a second import, not after one that was killed, and not by two at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
from backstory.log.times import to_datetime, to_microseconds
from backstory.storage.ids import name_from_key
from backstory.transcripts.content import get_call_id, make_unique
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
    TailRule,
    Thread,
    Unit,
    order_nodes,
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
COPIED = "{} entries are there again as copies: something before them came late or changed"
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
    # While an import writes: the last message of the line of the log's head, and where that head
    # was before.
    message: int | None = None
    home: int | None = None
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

    def remember(self, cursor: ThreadCursor) -> None:
        """Let the next commit remember the thread's agent and cursor."""
        source = name_source(self.thread.session, self.thread.id)
        tool = self.session.tool
        self.intake.remember(tool, source, agent=self.agent, cursor=cursor._asdict())


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
        # What was written of sessions before one of their files had to be read whole.
        self._interrupted: dict[tuple[str, str], ImportedSession] = {}

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
        interrupted = self._interrupted.pop((session.tool, session.id), None)
        if interrupted is not None:
            done.add_written(interrupted)
        for thread in sort_threads(session.threads):
            for attempt in range(ATTEMPTS):
                intake = self._store.intake(dry_run=self._is_dry)
                job = ThreadImport(session, thread, intake, done)
                try:
                    self._write_thread(job, is_busy, modified)
                    break
                except ReadWhole:
                    self._interrupted[session.tool, session.id] = done
                    raise
                except (Conflict, NameTaken):  # someone else writes to it: look again
                    if attempt == ATTEMPTS - 1:
                        raise
        return done

    def _write_thread(self, job: ThreadImport, is_busy: bool, modified: int) -> None:
        if not self._find_thread(job):
            job.done.report.add_note(job.session.source, EARLIER)
            return
        report = ImportReport()
        steps = mend_steps(job.thread.read_steps(report), report)
        if job.agent is None:
            TailRule(job.thread.tail).refuse("the store does not have the thread")
            first = read_beginning(steps, is_busy)
            origin = job.thread.origin
            is_spawned = origin is not None and origin.is_spawned
            if not is_spawned and not (first and is_message(first[-1], is_busy)):
                job.done.unfinished += count_incomplete(first)
                job.done.report.add(report)
                return  # nothing was said yet
            self._create_agent(job, find_first_time(first) or modified)
            steps = chain(first, steps)
        writer = ThreadWriter(job, self._changes, is_busy)
        writer.write(steps)
        self._finish(job, writer)
        job.done.report.add(report)

    # --- agents ---

    def _find_thread(self, job: ThreadImport) -> bool:
        """Find the agent of a thread and its cursor. Return False if it has to be left alone."""
        thread = job.thread
        known = job.intake.source(job.session.tool, name_source(thread.session, thread.id))
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
        thread = job.thread
        birth = self._find_birth(job, began)
        parent = birth.get("parent")
        about = self._list_details(thread)
        wanted = about.get("title") or about.get("agent_type") or job.session.tool
        name = self._find_free_name(str(wanted), None if parent is None else parent.session)
        job.agent = self._add_agent(job, thread.session, thread.id, name, began, **birth)
        job.is_new = True
        job.cursor = job.cursor._replace(name=name)
        if birth.get("inherits") or (parent is not None and not birth.get("spawned")):
            job.intake.commit()  # what it inherits can be looked up from then on

    def _add_agent(
        self,
        job: ThreadImport,
        session: str,
        thread: str | None,
        name: str,
        began: int,
        **birth: Any,
    ) -> Agent:
        """Add an agent to the intake, and remember that a thread became it."""
        tool = job.session.tool
        key = name_agent_key(tool, session, thread)
        agent = job.intake.agent(key, name=name, created_at=to_datetime(max(began, 0)), **birth)
        job.intake.remember(tool, name_source(session, thread), agent=agent)
        if self._is_dry:
            self._agents[key] = agent
        return agent

    def _find_birth(self, job: ThreadImport, began: int) -> dict[str, Any]:
        """Return the arguments of `intake.agent` that say where an agent is born."""
        origin = job.thread.origin
        if origin is None:
            return self._find_copied_thread(job)
        parent = self._find_agent(name_agent_key(job.session.tool, origin.session, origin.thread))
        if parent is None and not origin.is_spawned:
            return {}
        if parent is None:
            # A root without events, for a thread whose parent is not here.
            name = build_name(job.session.tool)
            parent = self._add_agent(job, origin.session, origin.thread, name, began)
            job.intake.commit()
            job.done.is_new = True
        call = find_position(job.intake, parent, origin.call)
        shared = self._find_fork_position(job, parent, origin, call)
        birth = {"parent": parent, "spawned": origin.is_spawned}
        if shared:
            return {**birth, "at": shared, "inherits": True}
        return {**birth, "at": call} if origin.is_spawned else {}

    def _find_copied_thread(self, job: ThreadImport) -> dict[str, Any]:
        """Return where a thread is born that begins with a copy of another session, and does not
        say so."""
        if not job.thread.has_global_ids:
            return {}
        birth: dict[str, Any] = {}
        tried: set[str] = set()
        ids = chain.from_iterable(map(list_ids, job.thread.read_units()))
        id = next(ids, None)
        while id is not None:
            owners = [agent for agent, _ in self._store.find(shorten_key(id))]
            owners = [agent for agent in owners if agent.id not in tried and not agent.spawned]
            if not owners:
                break
            parent = owners[0]
            tried.add(parent.id)
            shared, id = find_own_beginning(job.intake, parent, job.thread.read_units())
            if shared is None:
                break
            birth = {"parent": parent, "at": shared}
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
        shared, _ = find_own_beginning(job.intake, parent, job.thread.read_units())
        return shared

    # --- details ---

    def _finish(self, job: ThreadImport, writer: "ThreadWriter") -> None:
        """Commit the rest of a thread with its details and its cursor, and count."""
        agent, done = job.agent, job.done
        assert agent is not None
        cursor = writer.build_final_cursor()
        if not job.is_export:
            cursor = self._describe(job, agent, cursor)
        if cursor != job.cursor or job.is_new:
            job.remember(cursor)
        writer.commit()
        if not job.is_export and not self._is_dry:
            self._rename(job, agent, cursor)
        done.open_calls += writer.count_open_calls()
        done.unfinished += writer.matcher.unfinished
        if writer.matcher.copied:
            done.report.add_note(job.session.source, COPIED.format(writer.matcher.copied))
        if writer.matcher.has_new_branch:
            done.report.add_note(job.session.source, BRANCHED)
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
        job.remember(cursor._replace(name=name))
        job.intake.commit()

    def _find_free_name(self, wanted: str, session: str | None, besides: str = "") -> str:
        """Return a name that no other agent of a session has."""
        taken = set()
        if session is not None and not self._is_dry:
            taken = {agent.name for agent in self._store.agents(session=session)} - {besides}
        return make_unique(build_name(wanted), taken, "-")


class ThreadWriter:
    """Writes the steps of one thread to its agent, in batches."""

    def __init__(self, job: ThreadImport, changes: ContentFilter, is_busy: bool) -> None:
        assert job.agent is not None
        self._job = job
        self._agent = job.agent
        self._changes = changes
        self._shared = self._find_shared_positions()
        self._exported = job.thread.exported if job.is_export else None
        self._calls: dict[str, set[str]] = {"tool_call": set(), "tool_result": set()}  # their ids
        self._batch: list[Draft] = []
        self._size = 0  # of the batch
        self._repeated: set[int] = set()  # positions whose text the batch contains again
        self._floor = to_microseconds(self._agent.created_at)
        self._log = self._load_log()
        self._head = self._log.newest_position  # in the store
        self.matcher = Matcher(self._log, is_busy=is_busy, tail=job.thread.tail)

    def count_open_calls(self) -> int:
        """Return the number of calls without a result."""
        return len(self._calls["tool_call"] - self._calls["tool_result"])

    def write(self, steps: Iterator[Step]) -> None:
        """Write what is new. The last batch waits for `commit`."""
        for event in self.matcher.match(self._look_up(steps)):
            draft = self._build_draft(self._replace_erased(event))
            self._batch.append(draft)
            self._size += len(draft.content or "") + len(draft.data_json or "")
            if len(self._batch) >= BATCH or self._size >= BATCH_SIZE:
                self._remember_unfinished()
                self.commit()

    def commit(self) -> None:
        """Write the batch with all that waits in the intake, and count it."""
        if self._batch:
            add_drafts(self._job.intake, self._agent, self._batch, self._head, self._repeated)
        self._job.intake.commit()
        done = self._job.done
        kinds = [draft.kind for draft in self._batch]
        done.new_events += len(kinds)
        done.branches += kinds.count("jump")
        done.cuts += kinds.count("clear")
        self._head += len(kinds)
        self._batch, self._size, self._repeated = [], 0, set()

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
        cursor = self._job.cursor
        self._job.remember(cursor._replace(message=self.matcher.message, home=self._log.home))

    # --- the log ---

    def _load_log(self) -> KnownLog:
        """Return the part of the agent's log that is compared."""
        agent, cursor = self._agent, self._job.cursor
        log = KnownLog(
            newest=cursor.newest, records=cursor.records, newest_position=agent.listed_head
        )
        if not log.newest_position:
            return log
        moves = [(move.seq, move.base) for move in agent.moves() if move.kind != "clear"]
        log.tree = LogTree(moves)
        log.time = to_microseconds(agent.updated_at)
        log.is_fork = bool(agent.fork_seq)
        log.head_message = find_message(agent, log.tree, log.newest_position)
        log.home = log.newest_position
        is_interrupted = cursor.message == log.head_message
        if is_interrupted and cursor.home is not None:
            log.home = cursor.home
        log.home_message = find_message(agent, log.tree, log.home)
        tool_message = cursor.head
        if tool_message is None and self._exported is not None:
            tool_message = find_message(agent, log.tree, self._exported.at)
        if tool_message is not None:
            log.is_moved = log.home_message != tool_message
        else:
            log.is_moved = cursor.message is not None and not is_interrupted
        return log

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
            if self._log.newest_position:
                self._find_positions(chunk)
            for step in chunk:
                if isinstance(step, Unit):
                    self._note_calls(step)
                yield step
        self.matcher.records = self._job.thread.records

    def _find_positions(self, steps: Sequence[Step]) -> None:
        """Find the positions of the entries of some steps, and of their copies."""
        self._find_keys(chain.from_iterable(map(list_ids, steps)))
        log = self._log
        for step in steps:
            if not isinstance(step, Unit):
                continue
            certain = {}
            if self._exported is not None:
                certain = find_exported(self._exported, step.entries)
            for entry in step.entries:
                position = next(self._shared, certain.get(entry.id))
                if position is not None:
                    log.certain[entry.id] = position
                    log.positions[entry.id] = [position]

    def _find_keys(self, ids: Iterable[str]) -> None:
        positions = self._log.positions
        by_key = {shorten_key(id): id for id in ids if id not in positions}
        for number in count(2):
            found = self._job.intake.find_positions(self._agent, by_key)
            for key, position in found.items():
                positions.setdefault(by_key[key], []).append(position)
            if not found or not self._log.tree.has_moves:
                return
            # The ids of copies are numbered.
            known = [by_key[key] for key in found]
            by_key = {shorten_key(name_copy(id, number)): id for id in known}

    def _note_calls(self, unit: Unit) -> None:
        for entry in unit.entries:
            if entry.kind in TOOL_KINDS and entry.copy_of is None:
                self._calls[entry.kind].add(str(get_call_id(entry.data)))

    # --- events ---

    def _replace_erased(self, new: NewEvent) -> NewEvent:
        """Return an event. If it repeats one that was erased, return what takes its position."""
        if new.original is None or not 0 < new.original <= self._head:
            return new
        [original] = self._agent.events([new.original])
        if not is_erased(original.data_json):
            self._repeated.add(new.original)
            return new
        stand_in = build_stand_in(original)
        if stand_in is None:
            return new._replace(kind="note", content=GONE, data=None)
        return new._replace(kind=original.kind, content=stand_in.content, data=stand_in.data)

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
    has fewer entries than positions, its last entry is at the last one.
    """
    by_line: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.copy_of is None:
            by_line.setdefault(entry.line, []).append(entry)
    found: dict[str, int] = {}
    for line, own in by_line.items():
        positions = exported.get_positions(line)
        if positions is None:
            continue
        waiting = positions or [0]
        for entry in reversed(own):
            position = waiting[-1]
            waiting = waiting[:-1] or waiting
            found[entry.id] = 0 if entry.kind == "clear" else position
    return found


# --- the log of an agent ---


def find_message(agent: Agent, tree: LogTree, end: int) -> int:
    """Return the last position of the line that ends at `end` with a message or a clear."""
    for first, last in tree.list_runs(end):
        while last >= first:
            low = max(first - 1, last - OUTLINE)
            rows = agent.outline(low, last)
            notes = [row.seq for row in rows if row.kind == "note"]
            stand_ins = {e.seq for e in agent.events(notes) if e.content in STAND_INS}
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


def find_own_beginning(
    intake: Intake, agent: Agent, units: Iterator[Unit]
) -> tuple[int | None, str | None]:
    """Return the position after which a fork's first own entry comes, and that entry's id.

    The position is None if nothing is shared, the id if everything is.
    """
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
                    return tip or None, entry.id
                tip = max(tip, position)
            tips[unit.id] = last = tip
    return last or None, None


# --- steps ---


def read_beginning(steps: Iterator[Step], is_busy: bool) -> list[Step]:
    """Return the steps up to the first message."""
    first: list[Step] = []
    for step in steps:
        first.append(step)
        if is_message(step, is_busy):
            break
    return first


def is_message(step: Step, is_busy: bool) -> bool:
    """Return True if a step contains a message that can be written now."""
    if not isinstance(step, Unit) or (is_busy and not step.is_complete):
        return False
    return any(entry.kind in SPEAKING_KINDS for entry in step.entries)


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
    parents: dict[str, str | None] = {}
    for thread in threads:
        origin = thread.origin
        parent = None if origin is None else name_thread(origin.session, origin.thread)
        parents[name_thread(thread.session, thread.id)] = parent
    ranks = {name: rank for rank, name in enumerate(order_nodes(parents))}
    return sorted(threads, key=lambda thread: ranks[name_thread(thread.session, thread.id)])


# --- names ---


def shorten_key(id: str) -> str:
    """Return an id as a key: its digest, if it is too long or cannot be a key."""
    if id and len(id) <= LONGEST_KEY and id.isprintable() and not DERIVED_END.search(id):
        return id
    digest = blake2b(id.encode(errors="surrogatepass"), digest_size=16)
    return f"digest:{digest.hexdigest()}"


def name_thread(session: str, thread: str | None) -> str:
    """Return the tool's id of a thread."""
    return session if thread is None else f"{session}/{thread}"


def name_source(session: str, thread: str | None) -> str:
    """Return the id under which a thread is remembered."""
    return shorten_key(name_thread(session, thread))


def name_agent_key(tool: str, session: str, thread: str | None) -> str:
    """Return the key of a thread's agent."""
    return shorten_key(f"{tool}:{name_thread(session, thread)}")


def build_name(text: str) -> str:
    """Return a text as a name for an agent."""
    return name_from_key(" ".join(text.split())[:LONGEST_NAME])
