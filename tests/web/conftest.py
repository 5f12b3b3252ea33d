"""A store with branches, dead ends and a sub-agent; a browser; and the page on it."""

from contextlib import ExitStack

import pytest

import backstory
from tests.web.screen import Screen
from tools.browser import started
from tools.site import served


def fill(store):
    """A conversation with a mark, a dead end, a branch, a sub-agent and a failed tool."""
    main = store.start("main", system="Be careful.")
    main.user("Which Python files are here?")
    call = main.tool_call("glob", {"pattern": "*.py"}, id="c1")
    main.tool_result(call, "a.py\nb.py")
    main.mark("two files")
    main.user("Delete b.py.")
    failed = main.tool_call("delete", {"path": "b.py"}, id="c2")
    main.tool_result(failed, "permission denied", error=True)
    main.rewind()
    main.fork("idea", at=4).user("Rename a.py to main.py.")
    main.spawn("reviewer").user("Look at the parser.")
    main.assistant("There are **two** files.")
    return main


@pytest.fixture
def filled():
    with backstory.open(":memory:") as store:
        fill(store)
        yield store


# Its event loop runs as long as it is open, and tests of asyncio could not run in the same process.
@pytest.fixture(scope="module")
def browser(request):
    if request.config.getoption("--without-browser"):
        pytest.skip("NOT TESTED: --without-browser was given")
    with started() as browser:
        yield browser


@pytest.fixture
def show(browser):
    """Serves a store and opens a page on it; whatever goes wrong on the page fails the test."""
    with ExitStack() as stack:
        screens = []

        def show(store, path=None, *, viewport=(1440, 900), site=None, **options):
            context_options = {name: options.pop(name) for name in CONTEXT & options.keys()}
            site = site or stack.enter_context(served(store, **options))
            width, height = viewport
            context = browser.new_context(
                viewport={"width": width, "height": height}, **context_options
            )
            context.set_default_timeout(20_000)
            stack.callback(context.close)
            screen = Screen(context.new_page(), site, store)
            screens.append(screen)
            screen.open(path)
            return screen

        yield show
        for screen in screens:
            screen.check_quiet()


# What is said to the browser, not to the server.
CONTEXT = {"color_scheme", "forced_colors", "reduced_motion", "has_touch", "permissions"}
