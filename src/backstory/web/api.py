"""What the page may ask for: one function for each path, which reads the store and returns JSON.

Objects have the keys of the command line's `--json`. Arguments are ids, whole numbers and words of a list;
limits are caps. Nothing of HTTP is here but the names of the paths: `app.py` does the rest.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

from backstory.comparing import MOVE_COMMANDS
from backstory.errors import Invalid, NotFound
from backstory.log.diff import Comparison
from backstory.log.events import Event
from backstory.present.event_text import gist
from backstory.present.shapes import (
    agent_json,
    comparison_json,
    event_json,
    explanation_json,
    preview_json,
    stats_json,
    tokens_json,
)
from backstory.references import Reference
from backstory.web.api_call import LONGEST_QUESTION, ApiCall, agent_of, session_of
from backstory.web.images import Image, images_of
from backstory.web.outline import outline_json
from backstory.web.render import view
from backstory.web.request import request
from backstory.web.search import search
from backstory.web.sessions import agents_of, curve_of, session_page, title_of
from backstory.web.usage import Usage, spent, usage_json
from backstory.wire import FORMATS

MOST_LINES = 200
LONGEST_LINE = 240
MOST_EVENTS = 60
MOST_CHANGES = 200
MOST_FOUND = 1_000
MOST_SCANNED = 20_000  # events that one find reads
LARGEST = 20  # agents that the statistics list
PREVIEWED = 10

ANSWERS = ("assistant", "tool_call")  # the first event of an answer says what it took


def sessions(asked: ApiCall) -> Any:
    """A page of sessions, the latest written first."""
    before = asked.query.get("before")
    return session_page(asked.store, session_of(asked.store, before) if before else None)


def agents(asked: ApiCall) -> Any:
    """All agents of a session, with their marks."""
    session = asked.session
    marks: dict[str, list[Event]] = {}
    for owner, mark in asked.store.marks(session):
        marks.setdefault(owner.id, []).append(mark)
    found = asked.store.agents(session=session)
    return {
        "title": title_of(asked.store, session),
        "agents": [agent_json(one, marks.get(one.id, [])) | {"about": one.about} for one in found],
    }


def curve(asked: ApiCall) -> Any:
    """How large the context of a session's first agent was, from its first event to its last."""
    root = agents_of(asked.store, asked.session)[0]
    return {"curve": curve_of(root, root.head)}


def outline(asked: ApiCall) -> Any:
    """What a page needs to know of every event."""
    return outline_json(asked.agent, asked.number("after", 0) or 0, asked.number("limit"))


def lines(asked: ApiCall) -> Any:
    """Events on one line each, as `log` prints them."""
    agent, after = asked.agent, asked.number("after", 0) or 0
    until = min(asked.number("until", after + MOST_LINES) or 0, after + MOST_LINES, agent.head)
    found = agent.events(after=after, until=until) if after < until else []
    return {"lines": [[event.seq, gist(event)[:LONGEST_LINE]] for event in found]}


def events(asked: ApiCall) -> Any:
    """Events in full, each with its tree for reading."""
    texts = [text for text in asked.query.get("seqs", "").split(",") if text]
    if not texts or len(texts) > MOST_EVENTS or not all(t.isascii() and t.isdigit() for t in texts):
        raise Invalid(f"seqs is a list of 1 to {MOST_EVENTS} positions")
    full = asked.query.get("full") == "1"
    return {
        "events": [
            event_for_page(event, full=full) for event in asked.agent.events(map(int, texts))
        ]
    }


def event_for_page(event: Event, *, full: bool = False) -> dict[str, Any]:
    """An event with its tree for reading, what its images are, and what it took."""
    shown = view(event, full=full)
    left_out = {"content": None, "data": None} if "left_out" in shown else {}
    pictures = [image.type for image in images_of(event.data)]
    return {
        **event_json(event),
        **left_out,
        "view": shown,
        "images": pictures,
        "usage": usage_json(spent(event.data)),
    }


def explain(asked: ApiCall) -> Any:
    """Why an event is or is not in the context."""
    return explanation_json(asked.agent.explain(int(asked.path["seq"]), at=asked.number("at")))


def tokens(asked: ApiCall) -> Any:
    """How many tokens the context is, by kind too."""
    counted = asked.agent.conversation(asked.number("at")).tokens(asked.query.get("model") or None)
    return tokens_json(counted) | {"kinds": counted.by("kind")}


def preview(asked: ApiCall) -> Any:
    """What a move would do."""
    agent, move = asked.agent, asked.word("move", MOVE_COMMANDS, "undo")
    head = agent.head
    found = agent.preview(move, asked.number("to"))
    return {
        **preview_json(found),
        "head": head,
        "lines": {
            "leaves": [_line(event) for event in found.leaves[:PREVIEWED]],
            "returns": [_line(event) for event in found.returns[:PREVIEWED]],
        },
    }


