"""Explains why an event is, or is not, in a context."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from backstory.log.data_keys import SUMMARY
from backstory.log.events import Event
from backstory.log.replay import is_shown

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
