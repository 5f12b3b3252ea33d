"""The JSON that commands print and the page reads: a contract, which docs/cli.md describes. Nothing
is printed here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backstory.agent import Agent
from backstory.comparing import Preview
from backstory.log.events import Event
from backstory.log.replay import Explanation
from backstory.present.text import stamp

if TYPE_CHECKING:  # whoever shows one of these has imported it already
    from backstory.listings import Session
    from backstory.log.diff import Change, Comparison
    from backstory.maintenance.removal import Removed
    from backstory.maintenance.search import Hit
    from backstory.maintenance.stats import AgentStats, Stats
    from backstory.wire.tokens import Tokens


def event_json(event: Event, explanation: Explanation | None = None) -> dict[str, Any]:
    """Return an event, with the reason why it is live or dead."""
    found: dict[str, Any] = {
        "seq": event.seq,
        "kind": event.kind,
        "content": event.content,
        "data": event.data,
        "created_at": stamp(event.created_at),
    }
    if event.key is not None:
        found["key"] = event.key
    if explanation:
        found |= {"status": explanation.status, "by": explanation.by}
    return found


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Return why an event is or is not in the context."""
    return {**explanation._asdict(), "live": explanation.live}


def mark_json(mark: Event, *, live: bool) -> dict[str, Any]:
    """Return a mark."""
    return {
        "seq": mark.seq,
        "label": mark.label,
        "live": live,
        "created_at": stamp(mark.created_at),
    }


def agent_json(agent: Agent, marks: Sequence[Event] | None = None) -> dict[str, Any]:
    """Return an agent, with its marks."""
    found: dict[str, Any] = {
        "id": agent.id,
        "name": agent.name,
        "session": agent.session,
        "parent": agent.parent,
        "fork_seq": agent.fork_seq,
        "born_seq": agent.born_seq,
        "spawned": agent.spawned,
        "head": agent.listed_head,
        "created_at": stamp(agent.created_at),
        "updated_at": stamp(agent.updated_at),
        "key": agent.key,
    }
    if marks is not None:
        found["marks"] = [{"seq": mark.seq, "label": mark.label} for mark in marks]
    return found


def session_json(session: "Session") -> dict[str, Any]:
    """Return a session."""
    times = {"created_at": stamp(session.created_at), "updated_at": stamp(session.updated_at)}
    return session._asdict() | times


def comparison_json(found: "Comparison") -> dict[str, Any]:
    """Return how two contexts differ."""
    return found._asdict() | {"changes": [_change_json(change) for change in found.changes]}


def _change_json(change: "Change") -> dict[str, Any]:
    return {
        "op": change.op,
        "left": change.left and event_json(change.left),
        "right": change.right and event_json(change.right),
        "words": [list(edit) for edit in change.words],
        "why": change.why and {"status": change.why.status, "by": change.why.by},
    }


def preview_json(preview: Preview) -> dict[str, Any]:
    """Return what a clear, rewind, jump or undo would do."""
    return {
        "target": preview.target,
        "leaves": _summary_json(preview.leaves),
        "returns": _summary_json(preview.returns),
    }


def _summary_json(events: list[Event]) -> dict[str, Any]:
    from backstory.wire.conversation import conversation_of

    spoken = conversation_of(events)
    return {
        "events": len(events),
        "tokens": int(spoken.tokens()) if len(spoken) else 0,
        "positions": [event.seq for event in events],
    }


def tokens_json(tokens: "Tokens") -> dict[str, Any]:
    """Return a number of tokens, and how it was counted."""
    return {"tokens": int(tokens), "exact": tokens.exact, "how": tokens.how}


def hit_json(hit: "Hit", ref: str) -> dict[str, Any]:
    """Return an event that a search found."""
    return {
        "ref": ref,
        "agent": hit.agent.id,
        **event_json(hit.event),
        "live": hit.live,
        "score": hit.score,
        "snippet": hit.snippet,
        "spans": [list(span) for span in hit.spans],
    }


def title_json(agent: "Agent", ref: str) -> dict[str, Any]:
    """Return an agent whose title or tags a search found."""
    return {
        "ref": ref,
        "agent": agent.id,
        "title": agent.about.get("title"),
        "tags": agent.about.get("tags", []),
    }


def removal_json(removed: "Removed") -> dict[str, Any]:
    """Return what was removed."""
    gone = [agent._asdict() for agent in removed.agents]
    return {
        "agents": gone,
        "events": removed.events,
        "erased": removed.erased,
        "skipped": list(removed.skipped),
    }


def stats_json(found: "Stats", *, largest: int) -> dict[str, Any]:
    """Return a store in numbers, with its largest agents."""
    return {
        "sessions": found.sessions,
        "agents": len(found.agents),
        "events": found.events,
        "live": found.live,
        "dead": found.dead,
        "bytes": found.bytes,
        "size": found.size,
        "tokens": found.tokens,
        "kinds": found.kinds,
        "largest": [_agent_stats_json(one) for one in found.agents[:largest]],
    }


def _agent_stats_json(one: "AgentStats") -> dict[str, Any]:
    numbers = {key: value for key, value in one._asdict().items() if key != "agent"}
    return {"id": one.agent.id, "name": one.agent.name} | numbers
