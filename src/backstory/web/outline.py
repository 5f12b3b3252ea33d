"""The outline of an agent: what a page needs of every event to know what is live where. No texts.

A frame says which positions there are, whose they are, and which of them are moves. Blocks have
the columns of some events. The page asks for the frame and the newest block first.
"""

from typing import Any

from backstory.agent import Agent
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event, OutlineRow
from backstory.log.kinds import ANSWER_KINDS, MESSAGE_KINDS
from backstory.log.messages import read_call, read_result
from backstory.log.settings import SETTINGS, read_settings
from backstory.present.usage import find_model, read_usage
from backstory.wire import FORMATS
from backstory.wire.tokens import estimate_request, estimate_tokens

EVENTS_PER_READ = 5_000
MOST_EVENTS = 100_000  # of one block
BACK = 1_000  # events before a block in which the calls of its first results are looked for
LOOKED_BACK = 40  # messages in which the last answer is looked for
SECOND = 1_000_000
FORMATS_BY_MODEL_PREFIX = {
    "claude": "anthropic",
    "gemini": "gemini",
    "gpt": "openai",
    "o": "openai",
}
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
        for start, format in FORMATS_BY_MODEL_PREFIX.items():
            if model.startswith(start):
                return format
    return FORMATS[0]


def build_block(agent: Agent, after: int, until: int) -> dict[str, Any]:
    """Return the columns of the events after a position, up to another."""
    until = min(until, after + MOST_EVENTS, agent.head)
    block = OutlineBlock(agent, after)
    for low in range(after, until, EVENTS_PER_READ):
        block.add_page(low, min(low + EVENTS_PER_READ, until))
    return {
        "after": after,
        "kinds": "".join(block.kinds),
        "tokens": block.tokens,
        "times": block.times,
        "compactions": block.compactions.find_pairs(agent),
        "marks": block.marks,
        "errors": block.errors,
        "calls": block.calls.pairs,
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
        self.calls = CallFinder()
        self.compactions = CompactionFinder()
        self.reads: list[tuple[int, int]] = []  # answers, and what providers counted before them
        self._second = 0
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
        self.compactions.add(row)
        letter = LETTERS.get(row.kind, UNKNOWN)
        tokens = 0
        if event is not None:
            tokens = estimate_tokens(event, self._model)
            if row.kind == "user" and event.data and "meta" in event.data:
                letter = INPUT
            self._look_into(event)
        self.kinds.append(letter)
        self.tokens.append(tokens)

    def _look_back(self, low: int, after: int) -> None:
        """Read what the first events depend on: calls of results, and a clear."""
        for event in self._agent.events(after=low, until=after, kinds=("tool_call", "tool_result")):
            self.calls.skip(event)
        for row in self._agent.outline(low, after):
            self.compactions.skip(row)

    def _look_into(self, event: Event) -> None:
        """Find labels, failures, pairs of call and result, and what providers counted."""
        self.calls.add(event)
        if event.kind == "mark":
            self.marks.append((event.seq, event.label))
        if event.kind == "tool_result" and read_result(None, event.data).error:
            self.errors.append(event.seq)
        tokens = find_tokens_read(event)
        if tokens:
            self.reads.append((event.seq, tokens))


class CallFinder:
    """Finds the call that each result answers. A call has one result."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []
        self._open_calls: dict[str, int] = {}

    def add(self, event: Event) -> None:
        """Read an event of the block."""
        call = self.skip(event)
        if call is not None:
            self.pairs.append((call, event.seq))

    def skip(self, event: Event) -> int | None:
        """Read an event, and return the position of the call that it answers."""
        if event.kind == "tool_call":
            id = read_call(event.data).id
            if isinstance(id, str):
                self._open_calls[id] = event.seq
        if event.kind == "tool_result":
            id = read_result(None, event.data).id
            if isinstance(id, str):
                return self._open_calls.pop(id, None)
        return None


class CompactionFinder:
    """Finds the clears that a summary follows. The first user message after a clear may be one."""

    def __init__(self) -> None:
        self._clear = 0  # the last clear, until a user message comes
        self._clears: dict[int, int] = {}  # by the user message after it

    def add(self, row: OutlineRow) -> None:
        """Read an event of the block."""
        if self._clear and row.kind == "user":
            self._clears[row.seq] = self._clear
        self.skip(row)

    def skip(self, row: OutlineRow) -> None:
        """Read an event before the block."""
        if row.kind == "clear":
            self._clear = row.seq
        elif row.kind == "user":
            self._clear = 0

    def find_pairs(self, agent: Agent) -> list[tuple[int, int]]:
        """Return the clears that belong to a compaction, each with its summary."""
        pairs = []
        events = agent.events(self._clears) if self._clears else []
        for event in events:
            if any(name in (event.data or {}) for name in SUMMARIES):
                pairs.append((self._clears[event.seq], event.seq))
        return pairs


def find_tokens_read(event: Event) -> int:
    """Return how many tokens the provider counted before an answer, whose first event has its
    usage; 0 if it is not known."""
    if event.kind not in ANSWER_KINDS:
        return 0
    usage = read_usage(event.data)
    return usage.read if usage else 0
