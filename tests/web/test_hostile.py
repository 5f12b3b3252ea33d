"""Hostile logs, hostile pages and hostile neighbours, in a real browser."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import backstory
from tests.web.test_render import HOSTILE, PNG
from tools.site import served, write_address


def test_a_hostile_log_is_legible_and_does_nothing(show):
    with backstory.open(":memory:") as store:
        main = store.start("main<script>")
        for text in HOSTILE:
            main.append("user", text.replace("\x00", "") or "-")
            main.append("assistant", text.replace("\x00", ""))
        arguments = {"html": "<script>alert(1)</script>", "nul": "\\u0000"}
        call = main.tool_call("<img src=x onerror=alert(1)>", arguments)
        main.tool_result(call, "<script>alert(1)</script>" + "x" * 1_000_000)
        main.mark("<svg onload=alert(1)>")
        main.user("look", data={"native": {"image": PNG}})
        screen = show(store, f"/s/{main.session}/a/{main.id}").ready()
        screen("img").wait_for()
        for pane in ("2", "3", "4", "1"):
            screen.press(pane)
            screen(".pane").wait_for()
        for _ in range(4):
            screen.press("PageUp")
        screen.press("Home")
        screen(".message .body").filter(has_text="<script>alert(1)</script>").first.wait_for()
        screen.press("/")
        screen(".search-box input").fill("alert")
        screen(".result .snippet").first.wait_for()
        assert screen("script").count() == 2  # our own: the import map and the first module
        assert screen("svg[onload], style, iframe, object").count() == 0


SCRIPT = "Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'})"
ATTEMPTS = {
    "markup": "document.body.innerHTML = '<b>x</b>'",
    "script": f"document.head.append({SCRIPT})",
    "style": "document.body.setAttribute('style', 'color: rgb(1, 2, 3)')",
    "eval": "eval('window.ran = 1')",
}
# Later, as the page itself would: what the driver evaluates at once is allowed more.
LATER = """() => new Promise((done) => setTimeout(() => {
  try { ATTEMPT } catch (error) { done(error.name); }
  done("went through");
}))"""
LOOK = """() => [window.ran, document.querySelectorAll('body > b').length,
  getComputedStyle(document.body).color === 'rgb(1, 2, 3)']"""


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_browser_refuses_markup_scripts_styles_and_evaluation(show, filled, attempt):
    screen = show(filled).ready()
    screen.expected = [".*"]
    outcome = screen.page.evaluate(LATER.replace("ATTEMPT", ATTEMPTS[attempt]))
    assert screen.page.evaluate(LOOK) == [None, 0, False]
    assert (outcome == "went through") == (
        attempt == "style"
    )  # a style is refused without an error


def test_a_foreign_image_is_not_even_asked_for(show, filled):
    screen = show(filled).ready()
    screen.expected = [".*"]
    blocked = screen.page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
          document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }));
        })"""
    )
    assert blocked == "img-src"
    screen.asked.clear()


class Neighbour(BaseHTTPRequestHandler):
    """A page on another port of this machine."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>neighbour</h1>")

    def log_message(self, *_):
        pass


@pytest.fixture
def neighbour():
    server = HTTPServer(("127.0.0.1", 0), Neighbour)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


TRY = """async ([url, options]) => {
  try { const answer = await fetch(url, options); return [answer.type, answer.status, await answer.text()]; }
  catch (error) { return [error.name]; }
}"""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_port_reads_nothing_and_writes_nothing(browser, filled, neighbour, name):
    main = filled.agent("main")
    with served(filled, write=True, key="the key") as site:
        page = browser.new_page()
        page.goto(f"http://{name}:{neighbour}/")
        base = f"http://127.0.0.1:{site.port}"
        key = {"authorization": "Bearer the key", "content-type": "application/json"}
        body = '{"move": "clear", "expected": 10}'
        move = f"{base}/api/agents/{main.id}/move"
        for url, options in [
            (f"{base}/api/sessions", {"headers": key}),
            (f"{base}/api/sessions", {}),
            (move, {"method": "POST", "headers": key, "body": body}),
            (move, {"method": "POST", "mode": "no-cors", "body": body}),
            (f"{base}/", {"mode": "no-cors"}),
        ]:
            answer = page.evaluate(TRY, [url, options])
            assert answer[0] in ("TypeError", "opaque"), answer
            assert answer[1:] in ([], [0, ""])
        assert main.head == 10
        page.close()


def test_a_code_works_once_and_the_key_stays_out_of_addresses_and_the_history(browser, filled):
    with served(filled) as site:
        context = browser.new_context()
        page = context.new_page()
        asked = []
        page.on(
            "request", lambda request: asked.append((request.url, request.headers.get("referer")))
        )
        address = site.build_address()
        page.goto(address)
        page.locator(".sessions li").first.wait_for()
        key, code = site.key, address.partition("#code=")[2]
        assert "#" not in page.url
        assert not [url for url, _ in asked if key in url or code in url.partition("#")[0]]
        assert not [referer for _, referer in asked if referer]
        page.reload()
        page.locator(".sessions li").first.wait_for()
        second = browser.new_context().new_page()
        second.goto(address)
        second.locator("dialog").filter(has_text="already used").wait_for()
        second.context.close()
        context.close()


def test_without_a_key_the_page_says_where_to_get_one(browser, filled):
    with served(filled) as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(write_address(site).partition("#")[0])
        page.locator("dialog").filter(has_text="open the newest address").wait_for()
        context.close()
