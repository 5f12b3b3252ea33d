"""The log over a backend: the one door that every event enters by, and the reads.

This is where the clock is, where a base is decided before an event is written, and where
positions, labels and times become positions. What a position means is `replay`'s business;
how it is kept is the backend's.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from backstory.core.events import (
    KINDS,
    MOVES,
    Base,
    Draft,
    Event,
    from_draft,
    parse_object,
    to_microseconds,
)
from backstory.core.gc_pause import collector_at_rest
from backstory.core.replay import Context, Explanation, Fold, explain, gap_at, is_shown, log_inert, shown
from backstory.errors import Conflict, Corrupt, Invalid, MarkNotFound, PositionNotFound, Remedy
from backstory.storage.protocols import AgentRecord, Backend, Piece, Settled, Walk

At = int | str | datetime | None  # a position, a mark's label, a moment; None: the head

LAST_POSITION = 2**31 - 1


class Log:
    """Reads and writes of every agent in one store."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._told: set[tuple[str, int]] = set()

    # --- writing ---

    def write(self, agent: AgentRecord, drafts: Sequence[Draft], expected: int | None = None) -> list[Event]:
        """Append events, all or none, and return them. With `expected`, only behind that head:
        a repeat of what is there already returns it, anything else raises Conflict."""
        _check_expected(expected)
        while True:
            try:
                return self.write_at(agent, drafts, expected)
            except Conflict:
                if expected is not None:
                    return self._repeated(agent, drafts, expected)

    def write_at(self, agent: AgentRecord, drafts: Sequence[Draft], head: int | None) -> list[Event]:
        """Append events behind this head (None: wherever it is), or raise Conflict.

        An event that goes back, a rewind or a jump, is judged against the head that was seen, so
        it may also clash where no head was asked for.
        """
        if not drafts:
            return []
        inert: list[tuple[int, str]] = []
        if MOVES.isdisjoint(draft.kind for draft in drafts):
            settled = settle(drafts)
        else:
            seen = self.backend.head(agent)
            if head not in (None, seen):
                raise Conflict.at(agent.name, head or 0, seen)
            head, settled = seen, self._judged(agent, drafts, seen, inert)
        written = self.backend.append(agent, settled, head, now())
        for seq, problem in inert:
            self._tell_inert(agent, seq, problem)
        return written

    def _judged(
        self, agent: AgentRecord, drafts: Sequence[Draft], head: int, inert: list[tuple[int, str]]
    ) -> Settled:
        """The drafts with the bases that the law gives them behind this head."""
        fold = Fold(
            after=head,
            is_on_stack_below=partial(self._is_on_stack, agent),
            tell=lambda seq, problem: inert.append((seq, problem)),
        )
        placed = enumerate(drafts, head + 1)
        return [(draft, fold.feed(from_draft(seq, draft)).base) for seq, draft in placed]

    def _is_on_stack(self, agent: AgentRecord, at: int, mark: int) -> bool:
        pieces = self.backend.walk(agent, at).pieces
        owner = [Piece(p.key, mark, mark) for p in pieces if p.low <= mark <= p.high]
        return bool(self.backend.marks(agent, owner))

    def _repeated(self, agent: AgentRecord, drafts: Sequence[Draft], expected: int) -> list[Event]:
        """The events of an append whose answer was lost: there already, just as they are asked
        for. Raises Conflict if others are there."""
        head = self.backend.head(agent)
        wanted = Piece(agent.key, expected + 1, expected + len(drafts))
        there = self.backend.read(agent, [wanted]) if wanted.high <= head else []
        if len(there) != len(drafts) or not all(map(_is_repeat, there, drafts)):
            raise Conflict.at(agent.name, expected, head)
        return there

    def _tell_inert(self, agent: AgentRecord, seq: int, problem: str) -> None:
        """One log line for each inert event, however often it is met."""
        if (agent.id, seq) not in self._told:
            self._told.add((agent.id, seq))
            log_inert(f"{agent.name!r} ({agent.id})", seq, problem)

    # --- reading ---

    def walk(self, agent: AgentRecord, at: At = None) -> Walk:
        """The live pieces at a position, label or moment."""
        position = self.position(agent, at)
        walk = self.backend.walk(agent, position)
        if position is not None:
            _check_position(agent, position, walk.head)
        return walk

    def context(self, agent: AgentRecord, at: At = None) -> Context:
        """What is live at a position, label or moment."""
        position = self.position(agent, at)
        walk = self.walk(agent, position)
        events = self._read(agent, walk.pieces)
        moves = {piece.low for piece in walk.pieces if piece.base is not None}
        messages = shown(events, moves)
        if len(messages) != len(events):
            self._tell_skipped(agent, events, moves)
        return Context(messages, walk.head if position is None else position)

    def _tell_skipped(self, agent: AgentRecord, events: list[Event], moves: set[int]) -> None:
        for event in events:
            if event.kind != "clear" and not is_shown(event, event.seq in moves):
                problem = "malformed or invalid" if event.kind in KINDS else "unknown kind"
                self._tell_inert(agent, event.seq, f"{problem} {event.kind!r}")

    def marks_in(self, agent: AgentRecord, walk: Walk) -> list[Event]:
        """The mark stack, oldest first, without reading the messages around it."""
        return self.backend.marks(agent, walk.pieces)

    def mark(self, agent: AgentRecord, walk: Walk, which: int | str | None) -> Event:
        """The mark at a position, the newest with a label, or just the newest on the stack."""
        stack = self.marks_in(agent, walk)
        for mark in reversed(stack):
            if _is_meant(mark, which):
                return mark
        what = "no mark" if which is None else f"no mark {which!r}"
        raise MarkNotFound(
            f"there is {what} on the mark stack of agent {agent.name!r}",
            remedy=self._mark_remedy(agent, stack, which),
        )

    def _mark_remedy(self, agent: AgentRecord, stack: Sequence[Event], which: int | str | None) -> Remedy:
        if which is not None:
            everywhere = self.backend.marks(agent, self.backend.lineage(agent))
            dead = [mark.seq for mark in everywhere if _is_meant(mark, which)]
            if dead:
                text = f"it was set at position {dead[-1]} and left behind; {{}} goes back there"
                return Remedy(text, "jump", (dead[-1],), agent.id)
        if stack:
            return Remedy(f"the marks on it: {_listed(stack)}")
        return Remedy("{} sets one", "mark", agent=agent.id)

    def events(self, agent: AgentRecord, after: At = 0, until: At = None) -> list[Event]:
        """The lineage, dead events included, behind `after` and up to `until`."""
        pieces = self.backend.lineage(agent)
        head = pieces[-1].high
        low, high = self.position(agent, after), self.position(agent, until)
        for position in (low, high):
            _check_position(agent, position or 0, head)
        return self._read(agent, clipped(pieces, (low or 0) + 1, head if high is None else high))

    def event(self, agent: AgentRecord, seq: int) -> Event:
        """One event of the lineage, dead or alive."""
        if type(seq) is not int:
            raise Invalid(f"{seq!r} is not a position", remedy="pass a whole number")
        _check_position(agent, seq, self.backend.head(agent), first=1)
        [event] = self.events(agent, seq - 1, seq)
        return event

    def explain(self, agent: AgentRecord, seq: int, at: At = None) -> Explanation:
        """Why an event is or is not in the context."""
        event = self.event(agent, seq)
        position = self.position(agent, at)
        walk = self.walk(agent, position)
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
        position = self.position(agent, at)
        walk = self.walk(agent, position)
        low, high = self.position(agent, after) or 0, self.position(agent, until)
        top = walk.head if position is None else position
        for asked in (low, top if high is None else high):
            _check_position(agent, asked, walk.head)
        lows, highs = [p.low for p in walk.pieces], [p.high for p in walk.pieces]
        left_by: dict[int, Event] = {}
        found = []
        for event, base in self._stored(agent, low + 1, top if high is None else min(high, top)):
            place = bisect_left(highs, event.seq)
            gap = lows[place] if event.seq < lows[place] else None
            if gap is not None and gap not in left_by:
                left_by[gap] = self.event(agent, gap)
            found.append((event, explain(event, base is not None, None if gap is None else left_by[gap])))
        return found

    def _stored(self, agent: AgentRecord, low: int, high: int) -> Iterator[tuple[Event, int | None]]:
        """Events of the lineage with their bases."""
        for piece in clipped(self.backend.lineage(agent), low, high):
            owner = agent._replace(key=piece.key)
            rows = self.backend.stored(owner, piece.low - 1, piece.high - piece.low + 1)
            for *row, base in rows:
                if row[0] <= piece.high:
                    yield Event(row), base

    def owner(self, agent: AgentRecord, at: At) -> tuple[Any, int]:
        """The key of the agent that owns a position, and the position; 0 is the first agent's."""
        position = self.position(agent, at)
        pieces = self.backend.lineage(agent)
        position = pieces[-1].high if position is None else position
        _check_position(agent, position, pieces[-1].high)
        return next(piece.key for piece in pieces if position <= piece.high), position

    def position(self, agent: AgentRecord, at: At) -> int | None:
        """The position that a label or a moment stands for; None stays None, the head."""
        match at:
            case None:
                return None
            case datetime():
                if at.tzinfo is None:
                    raise Invalid(f"{at.isoformat()} has no time zone", remedy="pass an aware datetime")
                return self.backend.position_at(agent, to_microseconds(at))
            case str():
                return self.mark(agent, self.walk(agent), at).seq
            case int() if not isinstance(at, bool):
                if not 0 <= at <= LAST_POSITION:
                    _check_position(agent, at, self.backend.head(agent))
                return at
        raise Invalid(
            f"{at!r} is not a position", remedy="pass a whole number, a mark's label or an aware datetime"
        )

    def _read(self, agent: AgentRecord, pieces: Sequence[Piece]) -> list[Event]:
        with collector_at_rest():
            events = self.backend.read(agent, pieces)
        if len(events) != sum(piece.high - piece.low + 1 for piece in pieces):
            raise Corrupt(
                f"events are missing from the log of agent {agent.name!r} ({agent.id})",
                remedy=Remedy("{} shows which", "verify"),
            )
        return events


