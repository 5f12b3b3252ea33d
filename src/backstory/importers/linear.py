"""From the steps of a thread to a log: positions, bases and the jumps between branches. Pure.

This is the rule of an import in one place: entries are written in the order of the source, and wherever a
unit does not continue what the head continues, a jump to what it does continue goes first. A source that grew
is told the same way: what the log already has is passed over.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from backstory.core.chain import ERASED
from backstory.core.erasure import SAYS
from backstory.core.labels import LABEL
from backstory.core.messages import NATIVE
from backstory.importers.transcript import Entry, Label, Move, Step, Unit

PASSED = frozenset({"note", "user"})  # what may stand between the entries of an answer: what people said


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


class Link(NamedTuple):
    """An event as a link of the line that it is on."""

    kind: str
    base: int | None  # None: the event before
    id: str | None


class Known(NamedTuple):
    """What a log has of a source already."""

    places: Mapping[str, int]  # an entry's id -> its position
    head: int = 0
    stands_at: int = 0  # the position whose context the head's is: the head, or where its jump went
    time: int | None = None  # of the head
    unfinished: Mapping[str, Begun] = {}  # answers that may have been written before they were whole
    link: Callable[[int], Link] = lambda place: Link("", None, "")  # the event at a position
    erased: Set[str] = frozenset()  # entries that nothing may say again


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
        self._late: list[tuple[Unit, list[int], Sequence[Entry]]] = []  # what is told of a unit, and what not
        self._links: list[Link] = []  # the events written here, if the log had some before
        self._behind: dict[int, int] = {}  # where an entry that came late is, by the positions it continues
        self._labels: set[tuple[str | None, str]] = set()
        self.repeated: set[int] = set()  # where the log has what events written here may say again
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
                yield from self._tell_late(unit.after)
            if unit.after != self._at:
                yield from self._go(unit.after, new[0].time)
            yield from self._write(unit.id, new)
            return
        self.tips[unit.id] = self._whole(unit, told) if told else self.tips.get(unit.after, self.seq)
        if told and self._tip(unit.id) in (self.seq, self._stands_at):
            self._at = unit.id
        if new and self._tip(unit.id) == self.seq:
            self.repeated.update(told)
            yield from self._write(unit.id, new)
        elif new:
            self._late.append((unit, told, new))

    def _tip(self, unit: str | None) -> int:
        """Where the context of a unit is whole: what came late may be behind its last entry."""
        tip = self.tips.get(unit, self.seq)
        while tip in self._behind:
            tip = self._behind[tip]
        return tip

    def _whole(self, unit: Unit, places: list[int]) -> int:
        """The last of a unit's entries that continues the others, with nothing of another answer between."""
        pieces = tuple(f"{entry.id}+" for entry in unit.entries)
        end, is_late = places[0], False
        for place in places[1:]:
            if place - end in (0, 1):  # two entries of an exported file may be one event
                if is_late and place != end:
                    self._behind.setdefault(end, place)
                end = place
            elif self._continues(place, end, pieces):
                end, is_late = place, True
        return end

    def _continues(self, place: int, end: int, pieces: tuple[str, ...]) -> bool:
        """Whether an entry that came late continues another one of its unit, if what people said is passed
        over, and pieces of the unit that were erased. It belongs to the context of what it passes, too."""
        at = self._before(place)
        while at > end:
            self._behind.setdefault(at, place)
            kind, _, id = self._link(at)
            if not (id is None or kind in PASSED or id.startswith(pieces)):
                return False
            at = self._before(at)
        if at:
            self._behind.setdefault(at, place)
        return at == end

    def _before(self, place: int) -> int:
        base = self._link(place).base
        return place - 1 if base is None else base

    def _link(self, place: int) -> Link:
        written = place - self._known.head - 1
        return self._known.link(place) if written < 0 else self._links[written]

    def _told_and_new(self, entries: Sequence[Entry]) -> tuple[list[int], Sequence[Entry]]:
        """Where the log has entries already, and those that it does not have."""
        known = self._known
        if not known.places and not known.unfinished:
            return [], entries
        told = sorted(place for entry in entries for place in self._told(entry))
        new = [entry for entry in self._grown(entries) if entry.id not in known.places]
        erased = {id for entry in entries for id in (entry.id, entry.copy_of)} & known.erased
        return told, list(_without_erased(new, erased)) if erased else new

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

    def _tell_late(self, to: str | None) -> Iterator[LogEvent]:
        """What came late for units that others continue already: where the log goes on, or else at the head,
        if that is on their line; else at their own end."""
        late, self._late = self._late, []
        for unit, told, entries in late:
            ways = (at for at in (to, self._at) if self._is_on_line(unit.id, at))
            way = next(ways, unit.id)
            yield from self._go(way, entries[0].time)
            before = self.seq
            self.repeated.update(told)
            yield from self._write(way, entries)
            self.tips[unit.id] = self._whole(unit, [*told, *range(before + 1, self.seq + 1)])

    def _is_on_line(self, unit: str, at: str | None) -> bool:
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
        move = self._move if self._move is not None and self._move.to in self.tips else None
        yield from self._tell_late(move.to if move is not None else self._at)
        told = self.seq > self._known.head
        if move is not None and (told or not move.is_end):
            yield from self._go(move.to, move.time)
        if self._behind:
            self.tips = {unit: self._tip(unit) for unit in self.tips}

    def _go(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """A jump to the context of a unit, unless the head's is it."""
        target = self._tip(to)
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
        data = {"label": label.name, "at": self._tip(label.at)}
        yield self._event("note", LABEL, data, label.time, id=id)
        self.tips[self._at] = self.seq

    # -------------------------------------------------------------- events

    def _entry(self, entry: Entry) -> LogEvent:
        data = entry.data
        if entry.copy_of is not None:
            original = self.place(entry.copy_of) or 0
            data = (data or {}) | {"copy_of": original}
            self.repeated.add(original)
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
        if self._known.head:
            self._links.append(Link(kind, base, id))
        return _log_event((self.seq, kind, content, data, held, base, id, own if own != held else None))


def _without_erased(entries: Iterable[Entry], erased: Set[str | None]) -> Iterator[Entry]:
    """The new entries of a unit of which something was erased, without copies of that and without native
    forms, which may hold it, too. Calls and results stay, so that neither loses the other, and say that they
    were erased."""
    for entry in entries:
        data = entry.data or {}
        if entry.copy_of not in erased:
            kept = {name: data[name] for name in data if name != NATIVE}
            yield entry._replace(data=kept) if NATIVE in data else entry
        elif entry.kind == "tool_call":
            call = {"id": data["id"], "name": data["name"], "arguments": {ERASED: SAYS}}
            yield entry._replace(data=call)
        elif entry.kind == "tool_result":
            yield entry._replace(content=SAYS, data={"id": data["id"]})
