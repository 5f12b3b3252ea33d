"""Which mark of a stack is meant, and what to do if there is no such mark."""

from collections.abc import Sequence

from backstory.errors import MarkNotFound, Remedy
from backstory.log.events import Event
from backstory.storage.protocols import AgentRecord, Reader


def find_mark(
    rows: Reader, agent: AgentRecord, stack: Sequence[Event], which: int | str | None
) -> Event:
    """The mark at a position, the newest with a label, or just the newest on the stack."""
    for mark in reversed(stack):
        if _is_meant(mark, which):
            return mark
    what = "no mark" if which is None else f"no mark {which!r}"
    raise MarkNotFound(
        f"agent {agent.name!r} has {what}", remedy=_remedy(rows, agent, stack, which)
    )


def _remedy(
    rows: Reader, agent: AgentRecord, stack: Sequence[Event], which: int | str | None
) -> Remedy:
    if which is not None:
        everywhere = rows.marks(agent, rows.lineage(agent))
        dead = [mark.seq for mark in everywhere if _is_meant(mark, which)]
        if dead:
            text = f"it was set at position {dead[-1]} and left behind; {{}} goes back there"
            return Remedy(text, "jump", (dead[-1],), agent.id)
    if stack:
        return Remedy(f"its marks are {_listed(stack)}")
    return Remedy("{} sets one", "mark", agent=agent.id)


def _is_meant(mark: Event, which: int | str | None) -> bool:
    return which is None or which == (mark.label if isinstance(which, str) else mark.seq)


def _listed(marks: Sequence[Event]) -> str:
    return ", ".join(
        f"{mark.label!r} at {mark.seq}" if mark.label else str(mark.seq) for mark in marks
    )
