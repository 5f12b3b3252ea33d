"""The steps of one thread into its agent, in batches behind what that has.

Of a thread that is the tail of a file, every step must be told by what is in the tail: otherwise `ReadWhole`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import InvalidEvent
from backstory.intake import Intake, add_drafts
from backstory.log.checks import check_draft
from backstory.log.erasure import build_stand_in, is_erased
from backstory.log.events import Draft, Event
from backstory.log.kinds import TOOL_KINDS
from backstory.log.times import EPOCH, to_datetime, to_microseconds
from backstory.transcripts.checkpoints import ReadWhole
from backstory.transcripts.growth import REWRITTEN, line_after
from backstory.transcripts.linear import Line, LogEvent, ids_in
from backstory.transcripts.masks import Mask
from backstory.transcripts.names import key_of
from backstory.transcripts.outcome import Imported
from backstory.transcripts.past import Begun, Known, Link, copy_id, rest_of
from backstory.transcripts.pictures import without_pictures
from backstory.transcripts.provenance import Exported
from backstory.transcripts.transcript import Entry, Fault, Label, Move, Step, Unit
from backstory.transcripts.unfinished import answers_begun, erased_entries
from backstory.wire.holes import with_filled

CHUNK = 500  # steps whose entries are looked up at once
BATCH = 1_000  # events in one transaction, and
BATCH_SIZE = 4_000_000  # about this many bytes: the lock is held for a moment only
LINKS = 500  # events whose places on the line are looked up at once, and
MOST_LINKS = 20_000  # how many of them are remembered
BLOCKS = 32  # of an answer, that are looked for if it seems to be new

DAMAGED = "backstory.damaged"  # a note in place of an event that no store can hold
GONE = "backstory.erased"  # a note in place of a copy of an event that was erased


class Changes(NamedTuple):
    """What is done to events before they are written."""

    mask: Mask | None = None
    images: bool = True

    def made(self, value: Any) -> Any:
        """A JSON value with the changes made."""
        value = value if self.images else without_pictures(value)
        return value if self.mask is None else self.mask.value(value)

    def rest(self, words: str, beginning: str) -> str | None:
        """What follows in an answer's words behind the beginning that was written."""
        rest = rest_of(words, beginning)
        # What is only compared is not counted as masked.
        return Mask().rest(words, beginning) if rest is None and self.mask is not None else rest


NO_CHANGES = Changes()


