"""The log on top of a backend: appends to agents, and reads.

This module reads the clock, gets an event's base before it is written, and turns labels and times into
positions. `core.replay` has the rules; the backend stores the rows.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from backstory.errors import (
    Conflict,
    Corrupt,
    Invalid,
    KeyTaken,
    MarkNotFound,
    PositionNotFound,
    Remedy,
)
from backstory.log.chain import START
from backstory.log.drafts import Draft
from backstory.log.events import (
    Columns,
    Event,
    checked_key,
    checked_keys,
    columns_of,
    moment_us,
    parse_object,
)
from backstory.log.kinds import ALWAYS_SHOWN, KINDS, MOVES, SPOKEN
from backstory.log.labels import LABEL, labels_in
from backstory.log.outline import OutlineRow
from backstory.log.replay import Context, Explanation, explain, gap_at, is_shown, log_inert, shown
from backstory.storage.bases import judged, with_bases
from backstory.storage.marks import find_mark
from backstory.storage.positions import (
    LAST_POSITION,
    check_expected,
    check_position,
    clipped,
    distinct_positions,
    last_positions,
    parts_at,
)
from backstory.storage.protocols import (
    AgentRecord,
    Appender,
    Backend,
    BasedDrafts,
    Piece,
    Reader,
    Walk,
)

T = TypeVar("T", bound=Sequence[Any])
Batch = tuple[
    AgentRecord, Sequence[Draft], int | None
]  # events for an agent, and the head they go after
At = int | str | datetime | None  # a position, a label or a time; None: the head

TAIL_SLACK = (
    16  # positions read beyond those asked for, because marks and notes are among the messages
)


class Prepared(NamedTuple):
    """A batch that can be written: the events that exist already, and the new ones with their bases."""

    agent: AgentRecord
    drafts: Sequence[Draft]
    known: dict[str | None, Event]
    head: int
    based: BasedDrafts
    inert: list[tuple[int, str]]


class Log:
    """Reads and writes of every agent in one store."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._reported: set[tuple[str, int]] = set()

    # --- writing ---

    def write(
        self, agent: AgentRecord, drafts: Sequence[Draft], expected: int | None = None
    ) -> list[Event]:
        """Append events, all or none, and return them. With `expected`, only after that head: a repeat
        returns the existing events, anything else raises Conflict. An event whose key the lineage already has
        is not written again."""
        check_expected(expected)
        try:
            if _can_be_written_at_once(drafts):
                return self.backend.append(agent, with_bases(drafts), expected, now())
            with self.backend.exclusive(agent) as rows:
                return self._write_held(rows, agent, drafts, expected)
        except Conflict:
            if expected is None:
                raise
            return self._repeated(agent, drafts, expected)

    def write_together(self, batches: Sequence[Batch]) -> list[list[Event]]:
        """Append to several agents, all or none. Everything that can be refused is refused before the first
        event is written. Each batch is (agent, drafts, expected), as for `write`."""
        try:
            with self.backend.exclusive(*(agent for agent, _, _ in batches)) as rows:
                prepared = [self._prepared(rows, *batch) for batch in batches]
                time = now()  # one time for all, so that no moment has only a part of it
                return [self._written(rows, each, time) for each in prepared]
        except Conflict:
            if any(expected is None for _, _, expected in batches):
                raise
            return [
                self._repeated(agent, drafts, expected or 0) for agent, drafts, expected in batches
            ]

    def _write_held(
        self, rows: Appender, agent: AgentRecord, drafts: Sequence[Draft], expected: int | None
    ) -> list[Event]:
        """Append events that depend on what is there, while the agent is locked."""
        return self._written(rows, self._prepared(rows, agent, drafts, expected), now())

    def _prepared(
        self, rows: Reader, agent: AgentRecord, drafts: Sequence[Draft], expected: int | None
    ) -> "Prepared":
        known = self._known(rows, agent, drafts)
        new = [draft for draft in drafts if draft.key is None or draft.key not in known]
        head = rows.head(agent)
        if expected not in (None, head) and (new or not drafts):
            raise Conflict.at(agent.name, expected or 0, head)
        inert: list[tuple[int, str]] = []
        return Prepared(agent, drafts, known, head, judged(rows, agent, new, head, inert), inert)

    def _written(self, rows: Appender, batch: "Prepared", time: int) -> list[Event]:
        written = iter(
            rows.append(batch.agent, batch.based, batch.head, time) if batch.based else ()
        )
        for seq, problem in batch.inert:
            self._report_inert(batch.agent, seq, problem)
        known = batch.known
        return [known[draft.key] if draft.key in known else next(written) for draft in batch.drafts]

    def _known(
        self, rows: Reader, agent: AgentRecord, drafts: Sequence[Draft]
    ) -> dict[str | None, Event]:
        """The events of the lineage that have the keys of some drafts, if they say the same."""
        keys = [draft.key for draft in drafts if draft.key is not None]
        if not keys:
            return {}
        if len(set(keys)) < len(keys):
            raise Invalid("two events of one batch have the same key", remedy="give each its own")
        pieces = rows.lineage(agent)
        if not pieces[-1].high:  # an empty log
            return {}
        known: dict[str | None, Event] = {
            event.key: event for event in rows.keyed(agent, pieces, keys)
        }
        for draft in drafts:
            event = known.get(draft.key)
            if event is not None and not draft.says(event):
                raise KeyTaken.of_event(draft.key or "", event.seq)
        return known

    def move(
        self,
        agent: AgentRecord,
        choose: Callable[[Reader, Walk], Draft],
        expected: int | None = None,
    ) -> Event:
        """Write a valid rewind or jump. `choose` reads and decides while no one else can write to the
        agent."""
        check_expected(expected)
        with self.backend.exclusive(agent) as rows:
            walk = rows.walk(agent, None)
            if expected not in (None, walk.head):
                raise Conflict.at(agent.name, expected or 0, walk.head)
            chosen = choose(rows, walk)
            base = (parse_object(chosen.data_json) or {})["target_message_id"]
            return rows.append(agent, [(chosen, base)], walk.head, now())[0]

    def _repeated(self, agent: AgentRecord, drafts: Sequence[Draft], expected: int) -> list[Event]:
        """The existing events of an append that is repeated. Raises Conflict if other events are there."""
        head = self.backend.head(agent)
        wanted = Piece(agent.pk, expected + 1, expected + len(drafts))
        there = self.backend.read(agent, [wanted]) if drafts and wanted.high <= head else []
        same = (draft.says(event) for event, draft in zip(there, drafts, strict=False))
        if not drafts or len(there) != len(drafts) or not all(same):
            raise Conflict.at(agent.name, expected, head)
        return there

    def _report_inert(self, agent: AgentRecord, seq: int, problem: str) -> None:
        """Log each inert event once, however often it is read."""
        if (agent.id, seq) not in self._reported:
            self._reported.add((agent.id, seq))
            log_inert(f"{agent.name!r} ({agent.id})", seq, problem)

    # --- reading ---

    def walk(self, agent: AgentRecord, at: At = None) -> Walk:
        """The live pieces at a position, label or time."""
        return self._walked(agent, at)[1]

    def _walked(self, agent: AgentRecord, at: At) -> tuple[int | None, Walk]:
        """The resolved position, and the live pieces there."""
        position = self.position(agent, at)
        walk = self.backend.walk(agent, position)
        if position is not None:
            check_position(agent, position, walk.head)
        return position, walk

    def context(self, agent: AgentRecord, at: At = None) -> Context:
        """What is live at a position, label or time."""
        position, walk = self._walked(agent, at)
        messages = self._shown(agent, walk, self.read(agent, walk.pieces))
        return Context(messages, walk.head if position is None else position)

    def live_columns(self, agent: AgentRecord, at: At) -> Columns:
        """The same, as columns without times and keys."""
        _, walk = self._walked(agent, at)
        columns = self.backend.read_columns(agent, walk.pieces)
        self._complete(agent, walk.pieces, columns.seqs)
        if ALWAYS_SHOWN.issuperset(columns.kinds):
            return columns
        return columns_of(self._shown(agent, walk, columns.events()))

    def _shown(self, agent: AgentRecord, walk: Walk, events: list[Event]) -> list[Event]:
        moves = {piece.low for piece in walk.pieces if piece.base is not None}
        messages = shown(events, moves)
        if len(messages) != len(events):
            self._report_skipped(agent, events, moves)
        return messages

    def _report_skipped(self, agent: AgentRecord, events: list[Event], moves: set[int]) -> None:
        for event in events:
            if event.kind != "clear" and not is_shown(event, event.seq in moves):
                problem = "malformed or invalid" if event.kind in KINDS else "unknown kind"
                self._report_inert(agent, event.seq, f"{problem} {event.kind!r}")

    def marks_in(self, agent: AgentRecord, walk: Walk, rows: Reader | None = None) -> list[Event]:
        """The mark stack, oldest first, without reading the messages around it."""
        return (rows or self.backend).marks(agent, walk.pieces)

    def mark(
        self, agent: AgentRecord, walk: Walk, which: int | str | None, rows: Reader | None = None
    ) -> Event:
        """The mark at a position, the newest with a label, or just the newest on the stack."""
        rows = rows or self.backend
        return find_mark(rows, agent, rows.marks(agent, walk.pieces), which)

    def labels(self, agent: AgentRecord) -> dict[str, int]:
        """The positions that labels in the lineage name."""
        return labels_in(self.notes(agent, LABEL, None, live=False))

    def _named(self, agent: AgentRecord, label: str) -> int:
        """The position of the newest mark on the stack with a label, or else the one that a label names."""
        try:
            return self.mark(agent, self.walk(agent), label).seq
        except MarkNotFound:
            labels = self.labels(agent)
            if label not in labels:
                raise
            return labels[label]

    def tail(
        self, agent: AgentRecord, n: int, at: At = None, *, notes: bool = False
    ) -> list[Event]:
        """The newest live messages, or messages and notes: one walk, and reads of bounded size from the
        end."""
        if type(n) is not int or n < 0:
            raise Invalid(f"{n!r} is not a number of messages", remedy="pass 0 or more")
        walk = self.walk(agent, at)
        found: list[Event] = []
        wanted = SPOKEN | {"note"} if notes else SPOKEN
        pieces, size = list(walk.pieces), n + TAIL_SLACK
        while pieces and len(found) < n:
            taken, pieces = last_positions(pieces, size)
            spoken = [event for event in self.read(agent, taken) if event.kind in wanted]
            found, size = spoken + found, size * 4
        return found[len(found) - n :] if len(found) > n else found

    def notes(self, agent: AgentRecord, name: str | None, at: At, *, live: bool) -> list[Event]:
        """Notes, live or of the whole lineage, oldest first."""
        if live:
            return self.backend.notes(agent, self.walk(agent, at).pieces, name)
        pieces = self.backend.lineage(agent)
        position = self.position(agent, at)
        top = pieces[-1].high if position is None else position
        return self.backend.notes(agent, clipped(pieces, 1, top), name)

    def last_note(self, agent: AgentRecord, name: str, at: At) -> Event | None:
        """The newest live note with a name."""
        return self.backend.last_note(agent, self.walk(agent, at).pieces, name)

    def find(self, agent: AgentRecord, key: str) -> Event | None:
        """The event of the lineage with a key."""
        found = self.backend.keyed(agent, self.backend.lineage(agent), [checked_key(key)])
        return found[0] if found else None

    def places(self, agent: AgentRecord, keys: Iterable[str]) -> dict[str, int]:
        """The positions of the lineage's events with some keys."""
        return self.backend.places(agent, self.backend.lineage(agent), checked_keys(keys))

    def read_positions(self, agent: AgentRecord, positions: Iterable[int]) -> list[Event]:
        """The events at some positions, in order."""
        pieces = self.backend.lineage(agent)
        return self.read(
            agent, parts_at(pieces, distinct_positions(agent, positions, pieces[-1].high))
        )

    def digest(self, agent: AgentRecord, at: At) -> bytes:
        """The digest at a position of the lineage."""
        owner, position = self.owner(agent, at)
        if not position:
            return START
        [row] = self.backend.stored(agent._replace(pk=owner), position - 1, 1)
        return row.digest

    def events(self, agent: AgentRecord, after: At = 0, until: At = None) -> list[Event]:
        """The lineage, dead events included, after `after` and up to `until`."""
        return self.read(agent, self._part(agent, after, until))

    def _part(self, agent: AgentRecord, after: At, until: At) -> list[Piece]:
        """The pieces of the lineage after a position and up to another."""
        pieces = self.backend.lineage(agent)
        head = pieces[-1].high
        low, high = self.position(agent, after), self.position(agent, until)
        for position in (low, high):
            check_position(agent, position or 0, head)
        return clipped(pieces, (low or 0) + 1, head if high is None else high)

    def outline(self, agent: AgentRecord, after: At, until: At = None) -> list[OutlineRow]:
        """The lineage after a position, without the texts."""
        wanted = self._part(agent, after, until)
        return self._complete(agent, wanted, self.backend.outline(agent, wanted))

    def event(self, agent: AgentRecord, seq: int) -> Event:
        """One event of the lineage, dead or alive."""
        if type(seq) is not int:
            raise Invalid(f"{seq!r} is not a position", remedy="pass a whole number")
        check_position(agent, seq, self.backend.head(agent), first=1)
        [event] = self.events(agent, seq - 1, seq)
        return event

    def explain(self, agent: AgentRecord, seq: int, at: At = None) -> Explanation:
        """Why an event is or is not in the context."""
        event = self.event(agent, seq)
        position, walk = self._walked(agent, at)
        if position is not None and seq > position:
            raise PositionNotFound(
                f"position {seq} comes after position {position}", remedy="ask for a later one"
            )
        gap = gap_at(seq, [(piece.low, piece.high) for piece in walk.pieces])
        newest = self.backend.walk(agent, seq).pieces[-1]
        valid = newest.low == seq and newest.base is not None
        return explain(event, valid, None if gap is None else self.event(agent, gap))

    def explained(
        self, agent: AgentRecord, after: At = 0, until: At = None, at: At = None
    ) -> list[tuple[Event, Explanation]]:
        """Events of the lineage, each with why it is or is not in the context at a position."""
        position, walk = self._walked(agent, at)
        low, high = self.position(agent, after) or 0, self.position(agent, until)
        top = walk.head if position is None else position
        for asked in (low, top if high is None else high):
            check_position(agent, asked, walk.head)
        lows, highs = [p.low for p in walk.pieces], [p.high for p in walk.pieces]
        left_by: dict[int, Event] = {}
        found = []
        for event, base in self._stored(agent, low + 1, top if high is None else min(high, top)):
            place = bisect_left(highs, event.seq)
            gap = lows[place] if event.seq < lows[place] else None
            if gap is not None and gap not in left_by:
                left_by[gap] = self.event(agent, gap)
            found.append(
                (event, explain(event, base is not None, None if gap is None else left_by[gap]))
            )
        return found

    def _stored(
        self, agent: AgentRecord, low: int, high: int
    ) -> Iterator[tuple[Event, int | None]]:
        """Events of the lineage with their bases."""
        for piece in clipped(self.backend.lineage(agent), low, high):
            owner = agent._replace(pk=piece.owner)
            for row in self.backend.stored(owner, piece.low - 1, piece.high - piece.low + 1):
                if row.seq <= piece.high:
                    yield row.event, row.base

    def owner(self, agent: AgentRecord, at: At) -> tuple[Any, int]:
        """The key of the agent that owns a position, and the position; 0 is the first agent's."""
        position = self.position(agent, at)
        pieces = self.backend.lineage(agent)
        position = pieces[-1].high if position is None else position
        check_position(agent, position, pieces[-1].high)
        return next(piece.owner for piece in pieces if position <= piece.high), position

    def position(self, agent: AgentRecord, at: At) -> int | None:
        """The position that a label or a time means; None stays None, which means the head."""
        match at:
            case None:
                return None
            case datetime():
                return self.backend.position_at(agent, moment_us(at))
            case str():
                return self._named(agent, at)
            case int() if not isinstance(at, bool):
                if not 0 <= at <= LAST_POSITION:
                    check_position(agent, at, self.backend.head(agent))
                return at
        raise Invalid(
            f"{at!r} is not a position", remedy="pass a whole number, a label or an aware datetime"
        )

    def read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        """The events in some pieces of a lineage, all of them."""
        return self._complete(agent, pieces, self.backend.read(agent, pieces))

    def _complete(self, agent: AgentRecord, pieces: Sequence[Piece], found: T) -> T:
        """What was read in some pieces, if nothing is missing."""
        if len(found) != sum(piece.high - piece.low + 1 for piece in pieces):
            self.backend.head(
                agent
            )  # raises if the agent was deleted since the pieces were looked up
            raise Corrupt(
                f"events are missing from the log of agent {agent.name!r} ({agent.id})",
                remedy=Remedy("{} shows which", "verify"),
            )
        return found


def _can_be_written_at_once(drafts: Sequence[Draft]) -> bool:
    """Whether nothing has to be read before these events are written."""
    for (
        draft
    ) in drafts:  # not all(…): most appends are of one event, for which a generator costs more
        if draft.key is not None or draft.kind in MOVES:
            return False
    return bool(drafts)


def now() -> int:
    """The time in microseconds: the only clock of the engine."""
    return time.time_ns() // 1000
