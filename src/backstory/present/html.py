"""A session as one page that a person can read: no script, no other files, every text escaped.

The tree of agents is at the top. Then comes the context of each agent; tool results and abandoned branches
are folded.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from backstory.agent import Agent
from backstory.log.events import Event
from backstory.log.explanation import Explanation
from backstory.log.kinds import MESSAGE_KINDS
from backstory.present.event_text import body
from backstory.present.measures import clock, count
from backstory.present.safe_text import visible
from backstory.present.titles import title_of
from backstory.references import Reference

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'"  # no scripts and no requests, whatever was said
)
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1b1b;background:#fff}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.45 ui-monospace,monospace;margin:.3rem 0}
article{border-left:3px solid #ccc;padding:.2rem .8rem;margin:.8rem 0}
article.user{border-color:#2563eb}article.assistant{border-color:#059669}article.tool_call{border-color:#d97706}
article h3{font-size:.8rem;font-weight:600;color:#666;margin:0}
details{margin:.5rem 0}summary{cursor:pointer;color:#555}details.left{opacity:.75}
nav ul{list-style:none;padding-left:1.2rem}a{color:#1d4ed8}
@media(prefers-color-scheme:dark){
body{background:#141414;color:#e6e6e6}a{color:#93b4ff}article h3,summary{color:#aaa}}
"""


def written(found: Reference, agents: Sequence[Agent]) -> str:
    """Return the page of a session with these agents: the one that was found comes first."""
    chosen = found.agent
    root = next((agent for agent in agents if agent.id == chosen.session), chosen)
    title = _text(title_of(root) or title_of(chosen) or chosen.name)
    others = [agent for agent in agents if agent != chosen]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>",
        f"<nav>{_tree(agents, None)}</nav>",
        *_section(chosen, found.at),
    ]
    for agent in others:
        parts += _section(agent, None)
    return "\n".join([*parts, "</body></html>", ""])


def _tree(agents: Iterable[Agent], parent: str | None) -> str:
    """The agents below one, as nested lists."""
    here = [agent for agent in agents if agent.parent == parent]
    if not here:
        return ""
    return (
        "<ul>"
        + "".join(f"<li>{_entry(agent)}{_tree(agents, agent.id)}</li>" for agent in here)
        + "</ul>"
    )


def _entry(agent: Agent) -> str:
    how = (
        ""
        if agent.parent is None
        else f" {'spawned' if agent.spawned else 'forked'} at {agent.born_seq}"
    )
    events = count(agent.listed_head, "event")
    return f'<a href="#{escape(agent.id)}">{_text(agent.name)}</a>{how}, {events}'


def _section(agent: Agent, at: int | None) -> Iterator[str]:
    where = "" if at is None else f" at {at}"
    yield f'<section id="{escape(agent.id)}"><h2>{_text(agent.name)}{where}</h2>'
    told = agent.explain(after=agent.fork_seq if agent.parent else 0, until=at, at=at)
    for live, run in groupby(told, key=lambda one: one[1].live or one[0].kind == "clear"):
        events = list(run)
        if live:
            yield from (part for event, _ in events for part in _event(event))
        else:
            yield from _left(events)
    yield "</section>"


def _left(run: list[tuple[Event, Explanation]]) -> Iterator[str]:
    """An abandoned branch, folded."""
    spoken = [event for event, _ in run if event.kind in MESSAGE_KINDS]
    if spoken:
        yield f'<details class="left"><summary>left behind: {count(len(spoken), "message")}</summary>'
        yield from (part for event in spoken for part in _event(event))
        yield "</details>"


def _event(event: Event) -> Iterator[str]:
    if event.kind == "clear":
        yield "<hr>"
    if event.kind not in MESSAGE_KINDS:
        return
    head = f"<h3>{event.seq} {event.kind} · {clock(event.created_at)}</h3>"
    text = f"<pre>{_text(body(event))}</pre>"
    if event.kind == "tool_result":
        size = count(len(event.content or ""), "character")
        text = f"<details><summary>result, {size}</summary>{text}</details>"
    yield f'<article class="{event.kind}">{head}{text}</article>'


def _text(text: str) -> str:
    return escape(visible(text), quote=True)
