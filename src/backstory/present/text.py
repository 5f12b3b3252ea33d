"""How things are put into words and into JSON: events, agents, times and numbers.

Shapes of JSON are a contract, listed in docs/cli.md. No output happens here.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from backstory.agent import Agent
from backstory.core.events import Event, to_datetime, to_json
from backstory.core.messages import tool_call, tool_result
from backstory.core.replay import Explanation
from backstory.present.safe_text import one_line

SHORTEST_ID = 8

STYLES = {
    "system": "bold",
    "user": "green",
    "assistant": "cyan",
    "tool_call": "magenta",
    "tool_result": "blue",
    "mark": "bold",
    "clear": "red",
    "rewind": "red",
    "jump": "red",
}


def gist(event: Event) -> str:
    """What an event says, on one line, of any length."""
    return one_line(_said(event)) + _extra(event)


def _said(event: Event) -> str:
    data = event.data or {}
    match event.kind:
        case "tool_call":
            call = tool_call(data)
            arguments = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
            return f"{call.name}({arguments})" + (f" {event.content}" if event.content else "")
        case "mark":
            return event.label if event.label is not None else "(no label)"
        case "rewind" | "jump":
            return f"to {data.get('target_message_id', '?')}"
        case "clear":
            return "the context is empty from here"
    return event.content or ""


def _extra(event: Event) -> str:
    failed = event.kind == "tool_result" and tool_result(event.content, event.data).error
    return " (error)" if failed else ""


def body(event: Event) -> str:
    """What an event says, in full, for reading."""
    text = event.content if event.content is not None and event.kind != "tool_call" else _said(event)
    return text + _extra(event)


def event_json(event: Event, explanation: Explanation | None = None) -> dict[str, Any]:
    """The JSON of an event."""
    found: dict[str, Any] = {
        "seq": event.seq,
        "kind": event.kind,
        "content": event.content,
        "data": event.data,
        "created_at": stamp(event.created_at),
    }
    if explanation:
        found |= {"status": explanation.status, "by": explanation.by}
    return found


def agent_json(agent: Agent, marks: Sequence[Event] | None = None) -> dict[str, Any]:
    """The JSON of an agent."""
    record = agent.record
    found: dict[str, Any] = {
        "id": agent.id,
        "name": agent.name,
        "session": agent.session,
        "parent": agent.parent,
        "fork_seq": agent.fork_seq,
        "born_seq": agent.born_seq,
        "spawned": agent.spawned,
        "head": record.head,
        "created_at": stamp(agent.created_at),
        "updated_at": stamp(to_datetime(record.updated_us)),
    }
    if marks is not None:
        found["marks"] = [{"seq": mark.seq, "label": mark.label} for mark in marks]
    return found


def stamp(moment: datetime) -> str:
    """A time for programs: ISO 8601 in UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(moment: datetime) -> str:
    """A time for people, in their own time zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


_UNITS = ((31_557_600, "y"), (2_629_800, "mo"), (604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))


def age(moment: datetime) -> str:
    """How long ago a time is, in one unit."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def count(number: int, thing: str) -> str:
    """A number of things, in the right number."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """A number of bytes for people."""
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest beginning of each id that no other one has."""
    ordered = sorted(ids)
    needed = dict.fromkeys(ordered, SHORTEST_ID)
    for one, other in pairwise(ordered):
        shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        needed[one] = max(needed[one], shared + 1)
        needed[other] = max(needed[other], shared + 1)
    return {id: id[:length].rstrip("-") for id, length in needed.items()}
