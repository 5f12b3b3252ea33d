"""The provenance of files that backstory exported: which agent they came from, so that they add nothing.

The first record says it, in a field that no tool looks at. Pure.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from backstory.log.events import Event
from backstory.transcripts.transcript import Unit

PROVENANCE = "backstory"


def provenance(agent: str, at: int, digest: str) -> dict[str, Any]:
    """The provenance of a context; how many lines the file has is added when it is whole."""
    return {"agent": agent, "at": at, "digest": digest, "lines": 0}


def provenance_in(record: Any) -> dict[str, Any]:
    """The provenance in a record, under the name that it has in what is known of a thread."""
    match record:
        case {"backstory": {"agent": str(), "at": int(), "digest": str(), "lines": int()} as found}:
            return {PROVENANCE: found}
    return {}


class Exported:
    """The events of a context in the order in which its file tells them."""

    def __init__(self, events: Iterable[Event], lines: int, at: int) -> None:
        self._lines = lines
        self.at = at  # where the context ended
        self._waiting: dict[tuple[str, Any], deque[int]] = {}
        self._last = 0
        for event in events:
            self._waiting.setdefault(_likeness(event.kind, event.data), deque()).append(event.seq)

    def places(self, unit: Unit) -> dict[str, int]:
        """The positions of a unit's entries, if the unit was exported."""
        found = {}
        for entry in unit.entries if unit.line <= self._lines else ():
            places = self._waiting.get(_likeness(entry.kind, entry.data))
            self._last = places.popleft() if places else self._last
            found[entry.id] = self._last
        return found


def _likeness(kind: str, data: dict[str, Any] | None) -> tuple[str, Any]:
    is_tool = kind in ("tool_call", "tool_result")
    return kind, (data or {}).get("id") if is_tool else None
