"""From the steps of a thread to a log: positions, bases and the jumps between branches. Pure.

This is the rule of an import in one place: entries are written in the order of the source, and wherever a
unit does not continue what the head continues, a jump to what it does continue goes first. A source that grew
is told the same way: what the log already has is passed over. If what came late belongs before something that
the log has, a jump goes back to there, and what follows is written again, as copies.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from backstory.core.chain import ERASED
from backstory.core.erasure import SAYS
from backstory.core.labels import LABEL
from backstory.core.messages import NATIVE
from backstory.importers.checkpoints import ReadWhole
from backstory.importers.past import Known, Past, copy_id
from backstory.importers.transcript import Entry, Label, Move, Step, Unit

REWRITTEN = "rewritten"  # the key of the first jump behind which a log says something again


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
        self._past = Past(known)
        self.seq = known.head
        self._time = known.time
        self._at: str | None = None if known.stands_at == 0 else "?"  # the unit whose context is the head's
        self._last: str | None = None  # the unit that was told last
        self._move: Move | None = None  # the last one, if nothing was said since
        # Where the context of a unit is whole.
        self.tips: dict[str | None, int] = {} if known.is_tail else {None: 0}
        self._ends: dict[str | None, int] = {}  # where a unit ends whose context is nowhere whole
        self._after: dict[str | None, str | None] = {}
        self._places: dict[str, int] = {}  # of the entries written here
        self._said: dict[str, tuple[str, ...]] = {}  # the entries of units that the log had before
        self._late: dict[str, _Late] = {}  # units of which more has come
        self._grown: dict[str, int] = {}  # where more of a unit was told that others continued already
        self._fresh: dict[str, Entry] = {}  # what was told of those here
        self._copies: dict[str, int] = {}  # the numbers of copies written here
        self._is_rewritten = known.is_rewritten
        self._labels: set[tuple[str | None, str]] = set()
        self.repeated: set[int] = set()  # where the log has what events written here may say again
        self.left_out = 0  # units of which more may still come
        self._left: set[str | None] = set()  # these, and what continues them

    def events(self, steps: Iterable[Step], *, settled: bool = False) -> Iterator[LogEvent]:
        """The events that the steps add."""
        for step in steps:
            match step:
                case Unit() if settled and (not step.settled or step.after in self._left):
                    self._left.add(step.id)
                    self.left_out += not step.settled
                case Unit():
                    yield from self.unit(step)
                case Move():
                    self.move(step)
                case Label():
                    yield from self.label(step)
        yield from self.end()

    @property
    def _stands_at(self) -> int:
        """The position whose context the head's is, as far as that was not written here."""
        return self._known.stands_at if self.seq == self._known.head else self.seq

    def place(self, entry: str) -> int | None:
        """The position of an entry."""
        return self._places.get(entry) or self._known.places.get(entry)

    def ends(self) -> dict[str | None, int]:
        """Where each unit is continued, whether its context is whole there or not."""
        return self._ends | self.tips

    # -------------------------------------------------------------- units

    def unit(self, unit: Unit) -> Iterator[LogEvent]:
        """What of a unit is not in the log yet, behind what it continues."""
        self._after[unit.id] = unit.after
        self._move = None
        self._last = unit.id
        told, new = self._told_and_new(unit.entries)
        if not told and new:
            if self._late or unit.after != self._at:
                yield from self._reach(unit.after, new[0].time)
            yield from self._write(unit.id, new)
            return
        if told and not self._knows(unit.after):  # of a tail or a fork, not all is told
            self.tips[unit.after] = self._past.before(min(told))
        is_new_form = self._past.is_new_form(unit, told, new)
        is_wrong = is_new_form or _is_turned(unit, new)
        tip = self._past.tip(unit, told, {} if is_wrong else self.tips)
        if tip is None:
            self._ends[unit.id] = max(told, default=self._ends.get(unit.after, self.seq))
        else:
            self.tips[unit.id] = tip
            if told and tip == self._stands_at:
                self._at = unit.id
        if told:
            self._said[unit.id] = tuple(entry.id for entry in unit.entries)
        if new and tip == self.seq and not self._late:
            yield from self._tell_rest(_Late(unit, new))
        elif new or is_new_form:
            self._late[unit.id] = _Late(unit, new, is_new_form)

    def _told_and_new(self, entries: Sequence[Entry]) -> tuple[list[int], Sequence[Entry]]:
        """Where the log has entries already, and those that it does not have."""
        known = self._known
        if not known.places and not known.unfinished:
            return [], entries
        told = self._past.places(entries)
        new = [entry for entry in self._with_rests(entries) if entry.id not in known.places]
        erased = {id for entry in entries for id in (entry.id, entry.copy_of)} & known.erased
        return told, list(_without_erased(new, erased)) if erased else new

    def _with_rests(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, and for each that the log has only the beginning of, the rest."""
        for entry in entries:
            yield entry
            begun = self._known.unfinished.get(entry.id)
            if begun is None or entry.kind != "assistant":  # a line that is an id may hold another thing now
                continue
            rest = self._known.rest(entry.content or "", begun.words)
            if rest:
                yield entry._replace(id=f"{entry.id}+{len(begun.words)}", content=rest)

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
        move = self._move if self._move is not None and self._knows(self._move.to) else None
        last = self._at if self._known.is_trusted else self._last
        to, time = (move.to, move.time) if move is not None else (last, None)
        is_moved = move is not None and not move.is_end
        if self.seq > self._known.head or self._late or is_moved or self._is_half_rewritten(to):
            yield from self._reach(to, time)

    def _is_half_rewritten(self, unit: str | None) -> bool:
        """Whether an earlier import was killed before it had written all copies up to a unit."""
        return self._is_rewritten and unit in self._ends and unit not in self.tips

    def _knows(self, unit: str | None) -> bool:
        return unit in self.tips or unit in self._ends

    def _reach(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """Make the context of a unit the head's, and tell all that came late before."""
        way = self._way(to) if self._late or self._grown or to in self._ends else []
        there = set(way)
        for unit in [unit for unit in self._late if unit not in there]:
            yield from self._restore(self._way(unit), time)
        yield from self._restore(way, time) if way else self._go(to, time)

    def _way(self, to: str | None) -> list[str]:
        """The units from the beginning to one."""
        way: list[str] = []
        while to is not None and self._knows(to):
            way.append(to)
            to = self._after.get(to)
        return way[::-1]

    def _restore(self, way: list[str], time: int | None) -> Iterator[LogEvent]:
        """Go to the last unit of a way whose context is whole; behind that, what came late of those above it,
        and copies of those below it."""
        whole = self._count_whole(way)
        yield from self._go(way[whole - 1] if whole else None, time, is_rewriting=whole < len(way))
        for unit in way[:whole]:
            if unit in self._late:
                yield from self._tell_rest(self._late.pop(unit))
        for unit in way[whole:]:
            yield from self._again(unit)

    def _count_whole(self, way: list[str]) -> int:
        """How many units of a way can stay where they are. What came late of one has to be behind it, but
        results find their calls from further down."""
        whole = grown = 0
        for number, unit in enumerate(way, 1):
            grown = max(grown, self._grown.get(unit, 0))
            if self.tips.get(unit, -1) >= grown:
                whole = number
            if unit in self._late and not self._late[unit].is_results:
                break
        return whole

    def _again(self, unit: str) -> Iterator[LogEvent]:
        """A unit once more, as copies of what the log has and with what it does not have."""
        late = self._late.pop(unit, None)
        new = {entry.id: entry for entry in late.new} if late is not None else {}
        forms = {entry.id: entry.data for entry in late.unit.entries} if late and late.is_new_form else {}
        said = self._heard(self._said.get(unit, ()))
        for id in self._said.get(unit, ()):
            if id in said and id not in new:
                yield self._copy(id, said[id]._replace(data=forms[id]) if id in forms else said[id])
            for other in [other for other in new if other == id or other.startswith(f"{id}+")]:
                entry = new.pop(other)
                yield self._entry(_without_form(entry) if other != id and id in forms else entry)
        yield from map(self._entry, new.values())
        self.tips[unit] = self.seq
        self._at = unit
        if late is not None:
            self._take_rest(late)

    def _heard(self, ids: Sequence[str]) -> dict[str, Entry]:
        """What the log says in place of entries, in its latest copies."""
        known = self._known
        places = {place: id for id in reversed(ids) if (place := known.places.get(id)) is not None}
        # Two entries of an exported file may be one event.
        latest = {known.copies[id].place if id in known.copies else place: id for place, id in places.items()}
        heard = {latest[place]: entry for place, entry in known.read(list(latest)).items()}
        return heard | {id: self._fresh[id] for id in ids if id in self._fresh}

    def _copy(self, id: str, said: Entry) -> LogEvent:
        """An entry again. If the log has it in pieces, they become one."""
        begun = self._known.unfinished.get(id)
        before = self._copies.get(id) or (self._known.copies[id].number if id in self._known.copies else 0)
        number = self._copies[id] = before + 1
        place = self.place(id) or 0
        content = begun.words if begun is not None and said.kind == "assistant" else said.content
        data = {"copy_of": place} | (said.data or {})
        self._fresh[id] = said
        self.repeated.update((place, *(begun.rests if begun is not None else ())))
        base = 0 if said.kind == "clear" else None
        return self._event(said.kind, content, data, said.time, base=base, id=copy_id(id, number))

    def _tell_rest(self, late: "_Late") -> Iterator[LogEvent]:
        """What came late of a unit, at the head."""
        self.repeated.update(self._past.places(late.unit.entries))  # its native form may have that, too
        yield from self._write(self._at, late.new)
        self._take_rest(late)

    def _take_rest(self, late: "_Late") -> None:
        """Note that more of a unit was told: who continued it before does not have that."""
        self._grown[late.unit.id] = self.seq
        self._fresh |= {entry.id: entry for entry in late.new}

    def _go(self, to: str | None, time: int | None, *, is_rewriting: bool = False) -> Iterator[LogEvent]:
        """A jump to the context of a unit, unless the head's is it."""
        if not self._knows(to) and self._known.is_tail:
            raise ReadWhole
        target = self.tips.get(to, self._ends.get(to, self.seq))
        is_first = is_rewriting and not self._is_rewritten
        if is_first or (to != self._at and target != self._stands_at):
            data = {"target_message_id": target}
            self._is_rewritten = self._is_rewritten or is_rewriting
            yield self._event("jump", None, data, time, base=target, id=REWRITTEN if is_first else None)
        self._at = to

    def label(self, label: Label) -> Iterator[LogEvent]:
        """A note that names an earlier position."""
        id = _label_id(label)
        if id in self._known.places or (label.name, label.at) in self._labels:
            return
        self._labels.add((label.name, label.at))
        data = {"label": label.name, "at": self.tips.get(label.at, self._ends.get(label.at, self.seq))}
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
        if self._known.head:
            self._past.write(kind, base)
        return _log_event((self.seq, kind, content, data, held, base, id, own if own != held else None))


class _Late(NamedTuple):
    """A unit of which the log has something, and what it does not have of it."""

    unit: Unit
    new: Sequence[Entry]
    is_new_form: bool = False  # the native form of what it has is longer now

    @property
    def is_results(self) -> bool:
        """Whether nothing came but results."""
        return not self.is_new_form and all(entry.kind == "tool_result" for entry in self.new)


def _is_turned(unit: Unit, new: Sequence[Entry]) -> bool:
    """Whether a result was told before its call, which is only coming now."""
    if not new:
        return False
    calls = {(entry.data or {}).get("id") for entry in new if entry.kind == "tool_call"}
    results = {(entry.data or {}).get("id") for entry in unit.entries if entry.kind == "tool_result"}
    new_results = {(entry.data or {}).get("id") for entry in new if entry.kind == "tool_result"}
    return bool(calls & (results - new_results))


def _without_form(entry: Entry) -> Entry:
    """An entry without its native form."""
    data = entry.data or {}
    kept = {name: data[name] for name in data if name != NATIVE}
    return entry._replace(data=kept) if NATIVE in data else entry


def _without_erased(entries: Iterable[Entry], erased: Set[str | None]) -> Iterator[Entry]:
    """The new entries of a unit of which something was erased, without copies of that and without native
    forms, which may hold it, too. Calls and results stay, so that neither loses the other, and say that they
    were erased."""
    for entry in entries:
        data = entry.data or {}
        if entry.copy_of not in erased:
            yield _without_form(entry)
        elif entry.kind == "tool_call":
            call = {"id": data["id"], "name": data["name"], "arguments": {ERASED: SAYS}}
            yield entry._replace(data=call)
        elif entry.kind == "tool_result":
            yield entry._replace(content=SAYS, data={"id": data["id"]})
