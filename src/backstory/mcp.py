"""An MCP server over one store: search, sessions, read and context. It only reads.

The SDK handles the protocol; this module has four functions that return text.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from backstory import __version__
from backstory.errors import Error, Invalid
from backstory.log.events import Event
from backstory.present.event_text import gist
from backstory.present.titles import title_of
from backstory.references import Reference
from backstory.store import Store

__all__ = ["server"]

P = ParamSpec("P")

MOST = 200  # rows of one answer
LONGEST = 4_000  # characters of one event, unless it is read alone
INSTRUCTIONS = (
    "Past conversations with language models, from several tools. Search them or list the sessions, then "
    "read by reference: NAME or ID, with @POSITION for an earlier moment."
)


def server(store: Store) -> MCPServer[None]:
    """The server; `run()` serves on standard input and output."""
    histories = Histories(store)
    made: MCPServer[None] = MCPServer(
        "backstory", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    for tool in (histories.search, histories.sessions, histories.read, histories.context):
        made.tool()(_with_clear_errors(tool))
    return made


def _with_clear_errors(tool: Callable[P, str]) -> Callable[P, str]:
    """The function, with errors that the client can read."""

    @wraps(tool)
    def run(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return tool(*args, **kwargs)
        except Error as error:
            raise ToolError(str(error)) from error

    return run


class Histories:
    """What a client can ask."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(self, query: str, limit: int = 20) -> str:
        """Find words in all conversations. Each line: REFERENCE, kind, and an excerpt."""
        hits = self._store.search(query, limit=_rows(limit))
        titled = [
            f"{agent.id}\ttitle\t{_line(agent.about.get('title') or '')}" for agent in hits.titled
        ]
        lines = [
            f"{hit.agent.id}@{hit.event.seq}\t{hit.event.kind}\t{_line(hit.snippet)}"
            for hit in hits
        ]
        if hits.missing:
            lines.append(f"({hits.missing} events could not be searched)")
        return "\n".join(titled + lines) or "nothing was found"

    def sessions(self, limit: int = 20) -> str:
        """List the conversations, latest first. Each line: ID, time of the last event, number of events,
        title."""
        lines = []
        for one in self._store.sessions(order="updated", limit=_rows(limit)):
            oldest = self._store.agents(session=one.id, limit=1)  # the root may have been deleted
            title = (title_of(oldest[0]) if oldest else "") or one.name
            lines.append(f"{one.id}\t{one.updated_at:%Y-%m-%d %H:%M}\t{one.events}\t{title}")
        return "\n".join(lines) or "there are no sessions"

    def read(self, reference: str, after: int = 0, limit: int = 50) -> str:
        """Read a conversation event by event, dead branches included: its first events, or those after the
        position `after`. With REFERENCE@POSITION, that one event in full."""
        found = self._resolved(reference)
        if isinstance(found.at, int) and found.at > 0:
            return _shown(found.agent.event(found.at), longest=None)
        until = min(found.agent.head, after + _rows(limit))
        events = found.agent.events(after=after, until=until) if until > after else []
        more = found.agent.head - until
        rest = [f"({more} more: read on with after={until})"] if more > 0 else []
        return "\n".join([*(_shown(event) for event in events), *rest]) or "there are no events"

    def context(self, reference: str) -> str:
        """What the model saw at the end of a conversation, or at REFERENCE@POSITION."""
        found = self._resolved(reference)
        messages = found.agent.messages(found.at)
        return "\n".join(_shown(event) for event in messages) or "the context is empty"

    def _resolved(self, reference: str) -> Reference:
        if not reference.strip():
            raise Invalid(
                "which conversation?", remedy="pass a name or an id, as sessions lists them"
            )
        return self._store.resolve(reference)


def _rows(limit: int) -> int:
    return max(1, min(limit, MOST))


def _line(text: str) -> str:
    return " ".join(text.split())


def _shown(event: Event, longest: int | None = LONGEST) -> str:
    text = event.content or gist(event)
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}… ({len(text) - longest} more characters: read @{event.seq} alone)"
    return f"[{event.seq}] {event.kind}: {text}"
