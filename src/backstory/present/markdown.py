"""A context as Markdown, for people."""

from collections.abc import Iterator

from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.present.event_text import body
from backstory.present.measures import clock
from backstory.present.safe_text import visible
from backstory.references import Reference


def written(found: Reference) -> str:
    """The page."""
    return "".join(_parts(found))


def _parts(found: Reference) -> Iterator[str]:
    agent, at, _ = found
    context = agent.context(at)
    yield f"# {visible(agent.name)}\n\nThe context at position {context.at}, agent `{agent.id}`.\n"
    for event in context.messages:
        if KINDS[event.kind].is_message:
            yield f"\n## {event.seq} {event.kind} ({clock(event.created_at)})\n\n{_text(event)}\n"


def _text(event: Event) -> str:
    """The text of an event. People and models write Markdown; calls and results do not, and are fenced."""
    text = visible(body(event))
    if event.kind not in ("tool_call", "tool_result"):
        return text
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
