"""What the search index has not taken in yet."""

from typing import Any, NamedTuple


class Backlog(NamedTuple):
    """The events of one agent that cannot be searched yet: those behind a position, up to another."""

    owner: Any  # the agent, as the backend calls it
    session: str
    after: int
    upto: int


Texts = list[tuple[int, list[str]]]  # positions with their words
# Which of several backlogs an event is of, its position, kind, content and data.
Unindexed = tuple[int, int, str, str | None, str | None]
