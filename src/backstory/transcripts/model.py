"""The values that a transcript consists of, and the reports of an import. Pure.

A session has threads, a thread has steps, and a step is a unit, a move or a label. Nothing here
knows where a record came from or where an event goes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from backstory.errors import Error

Data = dict[str, Any]

OUTSIDE = "(before the tail)"  # `Unit.after` of a unit that continues something before the tail


class ReadWhole(Exception):
    """Raised if a tail refers to something before it.

    `Importer._import_group` then reads the group's files whole.
    """


class Unreadable(Error):
    """A source that cannot be read at all, and why."""


class Entry(NamedTuple):
    """An event of a transcript, without a position."""

    # It does not change when the source grows, shrinks or is reordered: the tool's own id of the
    # record, or the record's time and content. Entries that share an id are numbered by the core.
    id: str
    kind: str  # "system", "user", "assistant", "tool_call", "tool_result", "clear" or "note"
    content: str | None = None
    data: Data | None = None
    time: int | None = None  # microseconds since 1970, as the source has it
    copy_of: str | None = None  # id of the entry that a compaction repeats
    line: int = 0  # number of its record; the positions in an exported file are found by it

    def copy_after(self, compaction: str) -> "Entry":
        """Return the entry again, as one that a compaction with this id keeps."""
        return self._replace(id=f"{self.id}@{compaction}", copy_of=self.id)


class Unit(NamedTuple):
    """A node of a transcript's tree: a prompt, an answer with its results, a compaction."""

    id: str
    after: str | None  # the unit that it continues; None: the beginning; OUTSIDE: not in this tail
    entries: tuple[Entry, ...]
    is_complete: bool = True  # False: the tool may still change an entry in place
    time: int | None = None  # of its newest record, if no entry has that time


class SourceMove(NamedTuple):
    """The tool went to the end of a unit (None: to the beginning) and said nothing there yet."""

    to: str | None
    time: int | None = None


class Label(NamedTuple):
    """A name for the end of a unit. None takes the name away."""

    name: str | None
    at: str
    time: int | None = None


Step = Unit | SourceMove | Label


class Origin(NamedTuple):
    """The place in another thread where a thread begins. It is looked up in the store."""

    session: str
    thread: str | None = None  # None: the main thread
    call: str | None = None  # id of the entry of the call that spawned it
    # Id of the last entry that a fork shares. None: the last of the thread's first entries that the
    # other thread has, too.
    entry: str | None = None
    is_spawned: bool = False  # a sub-agent; it inherits something only if `entry` is given
    copies_content: bool = False  # shared entries have other ids here: they are compared by content


class ExportedPositions:
    """The provenance of a file that backstory exported: the positions of the events in each line.

    It is stored in the first record, in a field "backstory" that no tool looks at.
    """

    def __init__(self, agent: str, at: int, digest: str, lines: dict[int, list[int]]) -> None:
        self.agent = agent  # its id
        self.at = at  # the position that was exported
        self.digest = digest  # of the log at that position
        self._lines = lines  # the messages; one that a repair added has no positions

    def get_positions(self, line: int) -> list[int] | None:
        """Return the positions of the events in a line, in order. None if it was added later."""
        if line > max(self._lines, default=0):
            return None
        return self._lines.get(line, [])

    def encode(self) -> Data:
        """Return the value of the field. Lines that follow each other are runs."""
        runs: list[list[int]] = []
        for line, positions in sorted(self._lines.items()):
            for position in positions:
                last = runs[-1] if runs else None
                if last is not None and is_next_in_run(last, line, position):
                    last[2] += 1
                else:
                    runs.append([line, position, 1])
        lines = max(self._lines, default=0)
        value = {"agent": self.agent, "at": self.at, "digest": self.digest}
        return {**value, "lines": lines, "positions": runs}

    @classmethod
    def decode(cls, value: Any) -> "ExportedPositions | None":
        """Return the provenance in a field's value. None if there is none."""
        match value:
            case {
                "agent": str(agent),
                "at": int(at),
                "digest": str(digest),
                "lines": int(last),
                "positions": [*runs],
            }:
                lines: dict[int, list[int]] = {last: []}
                for run in runs:
                    add_run(lines, run, at)
                return cls(agent, at, digest, lines)
        return None


