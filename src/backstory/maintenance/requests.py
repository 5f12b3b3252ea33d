"""Checks that the model saw what the log says: rebuilds the request of every answer that kept its digest."""

from collections.abc import Iterator
from typing import Any

from backstory.agent import Agent
from backstory.errors import Corrupt, Error
from backstory.log.chain import ERASED
from backstory.log.events import Event
from backstory.maintenance.verify import Finding
from backstory.storage.log import Log
from backstory.wire.answers import request_digest

PAGE = 1_000  # events read at a time
FIELD = '"sha256"'
REMEDY = (
    "compare the request with what the provider logged; the answer may have come from elsewhere"
)


def unproved_requests(log: Log) -> Iterator[Finding]:
    """Every answer whose request, rebuilt from the log, does not have the digest that was kept."""
    for record in log.backend.agents():
        agent = Agent(log, record)
        for event in _own_events(agent):
            if event.data_json is not None and FIELD in event.data_json:
                problem = _problem(agent, event)
                if problem is not None:
                    yield Finding(agent.id, event.seq, "error", problem, REMEDY)


def _own_events(agent: Agent) -> Iterator[Event]:
    after, head = agent.fork_seq, agent.head
    while after < head:
        yield from agent.events(after=after, until=min(after + PAGE, head))
        after += PAGE


def _problem(agent: Agent, event: Event) -> str | None:
    """What is wrong with the request of an answer; None if nothing is, or if no digest was kept."""
    data = event.data or {}
    request = data.get("request")
    if (
        "copy_of" in data
        or not isinstance(request, dict)
        or not isinstance(request.get("sha256"), str)
    ):
        return None
    at = request.get("at", event.seq - 1)
    if type(at) is not int or not 0 <= at < event.seq:
        return f"its request names the position {at!r}, which is not before it"
    try:
        return _difference(agent, at, request)
    except (Corrupt, TypeError, Error) as error:
        return f"its request cannot be built again: {error}"


def _difference(agent: Agent, at: int, request: dict[str, Any]) -> str | None:
    context = agent.context(at)
    if any(ERASED in (message.data or {}) for message in context.messages):
        return None  # the request cannot be rebuilt from erased events, and `verify` reports those
    options = request.get("options")
    given = options if isinstance(options, dict) else {}
    model = request.get("model")
    body = agent.conversation(at).request(request.get("format", ""), model=model, **given)
    if request_digest(body) == request["sha256"]:
        return None
    return f"the request built from position {at} is not the one that led to this answer"
