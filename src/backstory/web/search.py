"""Search for the page: what the index has at once, in pages, grouped by session."""

from collections.abc import Sequence
from typing import Any

from backstory.errors import Invalid
from backstory.log.kinds import KINDS
from backstory.maintenance.search import Hit
from backstory.present.agent_lists import short_ref
from backstory.present.shapes import hit_json
from backstory.store import Store
from backstory.web.query import Query
from backstory.web.sessions import build_rows_of

HITS_PER_PAGE = 50
FARTHEST = 2_000  # hits that can be paged through: beyond, more words are of more help


def search(query: Query) -> Any:
    """Return a page of the events that contain all words, by session, best first. `next` is where
    the following page begins; `behind` is how many events the index lacks."""
    words = query.read_text("q")
    id = query.arguments.get("agent")
    agent = query.find_agent(id) if id else None
    kinds = query.read_list("kind", len(KINDS))
    if not set(kinds) <= set(KINDS):
        raise Invalid("kind is not a kind of event")
    after = min(query.read_int("after"), FARTHEST)
    found = query.store.search(
        words,
        agent=agent,
        kinds=kinds,
        live=query.arguments.get("live") == "1",
        limit=after + HITS_PER_PAGE + 1,
        wait=False,
    )
    query.check_still_wanted()
    has_more = len(found) > after + HITS_PER_PAGE and after + HITS_PER_PAGE <= FARTHEST
    return {
        "groups": group_hits(query.store, found[after : after + HITS_PER_PAGE]),
        "next": after + HITS_PER_PAGE if has_more else None,
        "behind": found.missing,
        "total": count_events(query.store) if found.missing else None,
    }


def group_hits(store: Store, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return the hits of each session, with what the page shows of it. The session with the best
    hit comes first."""
    everyone = store.agents() if hits else []
    groups: dict[str, list[dict[str, Any]]] = {}
    for hit in hits:
        ref = short_ref(hit.agent, everyone)
        shown = hit_json(hit, f"{ref}@{hit.event.seq}")
        shown |= {"name": hit.agent.name, "content": None, "data": None}
        groups.setdefault(hit.agent.session, []).append(shown)
    rows = {row["id"]: row for row in build_rows_of(store, list(groups))}
    return [{"session": rows[id], "hits": groups[id]} for id in groups if id in rows]


def count_events(store: Store) -> int:
    """Return how many events an index of the whole store has."""
    total = 0
    for agent in store.agents():
        total += agent.listed_head - agent.fork_seq
    return total
