"""What the page may ask for: one function for each path, which reads the store and returns JSON.

Objects have the keys of the command line's `--json`. Arguments are ids, whole numbers and words of a list;
limits are caps. Nothing of HTTP is here but the names of the paths: `app.py` does the rest.
"""

import re
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.core.diff import Comparison
from backstory.core.events import Event
from backstory.core.kinds import KINDS
from backstory.errors import AgentNotFound, Invalid, NotFound
from backstory.present.event_text import gist
from backstory.present.names import short_ref
from backstory.present.shapes import (
    agent_json,
    comparison_json,
    event_json,
    explanation_json,
    hit_json,
    preview_json,
    stats_json,
    tokens_json,
)
from backstory.references import Reference
from backstory.store import Store
from backstory.web.images import Image, images_of
from backstory.web.outline import outline_json
from backstory.web.render import view
from backstory.web.sessions import session_page
from backstory.wire import FORMATS

MOST_LINES = 200
LONGEST_LINE = 240
MOST_EVENTS = 60
MOST_CHANGES = 200
MOST_FOUND = 1_000
MOST_SCANNED = 20_000  # events that one find reads
MOST_HITS = 50
LONGEST_QUESTION = 400
LARGEST = 20  # agents that the statistics list
PREVIEWED = 10
INDEX_FOR = 1.0  # seconds that a search waits for its index before it says how far that is

IDS = re.compile(r"[0-9a-fA-F-]{4,36}")
MOVES = ("clear", "rewind", "jump", "undo", "redo")


class Asked(NamedTuple):
    """One request, without its HTTP."""

    store: Store
    path: Mapping[str, Any]  # the parts of the path that have names
    query: Mapping[str, str]

    @property
    def agent(self) -> Agent:
        """The agent in the path."""
        return agent_of(self.store, str(self.path["id"]))

    def number(self, name: str, default: int | None = None) -> int | None:
        """A position or a number of things."""
        text = self.query.get(name, "")
        if text == "":
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise Invalid(f"{name} is not a whole number")
        return int(text)

    def word(self, name: str, words: tuple[str, ...], default: str) -> str:
        """One word of a list."""
        text = self.query.get(name) or default
        if text not in words:
            raise Invalid(f"{name} is not one of {', '.join(words)}")
        return text

    def text(self, name: str, longest: int = LONGEST_QUESTION) -> str:
        """What a person typed."""
        text = self.query.get(name, "")
        if not text.strip() or len(text) > longest:
            raise Invalid(f"{name} is a text of 1 to {longest} characters")
        return text


