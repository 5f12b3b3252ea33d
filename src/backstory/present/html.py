"""A session as one page for people: no script, no other files, every text escaped.

The tree of agents is at the top. Then comes the context of each agent; tool results and abandoned
branches are folded.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from backstory.agent import Agent
from backstory.log.events import Event
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.replay import Explanation
from backstory.present.agent_lists import group_by_parent, title_of
from backstory.present.event_text import body
from backstory.present.text import clock, count, visible
from backstory.references import Reference

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no scripts and no requests
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1b1b;background:#fff}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.45 ui-monospace,monospace}
pre{margin:.3rem 0}
article{border-left:3px solid #ccc;padding:.2rem .8rem;margin:.8rem 0}
article.user{border-color:#2563eb}article.assistant{border-color:#059669}
article.tool_call{border-color:#d97706}
article h3{font-size:.8rem;font-weight:600;color:#666;margin:0}
details{margin:.5rem 0}summary{cursor:pointer;color:#555}details.left{opacity:.75}
nav ul{list-style:none;padding-left:1.2rem}a{color:#1d4ed8}
@media(prefers-color-scheme:dark){
body{background:#141414;color:#e6e6e6}a{color:#93b4ff}article h3,summary{color:#aaa}}
"""


def build_page(found: Reference, agents: Sequence[Agent]) -> str:
    """Return the page of the session with these agents. The agent in `found` comes first."""
    chosen = found.agent
    root = next((agent for agent in agents if agent.id == chosen.session), chosen)
    title = _escape(title_of(root) or title_of(chosen) or chosen.name)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>",
        f"<nav>{_build_tree(group_by_parent(agents), None)}</nav>",
        *_build_section(chosen, found.at),
    ]
    for agent in agents:
        if agent != chosen:
            parts += _build_section(agent, None)
    return "\n".join([*parts, "</body></html>", ""])


def _build_tree(children: Mapping[str | None, Sequence[Agent]], parent: str | None) -> str:
    """Return the agents below `parent` as nested lists."""
    items = []
    for agent in children.get(parent, ()):
        items.append(f"<li>{_build_link(agent)}{_build_tree(children, agent.id)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _build_link(agent: Agent) -> str:
    link = f'<a href="#{escape(agent.id)}">{_escape(agent.name)}</a>'
    if agent.parent is not None:
        link += f" {'spawned' if agent.spawned else 'forked'} at {agent.born_seq}"
    return f"{link}, {count(agent.listed_head, 'event')}"


def _build_section(agent: Agent, at: int | None) -> Iterator[str]:
    """Yield the heading and the events of an agent. Dead events are folded, but for clears."""
    where = "" if at is None else f" at {at}"
    yield f'<section id="{escape(agent.id)}"><h2>{_escape(agent.name)}{where}</h2>'
    explained = agent.explain(after=agent.fork_seq if agent.parent else 0, until=at, at=at)
    for is_shown, run in groupby(explained, key=_is_shown):
        events = [event for event, _ in run]
        if is_shown:
            for event in events:
                yield from _build_event(event)
        else:
            yield from _fold_branch(events)
    yield "</section>"


def _is_shown(explained: tuple[Event, Explanation]) -> bool:
    event, why = explained
    return why.live or event.kind == "clear"


def _fold_branch(events: list[Event]) -> Iterator[str]:
    """Yield the messages of an abandoned branch, folded."""
    messages = [event for event in events if event.kind in MESSAGE_KINDS]
    if not messages:
        return
    summary = f"left behind: {count(len(messages), 'message')}"
    yield f'<details class="left"><summary>{summary}</summary>'
    for event in messages:
        yield from _build_event(event)
    yield "</details>"


def _build_event(event: Event) -> Iterator[str]:
    if event.kind == "clear":
        yield "<hr>"
    if event.kind not in MESSAGE_KINDS:
        return
    heading = f"<h3>{event.seq} {event.kind} · {clock(event.created_at)}</h3>"
    text = f"<pre>{_escape(body(event))}</pre>"
    if event.kind == "tool_result":
        length = count(len(event.content or ""), "character")
        text = f"<details><summary>result, {length}</summary>{text}</details>"
    yield f'<article class="{event.kind}">{heading}{text}</article>'


def _escape(text: str) -> str:
    return escape(visible(text), quote=True)
