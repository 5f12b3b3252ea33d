"""`python -m benchmarks.tokens`: how far token counts are from what providers charged, in recorded exchanges.

Two measurements. Whole: requests that are nothing but their history (no tools, no schemas). Grown: of two
requests of one recording, with the same settings, what the longer one cost more; this shows calls and
results, whose requests have tools. Needs the recordings of tests/wire/recordings.py; it prints tables in
Markdown.
"""

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.wire import load
from backstory.wire.tokens import Tokens, count_tokens, find_rules
from tests.wire.recordings import FOLDER, MISSING, Exchange, exchanges

HISTORY = frozenset(
    {"messages", "input", "contents", "stream", "max_tokens", "temperature", "store", "tool_choice"}
)


class Measured(NamedTuple):
    """One comparison."""

    family: str
    what: str
    counted: int
    charged: int
    exact: bool

    @property
    def error(self) -> float:
        """How far off it is, as a part of what was charged."""
        return (self.counted - self.charged) / self.charged


def whole(recorded: Iterable[Exchange]) -> Iterator[Measured]:
    """Requests that are nothing but their history."""
    for exchange in recorded:
        counted = _count(exchange) if exchange.is_bare else None
        if counted is not None and exchange.tokens:
            kinds = {part.what for part in counted.parts}
            yield Measured(
                _family(exchange), _named(kinds), int(counted), exchange.tokens, counted.exact
            )


def grown(recorded: Iterable[Exchange]) -> Iterator[Measured]:
    """What was added between two requests of one recording."""
    recordings: dict[Any, list[Exchange]] = defaultdict(list)
    for exchange in recorded:
        if exchange.tokens:
            recordings[exchange.place, exchange.format, exchange.model, _settings(exchange)].append(
                exchange
            )
    for found in recordings.values():
        for index, longer in enumerate(found):
            for shorter in found[:index]:
                if _extends(longer, shorter):
                    yield from _growth(shorter, longer)


def _growth(shorter: Exchange, longer: Exchange) -> Iterator[Measured]:
    before, after = _count(shorter), _count(longer)
    charged = (longer.tokens or 0) - (shorter.tokens or 0)
    if before is not None and after is not None and charged > 0:
        kinds = {part.what for part in after.parts[len(before.parts) - 1 :]}
        exact = not _has_schema(longer) and all(
            part.exact for part in after.parts[len(before.parts) - 1 :]
        )
        yield Measured(_family(longer), _named(kinds), int(after) - int(before), charged, exact)


def _has_schema(exchange: Exchange) -> bool:
    """Whether the answer has to be JSON: earlier answers in JSON cost more then, which no count can know."""
    return "response_format" in exchange.body or "format" in (exchange.body.get("text") or {})


def _extends(longer: Exchange, shorter: Exchange) -> bool:
    early, late = shorter.messages, longer.messages
    return len(early) < len(late) and late[: len(early)] == early


def _settings(exchange: Exchange) -> str:
    return json.dumps(
        {key: value for key, value in exchange.body.items() if key not in HISTORY}, sort_keys=True
    )


def _count(exchange: Exchange) -> Tokens | None:
    try:
        events = load(exchange.body, exchange.format, model=exchange.model)
    except Invalid:
        return None
    return count_tokens(events, exchange.model)


def _family(exchange: Exchange) -> str:
    return find_rules(exchange.model or "").name


def _named(kinds: set[str]) -> str:
    """The most telling kind of content: what is hardest to count."""
    media = ("document", "video", "audio", "image")
    elsewhere = tuple(f"{kind} by address" for kind in media)
    hardest = (*elsewhere, *media, "server tool", "reasoning", "call", "result")
    return next((kind for kind in hardest if kind in kinds), "text")


def table(measured: Iterable[Measured]) -> Iterator[str]:
    """A row for each family of models and kind of content."""
    rows: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in measured:
        rows[one.family, one.what].append(one.error)
    yield "| models | content | requests | half are within | nine of ten within | too high or low |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for (family, what), errors in sorted(rows.items()):
        sizes = sorted(map(abs, errors))
        half, most = statistics.median(sizes), sizes[int(len(sizes) * 0.9)]
        bias = statistics.median(errors)
        yield f"| {family} | {what} | {len(errors)} | {half:.0%} | {most:.0%} | {bias:+.0%} |"


def exactness(measured: Iterable[Measured]) -> str:
    """How many of the counts that call themselves exact are."""
    found = [one for one in measured if one.exact]
    right = sum(one.counted == one.charged for one in found)
    return f"called exact: {len(found)}, of these met to the token: {right}"


def main() -> None:
    """Print both tables."""
    if not (FOLDER / "index.json").exists():
        sys.exit(MISSING)
    recorded = list(exchanges())
    for title, found in (
        ("Whole requests", list(whole(recorded))),
        ("What was added", list(grown(recorded))),
    ):
        print(f"{title}: {len(found)}; {exactness(found)}", "", *table(found), "", sep="\n")


if __name__ == "__main__":
    main()
