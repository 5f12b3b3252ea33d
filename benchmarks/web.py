"""The page's table: all that it may cost, on logs of 1,000 to 1,000,000 events and among 1,000 branches.

Requests, bytes, elements, rows and memory are counted. A step is measured in a browser: from the key to the
second frame after it, when what it drew is drawn, and as the time that the page's thread worked for it,
because frames hide what takes less than one.
"""

import gzip
import os
import random
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import backstory
from backstory.log.events import to_json
from backstory.web.document import find_modules, find_styles, load_files
from backstory.web.outline import build_block
from benchmarks import page_scripts as scripts
from benchmarks.measure import Row, by_turns
from tools.browser import started
from tools.site import served, write_address

BATCH = 10_000
STEPS, ROUNDS = 30, 3  # the best round counts
INSIDE = 8  # steps within what is loaded
JUMPS = 400
IDLE = 16.0  # seconds: one comment in fifteen
FEW = 10  # branches
SIZES = {  # events, branches
    "1,000 events": (1_000, FEW),
    "20,000 events, 73 agents": (20_000, 72),
    "100,000 events": (100_000, FEW),
    "1,000,000 events": (1_000_000, FEW),
    "1,000 branches": (1_000, 1_000),
}
SMALL, USUAL, LONG, HUGE, MANY = SIZES


class Seen(NamedTuple):
    """What a page costs."""

    opened: float  # milliseconds until it shows an agent
    requests: int  # of the first view
    received: int  # bytes of the first view
    elements: int  # at most, while somebody jumps about
    heap: int  # bytes after opening
    heap_later: int  # bytes after many jumps
    step: float  # milliseconds until a step is drawn
    work: float  # milliseconds of work for it
    step_requests: int  # of steps within what is loaded
    in_flight: int  # requests of one pane at the same time, at most, in a drag
    drawn: int  # rows that exist and are not in view
    ranges: float  # of the head's live ranges, for each move on the path to it and one more


def web_table(folder: str) -> list[Row]:
    """Everything about the page that is measured."""
    paths = {name: os.path.join(folder, f"web-{n}.db") for n, name in enumerate(SIZES)}
    for name, (events, branches) in SIZES.items():
        with backstory.open(paths[name]) as store:
            fill(store, events, branches)
    with started() as browser:
        seen = {name: look(browser, path) for name, path in paths.items()}
        idle = list(idle_rows(browser, paths[USUAL]))
    return [
        *(
            row
            for name in SIZES
            if name != SMALL
            for row in step_rows(name, seen[name], seen[SMALL])
        ),
        *(row for name in SIZES for row in count_rows(name, seen[name])),
        Row(f"first view, {USUAL}", "one KB", seen[USUAL].received, 1_000, 120, "B"),
        Row(f"heap, {LONG}", "one MB", seen[LONG].heap, 1_000_000, 8, "B"),
        Row(
            f"heap after {JUMPS} jumps, {LONG}", "one MB", seen[LONG].heap_later, 1_000_000, 32, "B"
        ),
        Row(f"heap, {HUGE}", "one MB", seen[HUGE].heap, 1_000_000, None, "B"),
        Row(
            f"heap after {JUMPS} jumps, {HUGE}",
            "one MB",
            seen[HUGE].heap_later,
            1_000_000,
            None,
            "B",
        ),
        *idle,
        *outline_rows(paths),
        *shipped_rows(),
    ]


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


def look(browser: Any, path: str) -> Seen:
    """The page on a store: opened, stepped and dragged through, and jumped about in."""
    with backstory.open(path, read_only=True) as store, served(store) as site:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        asked: list[str] = []
        sizes: list[int] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on(
            "response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0)))
        )
        opened = open_at(page, site, store.agent("main"))
        first, received = len(asked), sum(sizes)
        heap = page.evaluate(scripts.HEAP)
        step, work = steps(page)
        page.evaluate(scripts.SETTLE)
        for _ in range(INSIDE):
            page.evaluate(scripts.STEP, [1, 1])
            page.evaluate(scripts.SETTLE)
        asked.clear()
        page.evaluate(scripts.STEP, [INSIDE, -1])
        page.evaluate(scripts.SETTLE)
        inside = len(asked)
        found = Seen(
            opened,
            first,
            received,
            page.evaluate(scripts.JUMPS, JUMPS),
            heap,
            page.evaluate(scripts.HEAP),
            step,
            work,
            inside,
            page.evaluate(scripts.DRAG),
            page.evaluate(scripts.DRAWN),
            page.evaluate(scripts.RANGES),
        )
        page.close()
        return found


