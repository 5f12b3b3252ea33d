"""Random histories with rewinds, drafts, compactions and clears, as a plain tree.

A story knows what its contexts are by the plainest means. The tests write it in each format's own grammar and
compare what comes back.
"""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# A story is made from a seed, so that one number is all that a failure needs.
seeds = st.integers(0, 2**32)
tree = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass
class Call:
    id: str
    name: str
    arguments: dict
    output: str | None  # None: it never came to a result
    error: bool = False


@dataclass
class Turn:
    """A node: a prompt, an answer, a compaction or a clear."""

    kind: str
    number: int
    parent: "Turn | None"
    text: str = ""
    thought: str = ""
    calls: list[Call] = field(default_factory=list)
    kept: list["Turn"] = field(default_factory=list)

    def said(self):
        """What this turn puts into a context."""
        match self.kind:
            case "prompt":
                return [("user", self.text)]
            case "compaction":
                return [("user", self.text), *(line for turn in self.kept for line in turn.said())]
            case "clear":
                return []
        spoken = [("assistant", self.text)] if self.text or not self.calls else []
        calls = [("call", call.id) for call in self.calls]
        return (
            spoken
            + calls
            + [("result", c.id, c.output) for c in self.calls if c.output is not None]
        )

    def way(self):
        """The turns from the beginning to this one."""
        return [*(self.parent.way() if self.parent else []), self]

    def context(self):
        """What the model sees behind this turn."""
        live = []
        for turn in self.way():
            live = (live if turn.kind not in ("compaction", "clear") else []) + turn.said()
        return live


WORDS = "the build test broke parser café naïve 日本 🙂 fix why retry socket \u2028 'quoted' \"so\" \\ tab\t"


class Story:
    """Turns in the order in which they happened; the last one is where the tool would go on."""

    def __init__(self, random, *, length=12, rewinds="anywhere", cuts=("compaction", "clear")):
        self.random = random
        self.turns = []
        self.leaf = None
        self._cuts = cuts
        for _ in range(random.randint(1, length)):
            if rewinds and self.turns and random.random() < 0.2:
                self.leaf = self._earlier(rewinds)
            self._exchange()

    def _earlier(self, rewinds):
        """Before some prompt: any, or one of the line that is live, behind its last cut."""
        turns = self.turns if rewinds == "anywhere" or self.leaf is None else self._since_cut()
        places = [turn.parent for turn in turns if turn.kind == "prompt"]
        return self.random.choice(places) if places else self.leaf

    def _add(self, turn):
        self.turns.append(turn)
        self.leaf = turn
        return turn

    def _exchange(self):
        if self._cuts and self.leaf is not None and self.random.random() < 0.12:
            self._cut(self.random.choice(self._cuts))
        self._add(Turn("prompt", len(self.turns), self.leaf, self.text("p")))
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            self._add(self._answer())

    def _cut(self, kind):
        turn = Turn(kind, len(self.turns), self.leaf)
        if kind == "compaction":
            turn.text = self.text("s")
            whole = [t for t in self._since_cut() if t.kind in ("prompt", "answer")]
            turn.kept = whole[len(whole) - self.random.randint(0, min(3, len(whole))) :]
        self._add(turn)

    def _since_cut(self):
        way = self.leaf.way()
        starts = [n for n, turn in enumerate(way) if turn.kind in ("compaction", "clear")]
        return way[starts[-1] + 1 :] if starts else way

    def _answer(self):
        number = len(self.turns)
        calls = [self._call(number, n) for n in range(self.random.choice([0, 0, 1, 1, 2, 3]))]
        text = self.text("a") if not calls or self.random.random() < 0.5 else ""
        thought = self.text("t") if self.random.random() < 0.5 else ""
        return Turn("answer", number, self.leaf, text, thought, calls)

    def _call(self, number, n):
        id = f"call_{number:03}_{n}"
        output = None if self.random.random() < 0.1 else self.text("r")
        return Call(
            id, self.random.choice(["read", "edit"]), {"path": self.text("f")}, output, n == 2
        )

    def text(self, mark):
        """Words that no other text of the story has."""
        words = " ".join(self.random.choices(WORDS.split(" "), k=self.random.randint(1, 6)))
        return f"{mark}{self.random.randrange(10**9)} {words}"

    def everything(self):
        """All that was ever said, live or not, copies left out."""
        summaries = [("user", turn.text) for turn in self.turns if turn.kind == "compaction"]
        return summaries + [
            line for turn in self.turns if turn.kind != "compaction" for line in turn.said()
        ]
