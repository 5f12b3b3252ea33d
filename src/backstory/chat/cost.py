"""What answers cost: time, tokens, and money where the prices are known."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from backstory.log.events import Event
from backstory.present.prices import price


@dataclass
class Cost:
    """The sum of some answers."""

    input: int = 0
    output: int = 0
    cached: int = 0
    dollars: Decimal = Decimal(0)

    def add(self, events: Iterable[Event]) -> None:
        """Add the answers among some events."""
        for event in events:
            data = event.data or {}
            usage = data.get("usage")
            if isinstance(usage, dict):
                read, said, cached = (
                    _number(usage, name) for name in ("input", "output", "cached")
                )
                self.input, self.output = self.input + read, self.output + said
                self.cached += cached
                self.dollars += price(str(data.get("model")), read, said, cached)

    def __iadd__(self, other: "Cost") -> "Cost":
        self.input, self.output = self.input + other.input, self.output + other.output
        self.cached, self.dollars = self.cached + other.cached, self.dollars + other.dollars
        return self

    def words(self) -> list[str]:
        """Tokens and money, as far as they are known."""
        cached = f" ({self.cached:,} cached)" if self.cached else ""
        counts = f"{self.input:,} tokens in{cached}, {self.output:,} out"
        tokens = [counts] if self.input or self.output else []
        return [*tokens, *([self.money()] if self.dollars else [])]

    def money(self) -> str:
        """A price in dollars; a very small one is not shown as zero."""
        return f"${self.dollars:.2f}" if self.dollars >= 1 else f"${self.dollars:.4f}"


def _number(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int else 0


def duration(seconds: float) -> str:
    """A duration for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
