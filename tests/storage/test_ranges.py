"""Pieces that lie close together are one range of a statement, and no position is added or left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.storage.positions import last_positions, parts_at
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
    assert [joined[:3] for joined in ranges.joined(pieces)] == [
        (1, 1, 20),
        (1, 21 + far, 40),
        (2, 41, 50),
    ]


def test_a_joined_range_does_not_grow_without_limit():
    pieces = [Piece(1, 2 * n + 1, 2 * n + 1) for n in range(ranges.LONGEST)]
    assert max(high - low for _, low, high, _ in ranges.joined(pieces)) < ranges.LONGEST


@pytest.mark.parametrize(
    "pieces",
    [
        [Piece(1, 5, 6), Piece(1, 3, 4)],
        [Piece(1, 3, 6), Piece(1, 6, 9)],
        [Piece(1, 3, 6), Piece(1, 3, 6)],
        [Piece(1, 3, 2)],
        [Piece(1, n, n) for n in range(100, 0, -2)],
    ],
)
def test_pieces_that_are_not_in_order_are_refused(pieces):
    with pytest.raises(ValueError, match="is empty, or not behind the one before it"):
        ranges.joined(pieces)


@given(any_pieces(), st.integers(1, 200), st.data())
def test_parts_of_pieces_are_in_order(pieces, count, data):
    every = [seq for piece in pieces for seq in range(piece.low, piece.high + 1)]
    last, rest = last_positions(pieces, count)
    some = data.draw(st.lists(st.sampled_from(every), min_size=1))
    cases = [
        (last, every[-count:]),
        (rest, every[:-count]),
        (parts_at(pieces, some), sorted({*some})),
    ]
    for parts, wanted in cases:
        found = [seq for _, seq in positions(ranges.joined(parts))] if parts else []
        assert found == wanted