def add_run(lines: dict[int, list[int]], run: Any, at: int) -> None:
    """Add the positions in a run [line, position, count] to those of the lines."""
    match run:
        case [int(line), int(position), int(count)] if 0 < count <= at:
            for number in range(count):
                lines.setdefault(line + number, []).append(position + number)


def is_next_in_run(run: list[int], line: int, position: int) -> bool:
    """Return True if a run [line, position, count] continues with this line and position."""
    first_line, first_position, count = run
    return line == first_line + count and position == first_position + count


class SourceTail(NamedTuple):
    """What is known of a file of JSON lines that is not read from its beginning."""

    lines: int  # the number of lines that were read before; later lines are new
    records: int  # `Thread.records` of that time
    state: Data  # `Thread.state` of that time


class TailRule:
    """Decides whether the tail of a file is enough, or the file has to be read from its beginning.

    A tail is the window, which are the last lines that were read before, and the new lines. It is
    enough if all of this is true:

    - The log has the thread, and it has the entries of the window under their own ids.
    - Each new unit continues the last unit of the window, or another new one. There is no new
      beginning, and the tool ends at the last unit.
    - Something was said in it, and nothing that was imported before is newer.
    - Nothing new refers to something before the window: not a result to its call, a label to its
      unit, a rollback to its target, nor a compaction to the messages that it keeps.
    - The log does not have the id of a new entry already: then the id has to be numbered. A file
      with numbered ids is always read whole: `Importer._write_session` notes no end of it.

    Whoever reads or matches a tail checks one of these with `require`. If the whole file is read,
    everything is allowed.
    """

    def __init__(self, tail: SourceTail | None) -> None:
        self.is_tail = tail is not None
        self._lines = 0 if tail is None else tail.lines

    def was_read(self, file_line: int) -> bool:
        """Return True if a line is in the window, and not new. 0: a record without a line."""
        return 0 < file_line <= self._lines

    def require(self, is_enough: bool, why: str) -> None:
        """Raise ReadWhole if only a tail is read, and it is not enough."""
        if self.is_tail and not is_enough:
            raise ReadWhole(why)

    def refuse(self, why: str) -> None:
        """Raise ReadWhole if only a tail is read."""
        self.require(False, why)


@dataclass
class Thread:
    """One conversation with all its branches."""

    session: str  # the tool's own id
    id: str | None  # a sub-agent's id within the session; None: the main thread
    # Yields the steps and reports problems. It is called again if another program wrote meanwhile.
    read_steps: Callable[["ImportReport"], Iterator[Step]] = field(repr=False)
    origin: Origin | None = None
    about: Data = field(default_factory=dict)  # title, cwd, model, …; may be set while it is read
    # Readers of JSON lines set it to `TranscriptSource.records` when the steps end. 0: entries are
    # counted.
    records: int = 0
    source: str | None = None  # the path of the file with only this thread, if there is one
    tail: SourceTail | None = None  # only the tail of the file is read
    # Ids are unique among all sessions: what the thread copied from another one is found by them.
    has_global_ids: bool = False
    exported: ExportedPositions | None = None  # the file is an export of ours
    state: Data = field(default_factory=dict)  # to continue a tail with, such as {"model": ...}

    def read_units(self) -> Iterator[Unit]:
        """Yield the units alone, in the order of the source."""
        for step in self.read_steps(ImportReport()):
            if isinstance(step, Unit):
                yield step


@dataclass
class SourceSession:
    """A session of a tool: its main thread, if there is one, and its sub-agents."""

    tool: str
    id: str
    threads: list[Thread]
    source: str  # the file or folder that it was read from
    report: "ImportReport" = field(repr=False, compare=False)


class Fault(NamedTuple):
    """Something in a source that could not be taken as it is."""

    source: str
    line: int | None
    what: str


