"""Several tabs of one browser: one stream for all, one key, and rows that are brought up to date."""

import threading

import backstory
from tests.web.conftest import fill
from tests.web.screen import Screen
from tools.site import served

STREAMS = """async () => {
  const state = await import("page/state.js");
  const { held } = await navigator.locks.query();
  return held.filter((lock) => lock.name === `backstory-live ${state.root}`).length;
}"""


def open_tab(context, site, store, path=None):
    context.set_default_timeout(20_000)
    return Screen(context.new_page(), site, store).open(path)


def test_nine_tabs_share_one_stream_and_another_one_takes_over(browser, filled):
    main = filled.agent("main")
    with served(filled) as site:
        context = browser.new_context()
        tabs = [open_tab(context, site, filled) for _ in range(9)]
        for tab in tabs:
            tab(".status.on").wait_for()
        assert tabs[8].page.evaluate(STREAMS) == 1
        main.user("For all tabs")
        for tab in tabs:
            tab.row(11).filter(has_text="For all tabs").wait_for()
        reading = [tab for tab in tabs if any(url.endswith("/live") for url in tab.asked)]
        assert len(reading) == 1
        reading[0].page.close()
        others = [tab for tab in tabs if tab is not reading[0]]
        others[0].page.wait_for_function(f"({STREAMS})().then((held) => held === 1)")
        main.user("For those that are left")
        for tab in others:
            tab.row(12).filter(has_text="For those that are left").wait_for()
            tab.check_quiet()
        context.close()


def test_a_link_in_a_new_tab_opens_without_a_code(browser, filled):
    with served(filled) as site:
        context = browser.new_context()
        tab = open_tab(context, site, filled, "/")
        tab(".sessions a").first.wait_for()
        with context.expect_page() as opening:
            tab(".sessions a").first.click(modifiers=["Control"])
        opening.value.locator(".row .text:not(:empty)").first.wait_for()
        pasted = context.new_page()
        pasted.goto(opening.value.url)
        pasted.locator(".row .text:not(:empty)").first.wait_for()
        context.close()


def test_after_a_restart_open_tabs_recover_when_the_new_address_was_opened_once(browser, filled):
    context = browser.new_context()
    context.set_default_timeout(40_000)
    with served(filled) as site:
        tab = open_tab(context, site, filled)
        tab(".status.on").wait_for()
        port = site.port
    tab(".status.lost").wait_for()
    with served(filled, port=port) as site:
        tab("dialog").filter(has_text="open the newest address").wait_for()
        page = context.new_page()
        page.goto(site.build_address())
        page.locator(".sessions li").first.wait_for()
        tab(".status.on").wait_for()
        assert tab("dialog").count() == 0
        page.goto(site.build_address())  # a used code does no harm where the key is known
        page.goto(f"{site.base}/#code=used")
        page.locator(".sessions li").first.wait_for()
        assert page.locator("dialog").count() == 0
    context.close()


def test_the_list_keeps_its_rows_while_somebody_writes_and_asks_for_those_that_changed(show):
    with backstory.open(":memory:") as store:
        for n in range(120):
            store.start(f"session {n}").user(f"Prompt {n}")
        first = store.agent("session 0")
        screen = show(store, "/")
        for count in (100, 120):
            screen("button.more").click()
            screen(".sessions li").nth(count - 1).wait_for()
        screen(".status.on").wait_for()
        screen.asked.clear()
        written = threading.Event()

        def write():
            for n in range(40):
                first.user(f"More {n}")
                written.wait(0.05)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        screen(".sessions small").filter(has_text="41 events").wait_for()
        assert screen(".sessions li").count() == 120
        lists = [url for url in screen.api() if url.startswith("/sessions")]
        assert 1 <= len(lists) <= 6
        assert all("ids=" in url for url in lists)
        fill(store)
        screen(".sessions .title").filter(has_text="Which Python files").wait_for()
        assert screen(".sessions li").count() == 121
