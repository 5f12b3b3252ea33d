"""From the steps of a thread to a log: positions, bases and the jumps between branches. Pure.

This is the rule of an import in one place: entries are written in the order of the source, and wherever a
unit does not continue what the head continues, a jump to what it does continue goes first. A source that grew
is told the same way: what the log already has is passed over.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from backstory.core.labels import LABEL
from backstory.importers.transcript import Entry, Label, Move, Step, Unit


class LogEvent(NamedTuple):
    """An event with its position."""

    seq: int
    kind: str
    content: str | None
    data: dict[str, Any] | None
    time: int | None  # never runs backwards; `source_time` is the source's own where that differs
    base: int | None  # None: the event before
    id: str | None = None  # the entry's id; None: ours
    source_time: int | None = None


# `tuple.__new__` runs no Python code, `LogEvent(…)` would.
_log_event: Callable[[tuple[Any, ...]], LogEvent] = partial(tuple.__new__, LogEvent)


class Begun(NamedTuple):
    """What a log has of an answer's words, which may be only their beginning."""

    words: str
    rests: tuple[int, ...] = ()  # where the words stand that came behind the first ones


class Known(NamedTuple):
    """What a log has of a source already."""

    places: Mapping[str, int]  # an entry's id -> its position
    head: int = 0
    stands_at: int = 0  # the position whose context the head's is: the head, or where its jump went
    time: int | None = None  # of the head
    unfinished: Mapping[str, Begun] = {}  # answers that may have been written before they were whole
    # The position that the event at another one continues. Asked about events that came late.
    continued_by: Callable[[int], int] = lambda place: place - 1


def ids_in(step: Step) -> Iterator[str]:
    """The ids that a log knows what a step says by, and those of what it repeats."""
    match step:
        case Unit():
            for entry in step.entries:
                yield entry.id
                if entry.copy_of is not None:
                    yield entry.copy_of
        case Label():
            yield _label_id(step)


def _label_id(label: Label) -> str:
    return f"label {label.at} {label.name}"


def events(steps: Iterable[Step], known: Known | None = None, *, settled: bool = False) -> Iterator[LogEvent]:
    """The events that the steps add to a log; to an empty one, all of them, inherited units included.

    `settled`: leave out units of which more may still come.
    """
    return Line(known or Known({})).events(steps, settled=settled)


