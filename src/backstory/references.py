"""References: text that names an agent and a position or time.

    main            by name                 main@12          at a position
    work/main       by session and name     main@before      at a mark's label
    0199c3a1        by the id's beginning   main@-3          three positions before its head
    @               the latest agent        @2026-10-01T12:00  at a time

This module parses the text and asks the store.
"""

import re
from datetime import datetime
from typing import NamedTuple, Protocol

from backstory.agent import Agent
from backstory.errors import AgentNotFound, MarkNotFound, Remedy
from backstory.log.moves import LABEL, read_labels
from backstory.reading import resolve_at
from backstory.storage.agent_errors import build_position_error
from backstory.storage.ids import find_agent_by_id
from backstory.storage.protocol import AgentQuery, AgentRecord, ListOrder, Reader, SourceRecord
from backstory.storage.targets import select_mark

MOST_NAMES = 200  # the latest names that a misspelled one is compared with
MOST_LABELS = 8  # labels that an error names
SHORTEST_PREFIX = 4  # of an id
LONGEST_ID = 36


class AgentLookup(Protocol):
    """Finds agents: a store."""

    @property
    def url(self) -> str:
        """The address of the store."""

    def agent(self, ref: str) -> Agent:
        """Return the agent with a name or id."""

    def agents(self, *, order: ListOrder, limit: int) -> list[Agent]:
        """Return some agents, in an order."""


class Reference(NamedTuple):
    """An agent, and a position of its lineage; None if the text names none."""

    agent: Agent
    at: int | None
    label: str | None = None  # the text after the @, if that was a label


def resolve_reference(store: AgentLookup, text: str = "@") -> Reference:
    """Return the agent and position that a reference means. Raises NotFound or Ambiguous."""
    if not isinstance(text, str):
        return Reference(store.agent(text), None)  # which raises an error with a remedy
    name, _, moment = text.partition("@")  # a name has no @ in it, a label may
    if name:
        agent = store.agent(name)
    else:
        agent = find_latest_agent(store)
    if not moment:
        return Reference(agent, None)
    return _resolve_moment(agent, moment)


def find_latest_agent(store: AgentLookup) -> Agent:
    """Return the agent that was written to last."""
    agents = store.agents(order="updated", limit=1)
    if not agents:
        raise AgentNotFound(
            f"no agent in {store.url!r} yet", remedy=Remedy("{} makes one", "start")
        )
    return agents[0]


def _resolve_moment(agent: Agent, moment: str) -> Reference:
    """Return the position that a number, label or time means."""
    if re.fullmatch(r"-?[0-9]+", moment):
        return Reference(agent, _resolve_number(agent, moment))
    marks = agent.marks()
    labels = read_labels(agent.notes(LABEL, live=False))
    mark = select_mark(marks, moment)
    position = labels.get(moment) if mark is None else mark.seq
    if position is not None:
        return Reference(agent, position, moment)
    time = _parse_time(moment)
    if time is not None:
        return Reference(agent, resolve_at(agent, time))
    marked = {mark.label: mark.seq for mark in marks if mark.label}
    raise _build_mark_error(agent, moment, [*labels, *marked])


def _resolve_number(agent: Agent, text: str) -> int:
    """Return the position that a number means; a negative one counts from the head."""
    head = agent.head
    if len(text) > 20:  # longer than any position, and perhaps than Python converts
        raise build_position_error(agent.name, int(text[:20]), head)
    number = int(text)
    position = head + number if text.startswith("-") else number
    if not 0 <= position <= head:
        raise build_position_error(agent.name, number, head)
    return position


def _parse_time(text: str) -> datetime | None:
    """Return a time in ISO 8601, or None. Without a time zone, it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


def _build_mark_error(agent: Agent, label: str, labels: list[str]) -> MarkNotFound:
    hint = _suggest(label, labels)
    known = ", ".join(map(repr, labels[-MOST_LABELS:]))
    return MarkNotFound(
        f"agent {agent.name!r} has no mark {label!r}{hint}",
        remedy=f"its marks are {known}" if labels else "it has no labelled marks",
    )


def _suggest(word: str, words: list[str]) -> str:
    """Return a question whether one of these words was meant, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(word, words)
    if not near:
        return ""
    names = " or ".join(map(repr, near))
    return f" (did you mean {names}?)"


def find_agents(reader: Reader, ref: str) -> list[AgentRecord]:
    """Return the agents that a reference may mean."""
    if len(ref) == LONGEST_ID:
        exact = find_agent_by_id(reader, ref.lower())
        if exact is not None:
            return [exact]
    session, slash, name = ref.rpartition("/")
    found: list[AgentRecord] = []
    if slash:
        for id in find_session_ids(reader, session):
            found += reader.list_agents(AgentQuery(session=id, name=name))
    else:
        found = reader.list_agents(AgentQuery(name=ref))
        if not found and len(ref) >= SHORTEST_PREFIX:
            found = reader.list_agents(AgentQuery(id_prefix=ref.lower()))
    return found or _find_by_origin(reader, ref)


def _find_by_origin(reader: Reader, ref: str) -> list[AgentRecord]:
    """Return the agents that a tool knows by this id or, if it is unique, by its prefix; otherwise
    the one with this key, or those with this title."""
    sources = _find_sources(reader, ref)
    ids = dict.fromkeys(source.agent_id for source in sources if source.agent_id)
    found: list[AgentRecord] = []
    for id in ids:
        agent = find_agent_by_id(reader, id)
        if agent is not None:
            found.append(agent)
    if not found:
        found = reader.list_agents(AgentQuery(key=ref))
    if not found:
        found = reader.list_agents(AgentQuery(title=ref))
    return found


def _find_sources(reader: Reader, ref: str) -> list[SourceRecord]:
    """Return the sources with an id, or else those with an id that begins with it."""
    sources = reader.list_sources(id=ref)
    if not sources and len(ref) >= SHORTEST_PREFIX:
        sources = reader.list_sources(prefix=ref)
    # The id of a sub-agent begins with that of its session.
    if sources and all(other.id.startswith(f"{sources[0].id}/") for other in sources[1:]):
        return sources[:1]
    return sources


def find_session_ids(reader: Reader, ref: str) -> list[str]:
    """Return the sessions whose root has this name, id or id prefix. A deleted root's id is still
    that of its session."""
    by_id = AgentQuery(id_prefix=ref.lower(), roots_only=True)
    found: list[AgentRecord] = []
    if len(ref) == LONGEST_ID:
        found = reader.list_agents(by_id)
    if not found:
        found = reader.list_agents(AgentQuery(name=ref))
    if not found and len(ref) >= SHORTEST_PREFIX:
        found = reader.list_agents(by_id)
    return [record.session for record in found if record.id == record.session]


def suggest_names(reader: Reader, ref: str) -> str:
    """Return a question whether one of the existing names was meant; if there are very many, one of
    the latest."""
    latest = reader.list_agents(AgentQuery(latest_first=True, limit=MOST_NAMES))
    names = {record.name for record in latest}
    _, _, name = ref.rpartition("/")
    return _suggest(name, list(names))
