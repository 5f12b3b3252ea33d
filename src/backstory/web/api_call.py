"""One call of the page's API, without its HTTP: the store, the path, and the arguments, all checked."""

import re
from collections.abc import Iterator, Mapping
from threading import Event as Flag
from typing import Any, NamedTuple, TypeVar

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Invalid
from backstory.log.events import Event
from backstory.store import Store

LONGEST_QUESTION = 400
PAGE = 2_000  # events that are read at a time
IDS = re.compile(r"[0-9a-fA-F-]{4,36}")

Word = TypeVar("Word", bound=str)


class Gone(Exception):
    """The client has disconnected."""


class ApiCall(NamedTuple):
    """One call of the API, without its HTTP."""

    store: Store
    path: Mapping[str, Any]  # the parts of the path that have names
    query: Mapping[str, str]
    gone: Flag | None = None  # set when the client has disconnected

    @property
    def agent(self) -> Agent:
        """The agent in the path."""
        return agent_of(self.store, str(self.path["id"]))

    @property
    def session(self) -> str:
        """The session in the path."""
        return session_of(self.store, str(self.path["id"]))

    def number(self, name: str, default: int | None = None) -> int | None:
        """A position or a number of things."""
        text = self.query.get(name, "")
        if text == "":
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise Invalid(f"{name} is not a whole number")
        return int(text)

    def events(self, agent: Agent, after: int, until: int) -> Iterator[Event]:
        """Events, read page by page, until the client disconnects."""
        for low in range(after, until, PAGE):
            if self.gone is not None and self.gone.is_set():
                raise Gone
            yield from agent.events(after=low, until=min(low + PAGE, until))

    def word(self, name: str, words: tuple[Word, ...], default: Word) -> Word:
        """One word of a list."""
        text = self.query.get(name) or default
        for word in words:
            if text == word:
                return word
        raise Invalid(f"{name} is not one of {', '.join(words)}")

    def text(self, name: str, longest: int = LONGEST_QUESTION) -> str:
        """What a person typed."""
        text = self.query.get(name, "")
        if not text.strip() or len(text) > longest:
            raise Invalid(f"{name} is a text of 1 to {longest} characters")
        return text


def agent_of(store: Store, id: str) -> Agent:
    """The agent with an id, or a unique beginning of one."""
    if not IDS.fullmatch(id):
        raise AgentNotFound("that is not the id of an agent")
    return store.agent(id)


def session_of(store: Store, id: str) -> str:
    """The session of an agent, or the one with an id: its root may be deleted and have left forks behind."""
    try:
        return agent_of(store, id).session
    except AgentNotFound:
        if not IDS.fullmatch(id) or not store.agents(session=id):
            raise
        return id