def open_at(page: Any, site: Any, agent: backstory.Agent) -> float:
    """Milliseconds until the page shows an agent."""
    base, _, key = write_address(site).partition("#")
    begun = time.perf_counter()
    page.goto(f"{base}s/{agent.session}/a/{agent.id}#{key}")
    page.locator(".row .text:not(:empty)").first.wait_for(timeout=600_000)
    page.locator(".message .body").first.wait_for(timeout=600_000)
    page.locator(".status.on").wait_for(timeout=600_000)
    return (time.perf_counter() - begun) * 1_000


def steps(page: Any) -> tuple[float, float]:
    """Milliseconds of a step until it is drawn, and of the work for it: steps back from the head."""
    page.evaluate(
        scripts.STEP, [STEPS // 4, 1]
    )  # what is compiled on the first steps is not what they cost
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")
    rounds = [_stepped(page, metrics) for _ in range(ROUNDS)]
    step, work = (min(one) for one in zip(*rounds, strict=True))
    return step, work


def _stepped(page: Any, metrics: Any) -> tuple[float, float]:
    before = _worked(metrics)
    taken = page.evaluate(scripts.STEP, [STEPS, 1])
    return taken, (_worked(metrics) - before) / STEPS * 1_000


def _worked(metrics: Any) -> float:
    """Seconds that the page's main thread has worked."""
    found = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def step_rows(name: str, one: Seen, small: Seen) -> Iterator[Row]:
    """A step, against one on a small log with few branches."""
    yield Row(f"a step, {name}: two frames", SMALL, one.step, small.step, 1.3)
    yield Row(f"a step, {name}: work", SMALL, one.work, small.work, 1.3)
    yield Row(f"opening, {name}", SMALL, one.opened, small.opened, None)


def count_rows(name: str, one: Seen) -> Iterator[Row]:
    """What is counted on every store."""
    yield Row(f"requests of the first view, {name}", "one", one.requests, 1, 20, "")
    yield Row(f"elements, {name}", "one", one.elements, 1, 1_500, "")
    yield Row(
        f"requests of {INSIDE} steps within loaded text, {name}", "one", one.step_requests, 1, 0, ""
    )
    yield Row(f"requests in flight in a drag, a pane, {name}", "one", one.in_flight, 1, 1, "")
    yield Row(f"rows drawn beside those in view, {name}", "one", one.drawn, 1, 12, "")
    yield Row(f"live ranges, {name}", "a move on the path, and one", one.ranges, 1, 1, "")


def idle_rows(browser: Any, path: str) -> Iterator[Row]:
    """What a page asks for while nothing happens, and what a stream says."""
    with backstory.open(path, read_only=True) as store, served(store) as site:
        page = browser.new_page()
        open_at(page, site, store.agent("main"))
        page.evaluate(scripts.SETTLE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(IDLE * 1_000)
        page.close()
        yield Row(f"requests of an idle page in {IDLE:.0f} s", "one", len(asked), 1, 0, "")
        yield Row(f"comments of a stream in {IDLE:.0f} s", "one", _comments(site), 1, 1, "")


def _comments(site: Any) -> int:
    base, _, key = write_address(site).partition("#key=")
    request = urllib.request.Request(f"{base}api/live", headers={"authorization": f"Bearer {key}"})
    count, end = -1, time.monotonic() + IDLE  # the first one says that it has begun
    with urllib.request.urlopen(request, timeout=IDLE) as stream:
        while time.monotonic() < end:
            try:
                line = stream.readline()
            except TimeoutError:
                break
            count += line.startswith(b":") and time.monotonic() < end
    return count


def outline_rows(paths: dict[str, str]) -> Iterator[Row]:
    """The size of an outline, and its time against the read that it stands on."""
    for name in (USUAL, LONG, HUGE):
        with backstory.open(paths[name], read_only=True) as store:
            main = store.agent("main")
            packed = gzip.compress(to_json(build_block(main, 0, main.head)).encode(), 5)
            yield Row(
                f"an outline, compressed, {name}",
                "one byte an event",
                len(packed),
                main.head,
                2.5,
                "B",
            )
    with backstory.open(paths[LONG], read_only=True) as store:
        main = store.agent("main")
        ours, floor = by_turns(lambda: build_block(main, 0, main.head), lambda: main.outline(), 5)
        yield Row(
            f"an outline with calls, failures and marks, {LONG}",
            "agent.outline()",
            ours,
            floor,
            None,
        )


def shipped_rows() -> Iterator[Row]:
    """The scripts and the style sheets, each compressed as it is served."""
    contents = [load_files()[path].content for path in (*find_modules(), *find_styles())]
    packed = sum(len(gzip.compress(content, 5)) for content in contents)
    yield Row("scripts and styles, compressed", "one KB", packed, 1_000, 70, "B")
