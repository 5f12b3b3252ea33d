"""Positions of a lineage: checks them, and finds them in pieces. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from backstory.errors import Invalid, PositionNotFound
from backstory.storage.protocols import AgentRecord, Piece

LAST_POSITION = 2**31 - 1


def last_positions(pieces: Sequence[Piece], count: int) -> tuple[list[Piece], list[Piece]]:
    """The last `count` positions of some pieces, and the rest. All are in order, oldest first."""
    taken: list[Piece] = []
    rest = list(pieces)
    while rest and count > 0:
        piece = rest.pop()
        low = max(piece.low, piece.high - count + 1)
        taken.insert(0, piece._replace(low=low))
        count -= piece.high - low + 1
        if low > piece.low:
            rest.append(piece._replace(high=low - 1))
    return taken, rest


def clipped(pieces: Sequence[Piece], low: int, high: int) -> list[Piece]:
    """The parts of some pieces between two positions."""
    cut = (p._replace(low=max(p.low, low), high=min(p.high, high)) for p in pieces)
    return [piece for piece in cut if piece.low <= piece.high]


def parts_at(pieces: Sequence[Piece], positions: Iterable[int]) -> list[Piece]:
    """The parts of a lineage at some positions that it has, in order. Positions that follow each other in one
    piece are one part."""
    wanted = set(positions)
    lows = sorted(position for position in wanted if position - 1 not in wanted)
    highs = sorted(position for position in wanted if position + 1 not in wanted)
    ends = [piece.high for piece in pieces]
    found: list[Piece] = []
    for low, high in zip(lows, highs, strict=True):
        found += clipped(pieces[bisect_left(ends, low) : bisect_left(ends, high) + 1], low, high)
    return found


def distinct_positions(agent: AgentRecord, positions: Iterable[int], head: int) -> list[int]:
    """Positions of a lineage, each once and in order. Raises Invalid, or PositionNotFound at the first one
    that the lineage does not have: a range may be far longer than the log, and an iterator endless."""
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
    """Refuse a value that cannot be a head."""
    if expected is None or (type(expected) is int and 0 <= expected <= LAST_POSITION):
        return
    raise Invalid(
        f"expected={expected!r} is not a position", remedy="pass the agent's head as you know it"
    )


def check_position(agent: AgentRecord, position: int, head: int, first: int = 0) -> None:
    """Refuse a position that the lineage does not have."""
    if not first <= position <= head:
        raise no_position(agent.name, position, head, first)


def no_position(agent: str, position: int, head: int, first: int = 0) -> PositionNotFound:
    """The error for a position that is not in an agent's lineage."""
    where = f"its lineage goes from {first} to {head}" if head >= first else "it has no events yet"
    return PositionNotFound(f"agent {agent!r} has no position {position}", remedy=where)
