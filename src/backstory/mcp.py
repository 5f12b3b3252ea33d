"""An MCP server over one store: search, sessions, read and context. It only reads.

The SDK handles the protocol; this module has four functions that return text.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from backstory import __version__
from backstory.errors import Error, Invalid
from backstory.log.events import Event
from backstory.present.agent_lists import title_of
from backstory.present.event_text import gist
from backstory.references import Reference
from backstory.store import Store

__all__ = ["server"]

P = ParamSpec("P")

MOST_ROWS = 200  # of one answer
LONGEST = 4_000  # characters of one event, unless it is read alone
INSTRUCTIONS = (
    "Past conversations with language models, from several tools. Search them or list the sessions,"
    " then read by reference: NAME or ID, with @POSITION for an earlier moment."
)


def server(store: Store) -> MCPServer[None]:
    """Return the server. Its method `run` serves on standard input and output."""
    histories = Histories(store)
    made: MCPServer[None] = MCPServer(
        "backstory", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    for tool in (histories.search, histories.sessions, histories.read, histories.context):
        made.tool(annotations=ToolAnnotations(read_only_hint=True))(_raise_tool_errors(tool))
    return made


def _raise_tool_errors(tool: Callable[P, str]) -> Callable[P, str]:
    """Return the function with errors that the client can read."""

    @wraps(tool)
    def run(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return tool(*args, **kwargs)
        except Error as error:
            raise ToolError(str(error)) from error

    return run


class Histories:
    """The tools of the server. Their docstrings are read by models."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(self, query: str, limit: int = 20) -> str:
        """Find words in all conversations. Each line: REFERENCE, kind, and an excerpt."""
        hits = self._store.search(query, limit=_limit_rows(limit))
        lines = []
        for agent in hits.titled:
            lines.append(f"{agent.id}\ttitle\t{_join_lines(agent.about.get('title') or '')}")
        for hit in hits:
            ref = f"{hit.agent.id}@{hit.event.seq}"
            lines.append(f"{ref}\t{hit.event.kind}\t{_join_lines(hit.snippet)}")
        if hits.missing:
            lines.append(f"({hits.missing} events could not be searched)")
        return "\n".join(lines) or "nothing was found"

    def sessions(self, limit: int = 20) -> str:
        """List the conversations, latest first. Each line: ID, time of the last event, number of
        events, title."""
        lines = []
        for session in self._store.sessions(order="updated", limit=_limit_rows(limit)):
            # The root may have been deleted.
            oldest = self._store.agents(session=session.id, limit=1)
            title = (title_of(oldest[0]) if oldest else "") or session.name
            updated = f"{session.updated_at:%Y-%m-%d %H:%M}"
            lines.append(f"{session.id}\t{updated}\t{session.events}\t{title}")
        return "\n".join(lines) or "there are no sessions"

    def read(self, reference: str, after: int = 0, limit: int = 50) -> str:
        """Read a conversation event by event, dead branches included: its first events, or those
        after the position `after`. With REFERENCE@POSITION, that one event in full."""
        found = self._resolve(reference)
        if found.at is not None and found.at > 0:
            [event] = found.agent.events([found.at])
            return _show_event(event, longest=None)
        until = min(found.agent.head, after + _limit_rows(limit))
        lines = []
        if until > after:
            lines += [_show_event(event) for event in found.agent.events(after=after, until=until)]
        more = found.agent.head - until
        if more > 0:
            lines.append(f"({more} more: read on with after={until})")
        return "\n".join(lines) or "there are no events"

    def context(self, reference: str) -> str:
        """Return what the model saw at the end of a conversation, or at REFERENCE@POSITION."""
        found = self._resolve(reference)
        lines = [_show_event(event) for event in found.agent.messages(found.at)]
        return "\n".join(lines) or "the context is empty"

    def _resolve(self, reference: str) -> Reference:
        if not reference.strip():
            raise Invalid(
                "which conversation?", remedy="pass a name or an id, as sessions lists them"
            )
        return self._store.resolve(reference)


def _limit_rows(limit: int) -> int:
    return max(1, min(limit, MOST_ROWS))


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _show_event(event: Event, longest: int | None = LONGEST) -> str:
    text = event.content or gist(event)
    if longest is not None and len(text) > longest:
        more = len(text) - longest
        text = f"{text[:longest]}… ({more} more characters: read @{event.seq} alone)"
    return f"[{event.seq}] {event.kind}: {text}"