class StillIndexing(Exception):
    """A search cannot be answered yet."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__("the search index is catching up")
        self.done, self.total = done, total


def agent_of(store: Store, id: str) -> Agent:
    """The agent with an id, or a unique beginning of one."""
    if not IDS.fullmatch(id):
        raise AgentNotFound("that is not the id of an agent")
    return store.agent(id)


def sessions(asked: Asked) -> Any:
    """A page of sessions, the latest written first."""
    before = asked.query.get("before")
    return session_page(asked.store, agent_of(asked.store, before).id if before else None)


def agents(asked: Asked) -> Any:
    """All agents of a session, with their marks."""
    session = agent_of(asked.store, str(asked.path["id"])).session
    marks: dict[str, list[Event]] = {}
    for owner, mark in asked.store.marks(session):
        marks.setdefault(owner.id, []).append(mark)
    found = asked.store.agents(session=session)
    return {"agents": [agent_json(one, marks.get(one.id, [])) | {"about": one.about} for one in found]}


def outline(asked: Asked) -> Any:
    """What a page needs to know of every event."""
    return outline_json(asked.store, asked.agent, asked.number("after", 0) or 0)


def lines(asked: Asked) -> Any:
    """Events on one line each, as `log` prints them."""
    agent, after = asked.agent, asked.number("after", 0) or 0
    until = min(asked.number("until", after + MOST_LINES) or 0, after + MOST_LINES, agent.head)
    found = agent.events(after=after, until=until) if after < until else []
    return {"lines": [[event.seq, gist(event)[:LONGEST_LINE]] for event in found]}


def events(asked: Asked) -> Any:
    """Events in full, each with its tree for reading."""
    texts = [text for text in asked.query.get("seqs", "").split(",") if text]
    if not texts or len(texts) > MOST_EVENTS or not all(t.isascii() and t.isdigit() for t in texts):
        raise Invalid(f"seqs is a list of 1 to {MOST_EVENTS} positions")
    full = asked.query.get("full") == "1"
    return {"events": [_event(event, full) for event in asked.agent.read(map(int, texts))]}


def _event(event: Event, full: bool) -> dict[str, Any]:
    shown = view(event, full=full)
    left_out = {"content": None, "data": None} if "left_out" in shown else {}
    pictures = [image.type for image in images_of(event.data)]
    return {**event_json(event), **left_out, "view": shown, "images": pictures}


def explain(asked: Asked) -> Any:
    """Why an event is or is not in the context."""
    return explanation_json(asked.agent.explain(int(asked.path["seq"]), at=asked.number("at")))


def request(asked: Asked) -> Any:
    """The request's body at a position, a page of its messages at a time."""
    agent = asked.agent
    at = asked.number("at")
    format = asked.word("format", FORMATS, FORMATS[0])
    model = asked.query.get("model") or None
    body, repairs, size = _dumped(agent, agent.head if at is None else at, format, model)
    key = next(key for key in ("messages", "input", "contents") if key in body)
    messages = body[key]
    after, limit = asked.number("after", 0) or 0, min(asked.number("limit", 50) or 50, MOST_LINES)
    return {
        "messages": messages[after : after + limit],
        "key": key,
        "rest": {name: value for name, value in body.items() if name != key},
        "repairs": [repair._asdict() for repair in repairs],
        "bytes": size,
        "total": len(messages),
    }


@lru_cache(maxsize=4)
def _dumped(agent: Agent, at: int, format: str, model: str | None) -> tuple[dict[str, Any], list[Any], int]:
    """A request, kept for the pages that will be asked for next: what is at a position never changes."""
    conversation = agent.conversation(at)
    body, repairs = conversation.dump_request(format, model=model)
    return body, repairs, len(conversation.to_bytes(format, model=model))


def request_bytes(asked: Asked) -> bytes:
    """The body as it would be sent."""
    format = asked.word("format", FORMATS, FORMATS[0])
    return asked.agent.conversation(asked.number("at")).to_bytes(
        format, model=asked.query.get("model") or None
    )


def tokens(asked: Asked) -> Any:
    """How many tokens the context is, by kind too."""
    counted = asked.agent.conversation(asked.number("at")).tokens(asked.query.get("model") or None)
    return tokens_json(counted) | {"kinds": counted.by("kind")}


def preview(asked: Asked) -> Any:
    """What a move would do."""
    agent, move = asked.agent, asked.word("move", MOVES, "undo")
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


def find(asked: Asked) -> Any:
    """The positions of the lineage whose text holds something, dead ones included."""
    agent, wanted = asked.agent, asked.text("q").casefold()
    after, head = asked.number("after", 0) or 0, agent.head
    end = min(after + MOST_SCANNED, head)
    matching = (
        event.seq
        for low in range(after, end, MOST_LINES * 10)
        for event in agent.events(after=low, until=min(low + MOST_LINES * 10, end))
        if wanted in _haystack(event)
    )
    found = list(islice(matching, MOST_FOUND))
    reached = found[-1] if len(found) == MOST_FOUND else end
    return {"positions": found, "next": reached if reached < head else None, "head": head}


def _haystack(event: Event) -> str:
    return f"{gist(event)}\n{event.content or ''}".casefold()


def diff(asked: Asked) -> Any:
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
        "parted": _parted(left.agent, right.agent),
    }