def _is_repeat(event: Event, draft: Draft) -> bool:
    """Whether a draft says what an event says; the keys of its data may come in any order."""
    if event[1:4] == draft:
        return True
    return event[1:3] == draft[:2] and event.data == parse_object(draft.data_json)


def settle(drafts: Sequence[Draft]) -> Settled:
    """The drafts with their bases, where none of them goes back."""
    return [(draft, 0 if KINDS[draft.kind].base is Base.NOTHING else None) for draft in drafts]


def _is_meant(mark: Event, which: int | str | None) -> bool:
    return which is None or which == (mark.label if isinstance(which, str) else mark.seq)


def _listed(marks: Sequence[Event]) -> str:
    return ", ".join(f"{mark.label!r} at {mark.seq}" if mark.label else str(mark.seq) for mark in marks)


def clipped(pieces: Sequence[Piece], low: int, high: int) -> list[Piece]:
    """What of some pieces lies between two positions."""
    cut = (p._replace(low=max(p.low, low), high=min(p.high, high)) for p in pieces)
    return [piece for piece in cut if piece.low <= piece.high]


def now() -> int:
    """The time in microseconds: the only clock of the engine."""
    return time.time_ns() // 1000


def _check_expected(expected: object) -> None:
    if expected is None or (type(expected) is int and 0 <= expected <= LAST_POSITION):
        return
    raise Invalid(f"expected={expected!r} is not a position", remedy="pass the agent's head as you know it")


def _check_position(agent: AgentRecord, position: int, head: int, first: int = 0) -> None:
    if not first <= position <= head:
        raise no_position(agent.name, position, head, first)


def no_position(agent: str, position: int, head: int, first: int = 0) -> PositionNotFound:
    """The error for a position that is not in an agent's lineage."""
    where = f"its lineage goes from {first} to {head}" if head >= first else "it has no events yet"
    return PositionNotFound(f"agent {agent!r} has no position {position}", remedy=where)
