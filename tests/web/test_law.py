"""The law exists twice: lineage.js agrees with the engine at every position of random logs, forks included."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import backstory
from backstory.present.history import find_live_ranges
from backstory.web.outline import build_block, build_frame
from backstory.wire.tokens import estimate_request, estimate_tokens
from tests.slow import more
from tools.site import served, write_address

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["user", "assistant", "mark", "note", "clear", "rewind", "jump", "odd", "fork"]
        ),
        st.integers(0, 40),
    ),
    max_size=40,
)
LAW = """async (outlines) => {
  const page = await import("page/lineage.js");
  return outlines.map((parts) => {
    let log = page.emptyLog();
    for (const [frame, blocks] of parts) {
      log = page.addFrame(log, frame);
      for (const block of blocks) log = page.addBlock(log, block);
    }
    return Array.from({ length: log.head + 1 }, (_, at) => ({
      ranges: page.ranges(log, at), count: log.count[at], size: log.size[at],
      left: Array.from({ length: at }, (_, i) => page.leftBy(page.ranges(log, at), i + 1)) }));
  });
}"""


def written(store, steps):
    """The agents of a log with these steps."""
    agents = [store.start("main")]
    for kind, number in steps:
        agent = agents[-1]
        match kind:
            case "fork":
                parent = agents[number % len(agents)]
                agents.append(parent.fork(at=number % (parent.head + 1)))
            case "rewind" | "jump":  # some of them are invalid, and so inert
                agent.append(kind, None, {"target_message_id": number})
            case "odd":
                agent.append("jump", None, {"target_message_id": "nowhere"})
            case "mark" | "clear":
                agent.append(kind)
            case _:
                agent.append(kind, "text" * number or "-")
    return agents


def expected(agent):
    """Ranges, counts and sizes at every position, as the engine has them."""
    found = []
    for at in range(agent.head + 1):
        messages = agent.context(at).messages
        sizes = [estimate_request(None), *map(estimate_tokens, messages)]
        left = [left_by(agent.explain(seq, at=at)) for seq in range(1, at + 1)]
        found.append(
            {
                "ranges": joined(find_live_ranges(agent, at)),
                "count": len(messages),
                "size": sum(sizes),
                "left": left,
            }
        )
    return found


def joined(ranges):
    """Ranges without seams: the engine begins a new one where another agent owns the events."""
    found = []
    for low, high in ranges:
        if found and found[-1][1] + 1 == low:
            found[-1][1] = high
        else:
            found.append([low, high])
    return found


def left_by(why):
    """The move that left an event behind, 0 for a live one; None for what shows nowhere."""
    return 0 if why.live else why.by


def outline(agent, *ends):
    """The outline in blocks that end at these positions, the newest first, as a page gets it."""
    starts = [0, *ends][:-1]
    blocks = [build_block(agent, low, high) for low, high in zip(starts, ends, strict=True)]
    return [build_frame(agent), blocks[::-1]]


def grown(agent):
    """An outline of the first half, and of what was written since."""
    half = agent.head // 2
    frame = build_frame(agent)
    first = {**frame, "head": half, "moves": [move for move in frame["moves"] if move[0] <= half]}
    later = [build_frame(agent, half), [build_block(agent, half, agent.head)]]
    return [[first, [build_block(agent, 0, half)]], later]


@pytest.fixture(scope="module")
def page(browser):
    with backstory.open(":memory:") as store, served(store) as site:
        page = browser.new_page()
        page.goto(write_address(site))
        page.locator("main").wait_for()
        yield lambda outlines: page.evaluate(LAW, outlines)


@settings(max_examples=more(60, slow=2_000), suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_ranges_counts_and_sizes_are_those_of_replay_at_every_position(page, steps):
    with backstory.open(":memory:") as store:
        agents = written(store, steps)
        outlines = [[outline(agent, agent.head // 2, agent.head)] for agent in agents]
        outlines += [grown(agent) for agent in agents]
        wanted = [expected(agent) for agent in agents] * 2
        for found, right in zip(page(outlines), wanted, strict=True):
            for here, there in zip(found, right, strict=True):
                places = zip(here["left"], there["left"], strict=True)
                here["left"] = [None if right is None else found for found, right in places]
                here["ranges"] = joined(here["ranges"])
                assert here == there


SUMS = """async ([frame, [block]]) => {
  const page = await import("page/lineage.js");
  const log = page.addBlock(page.addFrame(page.emptyLog(), frame), block);
  const all = log.head + 1;
  const order = Array.from({ length: all }, (_, n) => (n * 37) % all); // not in order: sums are kept
  const found = [];
  for (const at of order) found[at] = page.byKind(log, page.ranges(log, at));
  return found;
}"""


def test_sizes_by_kind_are_those_of_the_context_on_a_log_longer_than_a_block_of_sums(browser):
    letters = {"system": "s", "user": "u", "assistant": "a", "tool_call": "c", "tool_result": "r"}
    with backstory.open(":memory:") as store, served(store) as site:
        main = store.start("main", system="Be careful.")
        for n in range(70):
            main.extend(
                [("user", "ask" * n or "-"), ("assistant", "said" * (n % 7 + 1)), ("mark", None)]
            )
            if n % 9 == 8:
                main.rewind()
            if n == 40:
                main.clear()
        page = browser.new_page()
        page.goto(write_address(site))
        page.locator("main").wait_for()
        found = page.evaluate(SUMS, outline(main, main.head))
        page.close()
        assert len(found) == main.head + 1 > 200
        for at, kinds in enumerate(found):
            spoken = [event for event in main.context(at).messages if event.kind in letters]
            for letter, size, number in kinds:
                mine = [event for event in spoken if letters[event.kind] == letter]
                assert (number, size) == (len(mine), sum(map(estimate_tokens, mine)))
            assert sum(number for _, _, number in kinds) == len(spoken)
