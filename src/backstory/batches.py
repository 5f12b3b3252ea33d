"""Events for several agents at once, all or none."""

from collections.abc import Iterable
from typing import Any

from backstory.arguments import own_agent
from backstory.errors import Invalid
from backstory.log.drafts import drafts
from backstory.log.events import Event
from backstory.storage.log import Batch, Log
from backstory.storage.positions import check_expected

FORM = "pass (agent, events) or (agent, events, expected) for each agent"


def write(log: Log, batches: Iterable[tuple[Any, ...]]) -> list[list[Event]]:
    """Append batches, each given as (agent, events) or (agent, events, expected)."""
    if not isinstance(batches, Iterable):
        raise Invalid(f"{batches!r:.60} is not a list of batches", remedy=FORM)
    checked = [_checked(log, each) for each in batches]
    if len({agent.id for agent, _, _ in checked}) < len(checked):
        raise Invalid("an agent is named twice", remedy="put its events into one batch")
    return log.write_together(checked) if checked else []


def _checked(log: Log, batch: Any) -> Batch:
    match batch:
        case [agent, events]:
            expected = None
        case [agent, events, expected]:
            check_expected(expected)
        case _:
            raise Invalid(f"{batch!r:.60} is not a batch", remedy=FORM)
    return own_agent(log, agent).snapshot, drafts(events), expected
