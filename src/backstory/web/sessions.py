"""The list of sessions: what each is called, where it came from, and how large its context is."""

from contextlib import suppress
from functools import lru_cache
from typing import Any

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.listings import Session
from backstory.present.safe_text import one_line
from backstory.present.shapes import session_json
from backstory.present.titles import first_prompt
from backstory.reading import measure_context
from backstory.store import Store
from backstory.web.outline import outline_tokens
from backstory.web.usage import model_of
from backstory.wire.tokens import estimate_request, estimate_tokens

MOST = 50  # of a page
LONGEST_LINE = 240
STEPS = 32  # of a curve
LOOKED_BACK = 40  # messages in which the last model is looked for


def session_page(store: Store, after: str | None) -> dict[str, Any]:
    """A page of sessions, the latest written first."""
    found = store.sessions(order="updated", limit=MOST, after=after)
    shown = []
    for one in found:
        with suppress(AgentNotFound):  # it was deleted in between
            shown.append(_session(store, one))
    return {"sessions": shown, "more": len(found) == MOST}


def session_for_page(store: Store, id: str) -> dict[str, Any]:
    """One session of that page."""
    return _session(store, next(one for one in store.sessions() if one.id == id))


def _session(store: Store, session: Session) -> dict[str, Any]:
    agents = agents_of(store, session.id)
    root = agents[0]
    shown = _speaker(agents)
    prompt = one_line(first_prompt(shown))[:LONGEST_LINE]
    latest = max(agents, key=lambda agent: (agent.updated_at, agent.id))
    size = measure_context(shown)
    return {
        **session_json(session),
        "prompt": prompt,
        "title": session.title
        or (prompt if _says_nothing(session.name, root) else "")
        or session.name,
        "tokens": count_context(shown, shown.head),
        "live": size.events,
        "latest": latest.id,
        "about": _about(shown),
    }


def title_of(store: Store, session: str) -> str:
    """What a session is called where its agents are shown: its title, or else its first prompt."""
    agents = agents_of(store, session)
    title = agents[0].about.get("title")
    return (
        title if isinstance(title, str) else one_line(first_prompt(_speaker(agents)))[:LONGEST_LINE]
    )


def agents_of(store: Store, session: str) -> list[Agent]:
    """The agents of a session, its root first, unless that was deleted. Raises AgentNotFound if there are
    none any more."""
    found = store.agents(session=session) or [store.agent(session)]
    return sorted(found, key=lambda agent: agent.id != session)


def _speaker(agents: list[Agent]) -> Agent:
    """The first agent that says something: where a sub-agent's parent was not imported, the root is empty."""
    return next((agent for agent in agents if agent.listed_head), agents[0])


def _says_nothing(name: str, root: Agent) -> bool:
    """Whether a name is one that agents get by themselves: an import calls them by their tool."""
    source = root.about.get("source")
    tool = source.get("tool") if isinstance(source, dict) else None
    return name in ("main", tool, root.session) or not root.listed_head


@lru_cache(maxsize=200)
def count_context(agent: Agent, head: int) -> int:
    """Return the tokens of the context at the head, as the page estimates them."""
    conversation = agent.conversation(head)
    model, tools = conversation.settings.model, conversation.settings.tools
    messages = sum(estimate_tokens(message, model) for message in conversation)
    return estimate_request(model, tools) + messages if len(conversation) else 0


@lru_cache(maxsize=200)
def curve_of(agent: Agent, head: int) -> list[int]:
    """The size of the context from the first event to the head, in a few steps: the largest of each."""
    sizes = [0]
    for row, tokens in outline_tokens(agent, head):
        base = row.seq - 1 if row.base is None else row.base
        sizes.append(sizes[base] + tokens)
    steps = min(STEPS, len(sizes))
    return [
        max(sizes[len(sizes) * n // steps : len(sizes) * (n + 1) // steps]) for n in range(steps)
    ]


def _about(agent: Agent) -> dict[str, str]:
    """What is known of a session: which tool wrote it, in which folder, with which model."""
    about = agent.about
    source = about.get("source")
    said = {**about, "tool": source.get("tool") if isinstance(source, dict) else source}
    if not isinstance(said.get("model"), str):
        said["model"] = _last_model(agent)
    return {
        name: said[name] for name in ("tool", "cwd", "model") if isinstance(said.get(name), str)
    }


def _last_model(agent: Agent) -> str | None:
    """Which model answered last, if that was a short while ago."""
    answered = (model_of(event.data or {}) for event in reversed(agent.messages(limit=LOOKED_BACK)))
    return next(filter(None, answered), None)
