"""What the page may ask for: one function for each path, which reads the store and returns JSON.

Objects have the keys of the command line's `--json`. Arguments are ids, whole numbers and words of
a list; limits are caps. Of HTTP there are only the names of the paths: `app.py` does the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.comparing import MOVE_COMMANDS
from backstory.errors import Invalid, NotFound
from backstory.log.events import Event
from backstory.log.kinds import ANSWER_KINDS
from backstory.present.event_text import body, gist
from backstory.present.shapes import (
    agent_json,
    comparison_json,
    event_json,
    explanation_json,
    preview_json,
    stats_json,
    tokens_json,
)
from backstory.present.usage import AnswerUsage, read_usage
from backstory.web.images import Image, find_images
from backstory.web.outline import MOST_EVENTS, build_block, build_frame
from backstory.web.query import LONGEST_TEXT, Query, parse_int
from backstory.web.render import render_event, write_line
from backstory.web.request import NewestRequest, read_request_bytes
from backstory.web.search import search
from backstory.web.sessions import SessionFilter, find_title

MOST_LINES = 200
MOST_SHOWN = 60  # events in full of one answer
MOST_CHANGES = 200
MOST_FOUND = 1_000
MOST_SCANNED = 20_000  # events that one find reads
LARGEST = 20  # agents that the statistics list
PREVIEWED = 10


class DiffSide(NamedTuple):
    """An agent and a position of its lineage."""

    agent: Agent
    at: int


def read_agents(query: Query) -> Any:
    """Return all agents of a session, with how many marks each has."""
    session = query.find_session()
    marks = Counter(owner.id for owner, _ in query.store.marks(session))
    agents = []
    for agent in query.store.agents(session=session):
        agents.append(agent_json(agent) | {"marks": marks[agent.id], "about": agent.about})
    return {"title": find_title(query.store, session), "agents": agents}


def read_frame(query: Query) -> Any:
    """Return head, pieces and moves of a lineage."""
    return build_frame(query.find_agent(), query.read_int("after"))


def read_outline(query: Query) -> Any:
    """Return the columns of some events of a lineage."""
    after = query.read_int("after")
    return build_block(query.find_agent(), after, query.read_int("until", after + MOST_EVENTS))


def read_lines(query: Query) -> Any:
    """Return events on one line each."""
    agent = query.find_agent()
    after = query.read_int("after")
    until = min(query.read_int("until", after + MOST_LINES), after + MOST_LINES, agent.head)
    events = agent.events(after=after, until=until) if after < until else []
    return {"lines": [[event.seq, write_line(event)] for event in events]}


def read_events(query: Query) -> Any:
    """Return events in full, each with its tree for reading."""
    seqs = [parse_int("seqs", text) for text in query.read_list("seqs", MOST_SHOWN)]
    if not seqs:
        raise Invalid("seqs is a list of positions")
    full = query.arguments.get("full") == "1"
    events = query.find_agent().events(seqs)
    return {"events": [build_event(event, full=full) for event in events]}


def build_event(event: Event, *, full: bool = False) -> dict[str, Any]:
    """Return an event with its tree for reading, the types of its images, and what it took."""
    view = render_event(event, full=full)
    usage = read_usage(event.data)
    found = {
        **event_json(event),
        "view": view,
        "images": [image.type for image in find_images(event.data)],
        "usage": usage.build_json() if usage else None,
    }
    if "left_out" in view:
        found["content"] = found["data"] = None
    return found


def read_text(query: Query) -> Any:
    """Return the whole context at a position as plain text."""
    parts = []
    for event in query.find_agent().messages(at=query.read_position("at")):
        query.check_still_wanted()
        parts.append(f"--- {event.kind} {event.seq}\n{body(event)}\n")
    return "text/plain; charset=utf-8", "\n".join(parts).encode("utf-8", "replace")


def explain(query: Query) -> Any:
    """Explain why an event is or is not in the context."""
    explanation = query.find_agent().explain(int(query.path["seq"]), at=query.read_position("at"))
    return explanation_json(explanation)


def count_tokens(query: Query) -> Any:
    """Count the tokens of the context, by kind too."""
    conversation = query.find_agent().conversation(query.read_position("at"))
    counted = conversation.tokens(query.arguments.get("model") or None)
    return tokens_json(counted) | {"kinds": counted.by("kind")}


def preview(query: Query) -> Any:
    """Return what a move would do."""
    agent = query.find_agent()
    move = query.read_choice("move", MOVE_COMMANDS, "undo")
    head = agent.head
    found = agent.preview(move, query.read_position("to"))
    lines = {"leaves": list_lines(found.leaves), "returns": list_lines(found.returns)}
    return {**preview_json(found), "head": head, "lines": lines}


def list_lines(events: Sequence[Event]) -> list[list[Any]]:
    """Return position, kind and text of the first events, on one line each."""
    return [[event.seq, event.kind, write_line(event)] for event in events[:PREVIEWED]]


def find(query: Query) -> Any:
    """Return the positions of the lineage whose text contains something, dead ones included."""
    agent = query.find_agent()
    wanted = query.read_text("q").casefold()
    after = query.read_int("after")
    head = agent.head
    reached = min(after + MOST_SCANNED, head)
    found: list[int] = []
    for event in query.read_events(agent, after, reached):
        text = f"{gist(event)}\n{event.content or ''}"
        if wanted in text.casefold():
            found.append(event.seq)
        if len(found) == MOST_FOUND:
            reached = event.seq
            break
    return {"positions": found, "next": reached if reached < head else None, "head": head}


def read_usage_by_model(query: Query) -> Any:
    """Return the models that answered in a lineage, with what they read, wrote and cost."""
    agent = query.find_agent()
    events = query.read_events(agent, 0, agent.head)
    return {"models": sum_usage(events)}


def sum_usage(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return what the answers among some events took, by model."""
    totals: dict[str | None, AnswerUsage] = {}
    for event in events:
        usage = read_usage(event.data) if event.kind in ANSWER_KINDS else None
        if usage is None:
            continue
        total = totals.get(usage.model)
        totals[usage.model] = total + usage if total else usage
    return [total.build_json() for total in totals.values()]


