"""How the contexts of two agents differ. What they share through their fork is counted; only the rest is
read."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backstory.arguments import checked_limit
from backstory.errors import Invalid
from backstory.log.diff import Change, Comparison, compare
from backstory.log.events import Event
from backstory.log.kinds import SPOKEN
from backstory.log.replay import Explanation, explain, gap_at
from backstory.storage.log import At, Log
from backstory.storage.positions import clipped
from backstory.storage.protocols import AgentRecord, Piece


class Side(NamedTuple):
    """One of two contexts: an agent, and a position or time."""

    agent: AgentRecord
    at: At


def diff(
    log: Log, left: Side, right: Side, *, after: Change | None, limit: int | None
) -> Comparison:
    """What two contexts have in common, and how they differ: all of it, or one page."""
    limit = checked_limit(limit, "changes")
    if not isinstance(after, Change | None):
        raise Invalid(
            f"after={after!r:.60} is not a change", remedy="pass the last one of the page before"
        )
    mine, theirs = (log.walk(side.agent, side.at).pieces for side in (left, right))
    shared = list(_shared(mine, theirs)) if left.agent.session == right.agent.session else []
    found = compare(
        _spoken(log, left, mine, shared),
        _spoken(log, right, theirs, shared),
        after=after,
        limit=limit,
    )
    census = log.backend.census(left.agent, shared) if shared else []
    common = sum(one.events for one in census if one.kind in SPOKEN)
    found = found._replace(common=found.common + common)
    if not found.changes or left.agent.session != right.agent.session:
        return found
    gone, new = _Missing(log, right, theirs, mine), _Missing(log, left, mine, theirs)
    return found._replace(changes=[_explained(change, gone, new) for change in found.changes])


def _explained(change: Change, gone: "_Missing", new: "_Missing") -> Change:
    if change.left and change.right:
        return change
    why = gone.why(change.left) if change.left else new.why(change.right) if change.right else None
    return change._replace(why=why)


def _shared(mine: Sequence[Piece], theirs: Sequence[Piece]) -> Iterator[Piece]:
    """The live pieces at the beginning that both share, the last one cut to what both have."""
    for one, other in zip(mine, theirs, strict=False):
        if (one.owner, one.low) != (other.owner, other.low):
            return
        yield min(one, other, key=lambda piece: piece.high)
        if one.high != other.high:
            return


def _spoken(log: Log, side: Side, pieces: Sequence[Piece], shared: Sequence[Piece]) -> list[Event]:
    """The messages of a context after the shared part."""
    last = shared[-1].high if shared else 0
    rest = (
        clipped(pieces[len(shared) - 1 if shared else 0 :], last + 1, pieces[-1].high)
        if pieces
        else []
    )
    return [event for event in log.read(side.agent, rest) if event.kind in SPOKEN]


class _Missing:
    """Why a context lacks events that another one of its session has."""

    def __init__(
        self, log: Log, side: Side, live: Sequence[Piece], elsewhere: Sequence[Piece]
    ) -> None:
        self._log, self._side, self._live, self._elsewhere = log, side, live, elsewhere
        self._lineage = log.backend.lineage(side.agent)
        self._left_by: dict[int, Event] = {}

    def why(self, event: Event) -> Explanation | None:
        """What took an event of the other context out of this one, if it ever was in it."""
        owners = {piece.owner for piece in clipped(self._lineage, event.seq, event.seq)}
        theirs = {piece.owner for piece in clipped(self._elsewhere, event.seq, event.seq)}
        if not self._live or event.seq > self._live[-1].high or owners != theirs:
            return None
        gap = gap_at(event.seq, [(piece.low, piece.high) for piece in self._live])
        if gap is None:
            return None
        if gap not in self._left_by:
            self._left_by[gap] = self._log.event(self._side.agent, gap)
        return explain(event, True, self._left_by[gap])
