"""What a transcript says, as values: sessions, threads, units, entries; and the report of what went wrong.

Pure: nothing here knows where a record came from or where an event goes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from backstory.transcripts.checkpoints import Checkpoint


class Entry(NamedTuple):
    """An event without a position."""

    id: str  # stays the same however often the source is read; unique in the lineage
    kind: str
    content: str | None = None
    data: dict[str, Any] | None = None
    time: int | None = None  # microseconds since 1970, as the source has it
    copy_of: str | None = None  # the entry that this one repeats behind a compaction


class Unit(NamedTuple):
    """What belongs together: a prompt, an answer with its results, a compaction with what it kept."""

    id: str
    after: str | None  # the unit that it continues; None: the beginning
    entries: tuple[Entry, ...]
    line: int = 0  # where it begins in its source
    inherited: bool = False  # a copy of what the thread's origin has
    settled: bool = True  # False: more of it may still come


# `tuple.__new__` runs no Python code, `Entry(…)` and `Unit(…)` would.
as_entry: Callable[[tuple[Any, ...]], Entry] = partial(tuple.__new__, Entry)
as_unit: Callable[[tuple[Any, ...]], Unit] = partial(tuple.__new__, Unit)


class Move(NamedTuple):
    """The tool went to the context of a unit (None: to the beginning) without saying anything there yet."""

    to: str | None
    time: int | None = None
    is_end: bool = (
        False  # nobody went anywhere: it only says where the line ends, whatever came in late
    )


class Label(NamedTuple):
    """A name for the context of a unit; None takes the name away."""

    name: str | None
    at: str
    time: int | None = None


Step = Unit | Move | Label


class Origin(NamedTuple):
    """Where a thread began in another one."""

    session: str
    thread: str | None = None  # None: the session's main thread
    call: str | None = None  # the call that spawned it
    at: str | None = None  # the unit of the other thread that a fork continues
    spawned: bool = False  # a sub-agent; with `at`, one that inherits


@dataclass(frozen=True)
class Thread:
    """One line of conversation with all its branches."""

    session: str  # the tool's own id
    id: str | None  # a sub-agent's id within the session; None: the main thread
    steps: Callable[[], Iterator[Step]] = field(repr=False)
    origin: Origin | None = None
    about: dict[str, Any] = field(default_factory=dict)  # title, cwd, model, version, …
    # Where its file can be read on when it has grown; asked when all steps were told.
    checkpoint: Callable[[], Checkpoint | None] = field(default=lambda: None, repr=False)
    read: int | None = (
        None  # a tail: how many lines of its file were told before. None: it is the whole
    )
    # The steps without the thread that it was copied from, if they have other ids then.
    alone: Callable[[], Iterator[Step]] | None = field(default=None, repr=False)

    def units(self) -> Iterator[Unit]:
        """The units alone, in the order of the source."""
        return (step for step in self.steps() if isinstance(step, Unit))


@dataclass(frozen=True)
class Session:
    """What a tool calls a session: its main thread, if there is one, and its sub-agents."""

    tool: str
    id: str
    threads: list[Thread]
    source: str  # the file or folder it was read from
    report: "Report" = field(repr=False, compare=False)
    ties: frozenset[str] = (
        frozenset()
    )  # what its source is tied to others by, besides `Format.ties`
    settled: bool = True  # False: what it copied of another one may not be all of it yet


class Fault(NamedTuple):
    """Something in a source that could not be taken as it is."""

    source: str
    line: int | None
    what: str


class Report:
    """What a reader met besides the conversation. Nothing in it stops an import."""

    def __init__(self) -> None:
        self.damaged: list[Fault] = []  # records that were skipped
        self.torn: list[Fault] = []  # a last record whose rest may still come
        self.mended: Counter[str] = (
            Counter()
        )  # taken, but not as it was: escaped, lost parents, circles
        self.unknown: Counter[str] = (
            Counter()
        )  # records by type (and version) that nobody understands
        self.unread: list[Fault] = []  # sources that could not be read at all
        self.notes: list[Fault] = []  # what a person should know

    def add(self, other: "Report") -> None:
        """Take over what another report says."""
        for mine, theirs in (
            (self.damaged, other.damaged),
            (self.torn, other.torn),
            (self.unread, other.unread),
            (self.notes, other.notes),
        ):
            mine.extend(theirs)
        self.mended.update(other.mended)
        self.unknown.update(other.unknown)

    def __bool__(self) -> bool:
        return any((self.damaged, self.torn, self.mended, self.unknown, self.unread, self.notes))
