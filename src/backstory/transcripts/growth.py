"""A log that has a part of its source already: only what is new is added, and in the end the head's context
is what one import of the whole source gives. Pure.

What the log has is passed over, and what continues it is appended. If what came late belongs before something
that the log has, a jump goes back to there, and what follows is written again, as copies.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

from backstory.log.data_keys import ERASED, NATIVE
from backstory.log.erasure import ERASED_TEXT
from backstory.transcripts.checkpoints import ReadWhole
from backstory.transcripts.linear import Line, LogEvent, label_id
from backstory.transcripts.past import RESULT, SPOKEN, Known, Past, Spot, copy_id
from backstory.transcripts.transcript import Entry, Label, Step, Unit

REWRITTEN = "rewritten"  # the key of the first jump after which a log says something again
SOMEWHERE = "?"  # the head's context may be that of no unit


def events(
    steps: Iterable[Step], known: Known | None = None, *, settled: bool = False
) -> Iterator[LogEvent]:
    """The events that the steps add to a log; to an empty one, all of them, inherited units included.

    `settled`: leave out units of which more may still come.
    """
    return line_after(known or Known({})).events(steps, settled=settled)


def line_after(known: Known) -> Line:
    """A line that continues a log."""
    return GrownLine(known) if known.head else Line()


class GrownLine(Line):
    """A log that had something of its source before.

    Each unit is compared with the log: is what it says on the line after what it continues? Then its context
    is whole there, and stays there. If not, it is written again once its context is needed. A result that
    came late may be anywhere on the line after its call: a request has it directly after the call anyway.
    """

    def __init__(self, known: Known) -> None:
        super().__init__(known.head, known.time)
        self._known = known
        self._past = Past(known)
        self._stands_at = self.stood = self._past.spoken(known.head)
        self._at = SOMEWHERE
        if known.is_tail:
            self.tips.clear()
        self._wrong: dict[str | None, int] = {}  # where units end whose context is nowhere whole
        self._after: dict[str, str | None] = {}
        self._told: dict[
            str, _Told
        ] = {}  # units that the log has, if they may have to be written again
        self._late: dict[str, Sequence[Entry]] = {}  # what has come of units that the log has
        self._floors: dict[
            str | None, int
        ] = {}  # where the context of a unit is whole but for its results
        self._loose: dict[
            str, dict[str, set[int]]
        ] = {}  # where late results of units are, by their ids
        self._next: dict[int, int] = {}  # a position -> the late result after it
        self._fresh: dict[str, Entry] = {}  # late results that were written here
        self._copies: dict[str, int] = {}  # the numbers of copies written here
        self._is_rewritten = known.is_rewritten
        self._exported: tuple[str, int] | None = (
            None  # the last exported unit so far, and its own tip
        )

    def events(self, steps: Iterable[Step], *, settled: bool = False) -> Iterator[LogEvent]:
        """The events that the steps add. Each is noted before the next one is thought of."""
        for event in super().events(steps, settled=settled):
            self._past.write(event.kind, event.base)
            if event.kind in SPOKEN:
                self._stands_at = event.seq
            elif event.base is not None:
                self._stands_at = self._past.spoken(event.base)
            yield event

    def place(self, entry: str) -> int | None:
        """The position of an entry."""
        return self._places.get(entry) or self._known.places.get(entry)

    def ends(self) -> dict[str | None, int]:
        """Where each unit is continued, whether its context is whole there or not."""
        return self._wrong | self.tips if self._wrong else self.tips

    # -------------------------------------------------------------- comparing

    def _unit(self, unit: Unit) -> Iterator[LogEvent]:
        self._after[unit.id] = unit.after
        told, new = self._told_and_new(unit.entries)
        return self._compare(unit, told, new) if told or not new else self._add(unit, new)

    def _add(self, unit: Unit, entries: Sequence[Entry]) -> Iterator[LogEvent]:
        if (
            self._late and unit.after == self._at
        ):  # what came late goes first: the unit may repeat it
            yield from self._reach(unit.after, entries[0].time)
        yield from super()._add(unit, entries)

    def _told_and_new(self, entries: Sequence[Entry]) -> tuple[list[int], Sequence[Entry]]:
        """Where the log has entries already, and those that it does not have."""
        known = self._known
        told = self._past.places(entries)
        new = [entry for entry in self._with_rests(entries) if entry.id not in known.places]
        erased = {id for entry in entries for id in (entry.id, entry.copy_of)} & known.erased
        return told, list(_without_erased(new, erased)) if erased else new

    def _with_rests(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries, and for each that the log has only the beginning of, the rest."""
        for entry in entries:
            yield entry
            begun = self._known.unfinished.get(entry.id)
            if (
                begun is None or entry.kind != "assistant"
            ):  # a line that is an id may hold another thing now
                continue
            rest = self._known.rest(entry.content or "", begun.words)
            if rest:
                # The form of the whole answer is with its beginning.
                yield _without_form(
                    entry._replace(id=f"{entry.id}+{len(begun.words)}", content=rest)
                )

    def _compare(self, unit: Unit, told: Sequence[int], new: Sequence[Entry]) -> Iterator[LogEvent]:
        """A unit that the log has. What came late of it is written at once if the log ends with it, otherwise
        when its context is needed."""
        if told and self._is_first(unit, min(told)):
            self.tips[unit.after] = self._past.before(min(told))
        is_new_form = bool(told) and self._past.is_new_form(unit, new, is_last=self.stood in told)
        is_wrong = is_new_form or _is_turned(unit, new)
        spot = None if is_wrong else self._spot(unit)
        is_at_head = spot is not None and not self._late and self._tip_of(spot) == self._stands_at
        is_whole = is_at_head or all(entry.kind == RESULT for entry in new)
        if spot is not None and is_whole:
            self.tips[unit.id] = self._tip_of(spot)
            self._floors[unit.id] = spot.end
            if spot.results:
                self._loose[unit.id] = dict(spot.results)
            at = self._known.exported_at
            if at is not None and told and max(told) <= at:
                self._end_exported(unit.id, at)
            self._at = unit.id if is_at_head else self._at
        elif told or self._knows(unit.after):
            self._wrong[unit.id] = max(told, default=self._wrong.get(unit.after, self.seq))
        if spot is None or not is_whole or self._known.is_trusted:
            forms = {entry.id: entry.data for entry in unit.entries} if is_new_form else {}
            self._told[unit.id] = _Told(tuple(entry.id for entry in unit.entries), forms)
        if new:
            self._late[unit.id] = new
            self.repeated.update(told)  # its native form may have that, too
        if new and is_at_head:
            yield from self._tell_late([unit.id])

    def _end_exported(self, unit: str, at: int) -> None:
        """Note that a unit may be the last one that was exported, which ends where the exported context did:
        its results may be further down than those of the unit itself."""
        if self._exported is not None:
            self.tips[self._exported[0]] = self._exported[1]
        self._exported = unit, self.tips[unit]
        self.tips[unit] = at

    def _spot(self, unit: Unit) -> Spot | None:
        """Where the context of a unit is whole, after that of the one it continues."""
        tip = self.tips.get(unit.after)
        if tip is None and not self._known.is_trusted:
            return None
        spot = self._past.spot(unit, tip or 0, self._floors.get(unit.after, tip or 0))
        places = sorted(chain.from_iterable(spot.results.values())) if spot is not None else ()
        self._next.update((self._past.before(place), place) for place in places)
        return spot

    def _tip_of(self, spot: Spot) -> int:
        """The end of a spot, or of the late results that follow it."""
        tip = spot.end
        while tip in self._next:
            tip = self._next[tip]
        return tip

    def _is_first(self, unit: Unit, place: int) -> bool:
        """Whether a unit is the first one that a tail or a fork tells: what it continues is only in the
        log."""
        is_root = unit.after is None and self.tips.get(None) == 0
        return not self._knows(unit.after) or (is_root and place <= self._known.inherited)

    # -------------------------------------------------------------- moves

    def _label(self, label: Label) -> Iterator[LogEvent]:
        return iter(()) if label_id(label) in self._known.places else super()._label(label)

    def _finish(self) -> Iterator[LogEvent]:
        """Tell what came late, and go where the tool is now, unless it is where it was: then the head's
        context may be one that a person went to."""
        move = self._move if self._move is not None and self._knows(self._move.to) else None
        last = self._at if self._known.is_trusted else self._last
        self.leaf, time = (move.to, move.time) if move is not None else (last, None)
        is_moved = move is not None and not move.is_end
        if self.leaf is not None and not self._known.is_trusted:
            is_moved = self.leaf != self._known.leaf
        if self.seq > self._known.head or self._late or is_moved or self._is_half_mended(self.leaf):
            yield from self._reach(self.leaf, time)

    def _is_half_mended(self, unit: str | None) -> bool:
        """Whether an import was killed before it had written all that the context of a unit lacked."""
        if unit not in self.tips:
            return unit in self._wrong
        return self._is_at(self.tips[unit]) and bool(self._missing(self._way(unit), unit))

    def _knows(self, unit: str | None) -> bool:
        return unit in self.tips or unit in self._wrong

    def _end_of(self, unit: str | None) -> int:
        return self.tips.get(unit, self._wrong.get(unit, self.seq))

    def _is_at(self, place: int) -> bool:
        return place in (self.seq, self._stands_at) or self._past.spoken(place) == self._stands_at

    def _reach(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """Make the context of a unit the head's, after all that came late on other branches was told."""
        if not self._knows(to) and self._known.is_tail:
            raise ReadWhole
        way = self._way(to) if self._late or self._loose or to not in self.tips else []
        for unit in self._late_elsewhere(set(way)):
            yield from self._restore(self._way(unit), time)
        yield from self._restore(way, time) if way else self._go(to, time)

    def _late_elsewhere(self, way: Set[str]) -> list[str]:
        """The units that are not on a way and of which something came late; if that are copies, also those
        before, because what they repeat has to be told first."""
        late = list(self._late)
        others = [unit for unit in late if unit not in way]
        has_copies = any(entry.copy_of is not None for unit in others for entry in self._late[unit])
        return late[: late.index(others[-1]) + 1] if has_copies else others

    def _way(self, to: str | None) -> list[str]:
        """The units from the beginning to one. If a source gives one id to several, they may be a circle."""
        way: dict[str, None] = {}
        while to is not None and to not in way and self._knows(to):
            way[to] = None
            to = self._after.get(to)
        return list(way)[::-1]

    # -------------------------------------------------------------- mending

    def _restore(self, way: list[str], time: int | None) -> Iterator[LogEvent]:
        """Go to the last unit of a way whose context is whole; then write results that the line lacks, and
        the units after it again."""
        whole = next((number for number, unit in enumerate(way) if unit not in self.tips), len(way))
        to = way[whole - 1] if whole else self._after[way[0]]
        missing = self._missing(way[:whole], to)
        is_first = not self._is_rewritten and (whole < len(way) or bool(missing))
        self._is_rewritten = self._is_rewritten or is_first
        yield from self._go(to, time, id=REWRITTEN if is_first else None)
        for unit, id in missing:
            for said in self._heard([id]).values():
                yield self._copy(id, said)
                self._loose[unit][id].add(self.seq)
                self.tips[self._at] = self.seq
        yield from self._tell_late(way[:whole])
        for unit in way[whole:]:
            yield from self._again(unit)

    def _missing(self, way: Iterable[str], to: str | None) -> list[tuple[str, str]]:
        """Late results that are not on the line to a unit: whose they are, and their ids."""
        loose = (
            {id: unit for unit in way for id in self._loose.get(unit, ())} if self._loose else {}
        )
        places = {id: self._loose[unit][id] for id, unit in loose.items()}
        left = self._past.missing(places, self.tips[to]) if loose else ()
        return [(unit, id) for id, unit in loose.items() if id in left]

    def _again(self, unit: str) -> Iterator[LogEvent]:
        """A unit once more, as copies of what the log has and with what it does not have."""
        ids, forms = self._told[unit]
        new = {entry.id: entry for entry in self._late.pop(unit, ())}
        said = self._heard(ids)
        for id in ids:
            if id in said and id not in new:
                yield self._copy(id, said[id], forms.get(id))
            for other in [other for other in new if other == id or other.startswith(f"{id}+")]:
                yield self._entry(new.pop(other))
        yield from map(self._entry, new.values())
        self.tips[unit] = self.seq
        self._at = unit

    def _heard(self, ids: Sequence[str]) -> dict[str, Entry]:
        """What the log says in place of entries, in its latest copies."""
        known = self._known
        places = {place: id for id in reversed(ids) if (place := known.places.get(id)) is not None}
        # Two entries of an exported file may be one event.
        latest = {
            known.copies[id][-1] if id in known.copies else place: id
            for place, id in places.items()
        }
        heard = {latest[place]: entry for place, entry in known.read(list(latest)).items()}
        return heard | {id: self._fresh[id] for id in ids if id in self._fresh}

    def _copy(self, id: str, said: Entry, form: dict[str, Any] | None = None) -> LogEvent:
        """An entry again, with the form that it has now, if that has changed. If the log has it in pieces,
        they become one."""
        begun = self._known.unfinished.get(id)
        number = self._copies[id] = self._copies.get(id, len(self._known.copies.get(id, ()))) + 1
        data = said.data or {}
        place = data["copy_of"] if "copy_of" in data else self.place(id)
        assert place is not None
        content = begun.words if begun is not None and said.kind == "assistant" else said.content
        self.repeated.update((place, *(begun.rests if begun is not None else ())))
        base = 0 if said.kind == "clear" else None
        data = (data if form is None else form) | {"copy_of": place}
        return self._event(said.kind, content, data, said.time, base=base, id=copy_id(id, number))

    def _tell_late(self, units: Iterable[str]) -> Iterator[LogEvent]:
        """What came late of some units, at the head: results of any of them, and words of the head's own."""
        for unit in [unit for unit in units if unit in self._late]:
            for entry in self._late.pop(unit):
                event = self._entry(entry)
                yield event
                if entry.kind == RESULT:
                    self._fresh[entry.id] = entry._replace(data=event.data)
                    self._loose.setdefault(unit, {})[entry.id] = {self.seq}
                    self.tips[self._at] = self.seq
                else:
                    self.tips[self._at] = self.seq
                    self._floors.pop(self._at, None)


class _Told(NamedTuple):
    """A unit that the log has: the ids of its entries, and the data of those whose native form has grown."""

    ids: tuple[str, ...]
    forms: dict[str, dict[str, Any] | None]


def _is_turned(unit: Unit, new: Sequence[Entry]) -> bool:
    """Whether a result was told before its call, which is only coming now."""
    if not new:
        return False
    calls = {(entry.data or {}).get("id") for entry in new if entry.kind == "tool_call"}
    results = {(entry.data or {}).get("id") for entry in unit.entries if entry.kind == RESULT}
    new_results = {(entry.data or {}).get("id") for entry in new if entry.kind == RESULT}
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
            call = {"id": data["id"], "name": data["name"], "arguments": {ERASED: ERASED_TEXT}}
            yield entry._replace(data=call)
        elif entry.kind == RESULT:
            yield entry._replace(content=ERASED_TEXT, data={"id": data["id"]})
