"""What the page may cost, counted: requests, bytes, elements, memory, and rows drawn. Nothing is timed."""

import gzip
import json
import random

import pytest

import backstory
from backstory.web.document import compute_version, find_modules
from backstory.web.outline import build_block
from backstory.web.render import write_line
from tests.web.asgi import Client

MANY = 98_000
ELEMENTS = "() => document.querySelectorAll('*').length"
HEAP = "() => { gc(); return performance.memory.usedJSHeapSize }"


def turn(dice, n):
    return [
        ("user", "Please look at " + "the parser " * dice.randint(1, 9)),
        (
            "tool_call",
            None,
            {"id": f"c{n}", "name": "grep", "arguments": {"pattern": "x" * dice.randint(1, 20)}},
        ),
        ("tool_result", "src/parser.py: line\n" * dice.randint(1, 9), {"id": f"c{n}"}),
        ("assistant", "It is **there**. " * dice.randint(1, 12)),
    ]


def long_log(store, events):
    dice = random.Random(1)
    main = store.start("main", system="Be careful.")
    while main.head < events:
        main.extend([event for n in range(500) for event in turn(dice, main.head + n)])
        main.mark(f"at {main.head}")
        if dice.random() < 0.3:
            main.rewind(main.marks()[max(0, len(main.marks()) - 3)].seq)
    return main


@pytest.fixture(scope="module")
def large():
    with backstory.open(":memory:") as store:
        long_log(store, MANY)
        yield store


@pytest.fixture(scope="module")
def bushy():
    """A thousand branches, and branches of branches."""
    dice = random.Random(2)
    with backstory.open(":memory:") as store:
        main = long_log(store, 4_000)
        agents = [main]
        for n in range(999):
            parent = dice.choice(agents[-60:])
            child = parent.fork(f"try {n}", at=dice.randint(parent.fork_seq, parent.head))
            child.user(f"Try {n}.")
            agents.append(child)
        yield store


def test_an_outline_takes_two_and_a_half_bytes_an_event(large):
    main = large.agent("main")
    outline = json.dumps(build_block(main, 0, main.head), separators=(",", ":")).encode()
    assert len(gzip.compress(outline, 5)) / main.head < 2.5


@pytest.fixture(scope="module")
def usual():
    """20,000 events in 73 agents."""
    dice = random.Random(4)
    with backstory.open(":memory:") as store:
        main = long_log(store, 20_000)
        for n in range(72):
            main.fork(f"try {n}", at=dice.randint(1, main.head)).user(f"Try {n}.")
        yield store


def test_the_first_view_takes_20_answers_and_120_kilobytes(show, usual):
    screen = show(usual, "/nowhere")
    screen.expected = ["404"]
    screen("main h1").wait_for()
    screen.asked.clear()
    sizes = []
    screen.page.on(
        "response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0)))
    )
    screen.open().ready()
    screen(".status.on").wait_for()
    assert len(screen.api()) <= 20, "\n".join(screen.asked)
    assert sum(sizes) <= 120_000


def test_all_scripts_take_70_kilobytes_as_served(filled):
    client = Client(filled)
    base = f"/static/{compute_version()}/"
    sizes = [
        len(client(base + path, headers=[("accept-encoding", "gzip")]).content)
        for path in find_modules()
    ]
    assert sum(sizes) <= 70_000


# Jumps from place to place, as quickly as the screen follows; of every tenth the text is waited for.
JUMPS = """async (places) => {
  const { go, textAt } = await import("page/open_log.js");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let most = 0;
  for (const [n, at] of places.entries()) {
    go(at, { jump: true });
    await frame();
    await frame();
    while (n % 10 === 9 && textAt(at) === undefined) await frame();
    most = Math.max(most, document.querySelectorAll('*').length);
  }
  return most;
}"""


@pytest.mark.slow
def test_a_long_log_takes_few_elements_and_little_memory_also_after_many_jumps(show, large):
    screen = show(large).ready()
    assert screen.page.evaluate(ELEMENTS) <= 1_500
    assert screen.page.evaluate(HEAP) < 8_000_000
    dice = random.Random(3)
    main = large.agent("main")
    places = [dice.randint(1, main.head) for _ in range(400)]
    assert screen.page.evaluate(JUMPS, places) <= 1_500
    screen.at(f"main@{places[-1]:,}")
    assert screen.page.evaluate(HEAP) < 32_000_000


def test_a_step_within_loaded_text_asks_for_nothing_and_a_drag_for_no_outline(show, large):
    screen = show(large).ready()
    screen(".status.on").wait_for()
    screen.press("k", "k")
    before = len(screen.api())
    for _ in range(5):
        screen.press("j")
    rows = screen(".row").count()
    inside = screen(".rows").evaluate("element => Math.ceil(element.clientHeight / 26)")
    assert rows <= inside + 13
    assert [url for url in screen.api()[before:] if "/lines" in url or "/outline" in url] == []
    box = screen("[role=slider]").bounding_box()
    screen.page.mouse.move(box["x"] + 20, box["y"] + 40)
    screen.page.mouse.down()
    for step in range(1, 40):
        screen.page.mouse.move(box["x"] + 20 + step * (box["width"] - 60) / 40, box["y"] + 40)
    screen.page.mouse.up()
    assert not [url for url in screen.api()[before:] if "/outline" in url]
    screen("#pane .message .body").first.wait_for()
    main = large.agent("main")
    at = int(screen.page.locator("[role=slider]").get_attribute("aria-valuenow"))
    row = screen.row(at)
    row.locator(".text:not(:empty)").wait_for()
    assert row.locator(".text").inner_text().strip() == " ".join(
        write_line(main.events([at])[0])[:240].split()
    )


def test_a_thousand_branches_fold_and_the_open_one_is_in_view(show, bushy):
    deep = max(bushy.agents(), key=lambda agent: len(agent.lineage()))
    screen = show(bushy, f"/s/{deep.session}/a/{deep.id}").ready()
    assert screen.page.evaluate(ELEMENTS) <= 1_500
    selected = screen(".name[aria-selected=true]")
    selected.wait_for()
    name, names = selected.bounding_box(), screen(".names").bounding_box()
    assert names["y"] <= name["y"] <= names["y"] + names["height"]
    assert selected.get_attribute("title") == deep.name


ROWS = """async () => (await import("page/lanes.js")).rows.value.map(({ one, depth }) =>
  [one.id, one.parent, depth, one.fork_seq, one.head])"""


def test_no_connector_crosses_a_lane(show, bushy):
    screen = show(bushy).ready()
    rows = screen.page.evaluate(ROWS)
    places = {row[0]: place for place, row in enumerate(rows)}
    for place, (_, parent, _, fork, _) in enumerate(rows):
        for between in rows[places.get(parent, place) + 1 : place]:
            assert not between[3] < fork < between[4], (between, fork)


def test_limits_are_caps(filled):
    main = filled.agent("main")
    client = Client(filled)
    assert len(client(f"/api/agents/{main.id}/lines?after=0&until=99999").json["lines"]) == 10
    too_many = ",".join(["1"] * 61)
    assert client(f"/api/agents/{main.id}/events?seqs={too_many}").status == 400
    for bad in ("after=-1", "after=x", "after=1e9", "after=1" + "0" * 20):
        assert client(f"/api/agents/{main.id}/lines?{bad}").status == 400
    for id in ("main", "..", "%00", main.id + "x", "zzzz"):
        assert client(f"/api/agents/{id}/outline").status == 404
