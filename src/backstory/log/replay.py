"""Replay: which position each event continues, and so what a model sees at any position.

    context(0) = empty
    context(n) = context(base(n)) + event n, if that event is shown

A `Fold` decides the base of one event after another. `storage.write` asks it before an event is
written, and `replay` feeds it a complete log.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from backstory.errors import InvalidEvent
from backstory.log.data_keys import TARGET
from backstory.log.events import Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN, KINDS, TARGETED_KINDS, BaseRule, KindRule

NO_STACKS: Mapping[int, Container[int]] = {}


class Context:
    """The result of a replay: the live events at position `at`, in order.

    `messages` contains all of them: messages, and also marks, notes, and valid rewinds and jumps.
    `Agent.messages()` returns only the messages among them.
    """

    __slots__ = ("at", "messages")

    def __init__(self, messages: list[Event], at: int) -> None:
        self.messages = messages
        self.at = at

    @property
    def marks(self) -> list[Event]:
        """The mark stack: the marks that are shown, oldest first."""
        return [event for event in self.messages if event.kind == "mark"]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context):
            return NotImplemented
        return self.at == other.at and self.messages == other.messages

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Context of {len(self.messages)} events at {self.at}>"


class Verdict(NamedTuple):
    """The decision about one event."""

    base: int | None  # the position that it continues; None: the event before it
    is_shown: bool
    problem: str = ""  # why it is inert; empty if it is not


PLAIN = Verdict(None, True)
FRESH_START = Verdict(0, False)


def _inert(problem: str) -> Verdict:
    return Verdict(None, False, problem)


class Moment:
    """The context at one position, as a linked list: the newest event that is shown, and the moment
    before it.

    Moments share their lists, so a moment for every position costs one link per event, and going
    back to any of them costs nothing. The list ends at `anchor`, the position up to which the fold
    does not know the events.
    """

    __slots__ = ("anchor", "before", "event", "newest_mark")

    def __init__(
        self, anchor: int, event: Event | None = None, before: "Moment | None" = None
    ) -> None:
        self.anchor = anchor
        self.event = event
        self.before = before
        self.newest_mark: Moment | None = None
        if event is not None and event.kind == "mark":
            self.newest_mark = self
        elif before is not None:
            self.newest_mark = before.newest_mark

    def list_events(self) -> list[Event]:
        """Return the events after the anchor, oldest first."""
        events = []
        moment: Moment | None = self
        while moment is not None and moment.event is not None:
            events.append(moment.event)
            moment = moment.before
        events.reverse()
        return events

    def has_mark(self, position: int) -> bool:
        """Return True if the event at `position`, after the anchor, is a mark on the stack."""
        mark = self.newest_mark
        while mark is not None and mark.event is not None and mark.event.seq >= position:
            if mark.event.seq == position:
                return True
            mark = None if mark.before is None else mark.before.newest_mark
        return False


class Fold:
    """Applies the rules to one event after another and remembers the context at every position.

    It starts after a position: 0, or that of a fork. Earlier events come from the fold that it
    `inherits`. Without one, earlier moments are bare anchors, and `stacks` contains the mark stack
    at each anchor that a rewind may need.
    """

    def __init__(
        self,
        *,
        after: int = 0,
        inherits: "Fold | None" = None,
        stacks: Mapping[int, Container[int]] = NO_STACKS,
    ) -> None:
        self.head = after
        self._after = after
        self._inherits = inherits
        self._stacks = stacks
        self._moments: dict[int, Moment] = {}

    def knows(self, position: int) -> bool:
        """Return True if this is a position of the log so far."""
        owner = self._find_owner(position)
        if position > owner._after:
            return position in owner._moments
        return position >= 0

    def at(self, position: int) -> Moment:
        """Return the context at a position that the fold knows."""
        owner = self._find_owner(position)
        if position > owner._after:
            return owner._moments[position]
        return Moment(position)

    def _find_owner(self, position: int) -> "Fold":
        """Return the fold that has this position, or the oldest one."""
        fold = self
        while position <= fold._after and fold._inherits is not None:
            fold = fold._inherits
        return fold

    def feed(self, event: Event) -> Verdict:
        """Take the next event of the log and return the decision about it."""
        if event.seq <= self.head:
            raise InvalidEvent(
                f"position {event.seq} follows position {self.head}",
                remedy="sort the events by their seq",
            )
        verdict = self._judge(event)
        base = self.head if verdict.base is None else verdict.base
        moment = self.at(base)
        if verdict.is_shown:
            moment = Moment(moment.anchor, event, moment)
        self._moments[event.seq] = moment
        self.head = event.seq
        return verdict

    def _judge(self, event: Event) -> Verdict:
        """Apply the table of kinds to the next event.

        A valid rewind or jump always has a base, even if that is the event before it, and an inert
        one never has. So the base alone tells them apart.
        """
        rule = KINDS.get(event.kind)
        if rule is None:
            return _inert(f"unknown kind {event.kind!r}")
        if rule.base is BaseRule.BEFORE:
            return PLAIN
        if rule.base is BaseRule.NOTHING:
            return FRESH_START
        return self._judge_target(event, rule)

    def _judge_target(self, event: Event, rule: KindRule) -> Verdict:
        """Decide about a rewind or jump: it continues the position that its data names."""
        kind = event.kind
        if event.data_json is None:
            return _inert(f"malformed {kind}: no data")
        data = parse_object(event.data_json)
        if data is None:
            return _inert(f"malformed {kind}: data is not a JSON object")
        target = data.get(TARGET)
        if type(target) is not int:  # True and 3.0 are numbers in Python, not positions
            return _inert(f"malformed {kind}: no whole number in target_message_id")
        if target >= event.seq or not self.knows(target):
            return _inert(f"invalid {kind}: {target} is not an earlier position")
        if rule.base is BaseRule.MARK and not self._is_on_stack(target):
            return _inert(f"invalid {kind}: {target} is not a mark on the mark stack")
        return Verdict(target, True)

    def _is_on_stack(self, position: int) -> bool:
        now = self.at(self.head)
        if position > now.anchor:
            return now.has_mark(position)
        return position in self._stacks.get(now.anchor, ())


def replay(events: Iterable[Event], *, agent: str = "replay") -> Context:
    """Return the context at the end of a log. Inert events are logged with the name `agent`."""
    fold = Fold()
    for event in events:
        verdict = fold.feed(event)
        if verdict.problem:
            log_inert(agent, event.seq, verdict.problem)
    return Context(fold.at(fold.head).list_events(), fold.head)


def log_inert(agent: str, seq: int, problem: str) -> None:
    """Log an inert event in one line."""
    import logging  # here: most processes never need it, and it would double our import time

    logging.getLogger("backstory").warning(
        "agent %s, position %d: %s; the event is inert", agent, seq, problem
    )


def select_shown(events: list[Event], moves: Container[int]) -> list[Event]:
    """Return the events of live ranges that are part of the context. `moves` are the positions of
    the valid moves among them."""
    kinds = {event.kind for event in events}
    if kinds <= ALWAYS_SHOWN:
        return events
    return [event for event in events if is_shown(event, event.seq in moves)]


def is_shown(event: Event, is_valid: bool) -> bool:
    """Return True if a live event is part of the context. `is_valid` is about rewinds and jumps."""
    if event.kind in TARGETED_KINDS:
        return is_valid
    return event.kind in ALWAYS_SHOWN
