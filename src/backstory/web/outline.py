"""An agent's outline: what a page needs of every event to know by itself what is live where. No texts.

Columns behind a position, as small as they can be: a letter for each kind, tokens, seconds between events, and
of the rest only the places where there is something. It is read in pages, so that a million events are never
in memory as objects.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from backstory.agent import Agent
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event, OutlineRow, parse_object
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.messages import read_call, read_result
from backstory.log.settings import SETTINGS, Settings, read_settings
from backstory.wire.tokens import estimate_request, estimate_tokens

PAGE = 5_000  # events that are read at a time
BACK = 1_000  # events before an outline in which the calls of its first results are looked for
SECOND = 1_000_000


class Letters(dict[str, str]):
    """The letter of each kind; kinds that are not known share one."""

    def __missing__(self, kind: str) -> str:
        return "?"


LETTERS = Letters(
    system="s",
    user="u",
    assistant="a",
    tool_call="c",
    tool_result="r",
    mark="m",
    note="n",
    clear="x",
    rewind="w",
    jump="j",
)
TELLING = ("tool_call", "tool_result", "mark")  # kinds whose data the outline looks into
READ = (*MESSAGE_KINDS, "mark")  # kinds that are read
SUMMARIES = (
    COMPACTED,
    "compaction",
)  # what the data of a summary has: ours, and one that an importer found


def outline_json(agent: Agent, after: int, limit: int | None = None) -> dict[str, Any]:
    """The columns of the events behind a position, of `limit` at most, and whose they are. `last` is the
    agent's head, which is beyond `head` if the outline goes on."""
    lineage = agent.lineage()
    last = lineage[-1].last
    if after > last:
        agent.event(after)  # it says that there is no such position
    until = last if limit is None else min(last, after + limit)
    outline = _Outline(agent, after)
    for page in _pages(agent, after, until):
        outline.add(page)
    return {
        "head": max(until, after),
        "last": last,
        "after": after,
        "pieces": [list(part) for part in lineage],
        "kinds": "".join(outline.kinds),
        "tokens": outline.tokens,
        "request": estimate_request(outline.settings.model, outline.settings.tools),
        "times": outline.times,
        "bases": outline.bases,
        "compactions": outline.compactions(),
        "marks": outline.marks,
        "errors": outline.errors,
        "calls": outline.calls,
    }


