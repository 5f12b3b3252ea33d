"""Replay: which position each event continues, and so what a model sees at any position.

    context(0) = empty
    context(n) = context(base(n)) + event n, if that event is shown

A `Fold` decides the base of one event after another. `storage.write` asks it before an event is
written, and `reading.replay` feeds it a complete log.
"""

from collections.abc import Container, Mapping
from typing import Literal, NamedTuple

from backstory.errors import InvalidEvent
from backstory.log.data_keys import SUMMARY, TARGET
from backstory.log.events import Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN, KINDS, TARGETED_KINDS, BaseRule, KindRule

NO_STACKS: Mapping[int, Container[int]] = {}


class Context(NamedTuple):
    """The result of a replay: the live events at position `at`, in order.

    `messages` are all these events: not only messages, but also marks, notes, and valid rewinds and
    jumps. `Agent.messages()` returns only the messages among them.
    """

    messages: list[Event]
    at: int

    @property
    def marks(self) -> list[Event]:
        """The mark stack: the marks that are shown, oldest first."""
        return [event for event in self.messages if event.kind == "mark"]

    def __repr__(self) -> str:
        return f"<Context of {len(self.messages)} events at {self.at}>"


class Decision(NamedTuple):
    """The decision about one event."""

    base: int | None  # the position that it continues; None: the event before it
    is_shown: bool
    problem: str = ""  # why it is inert; empty if it is not


PLAIN = Decision(None, True)
FRESH_START = Decision(0, False)


def _inert(problem: str) -> Decision:
    return Decision(None, False, problem)


class LinkedContext:
    """The context at one position, as a linked list: the newest event that is shown, and the
    context before it.

    Contexts share their lists, so a context for every position costs one link per event, and going
    back to any of them costs nothing. The list ends at `anchor`, the position up to which the fold
    does not know the events.
    """

    __slots__ = ("anchor", "before", "event", "newest_mark")

    def __init__(
        self, anchor: int, event: Event | None = None, before: "LinkedContext | None" = None
    ) -> None:
        self.anchor = anchor
        self.event = event
        self.before = before
        self.newest_mark: LinkedContext | None = None
        if event is not None and event.kind == "mark":
            self.newest_mark = self
        elif before is not None:
            self.newest_mark = before.newest_mark

    def list_events(self) -> list[Event]:
        """Return the events after the anchor, oldest first."""
        events = []
        context: LinkedContext | None = self
        while context is not None and context.event is not None:
            events.append(context.event)
            context = context.before
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
    `inherits`. Without one, earlier contexts are bare anchors, and `stacks` contains the mark stack
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
        self._contexts: dict[int, LinkedContext] = {}

    def knows(self, position: int) -> bool:
        """Return True if this is a position of the log so far."""
        owner = self._find_owner(position)
        if position > owner._after:
            return position in owner._contexts
        return position >= 0

    def find_context(self, position: int) -> LinkedContext:
        """Return the context at a position that the fold knows."""
        owner = self._find_owner(position)
        if position > owner._after:
            return owner._contexts[position]
        return LinkedContext(position)

    def _find_owner(self, position: int) -> "Fold":
        """Return the fold that has this position, or the oldest one."""
        fold = self
        while position <= fold._after and fold._inherits is not None:
            fold = fold._inherits
        return fold

    def feed(self, event: Event) -> Decision:
        """Take the next event of the log and return the decision about it."""
        if event.seq <= self.head:
            raise InvalidEvent(
                f"position {event.seq} follows position {self.head}",
                remedy="sort the events by their seq",
            )
        decision = self._decide(event)
        base = self.head if decision.base is None else decision.base
        context = self.find_context(base)
        if decision.is_shown:
            context = LinkedContext(context.anchor, event, context)
        self._contexts[event.seq] = context
        self.head = event.seq
        return decision

    def _decide(self, event: Event) -> Decision:
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
        return self._decide_target(event, rule)

    def _decide_target(self, event: Event, rule: KindRule) -> Decision:
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
        return Decision(target, True)

    def _is_on_stack(self, position: int) -> bool:
        now = self.find_context(self.head)
        if position > now.anchor:
            return now.has_mark(position)
        return position in self._stacks.get(now.anchor, ())


def select_shown(events: list[Event], moves: Container[int]) -> list[Event]:
    """Return the events of live pieces that are part of the context. `moves` are the positions of
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


# --- explaining ---

Status = Literal["live", "cleared", "compacted", "rewound", "jumped", "inert", "clear"]
STATUS_AFTER: Mapping[str, Status] = {"clear": "cleared", "rewind": "rewound", "jump": "jumped"}


class Explanation(NamedTuple):
    """Why an event is, or is not, in the context."""

    seq: int
    status: Status  # "clear" is that of a clear event itself
    by: int | None  # the event that took it out of the context
    reason: str  # the same as a sentence

    @property
    def live(self) -> bool:
        """Whether the event is in the context."""
        return self.status == "live"


def explain(event: Event, is_valid: bool, left_by: Event | None) -> Explanation:
    """Explain why an event is or is not in the context.

    `is_valid` says whether a rewind or jump is valid. `left_by` is the live clear, rewind or jump
    that took the event out of the context, if there is one.
    """
    seq = event.seq
    name = f"event {seq} ({event.kind})"
    if event.kind != "clear" and not is_shown(event, is_valid):
        reason = f"{name} is malformed, invalid or of an unknown kind: it has no effect"
        return Explanation(seq, "inert", None, reason)
    if left_by is None:
        if event.kind == "clear":
            reason = f"{name} empties the context; it is never shown"
            return Explanation(seq, "clear", None, reason)
        return Explanation(seq, "live", None, f"{name} is in the context")
    summary = _find_summary(left_by)
    if summary is not None:
        reason = f"{name} was compacted by {left_by.seq}; the summary is at {summary}"
        return Explanation(seq, "compacted", left_by.seq, reason)
    reason = f"{name} was left behind by the {left_by.kind} at {left_by.seq}"
    return Explanation(seq, STATUS_AFTER[left_by.kind], left_by.seq, reason)


def _find_summary(move: Event) -> int | None:
    """Return the position of the summary, if `move` is the clear of a compaction."""
    if move.kind != "clear" or move.data is None:
        return None
    summary = move.data.get(SUMMARY)
    return summary if type(summary) is int else None
