"""The page for several people and in other servers: behind a real proxy on PostgreSQL, and mounted."""

import http.client
import re
import threading
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import backstory
import backstory.web
from backstory.web import Proxy
from tests.web.conftest import fill

SECRET = "between the proxy and the page"
LOGIN = "x-login"  # what stands for a log-in here: the browser sends it with every request


@contextmanager
def running(application):
    """An ASGI application on a free port."""
    config = uvicorn.Config(
        application, port=0, log_level="error", timeout_graceful_shutdown=1, ws="none"
    )
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    sockets[0].listen()
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


class Authenticating(BaseHTTPRequestHandler):
    """A reverse proxy that knows who is there, and drops what the client says about it."""

    upstream = 0
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        dropped = {"x-forwarded-user", "x-backstory-secret", "connection"}
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in dropped
        }
        headers |= {"X-Backstory-Secret": SECRET, "X-Forwarded-User": self.headers.get(LOGIN, "")}
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with closing(http.client.HTTPConnection("127.0.0.1", self.upstream)) as upstream:
            upstream.request(self.command, self.path, body or None, headers)
            with closing(upstream.getresponse()) as answer:
                self._pass_on(answer)

    def _pass_on(self, answer):
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while part := answer.read1():
            self.wfile.write(part)
            self.wfile.flush()
        self.close_connection = True

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_):
        pass

    def handle(self):
        with suppress(OSError):  # the browser left a stream
            super().handle()


@contextmanager
def proxied(store):
    """The address of a proxy before a page on which only ada may write."""
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Authenticating)
    proxy.daemon_threads = True
    public = f"http://127.0.0.1:{proxy.server_port}"
    rules = Proxy(SECRET, writers=frozenset({"ada"}))
    pages = backstory.web.app(store, write=True, public_url=public, proxy=rules)
    with running(pages) as port:
        Authenticating.upstream = port
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield public
        finally:
            pages.feed.close()
            proxy.shutdown()
            proxy.server_close()


def test_two_people_behind_a_proxy_share_a_store_on_postgresql(browser, new_url):
    with backstory.open(new_url("postgres")) as store, proxied(store) as public:
        main = fill(store)
        pages = {}
        for person in ("ada", "bob"):
            forged = {LOGIN: person, "x-forwarded-user": "root", "x-backstory-secret": "guess"}
            page = browser.new_context(extra_http_headers=forged).new_page()
            page.set_default_timeout(60_000)
            page.goto(f"{public}/s/{main.session}/a/{main.id}")
            page.locator(".status.on").wait_for()
            pages[person] = page
        assert pages["bob"].locator(".menu").count() == 0
        assert pages["bob"].locator(".mode").get_attribute("title") == "as bob"
        pages["ada"].locator(".menu > button").click()
        pages["ada"].locator(".moves button").filter(has_text="Clear").click()
        pages["ada"].locator("dialog .primary:not([disabled])").click()
        pages["bob"].locator(".position b").filter(has_text="main@11").wait_for()
        assert (main.events([11])[0].kind, (main.events([11])[0].data or {})["by"]) == (
            "clear",
            "ada",
        )
        for page in pages.values():
            page.context.close()


@pytest.mark.parametrize("prefix", ["/history", "/tools/history"])
def test_mounted_below_a_path_the_page_finds_everything_below_it(browser, filled, prefix):
    main = filled.agent("main")
    pages = backstory.web.app(filled)
    with running(Starlette(routes=[Mount(prefix, pages)])) as port:
        asked = []
        page = browser.new_context().new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{port}{prefix}/r/main@4")
        page.locator(".position b").filter(has_text=re.compile("^main@4$")).wait_for()
        page.locator(".message .body").first.wait_for()
        assert page.url == f"http://127.0.0.1:{port}{prefix}/s/{main.session}/a/{main.id}@4"
        page.locator(".brand").click()
        page.locator(".sessions a").first.click()
        page.locator(".status.on").wait_for()
        assert all(url.startswith(f"http://127.0.0.1:{port}{prefix}/") for url in asked), asked
        page.context.close()
        pages.feed.close()
