"""Pieces that lie close together are one range of a statement, and no position is added or left out."""

from hypothesis import given
from hypothesis import strategies as st

from backstory.storage.postgres import ranges
from backstory.storage.protocols import Piece


@st.composite
def any_pieces(draw):
    """Pieces of a few agents, oldest first, with gaps of all sizes."""
    found, seq = [], 0
    for owner in range(draw(st.integers(1, 3))):
        for gap, length in draw(
            st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=30)
        ):
            found.append(Piece(owner, seq + gap + 1, seq + gap + length))
            seq += gap + length
    return found


def positions(joined):
    for owner, low, high, bits in joined:
        for seq in range(low, high + 1):
            if bits is None or bits[(seq - low) // 8] >> (seq - low) % 8 & 1:
                yield owner, seq


@given(any_pieces())
def test_joined_ranges_have_the_positions_of_the_pieces(pieces):
    wanted = [(piece.owner, seq) for piece in pieces for seq in range(piece.low, piece.high + 1)]
    assert list(positions(ranges.joined(pieces))) == wanted


def test_pieces_of_one_agent_that_lie_close_together_are_one_range():
    near, far = ranges.NEAR, ranges.NEAR + 1
    pieces = [Piece(1, 1, 2), Piece(1, 3 + near, 20), Piece(1, 21 + far, 40), Piece(2, 41, 50)]
    assert [joined[:3] for joined in ranges.joined(pieces)] == [(1, 1, 20), (1, 21 + far, 40), (2, 41, 50)]


def test_a_joined_range_does_not_grow_without_limit():
    pieces = [Piece(1, 2 * n + 1, 2 * n + 1) for n in range(ranges.LONGEST)]
    assert max(high - low for _, low, high, _ in ranges.joined(pieces)) < ranges.LONGEST
