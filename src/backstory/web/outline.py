"""An agent's outline: what a page needs of every event to know by itself what is live where. No texts.

Columns behind a position, as small as they can be: a letter for each kind, sizes, seconds between events, and
of the rest only the places where there is something.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.agent import Agent
from backstory.core.compaction import COMPACTED
from backstory.core.events import Event, parse_object
from backstory.core.kinds import TOOL_KINDS
from backstory.core.messages import tool_call, tool_result
from backstory.core.outline import OutlineRow
from backstory.store import Store

PAGE = 5_000  # events read at a time for what their data says
LETTERS = {
    "system": "s",
    "user": "u",
    "assistant": "a",
    "tool_call": "c",
    "tool_result": "r",
    "mark": "m",
    "note": "n",
    "clear": "x",
    "rewind": "w",
    "jump": "j",
}
UNKNOWN = "?"
SUMMARIES = (COMPACTED, "compaction")  # what the data of a summary has: ours, and one that an importer found


def outline_json(store: Store, agent: Agent, after: int) -> dict[str, Any]:
    """The columns of the events behind a position, and whose they are."""
    rows = agent.outline(after)
    marks = {row.seq for row in rows if row.kind == "mark"}
    return {
        "head": rows[-1].seq if rows else after,
        "after": after,
        "pieces": _pieces(store, agent),
        "kinds": "".join(LETTERS.get(row.kind, UNKNOWN) for row in rows),
        "bytes": [row.size for row in rows],
        "times": _differences(row.created_us // 1_000_000 for row in rows),
        "bases": [[row.seq, row.base] for row in rows if row.base is not None],
        "compactions": _compactions(agent, rows),
        "marks": [[event.seq, event.label] for event in agent.read(marks)] if marks else [],
        **_tools(_tool_events(agent, rows)),
    }


def _tool_events(agent: Agent, rows: list[OutlineRow]) -> Iterator[Event]:
    """The calls and results among some rows, read page by page."""
    for start in range(0, len(rows), PAGE):
        page = rows[start : start + PAGE]
        if any(row.kind in TOOL_KINDS for row in page):
            events = agent.events(after=page[0].seq - 1, until=page[-1].seq)
            yield from (event for event in events if event.kind in TOOL_KINDS)


def _compactions(agent: Agent, rows: list[OutlineRow]) -> list[list[int]]:
    """The clears that belong to a compaction, each with its summary: the next message of a user."""
    summaries: dict[int, int] = {}
    clear = 0
    for row in rows:
        if row.kind == "clear":
            clear = row.seq
        elif clear and row.kind == "user":
            summaries[row.seq], clear = clear, 0
    events = agent.read(summaries) if summaries else []
    marked = (event for event in events if any(name in (event.data or {}) for name in SUMMARIES))
    return [[summaries[event.seq], event.seq] for event in marked]


def _pieces(store: Store, agent: Agent) -> list[list[Any]]:
    ids = {one.snapshot.pk: one.id for one in store.agents(session=agent.session)}
    lineage = agent._log.backend.lineage(agent.snapshot)
    return [[ids[piece.owner], piece.low, piece.high] for piece in lineage]


def _differences(values: Iterable[int]) -> list[int]:
    """The first value, then how much each is above the one before."""
    found, before = [], 0
    for value in values:
        found.append(value - before)
        before = value
    return found


def _tools(events: Iterable[Event]) -> dict[str, Any]:
    """Which results failed, and which result answers which call."""
    errors, calls = [], []
    open_calls: dict[Any, int] = {}
    for event in events:
        if event.kind == "tool_call":
            open_calls[_hashable(tool_call(parse_object(event.data_json)).id)] = event.seq
        elif event.kind == "tool_result":
            result = tool_result(event.content, parse_object(event.data_json))
            if result.error:
                errors.append(event.seq)
            call = open_calls.pop(_hashable(result.id), None)
            if call is not None:
                calls.append([call, event.seq])
    return {"errors": errors, "calls": calls}


def _hashable(id: Any) -> str | None:
    return id if isinstance(id, str) else None
