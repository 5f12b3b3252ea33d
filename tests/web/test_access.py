"""For everyone: nothing that axe-core finds, narrow screens, zoom, forced colours, the keyboard alone."""

import pytest

from tools.browser import axe

STATES = {
    "context": ("", []),
    "scrubbed": ("@5", []),
    "event": ("@6?pane=event", []),
    "request": ("?pane=request", []),
    "diff": ("?pane=diff", []),
    "find": ("?q=files", []),
    "search": ("", ["/"]),
    "keys": ("", ["?"]),
    "move": ("", ["u"]),
    "overview": ("", ["o"]),
}
RULES = """async (source) => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const seen = (nodes) => nodes.slice(0, 4).map((node) => node.html.slice(0, 200));
  return found.violations.map((one) => [one.id, seen(one.nodes)]);
}"""

WIDE = """() => [...document.querySelectorAll('button, input, .message, .row')]
  .filter((one) => one.offsetParent && one.getBoundingClientRect().right > 391)
  .map((one) => one.outerHTML.slice(0, 120))"""
FOCUS = """() => {
  const one = document.activeElement;
  return one.getAttribute('role') || one.className || one.tagName;
}"""


def violations(screen):
    screen.page.evaluate(axe())
    return screen.page.evaluate(RULES)


LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("state", [*STATES, "sessions", "check"])
def test_axe_finds_nothing(show, filled, state, look):
    path, keys = STATES.get(state, ("", []))
    main = filled.agent("main")
    where = {"sessions": "/", "check": "/check"}.get(state, f"/s/{main.session}/a/{main.id}{path}")
    screen = show(filled, where, write=True, **LOOKS[look])
    if state in STATES:
        screen(".row .text:not(:empty)").first.wait_for()
        for key in keys:
            screen.press(key)
            screen("dialog").wait_for()
        if state == "request":
            screen(".request pre").first.wait_for()
    else:
        screen("tbody tr, .sessions li").first.wait_for()
    assert violations(screen) == []


@pytest.mark.parametrize("path", ["/", "/check", None])
def test_on_a_narrow_screen_nothing_overflows(show, filled, path):
    screen = show(filled, path, viewport=(390, 844), has_touch=True)
    screen("tbody tr, .sessions li, .row .text:not(:empty)").first.wait_for()
    parts = ["Branches", "Context", "Events"] if path is None else [None]
    for part in parts:
        if part:
            screen.page.get_by_role("button", name=part, exact=True).click()
        width = screen.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, part
        wide = screen.page.evaluate(WIDE)
        assert wide == [], part


@pytest.mark.parametrize("title", ["https://example.org/" + "a" * 300, "a long title " * 30])
def test_on_a_narrow_screen_a_long_title_pushes_nothing_away(show, filled, title):
    filled.agent("main").describe(title=title, cwd="/home/" + "ada" * 50)
    screen = show(filled, "/", viewport=(390, 844))
    screen("tbody tr, .sessions li").first.wait_for()
    assert screen.page.evaluate("document.querySelector('main').scrollWidth") <= 390


def test_a_finger_drags_the_scrubber(show, filled):
    screen = show(filled, viewport=(390, 844), has_touch=True)
    screen(".row .text:not(:empty)").first.wait_for()
    box = screen("[role=slider]").bounding_box()
    screen.page.touchscreen.tap(box["x"] + 14 + (box["width"] - 28) * 0.4, box["y"] + 40)
    screen.at("main@4")


def test_a_finger_that_moves_drags_the_cursor_along(show, filled):
    screen = show(filled, viewport=(390, 844), has_touch=True)
    screen(".row .text:not(:empty)").first.wait_for()
    box = screen("[role=slider]").bounding_box()
    touch = screen.page.context.new_cdp_session(screen.page)

    def at(part):
        return [{"x": box["x"] + 14 + (box["width"] - 28) * part, "y": box["y"] + 40}]

    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at(0.2)})
    screen.at("main@2")
    for part in (0.3, 0.4, 0.5, 0.6):
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": at(part)})
    screen.at("main@6")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert screen.page.evaluate("scrollX + scrollY") == 0


def test_everything_can_be_reached_by_the_keyboard_and_the_focus_comes_back(show, filled):
    screen = show(filled, write=True).ready()
    roles = set()
    for _ in range(60):
        screen.press("Tab")
        roles.add(screen.page.evaluate(FOCUS))
    assert {"treeitem", "slider", "listbox", "tab", "tabpanel", "search"} <= roles
    screen("header .search").focus()
    screen.press("Enter")
    screen(".search-box input").wait_for()
    screen.press("Escape")
    screen("dialog").wait_for(state="detached")
    assert screen.page.evaluate("document.activeElement.className") == "search"
    screen("[role=slider]").focus()
    screen.press("ArrowLeft")
    screen.at("main@9")
    text = screen("[role=slider]").get_attribute("aria-valuetext")
    assert text.startswith("Position 9 of 10")
    assert text.endswith("6 live, about 43 tokens") or "live, about" in text
    screen(".tabs [role=tab][aria-selected=true]").focus()
    screen.press("ArrowRight")
    screen(".pane.event").wait_for()


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": (720, 450)},  # 1440 x 900 at 200 %
        {"forced_colors": "active"},
        {"reduced_motion": "reduce"},
    ],
)
def test_zoom_forced_colours_and_reduced_motion_leave_it_usable(show, filled, options):
    screen = show(filled, **options)
    screen(".row .text:not(:empty)").first.wait_for()
    assert screen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    screen.press("k")
    screen.at("main@9")
    assert screen.row(9).is_visible()