def _place(asked: Asked, side: str) -> Reference:
    """A side of a diff, with its position: an answer must not change while it is paged through."""
    id, _, at = asked.query.get(side, "").partition("@")
    agent = agent_of(asked.store, id)
    if at and not (at.isascii() and at.isdigit()):
        raise Invalid(f"{side} is not AGENT@POSITION")
    return Reference(agent, int(at) if at else agent.head)


@lru_cache(maxsize=4)
def _compared(left: Reference, right: Reference) -> Comparison:
    return left.agent.diff(right.agent, at=left.at, other_at=right.at)


def _parted(left: Agent, right: Agent) -> int:
    """The last position that two lineages share; 0 if they have nothing in common."""
    mine, theirs = (agent._log.backend.lineage(agent.snapshot) for agent in (left, right))
    owned = {piece.owner: piece.high for piece in mine}
    return max((min(owned[piece.owner], piece.high) for piece in theirs if piece.owner in owned), default=0)


def search(asked: Asked) -> Any:
    """Events in all sessions that hold all words."""
    words = asked.text("q")
    agent = agent_of(asked.store, asked.query["agent"]) if asked.query.get("agent") else None
    kinds = tuple(kind for kind in asked.query.get("kind", "").split(",") if kind)
    if not set(kinds) <= set(KINDS):
        raise Invalid("kind is not a kind of event")
    live = asked.query.get("live") == "1"
    hits = asked.store.search(
        words, agent=agent, kinds=kinds, live=live, limit=MOST_HITS, progress=_impatient()
    )
    everyone = asked.store.agents() if hits else []
    return {
        "hits": [
            hit_json(hit, f"{short_ref(hit.agent, everyone)}@{hit.event.seq}")
            | {"session": hit.agent.session, "name": hit.agent.name, "content": None, "data": None}
            for hit in hits
        ]
    }


def _impatient() -> Callable[[int, int], None]:
    """A progress that gives up when the index takes too long; what it has indexed stays indexed."""
    end = time.monotonic() + INDEX_FOR

    def progress(done: int, total: int) -> None:
        if done < total and time.monotonic() > end:
            raise StillIndexing(done, total)

    return progress


def resolve(asked: Asked) -> Any:
    """What a reference of the command line means."""
    ref = asked.query.get("ref", "@")
    if len(ref) > LONGEST_QUESTION:
        raise NotFound("that is not a reference")
    agent, at, _ = asked.store.resolve(ref)
    return {"session": agent.session, "agent": agent.id, "at": at, "head": agent.head, "name": agent.name}


def image(asked: Asked) -> Image:
    """One of an event's images."""
    agent = agent_of(asked.store, str(asked.path["id"]))
    found = images_of(agent.event(int(asked.path["seq"])).data)
    number = int(asked.path["n"])
    if number >= len(found):
        raise NotFound("there is no such image")
    return found[number]


def verify(asked: Asked) -> Any:
    """What is wrong with the store."""
    return {"findings": [finding._asdict() for finding in asked.store.verify()]}


def stats(asked: Asked) -> Any:
    """The store in numbers."""
    return stats_json(asked.store.stats(), largest=LARGEST)


def hello(asked: Asked) -> Any:
    """What the page is told first."""
    return {"store": asked.store.url, "formats": list(FORMATS)}


READS: dict[str, Callable[[Asked], Any]] = {
    "/hello": hello,
    "/sessions": sessions,
    "/sessions/{id}/agents": agents,
    "/agents/{id}/outline": outline,
    "/agents/{id}/lines": lines,
    "/agents/{id}/events": events,
    "/agents/{id}/explain/{seq:int}": explain,
    "/agents/{id}/request": request,
    "/agents/{id}/tokens": tokens,
    "/agents/{id}/preview": preview,
    "/agents/{id}/find": find,
    "/diff": diff,
    "/search": search,
    "/resolve": resolve,
    "/verify": verify,
    "/stats": stats,
}
# What these answer about positions that exist will never change.
IMMUTABLE = ("/agents/{id}/lines", "/agents/{id}/events")
