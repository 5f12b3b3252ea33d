"""Arithmetic on positions and pieces, and the walk that a query's steps describe. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.events import LAST_POSITION
from backstory.storage.agent_errors import (
    build_deletion_error,
    build_lineage_error,
    build_position_error,
)
from backstory.storage.protocol import AgentRecord, Piece, Pieces, Walk


class WalkStep(NamedTuple):
    """One step of a query that follows an agent's history backwards, from piece to piece. A walk
    begins with an empty step, so that its head is known even if nothing is live."""

    owner: Any  # the `pk` of the agent that owns the piece; None in the empty step
    low: int
    high: int
    base: int | None
    next: int  # the position at which the history continues; 0 at its beginning
    head: int  # the head of the agent that is walked


class LineageStep(NamedTuple):
    """One step of a query from an agent to the ancestors that it inherits from."""

    owner: Any  # the `pk` of the agent that owns the piece
    low: int
    high: int
    next: int  # the position at which the lineage continues in the parent; 0 at its beginning


def build_walk(agent: AgentRecord, steps: Sequence[WalkStep], at: int | None = None) -> Walk:
    """Return the walk at a position (None: the head) that a query's steps describe. They may come
    in any order."""
    check_steps(agent, steps)
    pieces = []
    for step in steps:
        if step.low <= step.high:  # a walk passes through agents that it takes nothing from
            pieces.append(Piece(step.owner, step.low, step.high, step.base))
    pieces.sort(key=lambda piece: piece.low)
    head = steps[0].head
    return Walk(head if at is None else at, pieces, head)


def build_lineage(agent: AgentRecord, steps: Sequence[LineageStep]) -> list[Piece]:
    """Return the lineage that a query's steps describe: one step for the agent and for each
    ancestor that it inherits from. They may come in any order."""
    check_steps(agent, steps)
    pieces = []
    for step in steps:
        pieces.append(Piece(step.owner, step.low, step.high))
    pieces.sort(key=lambda piece: (piece.low, piece.high))
    return pieces


def check_steps(agent: AgentRecord, steps: Sequence[WalkStep | LineageStep]) -> None:
    """Raise AgentNotFound if there are no steps, and Corrupt if they do not lead to position 0."""
    if not steps:
        raise build_deletion_error(agent)
    lowest = min(step.next for step in steps)
    if lowest != 0:
        raise build_lineage_error(agent, lowest)


def count_positions(pieces: Pieces) -> int:
    """Return how many positions `pieces` contain."""
    return sum(piece.high - piece.low + 1 for piece in pieces)


def contains(pieces: Pieces, position: int) -> bool:
    """Return True if a position is in one of `pieces`."""
    return any(piece.low <= position <= piece.high for piece in pieces)


def clip(pieces: Pieces, low: int, high: int) -> list[Piece]:
    """Return the pieces from position `low` to position `high`."""
    clipped = []
    for piece in pieces:
        shorter = piece._replace(low=max(piece.low, low), high=min(piece.high, high))
        if shorter.low <= shorter.high:
            clipped.append(shorter)
    return clipped


def take_last(pieces: Pieces, count: int) -> tuple[list[Piece], list[Piece]]:
    """Return the last `count` positions of `pieces`, and the rest. All are in order, oldest
    first."""
    taken: list[Piece] = []
    rest = list(pieces)
    while rest and count > 0:
        piece = rest.pop()
        low = max(piece.low, piece.high - count + 1)
        taken.append(piece._replace(low=low))
        count -= piece.high - low + 1
        if low > piece.low:
            rest.append(piece._replace(high=low - 1))
    taken.reverse()
    return taken, rest


def find_pieces(pieces: Pieces, positions: Iterable[int]) -> list[Piece]:
    """Return the pieces of a lineage that are its events at some positions, in order. Positions
    that follow each other in one piece stay one piece."""
    wanted = set(positions)
    lows = sorted(position for position in wanted if position - 1 not in wanted)
    highs = sorted(position for position in wanted if position + 1 not in wanted)
    ends = [piece.high for piece in pieces]
    found: list[Piece] = []
    for low, high in zip(lows, highs, strict=True):
        first = bisect_left(ends, low)
        last = bisect_left(ends, high)
        found += clip(pieces[first : last + 1], low, high)
    return found


def check_positions(agent: AgentRecord, positions: Iterable[int], head: int) -> list[int]:
    """Return positions of a lineage, each once and in order. Raises Invalid, or PositionNotFound at
    the first one that the lineage does not have: a range may be far longer than the log, and an
    iterator endless."""
    if not isinstance(positions, Iterable):
        raise Invalid(f"{positions!r:.60} is not a list of positions", remedy="pass positions=[…]")
    found = set()
    for position in positions:
        if type(position) is not int:
            raise Invalid(f"{position!r:.60} is not a position", remedy="pass whole numbers")
        check_position(agent, position, head, first=1)
        found.add(position)
    return sorted(found)


def check_expected(expected: object) -> None:
    """Raise Invalid if `expected` cannot be a head."""
    if expected is None:
        return
    if type(expected) is int and 0 <= expected <= LAST_POSITION:
        return
    raise Invalid(
        f"expected={expected!r} is not a position", remedy="pass the agent's head as you know it"
    )


def check_position(agent: AgentRecord, position: int, head: int, first: int = 0) -> None:
    """Raise PositionNotFound if the lineage does not have this position."""
    if not first <= position <= head:
        raise build_position_error(agent.name, position, head, first)


def write_positions(positions: Iterable[int]) -> str:
    """Return positions as a short text, such as "2,5-7"."""
    ranges: list[list[int]] = []
    for position in sorted(positions):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    texts = []
    for first, last in ranges:
        texts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(texts)


def find_owner(pieces: Pieces, position: int) -> Any:
    """Return the owner of the first piece that does not end before a position; None if there is
    none. Position 0 belongs to the first agent of a lineage."""
    for piece in pieces:
        if position <= piece.high:
            return piece.owner
    return None