class Line:
    """A log that is being written: where its head is, and where each unit's context is whole."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.seq = known.head
        self._stands_at = known.stands_at
        self._time = known.time
        self._at: str | None = None if known.stands_at == 0 else "?"  # the unit whose context is the head's
        self._move: Move | None = None  # the last one, if nothing was said since
        self.tips: dict[str | None, int] = {None: 0}  # where the context of a unit was whole
        self._after: dict[str | None, str | None] = {}
        self._places: dict[str, int] = {}  # of the entries written here
        self._late: list[tuple[str, Sequence[Entry]]] = []
        self._behind: dict[int, int] = {}  # where an entry that came late is, by the position it continues
        self._labels: set[tuple[str | None, str]] = set()
        self.left_out = 0  # units of which more may still come

    def events(self, steps: Iterable[Step], *, settled: bool = False) -> Iterator[LogEvent]:
        """The events that the steps add."""
        for step in steps:
            match step:
                case Unit() if settled and not step.settled:
                    self.left_out += 1
                case Unit():
                    yield from self.unit(step)
                case Move():
                    self.move(step)
                case Label():
                    yield from self.label(step)
        yield from self.end()

    def place(self, entry: str) -> int | None:
        """The position of an entry."""
        return self._places.get(entry) or self._known.places.get(entry)

    # -------------------------------------------------------------- units

    def unit(self, unit: Unit) -> Iterator[LogEvent]:
        """What of a unit is not in the log yet, behind what it continues."""
        self._after[unit.id] = unit.after
        self._move = None
        told, new = self._told_and_new(unit.entries)
        if not told and new:
            if self._late:
                yield from self._tell_late()
            if unit.after != self._at:
                yield from self._go(unit.after, new[0].time)
            yield from self._write(unit.id, new)
            return
        self.tips[unit.id] = self._whole(told) if told else self.tips.get(unit.after, self.seq)
        if told and self.tips[unit.id] in (self.seq, self._stands_at):
            self._at = unit.id
        if new and self.tips[unit.id] == self.seq:
            yield from self._write(unit.id, new)
        elif new:
            self._late.append((unit.id, new))

    def _whole(self, places: list[int]) -> int:
        """Where a unit's context is whole: its last entry. What came late may be behind another unit, whose
        context is whole there."""
        end = places[0]
        for place in places[1:]:
            if place - end in (0, 1):  # two entries of an exported file may be one event
                end = place
            else:
                self._behind[self._known.continued_by(place)] = place
        while end in self._behind:
            end = self._behind[end]
        return end

    def _told_and_new(self, entries: Sequence[Entry]) -> tuple[list[int], Sequence[Entry]]:
        """Where the log has entries already, and those that it does not have."""
        known = self._known
        if not known.places and not known.unfinished:
            return [], entries
        told = sorted(place for entry in entries for place in self._told(entry))
        return told, [entry for entry in self._grown(entries) if entry.id not in known.places]

    def _told(self, entry: Entry) -> Iterator[int]:
        """Where the log has an entry: one place, or several if it came in pieces."""
        place = self._known.places.get(entry.id)
        if place is not None:
            yield place
            if entry.id in self._known.unfinished:
                yield from self._known.unfinished[entry.id].rests

    def _grown(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, and for each that the log has only the beginning of, the rest."""
        for entry in entries:
            yield entry
            begun = self._known.unfinished.get(entry.id)
            if begun is None or entry.kind != "assistant":  # a line that is an id may hold another thing now
                continue
            words, length = entry.content or "", len(begun.words)
            if len(words) > length and words.startswith(begun.words):
                yield entry._replace(id=f"{entry.id}+{length}", content=words[length:])

    def _tell_late(self) -> Iterator[LogEvent]:
        """What came late for units that others continue already: at the head, if that is on their line; else
        at their own end."""
        late, self._late = self._late, []
        for unit, entries in late:
            if self._is_on_line(unit):
                yield from self._write(self._at, entries)
            else:
                yield from self._go(unit, entries[0].time)
                yield from self._write(unit, entries)

    def _is_on_line(self, unit: str) -> bool:
        at = self._at
        while at is not None and at != unit:
            at = self._after.get(at)
        return at == unit

    def _write(self, unit: str | None, entries: Iterable[Entry]) -> Iterator[LogEvent]:
        for entry in entries:
            yield self._entry(entry)
        self.tips[unit] = self.seq
        self._at = unit

    # -------------------------------------------------------------- moves

    def move(self, move: Move) -> None:
        """The tool went somewhere. What it says there names the place, so only a last move counts."""
        self._move = move

    def end(self) -> Iterator[LogEvent]:
        """What is left to tell: late entries, and where the tool is now."""
        yield from self._tell_late()
        told = self.seq > self._known.head
        if self._move is not None and self._move.to in self.tips and (told or not self._move.is_end):
            yield from self._go(self._move.to, self._move.time)

    def _go(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """A jump to the context of a unit, unless the head's is it."""
        target = self.tips.get(to, self.seq)
        if to != self._at and target != self.seq:
            data = {"target_message_id": target}
            yield self._event("jump", None, data, time, base=target)
        self._at = to

    def label(self, label: Label) -> Iterator[LogEvent]:
        """A note that names an earlier position."""
        id = _label_id(label)
        if id in self._known.places or (label.name, label.at) in self._labels:
            return
        self._labels.add((label.name, label.at))
        data = {"label": label.name, "at": self.tips.get(label.at, self.seq)}
        yield self._event("note", LABEL, data, label.time, id=id)
        self.tips[self._at] = self.seq

    # -------------------------------------------------------------- events

    def _entry(self, entry: Entry) -> LogEvent:
        data = entry.data
        if entry.copy_of is not None:
            data = (data or {}) | {"copy_of": self.place(entry.copy_of) or 0}
        base = 0 if entry.kind == "clear" else None
        event = self._event(entry.kind, entry.content, data, entry.time, base=base, id=entry.id)
        self._places[entry.id] = event.seq
        return event

    def _event(
        self,
        kind: str,
        content: str | None,
        data: dict[str, Any] | None,
        time: int | None,
        *,
        base: int | None = None,
        id: str | None = None,
    ) -> LogEvent:
        self.seq += 1
        own = time if time is not None else self._time
        held = own if self._time is None or own is None else max(own, self._time)
        self._time = held
        self._stands_at = self.seq  # of a jump, `_go` knows it
        return _log_event((self.seq, kind, content, data, held, base, id, own if own != held else None))
