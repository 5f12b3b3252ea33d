"""Ranges of positions as the parameters of a statement.

Looking up a range by its key takes the server about as long as passing over eight rows. A context of very
many moves has thousands of ranges with a few dead events between them. So ranges that lie close together are
read as one, with a bit for each position that says whether it is wanted; the server leaves out the others.
"""

from collections.abc import Sequence
from typing import Any

from backstory.storage.ids import place_of
from backstory.storage.protocols import Piece

MANY = 32  # pieces; fewer are not worth joining
NEAR = 8  # positions between two pieces, at most
LONGEST = 8_192  # positions of a joined range, at most: a bit each

Joined = tuple[
    Any, int, int, bytes | None
]  # the owner, the first and the last position, and the bits


def within(session: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The parameters that identify pieces in a statement."""
    owners, lows, highs, _ = zip(*pieces, strict=True)
    return {
        "place": place_of(session),
        "nos": _array(owners),
        "lows": _array(lows),
        "highs": _array(highs),
    }


def joined_within(session: str, pieces: Sequence[Piece]) -> dict[str, Any]:
    """The same, with pieces joined where that is worth it."""
    owners, lows, highs, bits = zip(*joined(pieces), strict=True)
    arrays = {
        "nos": _array(owners),
        "lows": _array(lows),
        "highs": _array(highs),
        "bits": list(bits),
    }
    return {"place": place_of(session), **arrays}


def joined(pieces: Sequence[Piece]) -> list[Joined]:
    """Pieces as ranges with bits: the lowest bit of the first byte is the first position. Raises ValueError
    unless the pieces of an agent are in order and do not overlap: bits are only ever added at the end."""
    found: list[Joined] = []
    owner: Any = None
    first = last = wanted = 0
    for no, low, high, _ in pieces:
        if low > high or (no == owner and low <= last):
            raise ValueError(f"the piece {low} to {high} is empty, or not behind the one before it")
        if no == owner and low - last <= NEAR + 1 and high - first < LONGEST:
            wanted |= ((1 << high - low + 1) - 1) << low - first
            last = high
            continue
        if owner is not None:
            found.append(_joined(owner, first, last, wanted))
        owner, first, last = no, low, high
        wanted = (1 << high - low + 1) - 1
    found.append(_joined(owner, first, last, wanted))
    return found


def _joined(owner: Any, first: int, last: int, wanted: int) -> Joined:
    size = last - first + 1
    if wanted.bit_count() == size:
        return owner, first, last, None
    return owner, first, last, wanted.to_bytes((size + 7) // 8, "little")


def _array(numbers: Sequence[int]) -> str:
    """An array as text, which takes less time than adapting a list of numbers."""
    return f"{{{','.join(map(str, numbers))}}}"
