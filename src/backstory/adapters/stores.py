"""Where an adapter keeps its history: a path, a URL, or a store that is open already.

Adapters that name the same place share one open store, which is closed with the last of them.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import backstory
from backstory import Agent, AgentNotFound, KeyTaken, NameTaken, Store
from backstory.adapters.keys import agent_name, ids_in, other_name

Where = str | os.PathLike[str] | Store

T = TypeVar("T")
MOST_HANDLES = 10_000  # of agents that are kept at hand
PATH, LONGEST_PATH = (
    "path",
    60_000,
)  # beside an agent: its ids, where its key has only hashes of them

_open: dict[str, tuple[Store, int]] = {}  # a place -> its store, and how many adapters use it
_guard = threading.Lock()


class History:
    """The store of an adapter."""

    def __init__(self, where: Where) -> None:
        self._place: str | None = None
        self._closed = False
        self._agents: dict[
            str, Agent
        ] = {}  # handles; a deleted agent's is found out when it is used
        if isinstance(where, Store):
            self._store = where
        elif os.fspath(where) == ":memory:":
            self._store = backstory.open(":memory:")
            self._place = f":memory: {id(self._store)}"
            _open[self._place] = (self._store, 1)
        else:
            self._place = _place(os.fspath(where))
            self._store = _shared(self._place, os.fspath(where))

    @property
    def store(self) -> Store:
        """The open store; RuntimeError after `close()`."""
        if self._closed:
            raise RuntimeError(f"the adapter of {self._store.url!r} is closed")
        return self._store

    def close(self) -> None:
        """Let go of the store. One that was handed over open stays open."""
        with _guard:
            if self._closed:
                return
            self._closed = True
            if self._place is None:
                return
            store, users = _open.pop(self._place)
            if users > 1:
                _open[self._place] = (store, users - 1)
                return
        store.close()

    def read(self, key: str, call: Callable[[Agent], T], otherwise: T) -> T:
        """What a call comes to with the agent that has a key, or something else where there is none."""
        self.store  # noqa: B018  raises if it is closed
        for agent in (self._agents.get(key), None):
            agent = agent or self.found(key)
            if agent is None:
                return otherwise
            try:
                return call(agent)
            except AgentNotFound:  # it was deleted, and may have been made again
                self._agents.pop(key, None)
        return otherwise

    def write(self, key: str, id: str, call: Callable[[Agent], T]) -> T:
        """The same with an agent that is made if it is not there, and named after the framework's id."""
        self.store  # noqa: B018  raises if it is closed
        try:
            return call(self._agents.get(key) or self.ensured(key, id))
        except AgentNotFound:  # the handle was of a deleted agent
            return call(self.ensured(key, id))

    def found(self, key: str) -> Agent | None:
        """The agent with a key, if there is one."""
        try:
            return self._at_hand(key, self.store.agent(key=key))
        except AgentNotFound:
            return None

    def ensured(self, key: str, id: str) -> Agent:
        """The agent with a key, made if it is not there."""
        return self._at_hand(key, self.store.ensure(key, name=agent_name(id)))

    def _at_hand(self, key: str, agent: Agent) -> Agent:
        if len(self._agents) >= MOST_HANDLES:
            self._agents.clear()
        self._agents[key] = agent
        return agent

    def forked(self, agent: Agent, key: str, id: str, at: Any = None) -> Agent:
        """A new agent with a key that goes on from a position of another one."""
        name = agent_name(id)
        try:
            return agent.fork(name, at=at, key=key)
        except NameTaken:
            return agent.fork(other_name(name, key), at=at, key=key)

    def spawned(self, parent: Agent, key: str, id: str) -> Agent:
        """The agent with a key below another one, made if it is not there."""
        found = self.found(key)
        if found is not None:
            return found
        name = agent_name(id)
        for given in (name, other_name(name, key)):
            try:
                return parent.spawn(given, key=key)
            except KeyTaken:  # another process was quicker
                break
            except NameTaken:
                continue
        return self.store.agent(key=key)

    def told(self, agent: Agent, path: str) -> Agent:
        """The agent, with its ids kept beside it where they are too long for its key."""
        if path != agent.key and path != agent.about.get(PATH) and len(path) <= LONGEST_PATH:
            agent.describe(**{PATH: path})
        return agent


def ids_of(agent: Agent) -> list[str]:
    """The ids by which a framework knows an agent."""
    return ids_in(agent.about.get(PATH) or agent.key or "")


def _place(where: str) -> str:
    return where if "://" in where else os.path.abspath(where)


def _shared(place: str, where: str) -> Store:
    with _guard:
        if place not in _open:
            _open[place] = (backstory.open(where), 0)
        store, users = _open[place]
        _open[place] = (store, users + 1)
        return store