class ThreadWriter:
    """Writes the steps of one thread behind what its agent has."""

    def __init__(
        self,
        intake: Intake,
        agent: Agent,
        changes: Changes,
        done: Imported,
        floor: int,
        read: int | None = None,
    ) -> None:
        self._intake = intake
        self._agent = agent
        self._changes = changes
        self._has_changes = changes != NO_CHANGES
        self._done = done
        self._places: dict[str, int] = {}
        self._begun: dict[str, Begun] = {}
        self._copies: dict[str, list[int]] = {}
        self._links: dict[int, Link] = {}
        self._erased: set[str] = set()
        self._empty: set[int] = (
            set()
        )  # where events are that were erased before they were looked up
        self._entries: dict[str, str] = {}  # the entries of calls, by the calls' ids
        self._answered: set[str] = set()
        self._batch: list[Draft] = []
        self._size = 0
        self._is_rewritten = False
        self._stood = 0  # where the last thing was said that its context had
        self._written = agent.listed_head
        self._has_past = agent.listed_head > 0
        self._floor = floor or to_microseconds(agent.created_at)
        self._tail = None if read is None else _TailCheck(read, self._places)
        self.calls: dict[str, int] = {}
        self.open_calls = 0
        self.exported: Exported | None = None
        self.is_trusted = False  # what it has is where it belongs
        self.leaf: str | None = None  # the unit that the tool was at when it was imported last, and
        self.forget_leaf: Callable[[], None] = lambda: None  # until this import has come to its end
        self.parent: Agent | None = None  # what it was copied from
        self.copies: str | None = (
            None  # what it may inherit under other ids: "marked" units, or the "first"
        )

    def write(self, steps: Iterator[Step], *, settled: bool) -> Line:
        """Write what is new, in batches, and return the line that it came to. The last batch is handed over,
        and waits for the commit."""
        line = line_after(self._known())
        self._stood = line.stood
        for event in line.events(self._looked_up(steps), settled=settled):
            self._take(event)
            if len(self._batch) >= BATCH or self._size >= BATCH_SIZE:
                self._hand_over(line)
                self.forget_leaf()
                self.commit()
        self._hand_over(line)
        places = ((call, line.place(entry)) for call, entry in self._entries.items())
        self.calls = {call: place for call, place in places if place is not None}
        self.open_calls = len(self._entries.keys() - self._answered)
        return line

    def _known(self) -> Known:
        """What the agent has, and where its head stands."""
        if not self._agent.listed_head:
            return Known(self._places)
        self._is_rewritten = bool(self._intake.find_positions(self._agent, [REWRITTEN]))
        return Known(
            self._places,
            self._agent.listed_head,
            to_microseconds(self._agent.updated_at),
            self._begun,
            self._link,
            self._key,
            self._erased,
            self._is_rewritten,
            self._copies,
            self._read,
            leaf=self.leaf,
            is_tail=self._tail is not None,
            is_trusted=self.exported is not None or self.is_trusted,
            exported_at=None if self.exported is None else self.exported.at,
            inherited=self._agent.fork_seq,
            has_forms=not self._has_changes,
            rest=self._changes.rest,
        )

    def _link(self, place: int) -> Link:
        if place not in self._links:
            if len(self._links) > MOST_LINKS:
                self._links.clear()
            low = (place - 1) // LINKS * LINKS  # a block, as units go up and walks go down
            rows = self._agent.outline(low, min(low + LINKS, self._agent.listed_head))
            self._links.update((row.seq, Link(row.kind, row.base)) for row in rows)
        return self._links[place]

    def _key(self, place: int) -> str | None:
        [event] = self._agent.events([place])
        return event.key

    def _read(self, places: Sequence[int]) -> dict[int, Entry]:
        """What the events at some positions say, to say it again. Of what was erased, only that it was."""
        events = self._agent.events(places) if places else []
        gone = [event for event in events if is_erased(event.data_json)]
        self._empty.update(event.seq for event in gone)
        self._empty.update((event.data or {}).get("copy_of", event.seq) for event in gone)
        return {event.seq: _said_by(event) for event in events}

    def _looked_up(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The steps; before each is told, it is known which of its entries the agent has."""
        if not self._has_past and self._tail is None:  # nothing has to be looked up
            for step in steps:
                if isinstance(step, Unit):
                    self._take_calls(step)
                yield step
            return
        while chunk := list(islice(steps, CHUNK)):
            self._look_up(chunk)
            for step in chunk:
                if self.copies is not None and self._is_copy(step):
                    continue
                if self._tail is not None:
                    self._tail.check(step)
                if isinstance(step, Unit):
                    self._take_calls(step)
                yield step

    def _look_up(self, steps: Sequence[Step]) -> None:
        """Find what the agent has of some steps, as it is there: in copies, only begun, or erased."""
        asked = ids_in if self._tail is None else self._tail.ids_in
        by_key = {key_of(id): id for step in steps for id in asked(step)}
        found = self._intake.find_positions(self._agent, by_key)
        self._places.update((by_key[key], place) for key, place in found.items())
        if self._is_rewritten:
            self._look_up_copies([id for key in found if (id := by_key[key]) not in self._copies])
        units = [step for step in steps if isinstance(step, Unit)]
        exported: dict[str, int] = {}
        if self.exported is not None:
            for unit in units:
                exported |= self.exported.places(unit)  # an id may be that of another block there
        self._places.update(exported)
        entries = (entry for unit in units for entry in unit.entries if entry.id not in exported)
        self._begun.update(answers_begun(self._agent, entries, self._places, self._changes.rest))
        erased = erased_entries(
            self._agent, units, self._places, self._begun, self._at_head, self._changes.rest
        )
        self._erased |= erased.entries
        self._empty |= erased.places
        self._empty |= {self._copies[id][-1] for id in erased.entries if id in self._copies}

    def _look_up_copies(self, ids: Sequence[str]) -> None:
        """Find the latest copies of entries: their keys are numbered."""
        number = 1
        while ids:
            by_key = {key_of(copy_id(id, number)): id for id in ids}
            found = self._intake.find_positions(self._agent, by_key)
            for key, place in found.items():
                self._copies.setdefault(by_key[key], []).append(place)
            ids, number = [by_key[key] for key in found], number + 1

    def _at_head(self, entry: str) -> bool:
        """Whether the log ends with an entry: of its answer, more may have come."""
        copies = self._copies.get(entry)
        return (copies[-1] if copies else self._places.get(entry)) == self._stood

    def _is_copy(self, step: Step) -> bool:
        """Whether a step repeats what the agent inherits, under an id that it does not have there."""
        if not isinstance(step, Unit):
            return False
        places = [place for id in ids_in(step) if (place := self._places.get(id)) is not None]
        if self.copies == "first" and any(place > self._agent.fork_seq for place in places):
            self.copies = None  # from here on it is the agent's own
        if places:
            return False
        return self.copies == "first" or (step.inherited and not self._is_beyond(step))

    def _is_beyond(self, unit: Unit) -> bool:
        """Whether a unit was copied, but after the agent's birth: it was born when its copy was not whole."""
        if self.parent is None:
            return False
        places = self._intake.find_positions(self.parent, map(key_of, ids_in(unit)))
        return any(place > self._agent.fork_seq for place in places.values())

    def _take_calls(self, unit: Unit) -> None:
        for entry, kind, _, data, _, copy_of in unit.entries:
            if kind in TOOL_KINDS and copy_of is None:
                id = (data or {}).get("id")
                if not isinstance(id, str):
                    continue
                if kind == "tool_call":
                    self._entries.setdefault(id, entry)
                else:
                    self._answered.add(id)

    def _take(self, event: LogEvent) -> None:
        """Add an event to the batch."""
        _, kind, content, data, time, _, id, source_time = event
        if source_time is not None:
            data = (data or {}) | {"source": {"time": source_time}}
        draft = self._draft(kind, content, data, None if id is None else key_of(id))
        self._batch.append(draft._replace(created_us=max(time or self._floor, 0)))
        self._size += len(draft.content or "") + len(draft.data_json or "")

    def _hand_over(self, line: Line) -> None:
        if self._batch:
            repeated = {
                place for place in line.repeated if 0 < place <= self._written
            } - self._empty
            add_drafts(self._intake, self._agent, self._batch, self._written, repeated)
            self._written += len(self._batch)
            line.repeated.clear()

    def commit(self) -> None:
        """Write what was handed over, and count it."""
        self._intake.commit()
        kinds = [draft.kind for draft in self._batch]
        self._done.new_events += len(kinds)
        self._done.branches += kinds.count("jump")
        self._done.cuts += kinds.count("clear")
        self._batch, self._size = [], 0

    def _draft(
        self, kind: str, content: str | None, data: dict[str, Any] | None, key: str | None
    ) -> Draft:
        """What can be stored of an event: where it cannot, a note that says so has its place."""
        if self._has_changes:
            data = self._changes.made(data)
            if self._changes.mask is not None and content is not None:
                content = self._changes.mask.text(content)
        try:
            return check_draft(kind, content, data, key)
        except InvalidEvent as error:
            self._done.report.damaged.append(Fault(self._done.source, None, error.message))
            return check_draft("note", DAMAGED, {"kind": kind, "why": error.message[:500]}, key)


class _TailCheck:
    """Whether the steps of a tail say the same as they would if the file were read from its beginning."""

    def __init__(self, read: int, places: Mapping[str, int]) -> None:
        self._read = read  # lines that were told before
        self._places = places
        self._seen: set[str | None] = set()

    def ids_in(self, step: Step) -> Iterator[str]:
        """The ids in a step, and of a new unit those that it could have begun with before the checkpoint."""
        yield from ids_in(step)
        if isinstance(step, Unit):
            yield from self._own(step)

    def _own(self, unit: Unit) -> Iterator[str]:
        yield from (entry.id for entry in unit.entries)
        if unit.line > self._read:
            yield unit.id
            yield from (f"{unit.id}:{block}" for block in range(BLOCKS))

    def check(self, step: Step) -> None:
        """Raise ReadWhole if a step leads to what is not in the tail, or the store has it already."""
        match step:
            case Unit():
                known = any(id in self._places for id in self._own(step))
                if (step.line > self._read) if known else (step.after not in self._seen):
                    raise ReadWhole
                self._seen.add(step.id)
            case Move() if step.to not in self._seen:
                raise ReadWhole
            case Label() if step.at not in self._seen:
                if not any(id in self._places for id in ids_in(step)):
                    raise ReadWhole


def _said_by(event: Event) -> Entry:
    """An event as an entry. Erased calls and results stay, so that neither loses the other."""
    if not is_erased(event.data_json):
        data = with_filled(event.data, event.content) if event.data else None
        time = ((data or {}).get("source") or {}).get("time", event.created_us)
        return Entry("", event.kind, event.content, data, time)
    said = build_stand_in(event)
    if said is None:
        return Entry("", "note", GONE, None, event.created_us)
    return Entry("", event.kind, said.content, said.data, event.created_us)


def moment_of(microseconds: int) -> datetime:
    """A time that every store can hold."""
    try:
        return to_datetime(max(microseconds, 0))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else EPOCH
