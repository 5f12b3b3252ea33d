"""What differs between browsers, in Firefox: heights, tabs, modules in files, scrolling, drawing."""

import pytest

import backstory
from backstory.web.saved import build_file
from tests.web.test_reading import SCROLL
from tests.web.test_sights import EMPTY_LOG
from tools.firefox import find_firefox, run_firefox
from tools.site import served, write_address


@pytest.fixture(scope="module")
def running(request):
    path = find_firefox()
    if path is None or request.config.getoption("--without-browser"):
        pytest.skip("NOT TESTED IN FIREFOX: none is installed (apt-get install firefox-esr)")
    with run_firefox(path) as firefox:
        yield firefox


@pytest.fixture
def firefox(running):
    yield running
    assert not running.problems


def test_a_session_is_found_opened_and_read(firefox, filled):
    with served(filled) as site:
        tab = firefox.open(write_address(site))
        tab.wait_for(".sessions .title", "Which Python files")
        tab.evaluate("document.querySelector('.sessions a').click()")
        tab.wait_for(".message .body", "two")
        tab.wait_for(".row .text", "Delete b.py.")
        drawn = "document.querySelector('.scrubber canvas').toDataURL().length > 2000"
        tab.wait(drawn)


def test_tabs_share_the_key_and_one_stream(firefox, filled):
    main = filled.agent("main")
    with served(filled) as site:
        address = f"{site.base}/s/{main.session}/a/{main.id}"
        tabs = [firefox.open(site.build_address())]
        tabs[0].wait_for(".sessions .title", "Which Python files")
        tabs += [firefox.open(address) for _ in range(7)]
        tabs[-1].wait_for(".row .text", "Delete b.py.")
        held = "(await navigator.locks.query()).held.length"
        assert tabs[-1].evaluate(f"(async () => {held})()") == 1


def test_the_last_of_a_million_rows_is_shown(firefox, filled):
    main = filled.agent("main")
    with served(filled) as site:
        tab = firefox.open(f"{site.base}/s/{main.session}/a/{main.id}#key={site.key}")
        tab.wait_for(".message .body", "two")
        tab.evaluate(f"({EMPTY_LOG})(1000638)")
        tab.wait_for("#row-1000638")
        box = "document.querySelector('.rows').getBoundingClientRect()"
        row = "document.querySelector('#row-1000638').getBoundingClientRect()"
        assert tab.evaluate(f"{row}.bottom <= {box}.bottom + 1")
        tab.go("about:blank")
    firefox.problems.clear()  # the events that it asked for do not exist


def test_the_whole_context_can_be_scrolled_through(firefox):
    with backstory.open(":memory:") as store, served(store) as site:
        main = store.start("main")
        main.extend([("user", f"message {n}\n" * (n % 5 + 1)) for n in range(1, 121)])
        tab = firefox.open(f"{site.base}/s/{main.session}/a/{main.id}#key={site.key}")
        tab.wait_for(".message[data-seq='120'] .body", "message 120")
        seen, _ = tab.evaluate(f"({SCROLL})()")
        assert seen == list(range(1, 121))


def test_a_saved_file_is_the_page(firefox, filled, tmp_path):
    path = tmp_path / "main.html"
    path.write_text(build_file(filled, filled.resolve("main")))
    tab = firefox.open(path.as_uri())
    tab.wait_for(".position b", "main@10")
    tab.wait_for(".message .body", "two")
