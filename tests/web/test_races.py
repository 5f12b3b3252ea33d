"""Answers that come late, and what is written while the page is open: nothing is shown in the wrong place."""

import re

import pytest

import backstory
from tests.web.conftest import fill


@pytest.fixture
def two():
    """Two sessions that have nothing in common but the number of their events."""
    with backstory.open(":memory:") as store:
        for name in ("main", "other"):
            agent = store.start(name)
            agent.extend([("user", f"{name} {n}") for n in range(1, 1_001)])
        yield store


def hold(screen, pattern):
    """Keep the requests whose address matches, and return the list of them."""
    held = []
    screen.page.route(re.compile(pattern), lambda route: held.append(route))
    return held


SWITCH = """async ([session, agent]) => {
  const state = await import("page/state.js");
  const log = await import("page/open_log.js");
  state.navigate(`${state.root}/s/${session}/a/${agent}`);
  await log.loadLines(log.findMissingLines([300]));
  await log.loadEvents([300]);
  return [log.textAt(300), log.eventAt(300).content];
}"""


def test_what_is_read_before_the_next_outline_has_come_belongs_to_the_agent_that_is_shown(
    show, two
):
    other = two.agent("other")
    screen = show(two).ready()
    hold(screen, f"/agents/{other.id}/frame")
    found = screen.page.evaluate(SWITCH, [other.session, other.id])
    assert found == ["main 300", "main 300"]


def test_the_first_event_of_an_empty_agent_appears_by_itself(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        screen = show(store)
        screen(".pane .hint").filter(has_text="Nothing has been written yet.").wait_for()
        screen(".status.on").wait_for()
        main.user("At last.")
        screen.row(1).filter(has_text="At last.").wait_for()


NAVIGATE = """async ([session, agent]) => {
  const state = await import("page/state.js");
  state.navigate(`${state.root}/s/${session}/a/${agent}`);
}"""


def test_a_pin_in_another_session_is_compared_with_nothing_here(show, two):
    screen = show(two).ready()
    screen.press("d")
    other = two.agent("other")
    screen.page.evaluate(NAVIGATE, [other.session, other.id])
    screen.at("other@1,000")
    screen.press("4")
    screen(".diff .hint").filter(has_text="Choose a branch").wait_for()
    screen.press("D")
    screen.at("other@1,000")
    screen.page.go_back()
    screen.at("main@1,000")
    screen.press("4")
    screen(".diff button").filter(has_text="Swap").wait_for()


TWO_FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)))"""


def release(screen, held):
    """Let the request go that was held, and wait until its answer was read."""
    [route] = held
    with screen.page.expect_response(route.request.url) as answer:
        route.continue_()
    answer.value.body()
    screen.page.evaluate(TWO_FRAMES)


def test_more_hits_that_come_after_other_words_were_typed_are_left_out(show, two):
    screen = show(two).ready()
    held = hold(screen, "/search.*after=50")
    screen.press("/")
    screen(".search-box input").fill("other")
    screen(".search-box .more").click()
    screen(".search-box input").fill('"main 300"')
    hit = screen(".result .snippet").filter(has_text="main 300")
    hit.wait_for()
    release(screen, held)
    assert hit.count() == 1
    assert "Searching" not in screen(".search-box [role=status]").inner_text()


@pytest.fixture
def library():
    with backstory.open(":memory:") as store:
        for n in range(80):
            store.start(f"session {n}").user(f"Prompt {n}")
        yield store


def choose_one(screen):
    screen(".filter").fill("prompt 77")
    screen(".finding [role=status]").filter(has_text="1 of 80").wait_for()
    assert screen(".sessions li").count() == 1


def test_earlier_sessions_that_come_after_the_filter_changed_are_left_out(show, library):
    screen = show(library, "/")
    held = hold(screen, "/sessions.*after=50")
    screen("button.more").click()
    choose_one(screen)
    release(screen, held)
    assert screen(".sessions li").count() == 1


def test_rows_that_were_written_to_come_back_only_under_the_filter_that_asked(show, library):
    screen = show(library, "/")
    screen(".status.on").wait_for()
    held = hold(screen, "/sessions.*ids=")
    with screen.page.expect_request(re.compile("ids=")):
        library.agent("session 3").user("Again.")
    choose_one(screen)
    release(screen, held)
    assert screen(".sessions li").count() == 1


UPDATED = """async (agent) => {
  const state = await import("page/state.js");
  return state.agents.value.get(agent).updated_at;
}"""


def test_what_is_heard_of_an_agent_has_the_time_of_its_last_event(show):
    with backstory.open(":memory:") as store:
        main = fill(store)
        screen = show(store).ready()
        screen(".status.on").wait_for()
        before = screen.page.evaluate(UPDATED, main.id)
        main.user("Later.")
        screen.row(11).filter(has_text="Later.").wait_for()
        assert screen.page.evaluate(UPDATED, main.id) > before


def navigate_away(screen, other):
    screen.page.evaluate(NAVIGATE, [other.session, other.id])
    screen.at("other@1,000")


def test_an_error_that_comes_late_leaves_the_next_view_alone(show, two):
    screen = show(two).ready()
    held = hold(screen, "/sessions/ffff/agents")
    with screen.page.expect_request(re.compile("/sessions/ffff/agents")):
        screen.page.evaluate(NAVIGATE, ["ffff", "0000"])
    navigate_away(screen, two.agent("other"))
    screen.expected.append("status of 404")
    release(screen, held)
    assert screen(".bench").count() == 1
    assert screen("[role=alert]").count() == 0


def test_agents_that_come_late_leave_the_next_session_alone(show, two):
    other = two.agent("other")
    screen = show(two).ready()
    held = hold(screen, f"/sessions/{other.session}/agents")
    with screen.page.expect_request(re.compile("/agents$")):
        screen.page.evaluate(NAVIGATE, [other.session, other.id])
    screen.page.go_back()
    screen.at("main@1,000")
    release(screen, held)
    assert screen.texts(".name > span") == ["main"]


REFER = """async () => {
  const state = await import("page/state.js");
  state.navigate(`${state.root}/r/main`);
}"""


def test_a_reference_that_is_resolved_late_leads_nowhere(show, two):
    screen = show(two).ready()
    held = hold(screen, "/resolve")
    with screen.page.expect_request(re.compile("/resolve")):
        screen.page.evaluate(REFER)
    other = two.agent("other")
    navigate_away(screen, other)
    release(screen, held)
    assert other.session in screen.page.url