class _Outline:
    """The columns, which grow page by page."""

    def __init__(self, agent: Agent, after: int) -> None:
        self._agent = agent
        self.settings = find_settings(agent)
        self.kinds: list[str] = []
        self.tokens: list[int] = []
        self.times: list[int] = []
        self.errors: list[int] = []
        # Tuples: Python's garbage collector soon stops looking at those that hold numbers.
        self.bases: list[tuple[int, int]] = []
        self.marks: list[tuple[int, str | None]] = []
        self.calls: list[tuple[int, int]] = []
        self._second = self._clear = 0
        self._summaries: dict[
            int, int
        ] = {}  # the next message of a user behind a clear: perhaps a summary
        self._open: dict[str, int] = {}  # calls that have no result yet
        if after:
            self._look_back(max(0, after - BACK), after)

    def _look_back(self, low: int, after: int) -> None:
        """What the first events depend on: the calls of results, and a clear that a summary follows."""
        for event in self._data(low, after):
            if event.kind == "tool_call":
                self._call(event.seq, event.data)
            elif event.kind == "tool_result":
                self._called(read_result(None, event.data).id)
        self._look_for_summaries(self._agent.outline(low, after))
        self._summaries.clear()

    def add(self, rows: list[OutlineRow]) -> None:
        """Take in the next page."""
        seqs, kinds, _, times, bases = zip(*rows, strict=True)
        self.kinds.append("".join(map(LETTERS.__getitem__, kinds)))
        events = self._agent.events(after=seqs[0] - 1, until=seqs[-1], kinds=READ)
        self.tokens += estimate_rows(rows, events, self.settings.model)
        seconds = [self._second, *(time // SECOND for time in times)]
        self.times += [later - earlier for earlier, later in pairwise(seconds)]
        self._second = seconds[-1]
        if any(base is not None for base in bases):
            self.bases += ((row.seq, row.base) for row in rows if row.base is not None)
        if self._clear or "clear" in kinds:
            self._look_for_summaries(rows)
        if not set(TELLING).isdisjoint(kinds):
            self._look_into([event for event in events if event.kind in TELLING])

    def compactions(self) -> list[list[int]]:
        """The clears that belong to a compaction, each with its summary."""
        events = self._agent.events(self._summaries) if self._summaries else []
        marked = (
            event for event in events if any(name in (event.data or {}) for name in SUMMARIES)
        )
        return [[self._summaries[event.seq], event.seq] for event in marked]

    def _data(self, after: int, until: int) -> list[Event]:
        return self._agent.events(after=after, until=until, kinds=TELLING)

    def _look_for_summaries(self, rows: list[OutlineRow]) -> None:
        for row in rows:
            if row.kind == "clear":
                self._clear = row.seq
            elif self._clear and row.kind == "user":
                self._summaries[row.seq], self._clear = self._clear, 0

    def _look_into(self, events: list[Event]) -> None:
        """Which results failed, which result answers which call, and what the marks are called."""
        parsed = _parsed([event.data_json for event in events])
        for event, data in zip(events, parsed, strict=True):
            if event.kind == "tool_call":
                self._call(event.seq, data)
            elif event.kind == "tool_result":
                self._result(event.seq, data)
            else:
                label = data.get("label") if isinstance(data, dict) else None
                self.marks.append((event.seq, label if isinstance(label, str) else None))

    def _call(self, seq: int, data: Any) -> None:
        id = read_call(data).id
        if isinstance(id, str):
            self._open[id] = seq

    def _result(self, seq: int, data: Any) -> None:
        result = read_result(None, data)
        if result.error:
            self.errors.append(seq)
        call = self._called(result.id)
        if call is not None:
            self.calls.append((call, seq))

    def _called(self, id: Any) -> int | None:
        """Where the call is that a result answers. It has no other result."""
        return self._open.pop(id, None) if isinstance(id, str) else None


def _parsed(texts: Sequence[str | None]) -> list[Any]:
    """The objects in some texts, parsed as one: a third of the time of one by one. In a damaged store there
    may be texts that are no JSON."""
    try:
        found: list[Any] = json.loads(f"[{','.join(text or 'null' for text in texts)}]")
        if len(found) == len(texts):
            return found
    except (ValueError, RecursionError):
        pass
    return [parse_object(text) for text in texts]


def find_settings(agent: Agent) -> Settings:
    """Return the settings that are in force at the head of an agent."""
    return read_settings(note.data for note in agent.notes(SETTINGS))


def estimate_rows(
    rows: Sequence[OutlineRow], events: Sequence[Event], model: str | None
) -> list[int]:
    """Return the tokens of each row. `events` are those of its kinds in READ; others cost nothing."""
    tokens = {event.seq: estimate_tokens(event, model) for event in events}
    return [tokens.get(row.seq, 0) for row in rows]


def outline_tokens(agent: Agent, head: int) -> Iterator[tuple[OutlineRow, int]]:
    """Yield the rows of an agent's outline up to a position with their tokens, read page by page."""
    model = find_settings(agent).model
    for page in _pages(agent, 0, head):
        events = agent.events(after=page[0].seq - 1, until=page[-1].seq, kinds=MESSAGE_KINDS)
        yield from zip(page, estimate_rows(page, events, model), strict=True)


def _pages(agent: Agent, after: int, until: int) -> Iterator[list[OutlineRow]]:
    for low in range(after, until, PAGE):
        yield agent.outline(low, min(low + PAGE, until))
