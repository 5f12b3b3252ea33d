"""Events for several agents at once, all or none."""

from collections.abc import Iterable
from typing import Any

from backstory.agent import Agent
from backstory.core.drafts import drafts
from backstory.core.events import Event
from backstory.errors import Invalid
from backstory.storage.log import Batch, Log
from backstory.storage.positions import check_expected


def write(log: Log, batches: Iterable[tuple[Any, ...]]) -> list[list[Event]]:
    """Append batches, each given as (agent, events) or (agent, events, expected)."""
    checked = [_checked(log, *each) for each in batches]
    if len({agent.id for agent, _, _ in checked}) < len(checked):
        raise Invalid("an agent is named twice", remedy="put its events into one batch")
    return log.write_together(checked) if checked else []


def _checked(log: Log, agent: Agent, events: Iterable[Any], expected: int | None = None) -> Batch:
    check_expected(expected)
    if agent._log is not log:
        raise Invalid(
            f"agent {agent.name!r} belongs to another store",
            remedy="write to each store separately",
        )
    return agent.snapshot, drafts(list(events)), expected
