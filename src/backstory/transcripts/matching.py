"""Compares the steps of a thread with a log, and yields the events that the log lacks. Pure.

A log is a tree: each position continues one other. A source is a tree of units. The matcher walks
down the source and looks up each entry by its id. If the log has the entry on one line with what it
continues, there is nothing to do. If not, the entry is appended there, after a jump if the head is
elsewhere; if the log has it on another line, as a copy.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from backstory.log.data_keys import COPY, TARGET
from backstory.log.events import Event
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.moves import LABEL
from backstory.transcripts.content import get_call_id
from backstory.transcripts.model import (
    OUTSIDE,
    Data,
    Entry,
    Label,
    SourceMove,
    SourceTail,
    Step,
    TailRule,
    Unit,
)

# Events of these kinds are positions that a unit continues; a note or a mark is none.
SPEAKING_KINDS = frozenset({*MESSAGE_KINDS, "clear"})


class NewEvent(NamedTuple):
    """An event that the log lacks."""

    position: int
    kind: str
    content: str | None
    data: Data | None
    time: int | None  # not before that of the event before
    id: str | None = None  # the entry's id, or that of its copy; None: a jump
    source_time: int | None = None  # the entry's own time, if it is another
    original: int | None = None  # the position of the event that this one repeats


class LogTree:
    """The positions of a log. Each continues the one before it, except after a move."""

    def __init__(self, moves: Iterable[tuple[int, int]] = ()) -> None:
        """`moves`: positions of jumps and rewinds, ascending, and where they lead."""
        self._starts: list[int] = []
        self._targets: list[int] = []
        for position, target in moves:
            self.add_move(position, target)

    def add_move(self, position: int, target: int) -> None:
        """Add a move after all others."""
        self._starts.append(position)
        self._targets.append(target)

    @property
    def has_moves(self) -> bool:
        """True if the log has more than one line."""
        return bool(self._starts)

    def list_runs(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield the line that ends at `end` as runs (first, last), newest first.

        Clears are crossed. A run that begins with a move contains the move.
        """
        while end > 0:
            number = bisect_right(self._starts, end) - 1
            if number < 0:
                yield 1, end
                return
            yield self._starts[number], end
            end = self._targets[number]

    def is_on_line(self, position: int, end: int) -> bool:
        """Return True if the line that ends at `end` contains `position`."""
        if position == 0:
            return True
        for first, last in self.list_runs(end):
            if last < position:
                return False
            if first <= position:
                return True
        return False

    def list_between(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions on the line from `end` down to `start`, both excluded."""
        for first, last in self.list_runs(end):
            for position in range(last, first - 1, -1):
                if position <= start:
                    return
                if position != end:
                    yield position


# An example: a file contained "hi", "one" and, again after "hi", "two". It was imported, and then a
# person added "mine" to the log.
#
#     1 user "hi"    2 user "one"    3 jump to 1    4 user "two"    5 user "mine"
#
# The head is at 5, and its line is 1, 3, 4, 5. Now the file also contains "three", after "two". The
# tip of the unit "two" is 4, and so the matcher yields
#
#     6 jump to 4    7 user "three"    8 jump to 5
#
# The tool message was 4, and is 7 now. The head was not there, but at 5: a person moved it
# (`is_moved`). That is its home, to which the last jump goes back. If an import is killed after 7,
# the next one finds the head at 7, but its home is still 5.


@dataclass
class KnownLog:
    """The part of an agent's log that a source is compared with."""

    tree: LogTree = field(default_factory=LogTree)
    newest_position: int = 0
    head_message: int = 0  # the last position of the head's line with a message or a clear
    time: int | None = None  # of the newest event
    # Where the head goes back to if it does not follow the tool, and the message there. It is not
    # the head if an import was killed.
    home: int = 0
    home_message: int = 0
    is_moved: bool = False  # a person wrote or moved the head since the last import
    is_fork: bool = False  # its first events are those of another agent
    newest: int = 0  # time of the newest entry or move of the newest source
    records: int = 0  # how many records that source had
    # The positions of an entry and of its copies, oldest first. It must have those of a step before
    # the step is matched, and gets what is appended.
    positions: dict[str, list[int]] = field(default_factory=dict)
    # Entries that are at a position for certain: the file was exported, or its beginning copied.
    certain: dict[str, int] = field(default_factory=dict)


class Matcher:
    """Compares the steps of one thread with a log."""

    def __init__(
        self, log: KnownLog, *, is_busy: bool = False, tail: SourceTail | None = None
    ) -> None:
        self._log = log
        self._tree = log.tree
        self._is_busy = is_busy  # incomplete units are left out, and what continues them
        self._tail_rule = TailRule(tail)
        self._position = log.newest_position  # the newest
        self._at = log.head_message  # the message that the next event continues
        self._time = log.time
        self._tips: dict[str | None, int] = {None: 0}  # where a unit is continued
        self._units: dict[int, str] = {}  # the unit of each position of the log that was matched
        self._leaf: str | None = None  # the last unit with entries
        self._move: SourceMove | None = None  # the last move, if nothing was said since
        self._left_out: set[str | None] = set()  # units
        self._entries = 0  # that were not exported from this log
        self.newest = 0
        self.records = 0  # of the source; set it before the last step, or entries are counted
        self.unfinished = 0  # incomplete units that were left out
        self.copied = 0  # entries that the log has on another line
        # The message that the tool is at, if the source is newer than all before.
        self.tool_message: int | None = None
        self.has_new_branch = False  # the head stays with a person, and the tool continued

    @property
    def message(self) -> int:
        """The message that the next event would continue."""
        return self._at

    @property
    def is_newer(self) -> bool:
        """True if the source is newer than all that were imported before."""
        if not self._entries and not self.newest:
            return False  # everything in it was exported from this log
        return (self.newest, self.count_records()) > (self._log.newest, self._log.records)

    def count_records(self) -> int:
        """Return the number of distinct records of the source, or of its entries."""
        return self.records or self._entries

    def match(self, steps: Iterable[Step]) -> Iterator[NewEvent]:
        """Yield the events to append. Call it once."""
        for step in steps:
            if isinstance(step, Unit):
                yield from self._match_unit(step)
            elif isinstance(step, SourceMove):
                self._move = step
                self._note_time(step.time)
            else:
                yield from self._match_label(step)
        yield from self._place_head()

    def find(self, id: str) -> Sequence[int]:
        """Return the positions of an entry and of its copies, oldest first."""
        return self._log.positions.get(id, ())

    def _note_time(self, time: int | None) -> None:
        if time is not None:
            self.newest = max(self.newest, time)

    # --- units ---

    def _match_unit(self, unit: Unit) -> Iterator[NewEvent]:
        if self._is_busy and (not unit.is_complete or unit.after in self._left_out):
            self._left_out.add(unit.id)
            self.unfinished += not unit.is_complete
            return
        tip = self._find_base(unit)
        for entry in unit.entries:
            self._count_entry(entry, unit)
            position = self._find_position(entry, tip, unit.id)
            if position is None:
                yield from self._append(entry, after=tip)
                position = self._position
            if entry.kind in SPEAKING_KINDS:  # a note stays on every line that continues it
                self._note_unit(entry, unit)
                tip = self._find_tip(entry, tip, position)
        self._tips[unit.id] = tip
        if unit.entries:
            self._leaf, self._move = unit.id, None

    def _count_entry(self, entry: Entry, unit: Unit) -> None:
        if entry.id not in self._log.certain:
            self._entries += 1
            self._note_time(entry.time)
            self._note_time(unit.time)

    def _note_unit(self, entry: Entry, unit: Unit) -> None:
        """Note which unit an entry belongs to, on whatever lines the log has it."""
        for position in self.find(entry.id):
            if position <= self._log.newest_position:
                self._units[position] = unit.id

    def _find_tip(self, entry: Entry, tip: int, position: int) -> int:
        """Return where a unit is continued after an entry at a position."""
        if entry.kind == "clear" and not position:
            return 0  # an exported file has another root in place of a clear
        return max(tip, position)

    def _find_base(self, unit: Unit) -> int:
        """Return the position after which a unit is continued."""
        base = self._find_end(unit)
        for entry in unit.entries:
            position = self._log.certain.get(entry.id)
            if position and not (position < base and self._tree.is_on_line(position, base)):
                return position
        return base

    def _find_end(self, unit: Unit) -> int:
        """Return the end of the unit that a unit continues."""
        if unit.after in self._tips:
            return self._tips[unit.after]
        if unit.after == OUTSIDE:
            # The first of a unit's entries that the log has is where it was.
            for entry in unit.entries:
                positions = self.find(entry.id)
                if positions:
                    return self._choose_position(positions)
        self._tail_rule.refuse("a unit continues something before the window")
        return self._at  # a reader's mistake: nothing is lost

    def _find_position(self, entry: Entry, tip: int, unit: str) -> int | None:
        """Return the position of an entry on the line of `tip`. None if it has to be appended."""
        known = self.find(entry.id)
        if self._tail_rule.was_read(entry.line):
            if known:
                return self._choose_position(known)  # it was matched when it was new in the file
            is_own = not self._log.is_fork
            self._tail_rule.require(is_own, "a fork perhaps inherited it under another id")
        position = self._find_on_line(entry.id, tip, unit)
        is_next = position is not None and position > tip  # an import was killed, or from a copy
        self._tail_rule.require(is_next or not known, "an id is also before the window")
        return position

    def _choose_position(self, positions: Sequence[int]) -> int:
        """Return the newest position on the line of the head, else the newest one."""
        for position in reversed(positions):
            if self._tree.is_on_line(position, self._log.home_message):
                return position
        return positions[-1]

    def _find_on_line(self, id: str, base: int, unit: str) -> int | None:
        """Return the position of an entry that is on one line with `base`.

        Of several after it, one on the line of the head counts, else the first.
        """
        if id in self._log.certain:
            return self._log.certain[id]
        found = None
        for position in reversed(self.find(id)):
            if position <= base:
                if self._tree.is_on_line(position, base):
                    return position  # records that changed places in a copy
            elif self._is_gap(base, position, unit):
                found = position
                if self._tree.is_on_line(position, self._log.home_message):
                    break
        return found

    def _is_gap(self, base: int, position: int, unit: str) -> bool:
        """Return True if a position continues `base`, and none between them belongs to another unit
        of the source."""
        if not self._tree.is_on_line(base, position):
            return False
        # A copy can lose records. But if the source has one of them elsewhere, its tree changed.
        for between in self._tree.list_between(base, position):
            if self._units.get(between, unit) != unit:
                return False
        return True

    def _match_label(self, label: Label) -> Iterator[NewEvent]:
        """Yield a note that names an earlier position."""
        id = name_label(label)
        if label.at not in self._tips:
            self._tail_rule.require(bool(self.find(id)), "a label of something before the window")
            return
        if self.find(id):
            return
        data = {"label": label.name, "at": self._tips[label.at]}
        event = self._make_event("note", LABEL, data, label.time, id)
        self._log.positions[id] = [event.position]
        yield event

    # --- the head ---

    def _place_head(self) -> Iterator[NewEvent]:
        """Move the head to the tool's leaf, or back to where it was."""
        leaf, time = self._find_tool_unit()
        if leaf is None and self._move is None:
            return
        log = self._log
        is_newest = self.newest >= log.newest
        self._tail_rule.require(is_newest, "what is before the window may be newer")
        if self.is_newer:
            self.tool_message = self._tips[leaf]
        if self.is_newer and not log.is_moved:
            yield from self._go(self._tips[leaf], time)
        else:
            self.has_new_branch = self._position > log.newest_position and log.is_moved
            yield from self._go(log.home_message, time, target=log.home)

    def _find_tool_unit(self) -> tuple[str | None, int | None]:
        """Return the unit that the tool is at: that of the last move, else the last one."""
        if self._move is None:
            return self._leaf, None
        if self._move.to in self._tips:
            return self._move.to, self._move.time
        self._tail_rule.refuse("a move to something before the window")
        return self._leaf, None

    # --- events ---

    def _append(self, entry: Entry, after: int) -> Iterator[NewEvent]:
        """Yield an entry, after a jump if the head is elsewhere, as a copy if the log has it."""
        yield from self._go(after, entry.time)
        earlier = self.find(entry.id)
        id = entry.id
        originals: Sequence[int] = ()
        if earlier:
            self.copied += 1
            id = name_copy(id, len(earlier) + 1)
            originals = earlier
        if entry.copy_of is not None:
            originals = self.find(entry.copy_of) or originals
        original = originals[0] if originals else None
        data = entry.data
        if original is not None:
            data = {**(data or {}), COPY: original}
        event = self._make_event(entry.kind, entry.content, data, entry.time, id)
        self._log.positions.setdefault(entry.id, []).append(event.position)
        if entry.kind in SPEAKING_KINDS:
            self._at = event.position
        # Last: a commit between two events must find the state after the first.
        yield event._replace(original=original)

    def _go(self, message: int, time: int | None, target: int | None = None) -> Iterator[NewEvent]:
        """Yield a jump, unless the next event continues `message` anyway."""
        if message == self._at:
            return
        target = message if target is None else target
        jump = self._make_event("jump", None, {TARGET: target}, time)
        self._tree.add_move(jump.position, target)
        self._at = message
        yield jump

    def _make_event(
        self,
        kind: str,
        content: str | None,
        data: Data | None,
        time: int | None,
        id: str | None = None,
    ) -> NewEvent:
        self._position += 1
        own_time = self._time if time is None else time
        if own_time is not None:
            self._time = own_time if self._time is None else max(own_time, self._time)
        source_time = None if own_time == self._time else own_time
        return NewEvent(self._position, kind, content, data, self._time, id, source_time)


def name_copy(id: str, number: int) -> str:
    """Return the id under which the log has an entry for the second time, or a later one."""
    return f"{id}~{number}"


def name_label(label: Label) -> str:
    """Return the id under which the log has a label."""
    return f"label {label.at} {label.name}"


def find_shared(entries: Iterable[Entry], events: Iterable[Event]) -> list[int]:
    """Return the positions of the events that a fork's first entries are copies of.

    `events` are those of the thread that it was forked from, in order. They are equal if they have
    the same kind, text and call id; ids of entries are not compared.
    """
    positions = []
    speaking = (event for event in events if event.kind in SPEAKING_KINDS)
    for entry, event in zip(entries, speaking, strict=False):
        same_call = get_call_id(entry.data) == get_call_id(event.data)
        if (entry.kind, entry.content) != (event.kind, event.content) or not same_call:
            break
        positions.append(event.seq)
    return positions
