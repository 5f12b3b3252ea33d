"""What draws a legal history: turns in their order, unique texts and ids. Each format has its own blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from backstory.wire import FormatName

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
PDF = "JVBERi0xLjQgL1R5cGUgL1BhZ2U="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"
SEAL = "c2VhbGVk"
URL = "https://example.org/a"


MOST_BREAKPOINTS = 4


class History(NamedTuple):
    """One body, whose it is, and whether the service keeps its items."""

    format: FormatName
    model: str
    stored: bool
    body: dict[str, Any]


class Maker:
    """Draws the turns of one history; each format draws its own blocks."""

    format: FormatName
    model = "m1"

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.stored = False
        self.body: dict[str, Any] = {}

    def number(self) -> int:
        """A number that nothing else here has."""
        self.count += 1
        return self.count

    def text(self) -> str:
        """A text that is nowhere else."""
        return self.one_of("words", "Größe 🎈", " padded ", "a\nb") + f" «{self.number()}»"

    def one_of(self, *choices: Any) -> Any:
        """Any of these; what can be called is made now."""
        choice = self.draw(st.sampled_from(choices))
        return choice() if callable(choice) else choice

    def maybe(self, value: Any) -> list[Any]:
        """It, or nothing."""
        return [self.one_of(value)] if self.draw(st.booleans()) else []

    def some(self, *choices: Any, least: int = 1, most: int = 3) -> list[Any]:
        """A few of these."""
        return [self.one_of(*choices) for _ in range(self.draw(st.integers(least, most)))]

    def history(self) -> History:
        """The whole of it: what a person says, steps of calls and their results, and answers between."""
        self.system()
        rounds = self.draw(st.integers(1, 3))
        for index in range(rounds):
            self.person([])
            for _ in range(self.draw(st.integers(0, 2))):
                calls = [f"call_{self.number()}" for _ in range(self.draw(st.integers(1, 2)))]
                self.step(calls)
                self.person(calls)
            if index < rounds - 1:
                self.step([])
        return History(self.format, self.model, self.stored, self.body)

    def system(self) -> None:
        """System text, or none."""
        raise NotImplementedError

    def person(self, calls: list[str]) -> None:
        """The results of calls, and what a person says: one of both at least."""
        raise NotImplementedError

    def step(self, calls: list[str]) -> None:
        """One answer of the model; without calls, it says something."""
        raise NotImplementedError
