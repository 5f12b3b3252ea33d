"""Takes pictures of every view of the page, light and dark, wide and narrow, to be looked at.

    python -m tools.pictures FOLDER [STORE [REF]]

Without STORE it is the demo. REF is the agent that is shown; by default the one that was written to last.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import backstory
from tools import demo
from tools.browser import started
from tools.site import served, write_address

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
EVENTS, MESSAGES = ".row .text:not(:empty)", ".message .body"
# What is there when a view is ready, where it is not the same as for the others.
READY = {"event": MESSAGES, "request": ".message pre", "diff": ".pair, .diff .common"}


def main(folder: Path, url: str, ref: str) -> None:
    """All pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with backstory.open(url) as store, started() as browser, served(store, write=True) as site:
        for size, (width, height) in SIZES.items():
            for theme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme
                )
                page = context.new_page()
                page.on("console", lambda message: print("console:", message.text))
                page.on("pageerror", lambda error: print("error:", error))
                _all(page, store, ref, site, folder / f"{size}-{theme}")
                context.close()


def _all(page: Any, store: backstory.Store, ref: str, site: Any, name: Path) -> None:
    agent = store.resolve(ref).agent
    origin, _, key = write_address(site).partition("#")
    base = f"{origin.rstrip('/')}/s/{agent.session}/a/{agent.id}"
    page.goto(f"{origin}#{key}")
    _shoot(page, f"{name}-sessions", ".sessions li")
    for view, rest in _views(store, agent).items():
        page.goto(base + rest)
        _shoot(page, f"{name}-{view}", READY.get(view, EVENTS if _is_narrow(name) else MESSAGES))
    if _is_narrow(name):
        for part in ("Branches", "Events"):
            page.get_by_role("button", name=part, exact=True).click()
            _shoot(page, f"{name}-part-{part.lower()}", ".parts")
    page.goto(f"{origin.rstrip('/')}/check")
    _shoot(page, f"{name}-check", ".good, .problem")
    page.goto(base)
    page.get_by_text("following").wait_for()
    page.locator("header .search").click()
    page.locator(".search-box input").fill(_words(agent))
    _shoot(page, f"{name}-search", ".result .snippet")
    page.keyboard.press("Escape")
    if not _is_narrow(name):
        _dialogs(page, name)
        _changes(page, agent, name, base)


def _views(store: backstory.Store, agent: backstory.Agent) -> dict[str, str]:
    """What stands behind the agent's address for each view."""
    answers = [event.seq for event in agent.events() if event.kind == "assistant"]
    other = next(
        (one for one in store.agents(session=agent.session)[1:] if one.id != agent.id), agent
    )
    return {
        "context": "",
        "scrubbed": f"@{agent.head * 4 // 9}",
        "event": f"@{answers[len(answers) // 3]}?pane=event",
        "request": "?pane=request&format=anthropic",
        "diff": f"?pane=diff&with={other.id}@{other.head if other.id != agent.id else other.head // 2}",
    }


def _words(agent: backstory.Agent) -> str:
    """Something to search for."""
    prompt = next(event.content or "" for event in agent.events() if event.kind == "user")
    return " ".join(re.findall(r"\w{4,}", prompt)[:2])


def _is_narrow(name: Path) -> bool:
    """A narrow screen shows one part at a time: the events, unless the address names a pane."""
    return name.name.startswith("narrow")


def _dialogs(page: Any, name: Path) -> None:
    page.locator(".menu > button").click()
    _shoot(page, f"{name}-menu", ".moves button")
    page.locator(".moves button").filter(has_text="Clear").click()
    _shoot(page, f"{name}-move", "dialog .lines")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    _shoot(page, f"{name}-keys", "dialog dl")
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    _shoot(page, f"{name}-overview", ".overview tbody td")
    page.keyboard.press("Escape")


def _changes(page: Any, agent: backstory.Agent, name: Path, base: str) -> None:
    """What changed since a pinned position; by time; what a compaction dropped."""
    page.goto(f"{base}@{agent.head * 4 // 11}")
    page.locator(EVENTS).first.wait_for()
    page.locator(".since button").click()
    page.keyboard.press("g")
    page.locator(".since summary").click()
    _shoot(page, f"{name}-since", ".since input")
    page.keyboard.press("t")
    _shoot(page, f"{name}-time", ".status.on")
    page.keyboard.press("t")
    clear = next((event for event in agent.events() if event.kind == "clear"), None)
    if clear is not None:
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
        origin, _, key = write_address(site).partition("#")
        for name, (agent, theme, rest, ready) in paths.items():
            page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme=theme)
            page.goto(f"{origin}s/{agent.session}/a/{agent.id}{rest}#{key}")
            page.locator(".row .text:not(:empty)").first.wait_for()
            _shoot(page, str(folder / name), ready)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        folder, *given = sys.argv[1:]
        url, ref = [*given, *(f"{made}/demo.db", "@")[len(given) :]]
        if not given:
            demo.write(url)
        if folder == "--docs":
            for_docs(Path(__file__).parent.parent / "docs", url)
        else:
            main(Path(folder), url, ref if given else "main")
