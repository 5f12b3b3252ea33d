"""Replay: what each event continues, and so what the model sees at any moment.

    context(0) = empty
    context(n) = context(base(n)) + event n, if that event shows

`judge` decides base and shows for one event: the log asks it before a write, and the fold during a replay.
Pure: no I/O, no clock; inert events are reported to the logger.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from backstory.errors import InvalidEvent
from backstory.log.events import Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN, KINDS, MOVES, Base

NO_STACKS: Mapping[int, Container[int]] = {}


class Context:
    """The result of a replay: the live events at a position."""

    __slots__ = ("at", "messages")

    def __init__(self, messages: list[Event], at: int) -> None:
        self.messages = messages
        self.at = at

    @property
    def marks(self) -> list[Event]:
        """The mark stack: the marks that show, oldest first."""
        return [event for event in self.messages if event.kind == "mark"]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return (self.messages, self.at) == (other.messages, other.at)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Context of {len(self.messages)} events at {self.at}>"


class Verdict(NamedTuple):
    """What becomes of one event."""

    base: int | None  # the position it continues; None: the event before it
    shows: bool
    problem: str = ""  # why it is inert; empty if it is not


def judge(
    seq: int,
    kind: str,
    data_json: str | None,
    is_position: Callable[[int], bool],
    is_on_stack: Callable[[int], bool],
) -> Verdict:
    """Apply the table of kinds to one event.

    A valid rewind or jump always has a base, even if that is the event before it, and an inert one never has.
    So the base alone tells them apart.
    """
    rule = KINDS.get(kind)
    match rule and rule.base:
        case None:
            return Verdict(None, False, f"unknown kind {kind!r}")
        case Base.BEFORE:
            return Verdict(None, True)
        case Base.NOTHING:
            return Verdict(0, False)
    if data_json is None:
        return Verdict(None, False, f"malformed {kind}: no data")
    data = parse_object(data_json)
    if data is None:
        return Verdict(None, False, f"malformed {kind}: data is not a JSON object")
    target = data.get("target_message_id")
    if type(target) is not int:  # True and 3.0 are numbers in Python, not positions
        return Verdict(None, False, f"malformed {kind}: no whole number in target_message_id")
    if not (target < seq and is_position(target)):
        return Verdict(None, False, f"invalid {kind}: {target} is not an earlier position")
    if kind == "rewind" and not is_on_stack(target):
        return Verdict(None, False, f"invalid rewind: {target} is not a mark on the mark stack")
    return Verdict(target, True)


class Moment:
    """The context at one position, as a chain: the newest event that shows, and what was before it. Moments
    share their chains, so keeping one for every position costs one link per event, and going back to any of
    them is free.

    The chain ends at `anchor`, the position below which the fold does not know the events.
    """

    __slots__ = ("anchor", "before", "event", "mark")

    def __init__(self, anchor: int, event: Event | None = None, before: "Moment | None" = None):
        self.anchor = anchor
        self.event = event
        self.before = before
        is_mark = event is not None and event.kind == "mark"
        self.mark: Moment | None = self if is_mark else before and before.mark

    def events(self) -> list[Event]:
        """The chain's events, oldest first."""
        found = []
        moment: Moment | None = self
        while moment is not None and moment.event is not None:
            found.append(moment.event)
            moment = moment.before
        found.reverse()
        return found


class Fold:
    """Applies the rules of the log to one event after another, and remembers the context at every position.

    It starts after a position: 0, or a fork's. What was before comes from the fold that it `inherits` from.
    Without one, earlier moments are bare anchors, and `stacks` has the mark stack at each anchor that may be
    needed. `report(seq, problem)` is called for every inert event.
    """

    def __init__(
        self,
        *,
        after: int = 0,
        inherits: "Fold | None" = None,
        stacks: Mapping[int, Container[int]] = NO_STACKS,
        report: Callable[[int, str], None] = lambda seq, problem: None,
    ) -> None:
        self.head = after
        self._after = after
        self._inherits = inherits
        self._stacks = stacks
        self._report = report
        self._moments: dict[int, Moment] = {}

    def knows(self, position: int) -> bool:
        """Whether this is a position of the log so far."""
        owner = self._owner(position)
        return position in owner._moments if position > owner._after else position >= 0

    def at(self, position: int) -> Moment:
        """context(position), for any position that it knows."""
        owner = self._owner(position)
        return owner._moments[position] if position > owner._after else Moment(position)

    def _owner(self, position: int) -> "Fold":
        """The fold, among those it inherits from, that knows this position, or the oldest of them."""
        fold = self
        while position <= fold._after and fold._inherits is not None:
            fold = fold._inherits
        return fold

    def feed(self, event: Event) -> Verdict:
        """Take the next event of the log."""
        if event.seq <= self.head:
            raise InvalidEvent(
                f"position {event.seq} follows position {self.head}",
                remedy="sort the events by their seq",
            )
        now = self.at(self.head)
        verdict = judge(
            event.seq,
            event.kind,
            event.data_json,
            self.knows,
            lambda target: self._is_on_stack(now, target),
        )
        if verdict.problem:
            self._report(event.seq, verdict.problem)
        moment = now if verdict.base is None else self.at(verdict.base)
        if verdict.shows:
            moment = Moment(moment.anchor, event, moment)
        self._moments[event.seq] = moment
        self.head = event.seq
        return verdict

    def _is_on_stack(self, moment: Moment, target: int) -> bool:
        if target <= moment.anchor:
            return target in self._stacks.get(moment.anchor, ())
        mark = moment.mark
        while mark is not None and mark.event is not None and mark.event.seq > target:
            mark = mark.before and mark.before.mark
        return mark is not None and mark.event is not None and mark.event.seq == target


