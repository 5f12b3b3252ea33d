"""The list of sessions: their titles, where they came from, and which a person looks for."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.listings import Session
from backstory.present.agent_lists import first_prompt, title_of
from backstory.present.shapes import session_json
from backstory.present.text import one_line
from backstory.present.usage import find_model
from backstory.store import Store
from backstory.web.query import LONGEST_TEXT, Query

SESSIONS_PER_PAGE = 50
MOST_IDS = 100
LONGEST_PROMPT = 240
FAR_AWAY = 1 << 40  # seconds since 1970
LOOKED_BACK = 40  # messages in which the last model is looked for


class SessionLine(NamedTuple):
    """What the filter compares of a session, in lower case, as it was at a moment."""

    updated_at: datetime
    text: str
    tool: str

    def matches(self, words: Sequence[str], tool: str) -> bool:
        """Return True if the line contains all words and comes from the tool, if one is given."""
        if tool and tool != self.tool:
            return False
        return all(word in self.text for word in words)


class SessionFilter:
    """Chooses sessions by title, prompt, folder, tool, model, tag and date.

    Keeps one line of text for each session, and makes it again when the session was written to. The
    lines only choose: what the page shows is read anew, so an erased prompt is never shown.
    """

    def __init__(self) -> None:
        self._lines: dict[str, SessionLine] = {}

    def read_sessions(self, query: Query) -> dict[str, Any]:
        """Return a page of the sessions that a query chooses, or those with some ids."""
        ids = query.read_list("ids", MOST_IDS)
        if ids:
            return {"sessions": build_rows_of(query.store, ids)}
        return self._choose(query)

    def read_tools(self, query: Query) -> dict[str, Any]:
        """Return how many sessions come from each tool."""
        return {"tools": self._count_tools(query)}

    def _choose(self, query: Query) -> dict[str, Any]:
        """Return a page of the sessions that match, the latest first, and how many there are."""
        since = query.read_int("since")  # seconds since 1970
        until = query.read_int("until", FAR_AWAY)
        words = query.arguments.get("q", "")[:LONGEST_TEXT].lower().split()
        tool = query.arguments.get("tool", "")
        is_any = not words and not tool
        after = query.read_int("after")
        sessions = query.store.sessions(order="updated")
        found = []
        for session in sessions:
            if not since <= session.updated_at.timestamp() <= until:
                continue
            # A line is only read if there are words or a tool to compare.
            if is_any or self._read_line(session, query).matches(words, tool):
                found.append(session)
        page = found[after : after + SESSIONS_PER_PAGE]
        return {
            "sessions": build_rows(query.store, page),
            "matching": len(found),
            "total": len(sessions),
        }

    def _count_tools(self, query: Query) -> dict[str, int]:
        """Return how many sessions come from each tool, the most frequent first."""
        counts: Counter[str] = Counter()
        for session in query.store.sessions():
            line = self._read_line(session, query)
            if line.tool:
                counts[line.tool] += 1
        return dict(counts.most_common())

    def _read_line(self, session: Session, query: Query) -> SessionLine:
        line = self._lines.get(session.id)
        if line is None or line.updated_at != session.updated_at:
            query.check_still_wanted()
            line = build_line(query.store, session)
            self._lines[session.id] = line
        return line


def build_line(store: Store, session: Session) -> SessionLine:
    """Return what the filter compares of a session."""
    try:
        row = build_row(store, session)
    except AgentNotFound:  # it was deleted in between
        return SessionLine(session.updated_at, "", "")
    about = row["about"]
    words = [row["title"], row["prompt"], session.name, *session.tags, *about.values()]
    return SessionLine(session.updated_at, " ".join(words).lower(), about.get("tool", ""))


def build_rows(store: Store, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Return what the page shows of some sessions."""
    rows = []
    for session in sessions:
        with suppress(AgentNotFound):  # it was deleted in between
            rows.append(build_row(store, session))
    return rows


def build_rows_of(store: Store, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the page shows of the sessions with these ids."""
    wanted = set(ids)
    return build_rows(store, [session for session in store.sessions() if session.id in wanted])


def build_row(store: Store, session: Session) -> dict[str, Any]:
    """Return what the page shows of a session."""
    agents = list_agents(store, session.id)
    agent = find_speaker(agents)
    prompt = one_line(first_prompt(agent))[:LONGEST_PROMPT]
    latest = max(agents, key=lambda agent: (agent.updated_at, agent.id))
    fallback = prompt if is_given_name(session.name, agents[0]) else ""
    return {
        **session_json(session),
        "prompt": prompt,
        "title": session.title or fallback or session.name,
        "latest": latest.id,
        "about": describe_source(agent),
    }


def find_title(store: Store, session: str) -> str:
    """Return the title of a session where its agents are shown: its own, or its first prompt."""
    agents = list_agents(store, session)
    return title_of(agents[0]) or title_of(find_speaker(agents))


def list_agents(store: Store, session: str) -> list[Agent]:
    """Return the agents of a session, its root first, unless that was deleted. Raises AgentNotFound
    if no agent is left."""
    agents = store.agents(session=session) or [store.agent(session)]
    return sorted(agents, key=lambda agent: agent.id != session)


def find_speaker(agents: Sequence[Agent]) -> Agent:
    """Return the first agent with events: where the parent of a sub-agent was not imported, the
    root is empty."""
    return next((agent for agent in agents if agent.listed_head), agents[0])


def is_given_name(name: str, root: Agent) -> bool:
    """Return True if nobody chose the name: an import names agents after their tool."""
    given = ("main", find_tool(root), root.session)
    return name in given or not root.listed_head


def find_tool(agent: Agent) -> str | None:
    """Return the name of the tool that an agent was imported from."""
    source = agent.about.get("source")
    if isinstance(source, dict):
        source = source.get("tool")
    return source if isinstance(source, str) else None


def describe_source(agent: Agent) -> dict[str, str]:
    """Return the tool, folder and model of a session, as far as they are known."""
    about = agent.about
    model = about.get("model")
    if not isinstance(model, str):
        model = find_last_model(agent)
    facts = {"tool": find_tool(agent), "cwd": about.get("cwd"), "model": model}
    return {name: value for name, value in facts.items() if isinstance(value, str)}


def find_last_model(agent: Agent) -> str | None:
    """Return the model of the last answer, if that is among the newest messages."""
    for event in reversed(agent.messages(limit=LOOKED_BACK)):
        model = find_model(event.data or {})
        if model is not None:
            return model
    return None
