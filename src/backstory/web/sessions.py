"""The list of sessions: what each is called, where it came from, and how large its context is."""

from functools import lru_cache
from typing import Any

from backstory.agent import Agent
from backstory.operations.sessions import Session
from backstory.present.safe_text import one_line
from backstory.present.shapes import session_json
from backstory.present.titles import first_prompt
from backstory.store import Store
from backstory.web.outline import outline_rows

MOST = 50  # of a page
LONGEST_LINE = 240
STEPS = 32  # of a curve
MOVES = ("rewind", "jump")  # part of a context only if they have a base
NEVER = ("clear",)


def session_page(store: Store, after: str | None) -> dict[str, Any]:
    """A page of sessions, the latest written first."""
    found = store.sessions(order="updated", limit=MOST, after=after)
    return {"sessions": [_session(store, one) for one in found], "more": len(found) == MOST}


def session_for_page(store: Store, id: str) -> dict[str, Any]:
    """One session of that page."""
    return _session(store, next(one for one in store.sessions() if one.id == id))


def _session(store: Store, session: Session) -> dict[str, Any]:
    root = store.agent(session.id)
    prompt = one_line(first_prompt(root))[:LONGEST_LINE]
    latest = max(store.agents(session=session.id), key=lambda agent: (agent.snapshot.updated_us, agent.id))
    bytes_, live = _context_size(root)
    return {
        **session_json(session),
        "prompt": prompt,
        "title": session.title or (prompt if _says_nothing(session.name, root.about) else "") or session.name,
        "tokens": bytes_ // 4,
        "live": live,
        "latest": latest.id,
        "about": _about(root.about),
    }


def _says_nothing(name: str, about: dict[str, Any]) -> bool:
    """Whether a name is one that agents get by themselves: an import calls them by their tool."""
    source = about.get("source")
    return name == "main" or (isinstance(source, dict) and name == source.get("tool"))


def _context_size(agent: Agent) -> tuple[int, int]:
    """The bytes and the number of the events in live ranges, counted by the database."""
    log = agent._log
    counted = log.backend.census(agent.snapshot, log.walk(agent.snapshot).pieces)
    return sum(one.bytes for one in counted), sum(one.events for one in counted)


@lru_cache(maxsize=200)
def curve_of(agent: Agent, head: int) -> list[int]:
    """The size of the context from the first event to the head, in a few steps: the largest of each."""
    sizes = [0]
    for row in outline_rows(agent, head):
        base = row.seq - 1 if row.base is None else row.base
        shows = row.kind not in NEVER and (row.kind not in MOVES or row.base is not None)
        sizes.append(sizes[base] + (row.size if shows else 0))
    steps = min(STEPS, len(sizes))
    return [max(sizes[len(sizes) * n // steps : len(sizes) * (n + 1) // steps]) for n in range(steps)]


def _about(about: dict[str, Any]) -> dict[str, str]:
    """What an import knows of a session: whose it was, in which folder, with which model."""
    source = about.get("source")
    said = {**about, "tool": source.get("tool") if isinstance(source, dict) else source}
    return {name: said[name] for name in ("tool", "cwd", "model") if isinstance(said.get(name), str)}
