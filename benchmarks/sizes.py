"""How large the stores of the table `growth` are."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """How large the large one is."""

    agents: int = 100_000
    depth: int = 5_000  # of a chain of forks
    moves: int = 1_000  # live ones in a context, and those that are timed
    seconds: float = 4.0  # that processes append side by side
