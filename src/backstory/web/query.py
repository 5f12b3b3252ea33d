"""A call of the page's API without its HTTP: the store, the names in the path, the arguments."""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Invalid
from backstory.log.events import Event
from backstory.store import Store

LONGEST_TEXT = 400
EVENTS_PER_READ = 2_000
MOST_DIGITS = 15
ID = re.compile(r"[0-9a-fA-F-]{4,36}")

Choice = TypeVar("Choice", bound=str)


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Query(NamedTuple):
    """A call of the API. Every argument is checked when it is read."""

    store: Store
    path: Mapping[str, Any]  # the parts of the path that have names
    arguments: Mapping[str, str]
    gone: threading.Event | None = None  # set when the client has disconnected

    def find_agent(self, id: str | None = None) -> Agent:
        """Return the agent with an id, or with a unique beginning of one: by default the agent in
        the path."""
        id = self._read_id() if id is None else id
        if not ID.fullmatch(id):
            raise AgentNotFound("that is not the id of an agent")
        return self.store.agent(id)

    def find_session(self) -> str:
        """Return the id of the session in the path. Its root may be deleted and have left forks."""
        try:
            return self.find_agent().session
        except AgentNotFound:
            id = self._read_id()
            if not ID.fullmatch(id) or not self.store.agents(session=id):
                raise
            return id

    def _read_id(self) -> str:
        return str(self.path["id"])

    def read_int(self, name: str, default: int = 0) -> int:
        """Return an argument that is a position or a count."""
        found = self.read_position(name)
        return default if found is None else found

    def read_position(self, name: str) -> int | None:
        """Return an argument that is a position, or None if it is not given."""
        text = self.arguments.get(name)
        return parse_int(name, text) if text else None

    def read_choice(self, name: str, choices: Sequence[Choice], default: Choice) -> Choice:
        """Return an argument that is one of some words."""
        text = self.arguments.get(name) or default
        for choice in choices:
            if text == choice:
                return choice
        raise Invalid(f"{name} is not one of {', '.join(choices)}")

    def read_text(self, name: str, longest: int = LONGEST_TEXT) -> str:
        """Return an argument that a person typed."""
        text = self.arguments.get(name, "")
        if not text.strip() or len(text) > longest:
            raise Invalid(f"{name} is a text of 1 to {longest} characters")
        return text

    def read_list(self, name: str, longest: int) -> list[str]:
        """Return the parts of an argument that are separated by commas."""
        parts = [part for part in self.arguments.get(name, "").split(",") if part]
        if len(parts) > longest:
            raise Invalid(f"{name} is a list of at most {longest}")
        return parts

    def read_events(self, agent: Agent, after: int, until: int) -> Iterator[Event]:
        """Yield events page by page, until nobody waits for them."""
        for low in range(after, until, EVENTS_PER_READ):
            self.check_still_wanted()
            yield from agent.events(after=low, until=min(low + EVENTS_PER_READ, until))

    def check_still_wanted(self) -> None:
        """Raise ClientGone if nobody waits for the answer."""
        if self.gone is not None and self.gone.is_set():
            raise ClientGone


def parse_int(name: str, text: str) -> int:
    """Return `text` as a whole number that is not negative."""
    if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS:
        raise Invalid(f"{name} is not a whole number")
    return int(text)
