"""Agents with keys: finds the id that a key has now, however often its agent was deleted and made again.

A deleted agent whose row is still needed keeps its id. The next agent with its key is of the next generation,
and the primary key decides who makes it first, as it did for the generation before.
"""

from collections.abc import Callable
from itertools import count
from typing import TypeVar

from backstory.errors import KeyTaken
from backstory.storage.ids import keyed_id
from backstory.storage.protocols import AgentRecord, Agents, Wanted

T = TypeVar("T")


def keyed_agent(agents: Agents, key: str) -> tuple[str, AgentRecord | None]:
    """The id that a key has, and the agent with it; None if there is none now."""
    for generation in count():
        id = keyed_id(key, generation)
        found = agents.agents(Wanted(prefix=id, deleted=True))
        if not found or found[0].deleted_us is None:
            return id, found[0] if found else None
    raise AssertionError("generations do not end")


def create_keyed(agents: Agents, key: str, create: Callable[[str], T]) -> T:
    """Create an agent with a key; `create` is called with the id. Raises KeyTaken if an agent has the key."""
    id = keyed_id(key)
    while True:
        try:
            return create(id)
        except KeyTaken:
            id, taken = keyed_agent(agents, key)
            if taken is not None:
                raise