def diff(query: Query) -> Any:
    """Compare two contexts, a page of changes at a time."""
    left = find_side(query, "left")
    right = find_side(query, "right")
    comparison = left.agent.diff(right.agent, at=left.at, other_at=right.at)
    after = query.read_int("after")
    page = comparison._replace(changes=comparison.changes[after : after + MOST_CHANGES])
    return {
        **comparison_json(page),
        "total": len(comparison.changes),
        "left": {"agent": left.agent.id, "at": left.at},
        "right": {"agent": right.agent.id, "at": right.at},
        "parted": find_parting(left, right),
    }


def find_side(query: Query, side: str) -> DiffSide:
    """Return a side of a diff with its position: it must not change while its pages are read."""
    id, _, at = query.arguments.get(side, "").partition("@")
    agent = query.find_agent(id)
    return DiffSide(agent, parse_int(side, at) if at else agent.head)


def find_parting(left: DiffSide, right: DiffSide) -> int:
    """Return the last position that two histories share; 0 if they have nothing in common."""
    lasts = {part.agent_id: part.last for part in left.agent.lineage()}
    shared = [0]
    for part in right.agent.lineage():
        if part.agent_id in lasts:
            shared.append(min(lasts[part.agent_id], part.last))
    return min(max(shared), left.at, right.at)


def resolve(query: Query) -> Any:
    """Return what a reference of the command line means."""
    text = query.arguments.get("ref", "@")
    if len(text) > LONGEST_TEXT:
        raise NotFound("that is not a reference")
    agent, at, _ = query.store.resolve(text)
    found = {"session": agent.session, "agent": agent.id, "at": at}
    return {**found, "head": agent.head, "name": agent.name}


def read_image(query: Query) -> Image:
    """Return one of an event's images."""
    [event] = query.find_agent().events([int(query.path["seq"])])
    images = find_images(event.data)
    number = int(query.path["n"])
    if number >= len(images):
        raise NotFound("there is no such image")
    return images[number]


def verify(query: Query) -> Any:
    """Return what is wrong with the store."""
    return {"findings": [finding._asdict() for finding in query.store.verify()]}


def read_stats(query: Query) -> Any:
    """Return the store in numbers."""
    return stats_json(query.store.stats(), largest=LARGEST)


READS: dict[str, Callable[[Query], Any]] = {
    "/sessions/{id}/agents": read_agents,
    "/agents/{id}/frame": read_frame,
    "/agents/{id}/outline": read_outline,
    "/agents/{id}/lines": read_lines,
    "/agents/{id}/events": read_events,
    "/agents/{id}/text": read_text,
    "/agents/{id}/explain/{seq:int}": explain,
    "/agents/{id}/request.json": read_request_bytes,
    "/agents/{id}/tokens": count_tokens,
    "/agents/{id}/preview": preview,
    "/agents/{id}/find": find,
    "/agents/{id}/usage": read_usage_by_model,
    "/events/{id}/{seq:int}/image/{n:int}": read_image,
    "/diff": diff,
    "/search": search,
    "/resolve": resolve,
    "/verify": verify,
    "/stats": read_stats,
}


def build_reads() -> dict[str, Callable[[Query], Any]]:
    """Return the function for each path. Some of them remember what they have read of a store."""
    sessions = SessionFilter()
    return {
        **READS,
        "/sessions": sessions.read_sessions,
        "/tools": sessions.read_tools,
        "/agents/{id}/request": NewestRequest().read_page,
    }
