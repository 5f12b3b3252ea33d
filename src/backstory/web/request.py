"""The request at a position: its body in each format, a page of messages at a time, each with its events."""

import json
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.web.api_call import ApiCall
from backstory.wire import FORMATS, Repair

MOST_MESSAGES = 200


class _Dumped(NamedTuple):
    """A whole request."""

    key: str  # of the body: under which the messages are
    messages: list[Any]
    origins: list[list[int]]  # of each message, the positions of its events
    rest: dict[str, Any]
    repairs: list[Repair]
    size: int


def request(asked: ApiCall) -> Any:
    """The request's body at a position, a page of its messages at a time."""
    agent, at = asked.agent, asked.number("at")
    format = asked.word("format", FORMATS, FORMATS[0])
    found = _dumped(
        agent, agent.head if at is None else at, format, asked.query.get("model") or None
    )
    after, limit = (
        asked.number("after", 0) or 0,
        min(asked.number("limit", 50) or 50, MOST_MESSAGES),
    )
    return _page(found, after, after + limit)


def request_at(agent: Agent, at: int, format: str) -> dict[str, Any]:
    """The same with all messages."""
    return _page(_dumped(agent, at, format, None), 0, None)


def _page(found: _Dumped, low: int, high: int | None) -> dict[str, Any]:
    return {
        "messages": found.messages[low:high],
        "origins": found.origins[low:high],
        "key": found.key,
        "rest": found.rest,
        "repairs": [repair._asdict() for repair in found.repairs],
        "bytes": found.size,
        "total": len(found.messages),
    }


def _dumped(agent: Agent, at: int, format: str, model: str | None) -> _Dumped:
    """A request. It is made anew for each page: one that was kept would still say what was erased since."""
    conversation = agent.conversation(at)
    body, repairs = conversation.dump_request(format, model=model)
    key = next(key for key in ("messages", "input", "contents") if key in body)
    # What is sent, not what an SDK is given: Bedrock's takes bytes, which are base64 on the wire.
    sent = conversation.to_bytes(format, model=model)
    said = json.loads(sent)[key]
    messages = [said] if isinstance(said, str) else said  # Responses takes a bare text, too
    origins = conversation.origins(format, model=model)
    rest = {name: value for name, value in body.items() if name != key}
    # A provider's own form may be thinned out in the end: then nobody can say which message came from where.
    return _Dumped(
        key, messages, origins if len(origins) == len(messages) else [], rest, repairs, len(sent)
    )


def request_bytes(asked: ApiCall) -> bytes:
    """The body as it would be sent."""
    format = asked.word("format", FORMATS, FORMATS[0])
    return asked.agent.conversation(asked.number("at")).to_bytes(
        format, model=asked.query.get("model") or None
    )
