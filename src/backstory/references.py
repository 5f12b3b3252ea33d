"""References: text that names an agent and a position or time.

    main            by name                 main@12          at a position
    work/main       by session and name     main@before      at a mark's label
    0199c3a1        by the id's beginning   main@-3          three positions before its head
    @               the latest agent        @2026-10-01T12:00  at a time

This module parses the text and asks the store; the log resolves positions.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from backstory.agent import Agent
from backstory.errors import AgentNotFound, MarkNotFound, Remedy
from backstory.storage.positions import no_position
from backstory.storage.protocols import AgentRecord, Sources, Wanted
from backstory.storage.protocols import Agents as RecordedAgents

MOST_NAMES = 200  # how many names, the latest, a misspelled one is compared with
SHORTEST_PREFIX = 4  # of an id
LONGEST_ID = 36


class Agents(Protocol):
    """Where agents are looked up: a store."""

    @property
    def url(self) -> str:
        """Where it is."""

    def agent(self, ref: str) -> Agent:
        """The agent of a name or id."""

    def agents(self, *, order: str, limit: int) -> list[Agent]:
        """Some of them, in an order."""


class Findable(RecordedAgents, Sources, Protocol):
    """Where agents are listed, and where they came from: a backend."""


class Reference(NamedTuple):
    """An agent, and a position of its lineage; None if the text names none."""

    agent: Agent
    at: int | None
    label: str | None = None  # what followed the @, if that was a label


def resolve(store: Agents, text: str = "@") -> Reference:
    """What a text refers to. Raises NotFound or Ambiguous."""
    if not isinstance(text, str):
        return Reference(store.agent(text), None)  # which says what a reference is
    name, at_sign, moment = text.partition("@")  # a name has no @ in it, a label may
    agent = store.agent(name) if name else latest(store)
    if not at_sign or not moment:
        return Reference(agent, None)
    return _at(agent, moment)


def latest(store: Agents) -> Agent:
    """The agent that was written to last."""
    agents = store.agents(order="updated", limit=1)
    if not agents:
        raise AgentNotFound(
            f"no agent in {store.url!r} yet", remedy=Remedy("{} makes one", "start")
        )
    return agents[0]


def _at(agent: Agent, moment: str) -> Reference:
    if re.fullmatch(
        r"-?[0-9]{20,}", moment
    ):  # longer than any position, and perhaps than Python converts
        raise no_position(agent.name, int(moment[:20]), agent.head)
    if re.fullmatch(r"[0-9]+", moment):
        return Reference(agent, _checked(agent, int(moment)))
    if re.fullmatch(r"-[0-9]+", moment):
        head = agent.head
        if head + int(moment) < 0:
            raise no_position(agent.name, int(moment), head)
        return Reference(agent, head + int(moment))
    for mark in reversed(agent.marks()):
        if mark.label == moment:
            return Reference(agent, mark.seq, moment)
    labels = agent.labels()
    if moment in labels:
        return Reference(agent, labels[moment], moment)
    time = _time(moment)
    if time is not None:
        return Reference(agent, agent.position(time))
    raise _no_mark(agent, moment, labels)


def _checked(agent: Agent, position: int) -> int:
    head = agent.head
    if not 0 <= position <= head:
        raise no_position(agent.name, position, head)
    return position


def _time(text: str) -> datetime | None:
    """A time in ISO 8601; without a time zone, it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _no_mark(agent: Agent, label: str, named: Iterable[str]) -> MarkNotFound:
    from difflib import get_close_matches

    labels = [*named, *(mark.label for mark in agent.marks() if mark.label)]
    near = get_close_matches(label, labels)
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    known = ", ".join(map(repr, labels[-8:]))
    return MarkNotFound(
        f"agent {agent.name!r} has no mark {label!r}{hint}",
        remedy=f"its marks are {known}" if labels else "it has no labelled marks",
    )


def matches(backend: Findable, ref: str) -> list[AgentRecord]:
    """The agents that a text may mean."""
    if len(ref) == LONGEST_ID and (exact := backend.agents(Wanted(prefix=ref.lower()))):
        return exact
    session, slash, name = ref.rpartition("/")
    if slash:
        named = [
            record
            for id in session_ids(backend, session)
            for record in backend.agents(Wanted(session=id, name=name))
        ]
        return named or _by_origin(backend, ref)
    named = backend.agents(Wanted(name=ref))
    if named:
        return named
    if len(ref) < SHORTEST_PREFIX:
        return _by_origin(backend, ref)
    return backend.agents(Wanted(prefix=ref.lower())) or _by_origin(backend, ref)


def _by_origin(backend: Findable, ref: str) -> list[AgentRecord]:
    """The agents that a tool knows by this id or, if it is unique, by its prefix; otherwise the one with this
    key, or those with this title."""
    exact = backend.sources(id=ref)
    known = exact or (backend.sources(prefix=ref) if len(ref) >= SHORTEST_PREFIX else [])
    first = known[0].id if known else ""  # a sub-agent's id begins with that of its session
    if all(source.id.startswith(f"{first}/") for source in known[1:]):
        known = known[:1]
    agents = dict.fromkeys(source.agent for source in known if source.agent)
    found = [record for id in agents for record in backend.agents(Wanted(prefix=id))]
    return found or backend.agents(Wanted(key=ref)) or backend.agents(Wanted(title=ref))


def session_ids(backend: Findable, ref: str) -> list[str]:
    """The sessions whose root has this name, id or id prefix. A deleted root's id is still that of its
    session."""
    by_id = Wanted(prefix=ref.lower(), roots=True)
    named = backend.agents(by_id) if len(ref) == LONGEST_ID else []
    named = named or backend.agents(Wanted(name=ref))
    if not named and len(ref) >= SHORTEST_PREFIX:
        named = backend.agents(by_id)
    return [record.session for record in named if record.id == record.session]


def near_names(backend: Findable, ref: str) -> str:
    """A question whether one of the existing names was meant; if there are very many, one of the latest."""
    from difflib import get_close_matches

    names = {record.name for record in backend.agents(Wanted(latest_first=True, limit=MOST_NAMES))}
    near = get_close_matches(ref.rpartition("/")[2], names)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
