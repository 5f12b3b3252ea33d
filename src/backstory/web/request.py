"""The request at a position: its body in each format, a page of messages at a time."""

import json
import time
from collections.abc import Hashable
from threading import Lock
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.web.query import Query
from backstory.wire import FORMATS, FormatName, Repair

MESSAGES_PER_PAGE = 50
MOST_MESSAGES = 200
KEPT = 60.0  # seconds for which a request is kept, so that its next page need not build it again


class PagedRequest(NamedTuple):
    """A request in one format."""

    key: str  # of the body: the one with the messages
    messages: list[Any]
    origins: list[list[int]]  # of each message, the positions of its events
    rest: dict[str, Any]
    repairs: list[Repair]
    size: int  # bytes

    def build_page(self, after: int = 0, limit: int | None = None) -> dict[str, Any]:
        """Return a page of the messages, and all else."""
        until = None if limit is None else after + limit
        return {
            "messages": self.messages[after:until],
            "origins": self.origins[after:until],
            "key": self.key,
            "rest": self.rest,
            "repairs": [repair._asdict() for repair in self.repairs],
            "bytes": self.size,
            "total": len(self.messages),
        }


class NewestRequest:
    """Keeps the request of a store that was built last, for a minute and until something is
    erased."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._name: Hashable = None
        self._end = 0.0
        self._request: PagedRequest | None = None

    def read_page(self, query: Query) -> dict[str, Any]:
        """Return the request's body at a position, a page of its messages at a time."""
        limit = min(query.read_int("limit", MESSAGES_PER_PAGE), MOST_MESSAGES)
        return self._build(query).build_page(query.read_int("after"), limit)

    def _build(self, query: Query) -> PagedRequest:
        """Return the request that a query asks for."""
        agent = query.find_agent()
        at = query.read_int("at", agent.head)
        format = query.read_choice("format", FORMATS, FORMATS[0])
        model = query.arguments.get("model") or None
        removals = len(query.store.removals())
        name = (agent.id, at, format, model, removals)
        with self._lock:
            now = time.monotonic()
            if self._request is None or name != self._name or now > self._end:
                self._request = build_request(agent, at, format, model)
                self._name = name
                self._end = now + KEPT
            return self._request


def read_request_bytes(query: Query) -> tuple[str, bytes]:
    """Return the body as it would be sent."""
    format = query.read_choice("format", FORMATS, FORMATS[0])
    conversation = query.find_agent().conversation(query.read_position("at"))
    content = conversation.to_bytes(format, model=query.arguments.get("model") or None)
    return "application/json", content


def build_request(
    agent: Agent, at: int, format: FormatName, model: str | None = None
) -> PagedRequest:
    """Build the request at a position."""
    conversation = agent.conversation(at)
    body, repairs = conversation.dump_request(format, model=model)
    key = next(key for key in ("messages", "input", "contents") if key in body)
    # What is sent, not what an SDK is given: Bedrock's takes bytes, which are base64 on the wire.
    content = conversation.to_bytes(format, model=model)
    messages = json.loads(content)[key]
    if isinstance(messages, str):  # Responses takes a bare text, too
        messages = [messages]
    origins = conversation.origins(format, model=model)
    if len(origins) != len(messages):  # a provider's own form may lack messages in the end
        origins = []
    rest = {name: value for name, value in body.items() if name != key}
    return PagedRequest(key, messages, origins, rest, repairs, len(content))
