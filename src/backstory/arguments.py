"""What callers pass that a type checker would have refused: each check raises Invalid, before anything is
read or written."""

from typing import Any, TypeVar

from backstory.errors import Invalid
from backstory.identity import Identity
from backstory.storage.log import Log
from backstory.storage.positions import LAST_POSITION

A = TypeVar("A", bound=Identity)


def checked_limit(limit: Any, of: str) -> int | None:
    """How much a page may have, None for all. No store has more than the largest number that it counts to."""
    if limit is None:
        return None
    if type(limit) is not int or limit < 1:
        raise Invalid(f"limit={limit!r:.60} is not a number of {of}", remedy="pass 1 or more")
    return min(limit, LAST_POSITION)


def own_agent(log: Log, agent: A) -> A:
    """The agent, if it belongs to this store. In another store, its number would mean another agent."""
    if not isinstance(agent, Identity):
        raise Invalid(f"{agent!r:.60} is not an agent", remedy="pass what store.agent(…) returns")
    if agent._log is not log:
        raise Invalid(
            f"agent {agent.name!r} belongs to another store",
            remedy="use each agent with the store that it came from",
        )
    return agent
