"""A context as Markdown, for people."""

from collections.abc import Iterator

from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.present.event_text import body
from backstory.present.text import clock, visible
from backstory.references import Reference


def build_document(found: Reference) -> str:
    """Return the context as one document."""
    return "".join(_build_parts(found))


def _build_parts(found: Reference) -> Iterator[str]:
    agent, at, _ = found
    context = agent.context(at)
    yield f"# {visible(agent.name)}\n\nThe context at position {context.at}, agent `{agent.id}`.\n"
    for event in context.messages:
        if KINDS[event.kind].is_message:
            heading = f"## {event.seq} {event.kind} ({clock(event.created_at)})"
            yield f"\n{heading}\n\n{_build_text(event)}\n"


def _build_text(event: Event) -> str:
    """Return the text of an event. Calls and results are fenced, because they are no Markdown."""
    text = visible(body(event))
    if event.kind not in ("tool_call", "tool_result"):
        return text
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
