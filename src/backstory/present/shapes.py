"""The JSON of events, agents and answers: a contract, listed in docs/cli.md. Nothing is printed here."""

from collections.abc import Sequence
from typing import Any

from backstory.agent import Agent
from backstory.core.events import Event, to_datetime
from backstory.core.replay import Explanation
from backstory.present.measures import stamp


def event_json(event: Event, explanation: Explanation | None = None) -> dict[str, Any]:
    """The JSON of an event."""
    found: dict[str, Any] = {
        "seq": event.seq,
        "kind": event.kind,
        "content": event.content,
        "data": event.data,
        "created_at": stamp(event.created_at),
    }
    if explanation:
        found |= {"status": explanation.status, "by": explanation.by}
    return found


def agent_json(agent: Agent, marks: Sequence[Event] | None = None) -> dict[str, Any]:
    """The JSON of an agent."""
    record = agent.record
    found: dict[str, Any] = {
        "id": agent.id,
        "name": agent.name,
        "session": agent.session,
        "parent": agent.parent,
        "fork_seq": agent.fork_seq,
        "born_seq": agent.born_seq,
        "spawned": agent.spawned,
        "head": record.head,
        "created_at": stamp(agent.created_at),
        "updated_at": stamp(to_datetime(record.updated_us)),
    }
    if marks is not None:
        found["marks"] = [{"seq": mark.seq, "label": mark.label} for mark in marks]
    return found
