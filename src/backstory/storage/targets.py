"""Finds the target position of a rewind, jump, undo or redo.

Nothing is written here. A move reads what it needs while the agent is locked.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from backstory.errors import Invalid, NotFound
from backstory.log.events import Event
from backstory.log.undo import redo_target, turn_target, undo_target
from backstory.storage.log import Log
from backstory.storage.positions import check_position, clipped
from backstory.storage.protocols import AgentRecord, Reader, Walk

Target = Callable[[Reader, Walk], int]  # reads what it needs, and returns where a move goes


class Preview(NamedTuple):
    """What a clear, rewind, jump or undo would do."""

    target: int  # the position whose context it would go to; 0: the empty one
    leaves: list[Event]  # what would leave the context
    returns: list[Event]  # what would come back into it


class Targets:
    """The targets of one agent's moves."""

    def __init__(self, log: Log, agent: AgentRecord) -> None:
        self._log = log
        self._agent = agent

    def mark(self, to: int | str | None) -> Target:
        """A mark on the stack: the newest, the newest with a label, or the one at a position."""
        if isinstance(to, bool) or not isinstance(to, int | str | None):
            raise Invalid(f"{to!r} is not a mark", remedy="pass a label, a position or nothing")
        return lambda rows, walk: self._log.mark(self._agent, walk, to, rows).seq

    def position(self, to: int | str | datetime | None) -> Target:
        """Any earlier position."""
        position = self._log.position(self._agent, to)
        if position is None:
            raise Invalid(
                "jump needs a target", remedy="pass a position, a mark's label or a datetime"
            )

        def target(_rows: Reader, walk: Walk) -> int:
            check_position(self._agent, position, walk.head)
            return position

        return target

    def undo(self, rows: Reader, walk: Walk) -> int:
        """Where the last clear, rewind, jump or compaction came from."""
        places = [piece._replace(high=piece.low) for piece in walk.pieces if piece.base is not None]
        target = undo_target(rows.read(self._agent, places)[::-1])
        if target is None:
            what = f"no clear, rewind or jump led to the context of {self._agent.name!r}"
            raise NotFound(f"nothing to undo: {what}")
        return target

    def turn(self, rows: Reader, walk: Walk) -> int:
        """Where the last turn or move came from: before a question, or before the move."""
        target = turn_target(rows.read(self._agent, [piece]) for piece in reversed(walk.pieces))
        if target is None:
            what = f"no turn and no move led to the context of {self._agent.name!r}"
            raise NotFound(f"nothing to undo: {what}")
        return target

    def redo(self, rows: Reader, walk: Walk) -> int:
        """Where the last undo came from."""
        lineage = rows.lineage(self._agent)

        def event_at(seq: int) -> Event | None:
            return next(iter(rows.read(self._agent, clipped(lineage, seq, seq))), None)

        target = redo_target(event_at(walk.head), event_at)
        if target is None:
            what = f"the last thing that happened to {self._agent.name!r} was not an undo"
            raise NotFound(f"nothing to redo: {what}")
        return target

    def preview(self, move: str, to: int | str | datetime | None) -> Preview:
        """What a move would do now."""
        targets: dict[str, Callable[[], Target]] = {
            "clear": lambda: lambda rows, walk: 0,
            "rewind": lambda: self.mark(to if isinstance(to, int | str) else None),
            "jump": lambda: self.position(to),
            "undo": lambda: self.undo,
            "redo": lambda: self.redo,
        }
        if not isinstance(move, str) or move not in targets:
            raise Invalid(f"{move!r:.60} is not a move", remedy=f"use one of {', '.join(targets)}")
        walk = self._log.walk(self._agent)
        target = targets[move]()(self._log.backend, walk)
        now, then = (
            self._log.context(self._agent, position).messages for position in (walk.head, target)
        )
        before, after = ({event.seq for event in events} for events in (now, then))
        return Preview(
            target,
            [event for event in now if event.seq not in after],
            [event for event in then if event.seq not in before],
        )