class ImportReport:
    """Everything that a reader met besides the conversation. Nothing in it stops an import."""

    def __init__(self) -> None:
        self.damaged: list[Fault] = []  # records that were skipped
        self.torn: list[Fault] = []  # a last record whose rest may still come
        self.mended: Counter[str] = Counter()  # changed when it was read: escaped, lost parents
        self.unknown: Counter[str] = Counter()  # records that no reader understands, by type
        self.unread: list[Fault] = []  # sources that could not be read at all
        self.doubtful: list[Fault] = []  # sources of which too much was not understood
        self.notes: list[Fault] = []  # facts that a person should know
        self.records = 0  # records that were read, to judge how many were not understood

    def add_note(self, source: str, what: str) -> None:
        """Add a fact that a person should know."""
        self.notes.append(Fault(source, None, what))

    def add_unread(self, source: str, error: Exception) -> None:
        """Add a source that cannot be read."""
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        elif isinstance(error, Unreadable):
            why = str(error)
        else:
            why = f"its content is not as expected: {error!r:.200}"
        self.unread.append(Fault(source, None, why))

    def add(self, other: "ImportReport") -> None:
        """Add what another report says."""
        self.damaged.extend(other.damaged)
        self.torn.extend(other.torn)
        self.unread.extend(other.unread)
        self.doubtful.extend(other.doubtful)
        self.notes.extend(other.notes)
        self.mended.update(other.mended)
        self.unknown.update(other.unknown)
        self.records += other.records

    def count_parts(self, parts: Iterable[Data], known: Collection[str], tool: str) -> None:
        """Count the parts of a message, and those of a type that is not `known`."""
        for part in parts:
            self.records += 1
            type_ = part.get("type")
            if not isinstance(type_, str) or type_ not in known:
                self.unknown[f"part {str(type_)[:40]} ({tool})"] += 1

    def __bool__(self) -> bool:
        faults = self.damaged or self.torn or self.unread or self.doubtful or self.notes
        return bool(faults or self.mended or self.unknown)


@dataclass
class ImportedSession:
    """One session of another tool, and what of it is new in the store."""

    tool: str
    source: str
    id: str
    agent: str | None = None  # the id of its main agent
    title: str | None = None
    is_new: bool = False
    new_agents: int = 0
    new_events: int = 0
    branches: int = 0  # jumps among the new events
    cuts: int = 0  # compactions and clears among the new events
    open_calls: int = 0  # calls that never came to a result
    unfinished: int = 0  # units that the tool may still change
    report: ImportReport = field(default_factory=ImportReport)

    @property
    def has_news(self) -> bool:
        """True if anything was added."""
        return bool(self.new_events or self.new_agents)

    def add_written(self, earlier: "ImportedSession") -> None:
        """Add what was written of the session before one of its files was read whole."""
        self.is_new = self.is_new or earlier.is_new
        self.new_agents += earlier.new_agents
        self.new_events += earlier.new_events
        self.branches += earlier.branches
        self.cuts += earlier.cuts
        for note in earlier.report.notes:
            if note not in self.report.notes:
                self.report.notes.append(note)


@dataclass
class ImportOutcome:
    """The results of a whole import."""

    sessions: list[ImportedSession] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)  # how many there are, by tool
    report: ImportReport = field(default_factory=ImportReport)  # what belongs to no session
    masked: Counter[str] = field(default_factory=Counter)  # secrets, by their shape

    @property
    def has_news(self) -> bool:
        """True if anything was added."""
        return any(session.has_news for session in self.sessions)

    def merge_reports(self) -> ImportReport:
        """Return one report over all sessions."""
        whole = ImportReport()
        whole.add(self.report)
        for session in self.sessions:
            whole.add(session.report)
        return whole


def build_compaction(
    id: str, summary: str, time: int | None, kept: Iterable[Entry] = ()
) -> list[Entry]:
    """Return the entries of a compaction: a clear, the summary, and what it keeps again."""
    clear = Entry(f"{id}:clear", "clear", time=time)
    said = Entry(id, "user", summary, {"compaction": True}, time)
    return [clear, said, *(entry.copy_after(id) for entry in kept)]


def order_nodes(parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the nodes of a tree with their parents, in their order, but parents first.

    A parent that is not in the tree becomes None. The first node of a circle continues the node
    before it.
    """
    found: dict[str, str | None] = {}
    for id in parents:
        way: dict[str, None] = {}
        at: str | None = id
        while at is not None and at in parents and at not in found and at not in way:
            way[at] = None
            at = parents[at]
        if at is not None and at in way:  # a circle
            way.pop(at)
            found[at] = next(reversed(found), None)
        for one in reversed(way):
            parent = parents[one]
            found[one] = parent if parent in found else None
    return found


def chain_units(units: Iterable[tuple[str, Iterable[Entry]]]) -> Iterator[Step]:
    """Yield units that each continue the one before, then a move to the last one."""
    after: str | None = None
    for id, entries in units:
        yield Unit(id, after, tuple(entries))
        after = id
    if after is not None:
        yield SourceMove(after)
