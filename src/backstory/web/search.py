"""Search for the page: what the index has, at once and in pages, and how far behind the log it is."""

from typing import Any

from backstory.errors import Invalid
from backstory.log.kinds import KINDS
from backstory.present.names import short_ref
from backstory.present.shapes import hit_json
from backstory.store import Store
from backstory.web.api_call import ApiCall, agent_of

PAGE = 50  # hits
FARTHEST = 2_000  # hits that can be paged through: beyond, more words are of more help


def search(asked: ApiCall) -> Any:
    """A page of the events in all sessions that hold all words, best first; `next` is where the following
    page begins. While the index catches up, `behind` says how many events it lacks."""
    words = asked.text("q")
    agent = agent_of(asked.store, asked.query["agent"]) if asked.query.get("agent") else None
    kinds = tuple(kind for kind in asked.query.get("kind", "").split(",") if kind)
    if not set(kinds) <= set(KINDS):
        raise Invalid("kind is not a kind of event")
    after = min(asked.number("after", 0) or 0, FARTHEST)
    live = asked.query.get("live") == "1"
    found = asked.store.search(
        words, agent=agent, kinds=kinds, live=live, limit=after + PAGE + 1, wait=False
    )
    page = found[after : after + PAGE]
    everyone = asked.store.agents() if page else []
    progress = _progress(asked.store, found.missing) if found.missing else {}
    return {
        "hits": [
            hit_json(hit, f"{short_ref(hit.agent, everyone)}@{hit.event.seq}")
            | {"session": hit.agent.session, "name": hit.agent.name, "content": None, "data": None}
            for hit in page
        ],
        "next": after + PAGE if len(found) > after + PAGE and after + PAGE <= FARTHEST else None,
        "behind": found.missing,
        **progress,
    }


def _progress(store: Store, behind: int) -> dict[str, int]:
    """How far the index is."""
    total = sum(agent.listed_head - agent.fork_seq for agent in store.agents())
    return {"done": max(0, total - behind), "total": total}