def replay(events: Iterable[Event], *, agent: str = "replay") -> Context:
    """The context at the end of a log, given as any iterable of events. `agent` is the name used in log
    messages about inert events.
    """
    fold = Fold(report=partial(log_inert, agent))
    for event in events:
        fold.feed(event)
    return Context(fold.at(fold.head).events(), fold.head)


def shown(events: list[Event], moves: Container[int]) -> list[Event]:
    """The events of live ranges that are part of the context. `moves` are the positions of the valid rewinds
    and jumps among them."""
    if ALWAYS_SHOWN.issuperset(map(attrgetter("kind"), events)):
        return events
    # Most events show because of their kind: only the others need a call.
    return [
        event
        for event in events
        if event.kind in ALWAYS_SHOWN or is_shown(event, event.seq in moves)
    ]


def is_shown(event: Event, valid: bool) -> bool:
    """Whether a live event is part of the context; a rewind or jump is only if it is valid."""
    return event.kind in ALWAYS_SHOWN or (valid and event.kind in MOVES)


def log_inert(agent: str, seq: int, problem: str) -> None:
    """Log an inert event, in one line."""
    import logging  # here, because most processes never need it, and it would double our import time

    logging.getLogger("backstory").warning(
        "agent %s, position %d: %s; the event is inert", agent, seq, problem
    )


class Explanation(NamedTuple):
    """Why an event is, or is not, in the context."""

    seq: int
    status: (
        str  # live, cleared, compacted, rewound, jumped, inert, or clear for a clear event itself
    )
    by: int | None  # the event that took it out of the context
    reason: str  # the same as a sentence

    @property
    def live(self) -> bool:
        """Whether the event is in the context."""
        return self.status == "live"


SUMMARY = "summary"  # the key of a clear's data that names the summary, if it is a compaction's
_LEFT_BY = {"clear": "cleared", "rewind": "rewound", "jump": "jumped"}


def explain(event: Event, valid: bool, left_by: Event | None) -> Explanation:
    """Why an event is or is not in the context. `valid` says whether a rewind or jump is;
    `left_by` is the live clear, rewind or jump that left the event behind, if there is one."""
    here = f"event {event.seq} ({event.kind})"
    if event.kind == "clear" and left_by is None:
        return Explanation(
            event.seq, "clear", None, f"{here} empties the context; it is never shown"
        )
    if event.kind != "clear" and not is_shown(event, valid):
        inert = f"{here} is malformed, invalid or of an unknown kind: it has no effect"
        return Explanation(event.seq, "inert", None, inert)
    if left_by is None:
        return Explanation(event.seq, "live", None, f"{here} is in the context")
    summary = (left_by.data or {}).get(SUMMARY) if left_by.kind == "clear" else None
    if type(summary) is int:
        reason = f"{here} was compacted by {left_by.seq}; the summary is at {summary}"
        return Explanation(event.seq, "compacted", left_by.seq, reason)
    reason = f"{here} was left behind by the {left_by.kind} at {left_by.seq}"
    return Explanation(event.seq, _LEFT_BY[left_by.kind], left_by.seq, reason)


def gap_at(seq: int, ranges: Sequence[tuple[int, int]]) -> int | None:
    """The start of the live range that left a position behind; None if the position is live. Ranges are given
    oldest first."""
    for low, high in ranges:
        if seq < low:
            return low
        if seq <= high:
            return None
    raise ValueError(f"position {seq} is above the live ranges")
