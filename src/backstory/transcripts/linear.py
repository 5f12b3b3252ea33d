"""From the steps of a thread to a log: positions, bases and the jumps between branches. Pure.

This is the rule of an import in one place: entries are written in the order of the source, and wherever a
unit does not continue what the head continues, a jump to what it does continue goes first. For a log that has
a part of the source already, see `growth`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from backstory.log.moves import LABEL
from backstory.transcripts.transcript import Entry, Label, Move, Step, Unit


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
            yield label_id(step)


def label_id(label: Label) -> str:
    """The id that a log knows a label by."""
    return f"label {label.at} {label.name}"


class Line:
    """A log that is being written: where its head is, and where each unit's context is whole."""

    def __init__(self, head: int = 0, time: int | None = None) -> None:
        self.seq = head
        self._time = time
        self._at: str | None = None  # the unit whose context is the head's
        self._last: str | None = None  # the unit that was told last
        self.leaf: str | None = None  # in the end: the unit that the tool is at
        self._move: Move | None = None  # the last one, if nothing was said since
        self.stood = (
            0  # where something was said last in the head's context, before anything was written
        )
        self.tips: dict[str | None, int] = {None: 0}  # where the context of a unit is whole
        self._places: dict[str, int] = {}  # of the entries written here
        self._labels: set[tuple[str | None, str]] = set()
        self.repeated: set[int] = set()  # where the log has what events written here may say again
        self.left_out = 0  # units of which more may still come
        self._left: set[str | None] = set()  # these, and what continues them
        self._missed: set[str | None] = set()  # their entries that the log does not have

    def events(self, steps: Iterable[Step], *, settled: bool = False) -> Iterator[LogEvent]:
        """The events that the steps add. `settled`: leave out units of which more may still come."""
        for step in steps:
            match step:
                case Unit() if settled and (not step.settled or step.after in self._left):
                    self._leave_out(step)
                case Unit():
                    self._move = None
                    self._last = step.id if step.entries else self._last
                    yield from self._unit(self._without_missed(step) if self._missed else step)
                case Move():
                    self._move = (
                        step  # what is said there names the place, so only a last move counts
                    )
                case Label():
                    yield from self._label(step)
        yield from self._finish()

    def _leave_out(self, unit: Unit) -> None:
        self._left.add(unit.id)
        self._missed.update(entry.id for entry in unit.entries if self.place(entry.id) is None)
        self.left_out += not unit.settled

    def _without_missed(self, unit: Unit) -> Unit:
        """A unit without copies of what was left out."""
        return unit._replace(
            entries=tuple(e for e in unit.entries if e.copy_of not in self._missed)
        )

    def place(self, entry: str) -> int | None:
        """The position of an entry."""
        return self._places.get(entry)

    def ends(self) -> dict[str | None, int]:
        """Where each unit is continued."""
        return self.tips

    # -------------------------------------------------------------- steps

    def _unit(self, unit: Unit) -> Iterator[LogEvent]:
        """What the log does not have of a unit, after what it continues."""
        return self._add(unit, unit.entries)

    def _add(self, unit: Unit, entries: Sequence[Entry]) -> Iterator[LogEvent]:
        """A unit that the log does not have."""
        if not entries:
            self.tips[unit.id] = self.tips.get(unit.after, self.seq)
            return
        if unit.after != self._at:
            yield from self._reach(unit.after, entries[0].time)
        for entry in entries:
            yield self._entry(entry)
        self.tips[unit.id] = self.seq
        self._at = unit.id

    def _label(self, label: Label) -> Iterator[LogEvent]:
        """A note that names an earlier position."""
        if (label.name, label.at) not in self._labels:
            self._labels.add((label.name, label.at))
            data = {"label": label.name, "at": self._end_of(label.at)}
            yield self._event("note", LABEL, data, label.time, id=label_id(label))
            self.tips[self._at] = self.seq

    def _finish(self) -> Iterator[LogEvent]:
        """Go where the tool is now."""
        self.leaf = self._last
        if self._move is not None and self._knows(self._move.to):
            self.leaf = self._move.to
            yield from self._reach(self.leaf, self._move.time)

    # -------------------------------------------------------------- moves

    def _knows(self, unit: str | None) -> bool:
        return unit in self.tips

    def _reach(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """Make the context of a unit the head's."""
        return self._go(to, time)

    def _go(self, to: str | None, time: int | None, *, id: str | None = None) -> Iterator[LogEvent]:
        """A jump to the context of a unit, unless the head's is it. One with an id is written anyway."""
        target = self._end_of(to)
        if id is not None or (to != self._at and not self._is_at(target)):
            yield self._event("jump", None, {"target_message_id": target}, time, base=target, id=id)
        self._at = to

    def _end_of(self, unit: str | None) -> int:
        """Where a unit is continued; the head, if it is not here."""
        return self.tips.get(unit, self.seq)

    def _is_at(self, place: int) -> bool:
        """Whether the head's context is that of a position."""
        return place == self.seq

    # -------------------------------------------------------------- events

    def _entry(self, entry: Entry) -> LogEvent:
        data = entry.data
        original = None if entry.copy_of is None else self.place(entry.copy_of)
        if original is not None:
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
        return _log_event(
            (self.seq, kind, content, data, held, base, id, own if own != held else None)
        )
