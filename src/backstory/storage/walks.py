"""From what a database finds of an agent's past to the pieces of it that are live."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from backstory.storage.protocols import AgentRecord, Piece, Walk, broken_lineage, lost

WalkedPiece = tuple[Any, int, int, int | None, int]  # owner, low, high, base, and where it goes on
Jump = tuple[int, int]  # the position and the base of a rewind, jump or clear

# Each step of a recursive query costs a database ten times what a row of a plain one does. So where very many
# moves of one agent follow each other, the query ends, and its moves are read as they lie.
RUN = 32  # steps from move to move, in one agent, until the query ends
BLOCK = 1_000  # moves that are read then, dead or alive


class Step(NamedTuple):
    """What a recursive query found in one step."""

    no: Any
    low: int
    high: int
    base: int | None
    next: int  # the position that the history goes on from
    next_no: Any  # the agent that owns it
    run: int  # how many moves of this agent there were before
    head: int  # of the agent that is walked


def walked(
    agent: AgentRecord,
    at: int | None,
    steps_from: Callable[[int, int | None], Sequence[Sequence[Any]]],
    jumps_below: Callable[[int, int], Sequence[Jump]],
) -> Walk:
    """The walk from a position of an agent (None: its head). `steps_from(owner, position)` asks the recursive
    query for Steps, in any order; `jumps_below(owner, position)` reads a block of an agent's moves at or
    below a position, the newest first."""
    found = steps_from(agent.pk, at)
    steps, head = [*found], _head(found, agent)
    while cut := next((Step(*step) for step in found if step[6] == RUN), None):
        block = _chained(agent, cut, jumps_below(cut.next_no, cut.next))
        found = steps_from(cut.next_no, block[-1][4] if block else cut.next)
        _head(found, agent)
        steps += [*block, *found]
    return Walk(head, live(pieces_of(steps, agent)))


def _head(found: Sequence[Sequence[Any]], agent: AgentRecord) -> int:
    """The head that a query says; nothing is found of an agent that was deleted."""
    if not found:
        raise lost(agent)
    return int(found[0][7])


def _chained(agent: AgentRecord, cut: Step, jumps: Sequence[Jump]) -> list[WalkedPiece]:
    """The live pieces that begin with these moves."""
    pieces: list[WalkedPiece] = []
    high = cut.next
    for seq, base in jumps:
        if base >= seq:
            raise broken_lineage(agent, seq)
        if seq <= high:
            pieces.append((cut.next_no, seq, high, base, base))
            high = base
    return pieces


def pieces_of(walked: Sequence[Sequence[Any]], agent: AgentRecord) -> list[Piece]:
    """The pieces, oldest first, that a recursive query found in any order: of each step the owner, low, high
    and base, and the position that the history goes on from. A whole history goes on down to position 0."""
    rest = min([step[4] for step in walked], default=-1)
    if rest != 0:
        raise broken_lineage(agent, rest)
    make = tuple.__new__  # Piece(…) would take three times as long, for each of thousands of pieces
    pieces = [make(Piece, step[:4]) for step in walked]
    pieces.sort(key=itemgetter(1, 2))
    return pieces


def live(pieces: Sequence[Piece]) -> list[Piece]:
    """Without the pieces that hold nothing: a walk passes through agents it takes nothing from."""
    return [piece for piece in pieces if piece.low <= piece.high]
