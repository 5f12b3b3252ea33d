"""What is not in the search index yet."""

from typing import Any, NamedTuple


class Backlog(NamedTuple):
    """The events of one agent that cannot be searched yet: those after a position, up to another."""

    owner: Any  # the agent, as the backend calls it
    session: str
    after: int
    upto: int


Texts = list[tuple[int, list[str]]]  # positions with their words
# The index of its backlog among several, and the event's position, kind, content and data.
Unindexed = tuple[int, int, str, str | None, str | None]