def _line(event: Event) -> list[Any]:
    return [event.seq, event.kind, gist(event)[:LONGEST_LINE]]


def find(asked: ApiCall) -> Any:
    """The positions of the lineage whose text holds something, dead ones included."""
    agent, wanted = asked.agent, asked.text("q").casefold()
    after, head = asked.number("after", 0) or 0, agent.head
    end = min(after + MOST_SCANNED, head)
    matching = (
        event.seq for event in asked.events(agent, after, end) if wanted in _haystack(event)
    )
    found = list(islice(matching, MOST_FOUND))
    reached = found[-1] if len(found) == MOST_FOUND else end
    return {"positions": found, "next": reached if reached < head else None, "head": head}


def _haystack(event: Event) -> str:
    return f"{gist(event)}\n{event.content or ''}".casefold()


def usage(asked: ApiCall) -> Any:
    """Which models answered in a lineage, and what they read, wrote and cost, as far as the log says so."""
    agent = asked.agent
    after, head = asked.number("after", 0) or 0, agent.head
    end = min(after + MOST_SCANNED, head)
    totals: dict[str | None, Usage] = {}
    for event in asked.events(agent, after, end):
        found = spent(event.data) if event.kind in ANSWERS else None
        if found is not None:
            totals[found.model] = (
                totals[found.model].and_(found) if found.model in totals else found
            )
    return {
        "models": [usage_json(one) for one in totals.values()],
        "next": end if end < head else None,
    }


def diff(asked: ApiCall) -> Any:
    """How two contexts differ, a page of changes at a time."""
    left, right = (_place(asked, side) for side in ("left", "right"))
    found = _compared(left, right)
    after = asked.number("after", 0) or 0
    page = found._replace(changes=found.changes[after : after + MOST_CHANGES])
    return {
        **comparison_json(page),
        "total": len(found.changes),
        "left": {"agent": left.agent.id, "at": left.at},
        "right": {"agent": right.agent.id, "at": right.at},
        "parted": _parted(left, right),
    }


def _place(asked: ApiCall, side: str) -> Reference:
    """A side of a diff, with its position: an answer must not change while it is paged through."""
    id, _, at = asked.query.get(side, "").partition("@")
    agent = agent_of(asked.store, id)
    if at and not (at.isascii() and at.isdigit()):
        raise Invalid(f"{side} is not AGENT@POSITION")
    return Reference(agent, int(at) if at else agent.head)


def _compared(left: Reference, right: Reference) -> Comparison:
    return left.agent.diff(right.agent, at=left.at, other_at=right.at)


def _parted(left: Reference, right: Reference) -> int:
    """The last position that two histories share; 0 if they have nothing in common."""
    owned = {part.agent_id: part.last for part in left.agent.lineage()}
    shared = [0]
    for part in right.agent.lineage():
        if part.agent_id in owned:
            shared.append(min(owned[part.agent_id], part.last))
    return min(max(shared), left.at or 0, right.at or 0)


def resolve(asked: ApiCall) -> Any:
    """What a reference of the command line means."""
    ref = asked.query.get("ref", "@")
    if len(ref) > LONGEST_QUESTION:
        raise NotFound("that is not a reference")
    agent, at, _ = asked.store.resolve(ref)
    return {
        "session": agent.session,
        "agent": agent.id,
        "at": at,
        "head": agent.head,
        "name": agent.name,
    }


def image(asked: ApiCall) -> Image:
    """One of an event's images."""
    agent = agent_of(asked.store, str(asked.path["id"]))
    found = images_of(agent.event(int(asked.path["seq"])).data)
    number = int(asked.path["n"])
    if number >= len(found):
        raise NotFound("there is no such image")
    return found[number]


def verify(asked: ApiCall) -> Any:
    """What is wrong with the store."""
    return {"findings": [finding._asdict() for finding in asked.store.verify()]}


def stats(asked: ApiCall) -> Any:
    """The store in numbers."""
    return stats_json(asked.store.stats(), largest=LARGEST)


def hello(asked: ApiCall) -> Any:
    """What the page is told first."""
    return {"store": asked.store.url, "formats": list(FORMATS)}


READS: dict[str, Callable[[ApiCall], Any]] = {
    "/hello": hello,
    "/sessions": sessions,
    "/sessions/{id}/agents": agents,
    "/sessions/{id}/curve": curve,
    "/agents/{id}/outline": outline,
    "/agents/{id}/lines": lines,
    "/agents/{id}/events": events,
    "/agents/{id}/explain/{seq:int}": explain,
    "/agents/{id}/request": request,
    "/agents/{id}/tokens": tokens,
    "/agents/{id}/preview": preview,
    "/agents/{id}/find": find,
    "/agents/{id}/usage": usage,
    "/diff": diff,
    "/search": search,
    "/resolve": resolve,
    "/verify": verify,
    "/stats": stats,
}
