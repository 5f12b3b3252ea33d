"""Short names for agents, where ids would be too long."""

from collections.abc import Iterable
from itertools import pairwise

from backstory.agent import Agent

SHORTEST_ID = 8


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest unique prefix of each id."""
    ordered = sorted(ids)
    needed = dict.fromkeys(ordered, SHORTEST_ID)
    for one, other in pairwise(ordered):
        shared = next(
            (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one)
        )
        needed[one] = max(needed[one], shared + 1)
        needed[other] = max(needed[other], shared + 1)
    return {id: id[:length].rstrip("-") for id, length in needed.items()}


def short_ref(agent: Agent, agents: Iterable[Agent]) -> str:
    """The shortest reference to an agent: its name if no other agent has it, otherwise its id."""
    names = {one.id: one.name for one in agents}
    is_unique = list(names.values()).count(agent.name) == 1
    return agent.name if is_unique else short_ids(names)[agent.id]
