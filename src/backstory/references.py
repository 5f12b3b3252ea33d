"""References: text that names an agent and a position or time.

    main            by name                 main@12          at a position
    work/main       by session and name     main@before      at a mark's label
    0199c3a1        by the id's beginning   main@-3          three positions before its head
    @               the latest agent        @2026-10-01T12:00  at a time

This module parses the text and asks the backend.
"""

import re
from datetime import datetime
from typing import NamedTuple

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Ambiguous, MarkNotFound, Remedy
from backstory.reading import get_lineage
from backstory.storage.agent_errors import build_position_error, suggest_name
from backstory.storage.ids import find_agent_by_id
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend, Reader, SourceRecord

MOST_NAMES = 200  # the latest names that a misspelled one is compared with
MOST_MATCHES = 8  # agents that an error names
SHORTEST_PREFIX = 4  # of an id
LONGEST_ID = 36


class Reference(NamedTuple):
    """An agent, and a position of its lineage; None if the text names none."""

    agent: Agent
    at: int | None
    label: str | None = None  # the text after the @, if that was a label


def resolve_reference(backend: Backend, text: str = "@") -> Reference:
    """Return the agent and position that a reference means. Raises NotFound or Ambiguous."""
    name, at = text, ""
    if isinstance(text, str):
        name, _, at = text.partition("@")  # a name has no @ in it, a label may
    record = _find_latest_agent(backend) if name == "" else find_agent(backend, name)
    agent = Agent(backend, record)
    if not at:
        return Reference(agent, None)
    return _resolve_at(agent, at)


def _find_latest_agent(backend: Backend) -> AgentRecord:
    """Return the agent that was written to last."""
    for agent in backend.list_agents(AgentQuery(latest_first=True, limit=1, allow_partial=True)):
        return agent
    raise AgentNotFound(f"no agent in {backend.url!r} yet", remedy=Remedy("{} makes one", "start"))


def _resolve_at(agent: Agent, at: str) -> Reference:
    """Return the position that a number, label or time means."""
    if re.fullmatch(r"-?[0-9]+", at):
        return Reference(agent, _resolve_number(agent, at))
    lineage = get_lineage(agent)
    try:
        return Reference(agent, lineage.find_position(at), at)
    except MarkNotFound:
        time = _parse_time(at)
        if time is None:
            raise
    return Reference(agent, lineage.find_position(time))


def _resolve_number(agent: Agent, text: str) -> int:
    """Return the position that a number means; a negative one counts from the head."""
    head = agent.head
    if len(text) > 20:  # longer than any position, and perhaps than Python converts
        raise build_position_error(agent.name, f"{text[:20]}…", head)
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


# --- agents and sessions ---


def find_agent(backend: Backend, ref: object) -> AgentRecord:
    """Return the agent with this id, unique id prefix, name, or session/name; otherwise the one
    that another tool knows by this id or its prefix, or that has this key or title. Raises
    AgentNotFound or Ambiguous."""
    if not isinstance(ref, str) or not ref.isprintable():
        raise AgentNotFound(
            f"{ref!r} is not an agent", remedy="pass an id, an id prefix, a name or session/name"
        )
    found = _find_agents(backend, ref)
    if not found:
        raise AgentNotFound(
            f"no agent {ref!r} in {backend.url!r}{_suggest_names(backend, ref)}",
            remedy=Remedy("{} lists the agents", "agents"),
        )
    if len(found) > 1:
        raise _build_ambiguity_error(ref, found)
    return found[0]


def _build_ambiguity_error(ref: str, found: list[AgentRecord]) -> Ambiguous:
    matches = [f"{record.session}/{record.name}" for record in found]
    shown = ", ".join(matches[:MOST_MATCHES])
    if len(matches) > MOST_MATCHES:
        shown += f" and {len(matches) - MOST_MATCHES} more"
    return Ambiguous(
        f"{ref!r} fits {len(found)} agents", remedy=f"use one of {shown}", matches=matches
    )


def find_session(backend: Backend, ref: str) -> str:
    """Return the id of a session, given by its id, its name, or any of its agents."""
    if isinstance(ref, str) and len(ref) == LONGEST_ID:
        found = _find_session_ids(backend, ref)
        if found:
            return found[0]
    return find_agent(backend, ref).session


def _find_agents(reader: Reader, ref: str) -> list[AgentRecord]:
    """Return the agents that a reference may mean."""
    if len(ref) == LONGEST_ID:
        exact = find_agent_by_id(reader, ref.lower())
        if exact is not None:
            return [exact]
    session, slash, name = ref.rpartition("/")
    found: list[AgentRecord] = []
    if slash:
        for id in _find_session_ids(reader, session):
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


def _find_session_ids(reader: Reader, ref: str) -> list[str]:
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


def _suggest_names(reader: Reader, ref: str) -> str:
    """Return a question whether one of the existing names was meant; if there are very many, one of
    the latest."""
    latest = reader.list_agents(AgentQuery(latest_first=True, limit=MOST_NAMES))
    names = {record.name for record in latest}
    _, _, name = ref.rpartition("/")
    return suggest_name(name, list(names))
