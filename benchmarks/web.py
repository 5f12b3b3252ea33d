"""The page's table: a step and an opening on large logs, against a small one. Times are ratios.

tests/web/test_budget.py counts bytes, elements, rows, memory and all other requests. A step is measured from the
key to the second frame after it, when what it drew is drawn, and as the time that the page's thread
worked for it, because frames hide what takes less than one.
"""

import os
import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import backstory
from backstory.web.outline import build_block
from benchmarks.measure import Row, by_turns
from tools.browser import started
from tools.site import served, write_address

BATCH = 10_000
STEPS, ROUNDS = 30, 3  # the best round counts
FEW = 10  # branches
SIZES = {  # events, branches
    "1,000 events": (1_000, FEW),
    "20,000 events, 73 agents": (20_000, 72),
    "100,000 events": (100_000, FEW),
    "1,000,000 events": (1_000_000, FEW),
    "1,000 branches": (1_000, 1_000),
}
SMALL = "1,000 events"
LONG = "100,000 events"

# Steps back; the median of their milliseconds until they are drawn.
STEP = """async (steps) => {
  const { cursor, go } = await import("page/open_log.js");
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

# A drag over the whole lineage: the most requests of one pane that were under way at the same time.
DRAG = """async () => {
  const { go, log } = await import("page/open_log.js");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const real = window.fetch;
  const under = {};
  let most = 0;
  window.fetch = (url, options) => {
    const name = /lines|events|request|diff/.exec(url)?.[0] || "other";
    under[name] = (under[name] || 0) + 1;
    most = Math.max(most, under[name]);
    let counts = true;
    const end = () => { if (counts) under[name] -= 1; counts = false; };
    options.signal?.addEventListener("abort", end);
    return real(url, options).finally(end);
  };
  for (let n = 0; n <= 100; n++) {
    go(Math.max(1, Math.round(log.value.head * n / 100)));
    await frame();
    await frame();
    await frame();
  }
  window.fetch = real;
  return most;
}"""


class PageTimes(NamedTuple):
    """Milliseconds on one store, and the requests of a drag."""

    opened: float  # until the page shows an agent
    step: float  # until a step is drawn
    work: float  # of the page's thread for a step
    in_flight: int  # requests of one pane at the same time, at most, in a drag


def web_table(folder: str) -> list[Row]:
    """Everything about the page that is measured."""
    paths = {name: os.path.join(folder, f"web-{n}.db") for n, name in enumerate(SIZES)}
    for name, (events, branches) in SIZES.items():
        with backstory.open(paths[name]) as store:
            fill(store, events, branches)
    with started() as browser:
        times = {name: time_page(browser, path) for name, path in paths.items()}
    rows = []
    for name in SIZES:
        if name != SMALL:
            rows += compare_times(name, times[name], times[SMALL])
    return [*rows, time_outline(paths[LONG])]


def fill(store: backstory.Store, events: int, branches: int) -> None:
    """A conversation with tools, marks and rewinds, and forks of it."""
    dice = random.Random(events + branches)
    main = store.start("main", system="Be careful.")
    while main.head < events:
        count = min(BATCH, events - main.head)
        main.extend([event for n in range(count // 4 + 1) for event in turn(dice, main.head + n)])
        main.mark(f"at {main.head}")
        if dice.random() < 0.3:
            main.rewind(main.marks()[-3:][0].seq)
    for n in range(branches):
        main.fork(f"try {n}", at=dice.randint(1, main.head)).user(f"Try {n}.")


def turn(dice: random.Random, n: int) -> Iterator[tuple[Any, ...]]:
    """A question, a tool, and an answer."""
    yield "user", "Please look at " + "the parser " * dice.randint(1, 9)
    yield (
        "tool_call",
        None,
        {"id": f"c{n}", "name": "grep", "arguments": {"x": "y" * dice.randint(1, 20)}},
    )
    yield "tool_result", "src/parser.py: line\n" * dice.randint(1, 9), {"id": f"c{n}"}
    yield "assistant", "It is **there**. " * dice.randint(1, 12)


def time_page(browser: Any, path: str) -> PageTimes:
    """Open the page on a store, and step through its log."""
    with backstory.open(path, read_only=True) as store, served(store) as site:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        opened = open_at(page, site, store.agent("main"))
        step, work = time_steps(page)
        in_flight = page.evaluate(DRAG)
        page.close()
        return PageTimes(opened, step, work, in_flight)


def open_at(page: Any, site: Any, agent: backstory.Agent) -> float:
    """Milliseconds until the page shows an agent."""
    base, _, key = write_address(site).partition("#")
    begun = time.perf_counter()
    page.goto(f"{base}s/{agent.session}/a/{agent.id}#{key}")
    page.locator(".row .text:not(:empty)").first.wait_for(timeout=600_000)
    page.locator(".message .body").first.wait_for(timeout=600_000)
    page.locator(".status.on").wait_for(timeout=600_000)
    return (time.perf_counter() - begun) * 1_000


def time_steps(page: Any) -> tuple[float, float]:
    """Milliseconds of a step until it is drawn, and of the work for it: steps back from the head."""
    page.evaluate(STEP, STEPS // 4)  # the first steps also compile the scripts
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")
    rounds = [_stepped(page, metrics) for _ in range(ROUNDS)]
    step, work = (min(one) for one in zip(*rounds, strict=True))
    return step, work


def _stepped(page: Any, metrics: Any) -> tuple[float, float]:
    before = _worked(metrics)
    taken = page.evaluate(STEP, STEPS)
    return taken, (_worked(metrics) - before) / STEPS * 1_000


def _worked(metrics: Any) -> float:
    """Seconds that the page's main thread has worked."""
    found = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def compare_times(name: str, one: PageTimes, small: PageTimes) -> Iterator[Row]:
    """Compare with a small log with few branches."""
    yield Row(f"a step, {name}: two frames", SMALL, one.step, small.step, 1.3)
    yield Row(f"a step, {name}: work", SMALL, one.work, small.work, 1.3)
    yield Row(f"opening, {name}", SMALL, one.opened, small.opened, None)
    yield Row(f"requests in flight in a drag, a pane, {name}", "one", one.in_flight, 1, 1, "")


def time_outline(path: str) -> Row:
    """Compare an outline with the read that it needs."""
    with backstory.open(path, read_only=True) as store:
        main = store.agent("main")
        ours, floor = by_turns(lambda: build_block(main, 0, main.head), lambda: main.outline(), 5)
    return Row(f"an outline, {LONG}", "agent.outline()", ours, floor, None)
