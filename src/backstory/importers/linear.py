"""From the steps of a thread to a log: positions, bases and the jumps between branches. Pure.

This is the law of an import in one place: entries are written in the order of the source, and wherever a
unit does not continue what the head continues, a jump to what it does continue goes first.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backstory.importers.transcript import Entry, Label, Move, Step, Unit

LABEL = "backstory.label"


class LogEvent(NamedTuple):
    """An event with its position, as an agent that has nothing else would have it."""

    seq: int
    kind: str
    content: str | None
    data: dict[str, Any] | None
    time: int | None  # never runs backwards; `source_time` is the source's own where that differs
    base: int | None  # None: the event before
    id: str | None = None  # the entry's id; None: ours
    source_time: int | None = None


def events(steps: Iterable[Step]) -> Iterator[LogEvent]:
    """The log that the steps come to, inherited units included."""
    log = _Log()
    for step in steps:
        match step:
            case Unit():
                yield from log.write(step)
            case Move():
                yield from log.go(step.to, step.time)
            case Label():
                yield log.label(step)


class _Log:
    def __init__(self) -> None:
        self.seq = 0
        self.time: int | None = None
        self.at: str | None = None  # the unit whose context the head is
        self.tips: dict[str | None, int] = {None: 0}  # where the context of a unit was whole
        self.places: dict[str, int] = {}  # where an entry is

    def write(self, unit: Unit) -> Iterator[LogEvent]:
        """The entries of a unit, behind what it continues."""
        if not unit.entries:
            self.tips[unit.id] = self.tips.get(unit.after, self.seq)
            return
        yield from self.go(unit.after, unit.entries[0].time)
        for entry in unit.entries:
            yield self._entry(entry)
        self.tips[unit.id] = self.seq
        self.at = unit.id

    def go(self, to: str | None, time: int | None) -> Iterator[LogEvent]:
        """A jump to the context of a unit, unless the head is it."""
        if to == self.at:
            return
        target = self.tips.get(to, self.seq)
        if target != self.seq:
            data = {"target_message_id": target}
            yield self._event("jump", None, data, time, base=target)
        self.at = to

    def label(self, label: Label) -> LogEvent:
        """A note that names an earlier position."""
        data = {"label": label.name, "at": self.tips.get(label.at, self.seq)}
        event = self._event("note", LABEL, data, label.time)
        if self.at is not None:
            self.tips[self.at] = self.seq
        return event

    def _entry(self, entry: Entry) -> LogEvent:
        data = entry.data
        if entry.copy_of is not None:
            data = (data or {}) | {"copy_of": self.places.get(entry.copy_of, 0)}
        base = 0 if entry.kind == "clear" else None
        event = self._event(entry.kind, entry.content, data, entry.time, base=base, id=entry.id)
        self.places[entry.id] = event.seq
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
        own = time if time is not None else self.time
        held = own if self.time is None or own is None else max(own, self.time)
        self.time = held
        return LogEvent(self.seq, kind, content, data, held, base, id, own if own != held else None)
