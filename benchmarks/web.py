"""The page's table: what a step costs on a long log and among many branches, and how large an outline is.

A step is measured in a browser: from the key to the second frame after it, when what it drew is drawn, and as
the time that the page's thread worked for it, because frames hide what takes less than one.
"""

import gzip
import os
import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import backstory
from backstory.core.events import to_json
from backstory.web.outline import outline_json
from benchmarks.measure import Row, by_turns
from tools.browser import started
from tools.site import served

LONG, SHORT = 100_000, 1_000
USUAL, HUGE = 20_000, 1_000_000
MANY, FEW = 1_000, 10  # branches
BATCH = 10_000
STEPS, ROUNDS = 30, 3  # the best round counts
SIZES = {  # events, branches
    "short": (SHORT, 0),
    "usual": (USUAL, 0),
    "long": (LONG, 0),
    "huge": (HUGE, 0),
    "few": (SHORT, FEW),
    "many": (SHORT, MANY),
}

STEP = """async (steps) => {
  const { cursor, go } = window.backstory;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  for (let n = 0; n < steps; n++) {
    const start = performance.now();
    go(cursor.value - 1);
    await frame();
    await frame();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[steps >> 1];
}"""


def web_table(folder: str) -> list[Row]:
    """Everything about the page that is measured."""
    paths = {name: os.path.join(folder, f"web-{name}.db") for name in SIZES}
    for name, (events, branches) in SIZES.items():
        with backstory.open(paths[name]) as store:
            fill(store, events, branches)
    with started() as browser:
        seen = {name: look(browser, path) for name, path in paths.items()}
    short, few = seen["short"], seen["few"]
    return [
        *(
            Row(f"a step, {SIZES[name][0]:,} events: {what}", f"{SHORT:,} events", ours, floor, 1.3)
            for name in ("usual", "long", "huge")
            for what, ours, floor in _steps(seen[name], short)
        ),
        *(
            Row(f"a step, {MANY:,} branches: {what}", f"{FEW} branches", ours, floor, 1.3)
            for what, ours, floor in _steps(seen["many"], few)
        ),
        Row(f"opening {LONG:,} events", f"{SHORT:,} events", seen["long"].opened, short.opened, None),
        Row(f"opening {HUGE:,} events", f"{SHORT:,} events", seen["huge"].opened, short.opened, None),
        *(Row(f"elements, {name}", "one", one.elements, 1, 1_500, "") for name, one in seen.items()),
        Row(f"heap, {LONG:,} events", "one MB", seen["long"].heap, 1_000_000, 8, "B"),
        Row(f"heap, {HUGE:,} events", "one MB", seen["huge"].heap, 1_000_000, None, "B"),
        *outline(paths["long"]),
    ]


class Seen(NamedTuple):
    """What a page costs: milliseconds until it is open, of a step, of its work; elements, bytes."""

    opened: float
    step: float
    work: float
    elements: int
    heap: int


def _steps(one: Seen, floor: Seen) -> Iterator[tuple[str, float, float]]:
    yield "two frames", one.step, floor.step
    yield "work", one.work, floor.work


def fill(store: backstory.Store, events: int, branches: int) -> None:
    """A conversation with tools, and forks of it."""
    dice = random.Random(events + branches)
    main = store.start("main", system="Be careful.")
    while main.head < events:
        count = min(BATCH, events - main.head)
        main.extend([event for n in range(count // 4 + 1) for event in turn(dice, main.head + n)])
        main.mark(f"at {main.head}")
    for n in range(branches):
        main.fork(f"try {n}", at=dice.randint(1, main.head)).user(f"Try {n}.")


def turn(dice: random.Random, n: int) -> Iterator[tuple[Any, ...]]:
    """A question, a tool, and an answer."""
    yield "user", "Please look at " + "the parser " * dice.randint(1, 9)
    yield "tool_call", None, {"id": f"c{n}", "name": "grep", "arguments": {"x": "y" * dice.randint(1, 20)}}
    yield "tool_result", "src/parser.py: line\n" * dice.randint(1, 9), {"id": f"c{n}"}
    yield "assistant", "It is **there**. " * dice.randint(1, 12)


def look(browser: Any, path: str) -> Seen:
    """The page on a store: the median of some steps back from the head, and what it takes."""
    with backstory.open(path, read_only=True) as store, served(store) as site:
        base, _, key = site.address.partition("#")
        main = store.agent("main")
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        begun = time.perf_counter()
        page.goto(f"{base}s/{main.session}/a/{main.id}#{key}")
        page.locator(".row .text:not(:empty)").first.wait_for(timeout=600_000)
        page.locator(".message .body").first.wait_for(timeout=600_000)
        opened = time.perf_counter() - begun
        heap = page.evaluate("() => { gc(); return performance.memory.usedJSHeapSize }")
        elements = page.evaluate("() => document.querySelectorAll('*').length")
        page.evaluate(STEP, STEPS // 4)  # what is compiled on the first steps is not what they cost
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable")
        rounds = [_stepped(page, metrics) for _ in range(ROUNDS)]
        page.close()
        step, work = (min(one) for one in zip(*rounds, strict=True))
        return Seen(opened * 1_000, step, work, elements, heap)


def _stepped(page: Any, metrics: Any) -> tuple[float, float]:
    """Milliseconds of a step until it is drawn, and of the work for it."""
    before = _worked(metrics)
    taken = page.evaluate(STEP, STEPS)
    return taken, (_worked(metrics) - before) / STEPS * 1_000


def _worked(metrics: Any) -> float:
    """Seconds that the page's main thread has worked."""
    found = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def outline(path: str) -> Iterator[Row]:
    """Its size, and its time against the read that it stands on."""
    with backstory.open(path, read_only=True) as store:
        main = store.agent("main")
        packed = gzip.compress(to_json(outline_json(store, main, 0)).encode(), 5)
        yield Row("an outline, compressed", "one byte an event", len(packed), main.head, 2.5, "B")
        ours, floor = by_turns(lambda: outline_json(store, main, 0), lambda: main.outline(), 5)
        yield Row("an outline with calls, failures and marks", "agent.outline()", ours, floor, None)
