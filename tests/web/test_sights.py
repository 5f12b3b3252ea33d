"""What is drawn: the place of sub-agents, colours of a comparison, forced colours, very long lists."""

import backstory
from tests.web.conftest import fill

ENDS = """async (id) => {
  const axis = await import("page/axis.js");
  const node = axis.tree.value.nodes.get(id);
  return [axis.startOf(node), axis.endOf(node)];
}"""
COVERED = """async () => {
  const canvas = document.querySelectorAll(".scrubber .stack canvas")[1];
  const axis = await import("page/axis.js");
  const ratio = window.devicePixelRatio;
  const from = axis.xOf(axis.placeOf(5), canvas.clientWidth) * ratio;
  const to = axis.xOf(axis.placeOf(9), canvas.clientWidth) * ratio;
  const pen = canvas.getContext("2d");
  const { data } = pen.getImageData(from, 20, to - from, canvas.height - 20);
  let covered = 0;
  for (let n = 3; n < data.length; n += 4) if (data[n] > 128) covered += 1;
  return covered / (data.length / 4);
}"""
EMPTY_LOG = """async (head) => {
  const openLog = await import("page/open_log.js");
  const law = await import("page/lineage.js");
  const frame = { head, pieces: [[openLog.openId.value, 1, head]], moves: [], request: 0 };
  const block = { after: 0, kinds: "u".repeat(head), tokens: new Array(head).fill(1),
    times: new Array(head).fill(1), marks: [], errors: [], calls: [], compactions: [], reads: [] };
  openLog.log.value = law.addBlock(law.addFrame(law.emptyLog(), frame), block);
  openLog.go(head);
}"""


def test_a_sub_agent_that_inherits_continues_the_positions_of_its_parent(show, filled):
    main = filled.agent("main")
    intake = filled.intake()
    child = intake.agent("heir", parent=main, at=7, spawned=True, inherits=True)
    intake.extend(child, [("user", "Explore.")])
    intake.commit()
    screen = show(filled).ready()
    screen(".name").filter(has_text="heir").wait_for()
    assert screen.page.evaluate(ENDS, child.id) == [7, 8]
    reviewer = next(one for one in filled.agents() if one.name == "reviewer")
    assert screen.page.evaluate(ENDS, reviewer.id) == [9, 10]


def test_what_was_dropped_is_red_and_what_came_instead_green(show, tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        main = fill(store)
        main.compact("Two files: a.py and b.py.", keep=1)
        screen = show(store).ready()
        screen("button").filter(has_text="What was dropped").click()
        screen(".side.older").filter(has_text="Which Python files are here?").wait_for()
        screen(".side.newer").filter(has_text="Two files: a.py and b.py.").wait_for()


def test_forced_colours_leave_the_curve_visible_where_events_were_left_behind(show, filled):
    screen = show(filled, forced_colors="active").ready()
    assert 0.02 < screen.page.evaluate(COVERED) < 0.5


def test_the_last_of_a_million_rows_is_shown_and_within_the_height_of_all_browsers(show, filled):
    screen = show(filled).ready()
    screen.page.route("**/lines?*", lambda route: route.fulfill(json={"lines": []}))
    screen.page.route("**/events?*", lambda route: route.fulfill(json={"events": []}))
    screen.page.evaluate(EMPTY_LOG, 1_000_638)
    screen("#row-1000638").wait_for()
    assert screen(".rows .all").bounding_box()["height"] < 17_000_000
    box, rows = screen("#row-1000638").bounding_box(), screen(".rows").bounding_box()
    assert box["y"] + box["height"] <= rows["y"] + rows["height"] + 1
    screen.press("Home")
    screen("#row-1").wait_for()
    screen(".rows").evaluate("box => { box.scrollTop = box.scrollHeight / 2; }")
    screen(".row[id^=row-500]").first.wait_for()


def test_a_store_that_cannot_be_counted_says_so(show, filled):
    screen = show(filled, "/")
    screen.expected.append("status of 500")
    wrong = {"error": "the store is damaged: restore a backup"}
    screen.page.route("**/api/stats", lambda route: route.fulfill(status=500, json=wrong))
    screen("a").filter(has_text="Check the store").click()
    screen(".problem").filter(has_text="restore a backup").wait_for()
    screen(".good").wait_for()


def test_a_space_between_two_words_of_a_template_is_kept(show, filled):
    main = filled.agent("main")
    screen = show(filled, f"/s/{main.session}/a/{main.id}@7?pane=event")
    screen(".reason").filter(has_text="left behind by the rewind at 9. Go to 9").wait_for()


def test_a_row_of_a_call_names_the_tool_and_what_it_is_about(show, filled):
    screen = show(filled).ready()
    assert screen.row(7).locator(".text").inner_text() == "delete b.py"
