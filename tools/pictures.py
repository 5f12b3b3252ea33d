"""Takes pictures of every view of the page, light and dark, wide and narrow, to be looked at.

python -m tools.pictures FOLDER [STORE]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import backstory
from tools import demo
from tools.browser import started
from tools.site import served

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
VIEWS = {
    "context": "",
    "scrubbed": "@38",
    "event": "@33?pane=event",
    "request": "?pane=request&format=anthropic",
}


def main(folder: Path, url: str) -> None:
    """All pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with backstory.open(url) as store, started() as browser, served(store, write=True) as site:
        for size, (width, height) in SIZES.items():
            for theme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                page = context.new_page()
                page.on("console", lambda message: print("console:", message.text))
                page.on("pageerror", lambda error: print("error:", error))
                _all(page, store, site, folder / f"{size}-{theme}")
                context.close()


def _all(page: Any, store: backstory.Store, site: Any, name: Path) -> None:
    origin, _, key = site.address.partition("#")
    main, forks = store.agent("main"), store.agents(session="main")
    base = f"{origin.rstrip('/')}/s/{main.session}/a/{main.id}"
    page.goto(f"{origin}#{key}")
    _shoot(page, f"{name}-sessions", ".sessions tbody tr")
    for view, rest in VIEWS.items():
        page.goto(base + rest)
        _shoot(
            page,
            f"{name}-{view}",
            ".row .text:not(:empty)" if _shows_events(name, rest) else ".message .body, .message pre",
        )
    page.goto(f"{base}?pane=diff&with={forks[1].id}@{forks[1].head}")
    _shoot(page, f"{name}-diff", ".pair")
    if "narrow" in name.name:
        for part in ("Branches", "Events"):
            page.get_by_role("button", name=part, exact=True).click()
            _shoot(page, f"{name}-part-{part.lower()}", ".parts")
    page.goto(f"{origin.rstrip('/')}/check")
    _shoot(page, f"{name}-check", ".good")
    page.goto(base)
    page.get_by_text("following").wait_for()
    page.locator("header .search").click()
    page.locator(".search-box input").fill("parser test")
    _shoot(page, f"{name}-search", ".result .snippet")
    page.keyboard.press("Escape")
    if "wide" in name.name:
        page.get_by_role("button", name="Clear", exact=True).click()
        _shoot(page, f"{name}-move", "dialog .lines")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        _shoot(page, f"{name}-keys", "dialog dl")
        page.keyboard.press("Escape")
        page.keyboard.press("o")
        _shoot(page, f"{name}-overview", ".overview tbody td")
        page.keyboard.press("Escape")
        _changes(page, store, name, base)


def _shows_events(name: Path, rest: str) -> bool:
    """A narrow screen shows one part at a time: the events, unless the address names a pane."""
    return "narrow" in name.name and "pane=" not in rest


def _changes(page: Any, store: backstory.Store, name: Path, base: str) -> None:
    """What changed since a pinned position; by time; what a compaction dropped."""
    main = store.agent("main")
    page.goto(f"{base}@30")
    page.locator(".row .text:not(:empty)").first.wait_for()
    page.locator(".since button").click()
    page.keyboard.press("g")
    page.locator(".since summary").click()
    _shoot(page, f"{name}-since", ".since input")
    page.keyboard.press("t")
    _shoot(page, f"{name}-time", ".status.on")
    page.keyboard.press("t")
    clear = next(event for event in main.events() if event.kind == "clear")
    page.goto(f"{base}@{clear.seq}?pane=event")
    _shoot(page, f"{name}-compaction", ".reason")


def _shoot(page: Any, name: str, ready: str) -> None:
    page.locator(ready).first.wait_for()
    page.wait_for_timeout(250)
    page.screenshot(path=f"{name}.png")


def for_docs(folder: Path, url: str) -> None:
    """The two pictures of the documentation."""
    with backstory.open(url) as store, started() as browser, served(store) as site:
        main = store.agent("main")
        fork = store.agent("with configparser")
        paths = {
            "web-context": (main, "light", "@33", ".message .body"),
            "web-diff": (
                main,
                "dark",
                f"@{fork.fork_seq + 10}?pane=diff&with={fork.id}@{fork.head}",
                ".pair",
            ),
        }
        origin, _, key = site.address.partition("#")
        for name, (agent, theme, rest, ready) in paths.items():
            page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme=theme)
            page.goto(f"{origin}s/{agent.session}/a/{agent.id}{rest}#{key}")
            page.locator(".row .text:not(:empty)").first.wait_for()
            _shoot(page, str(folder / name), ready)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        if len(sys.argv) < 3:
            demo.write(f"{made}/demo.db")
        if sys.argv[1] == "--docs":
            for_docs(Path(__file__).parent.parent / "docs", f"{made}/demo.db")
        else:
            main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else f"{made}/demo.db")
