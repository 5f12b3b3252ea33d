"""The outline of an agent: what a page needs of every event to know what is live where. No texts.

A frame says which positions there are, whose they are, and which of them are moves. Blocks have
the columns of some events. The page asks for the frame and the newest block first.
"""

from typing import Any

from backstory.agent import Agent
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event, OutlineRow
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.messages import read_call, read_result
from backstory.log.settings import SETTINGS, read_settings
from backstory.present.usage import find_model, read_usage
from backstory.wire import FORMATS
from backstory.wire.tokens import estimate_request, estimate_tokens

PAGE = 5_000  # events that are read at a time
MOST_EVENTS = 100_000  # of one block
BACK = 1_000  # events before a block in which the calls of its first results are looked for
LOOKED_BACK = 40  # messages in which the last answer is looked for
SECOND = 1_000_000
FORMATS_BY_MODEL = {"claude": "anthropic", "gemini": "gemini", "gpt": "openai", "o": "openai"}
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
INPUT = "i"  # a user event that nobody typed, as importers mark it
UNKNOWN = "?"
READ_KINDS = (*MESSAGE_KINDS, "mark")
# What the data of a summary have: ours, and one that an importer found.
SUMMARIES = (COMPACTED, "compaction")
ANSWERS = ("assistant", "tool_call")  # the first event of an answer has its usage


def build_frame(agent: Agent, after: int = 0) -> dict[str, Any]:
    """Return head, pieces and moves: enough to know what is live. `after` leaves out the moves that
    the page knows."""
    lineage = agent.lineage()
    settings = read_settings(note.data for note in agent.notes(SETTINGS))
    moves = [[seq, base] for seq, base, _ in agent.moves() if seq > after]
    return {
        "head": lineage[-1].last,
        "after": after,
        "pieces": [list(part) for part in lineage],
        "moves": moves,
        "request": estimate_request(settings.model, settings.tools),
        "format": find_format(agent),
    }


def find_format(agent: Agent) -> str:
    """Return the request format of the provider that answered last."""
    for event in reversed(agent.messages(limit=LOOKED_BACK)):
        data = event.data or {}
        native = data.get("native")
        provider = native.get("provider") if isinstance(native, dict) else None
        if provider in FORMATS:
            return str(provider)
        model = find_model(data) or ""
        for start, format in FORMATS_BY_MODEL.items():
            if model.startswith(start):
                return format
    return FORMATS[0]


def build_block(agent: Agent, after: int, until: int) -> dict[str, Any]:
    """Return the columns of the events after a position, up to another."""
    until = min(until, after + MOST_EVENTS, agent.head)
    block = OutlineBlock(agent, after)
    for low in range(after, until, PAGE):
        block.add_page(low, min(low + PAGE, until))
    return {
        "after": after,
        "kinds": "".join(block.kinds),
        "tokens": block.tokens,
        "times": block.times,
        "compactions": block.find_compactions(),
        "marks": block.marks,
        "errors": block.errors,
        "calls": block.calls,
        "reads": block.reads,
    }


class OutlineBlock:
    """The columns of some events, which grow page by page."""

    def __init__(self, agent: Agent, after: int) -> None:
        self._agent = agent
        self._model = read_settings(note.data for note in agent.notes(SETTINGS)).model
        self.kinds: list[str] = []
        self.tokens: list[int] = []
        self.times: list[int] = []  # seconds since the event before; the first since 1970
        self.errors: list[int] = []
        self.marks: list[tuple[int, str | None]] = []
        self.calls: list[tuple[int, int]] = []  # each call with its result
        self.reads: list[tuple[int, int]] = []  # answers, and what providers counted before them
        self._second = 0
        self._clear = 0
        self._summaries: dict[int, int] = {}  # user messages after clears: perhaps summaries
        self._open_calls: dict[str, int] = {}
        if after:
            self._look_back(max(0, after - BACK), after)

    def add_page(self, after: int, until: int) -> None:
        """Add the events after a position, up to another."""
        events = self._agent.events(after=after, until=until, kinds=READ_KINDS)
        by_position = {event.seq: event for event in events}
        for row in self._agent.outline(after, until):
            self._add(row, by_position.get(row.seq))

    def _add(self, row: OutlineRow, event: Event | None) -> None:
        second = row.created_us // SECOND
        self.times.append(second - self._second)
        self._second = second
        self._look_for_summary(row)
        letter = LETTERS.get(row.kind, UNKNOWN)
        tokens = 0
        if event is not None:
            tokens = estimate_tokens(event, self._model)
            if row.kind == "user" and event.data and "meta" in event.data:
                letter = INPUT
            self._look_into(event)
        self.kinds.append(letter)
        self.tokens.append(tokens)

    def find_compactions(self) -> list[list[int]]:
        """Return the clears that belong to a compaction, each with its summary."""
        events = self._agent.events(self._summaries) if self._summaries else []
        found = []
        for event in events:
            if any(name in (event.data or {}) for name in SUMMARIES):
                found.append([self._summaries[event.seq], event.seq])
        return found

    def _look_back(self, low: int, after: int) -> None:
        """Look for what the first events depend on: calls of results, and a clear."""
        for event in self._agent.events(after=low, until=after, kinds=("tool_call", "tool_result")):
            if event.kind == "tool_call":
                self._open_call(event)
            else:
                self._close_call(read_result(None, event.data).id)
        for row in self._agent.outline(low, after):
            self._look_for_summary(row)
        self._summaries.clear()

    def _look_for_summary(self, row: OutlineRow) -> None:
        if row.kind == "clear":
            self._clear = row.seq
        elif self._clear and row.kind == "user":
            self._summaries[row.seq] = self._clear
            self._clear = 0

    def _look_into(self, event: Event) -> None:
        """Find labels, failures, pairs of call and result, and what providers counted."""
        if event.kind == "mark":
            self.marks.append((event.seq, event.label))
        elif event.kind == "tool_result":
            result = read_result(None, event.data)
            if result.error:
                self.errors.append(event.seq)
            call = self._close_call(result.id)
            if call is not None:
                self.calls.append((call, event.seq))
        if event.kind == "tool_call":
            self._open_call(event)
        if event.kind in ANSWERS:
            usage = read_usage(event.data)
            if usage is not None and usage.read:
                self.reads.append((event.seq, usage.read))

    def _open_call(self, event: Event) -> None:
        id = read_call(event.data).id
        if isinstance(id, str):
            self._open_calls[id] = event.seq

    def _close_call(self, id: Any) -> int | None:
        """Return the position of the call that a result answers. It has no other result."""
        return self._open_calls.pop(id, None) if isinstance(id, str) else None
