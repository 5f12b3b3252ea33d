"""What the application answers where nothing is, and when nobody waits any more."""

import asyncio
import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import brotli
import pytest

import backstory
from backstory.errors import Busy
from backstory.web.watch import Watch
from tests.web.asgi import HOST, KEY, PORT, Client
from tests.web.conftest import fill


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/nothing", 404), ("GET", "/static/nothing", 404), ("GET", "/api/key", 405)],
)
def test_a_path_that_does_not_exist_is_an_error_in_json(filled, method, path, status):
    answer = Client(filled)(path, method)
    assert (answer.status, list(answer.json)) == (status, ["error"])


def test_an_unknown_address_is_the_page_that_says_so(filled):
    answer = Client(filled)("/nowhere")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"page.js" in answer.content


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip;q=1.0, br;q=0", "gzip"),
        ("br;q=0.000, gzip; q=0", None),
        ("BR", "br"),
        ("br;q=0.5", "br"),
        ("vibrant", None),
        ("", None),
    ],
)
def test_a_file_comes_in_an_encoding_that_the_client_takes(filled, accepted, encoding):
    found = Client(filled)("/static/page.js", headers=[("accept-encoding", accepted)])
    assert found.headers.get("content-encoding") == encoding
    plain = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding](found.content)
    assert plain == Client(filled)("/static/page.js").content


def test_a_find_that_nobody_waits_for_any_more_reads_no_further(monkeypatch):
    reading, left, pages = threading.Event(), threading.Event(), []

    def events(agent, *, after, until):
        pages.append(after)
        reading.set()
        assert left.wait(20)  # the page left while this one was read
        return []

    async def asked(client, path):
        messages = [
            {"type": "http.disconnect"},
            {"type": "http.request", "body": b"", "more_body": False},
        ]

        async def receive():
            if len(messages) == 1:
                await asyncio.to_thread(reading.wait, 20)
                asyncio.get_running_loop().call_soon(left.set)  # after it was noticed
            return messages.pop()

        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {KEY}".encode())]
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"q=x",
            "headers": headers,
        }
        await client.app({**scope, "server": ("127.0.0.1", PORT)}, receive, send)
        return sent[0]["status"]

    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.extend([("user", "text")] * 5_000)
        monkeypatch.setattr(type(main), "events", events)
        with ThreadPoolExecutor(1) as pool:
            status = pool.submit(
                lambda: asyncio.run(asked(Client(store), f"/api/agents/{main.id}/find"))
            )
            assert status.result() == 499
    assert pages == [0]


def test_a_stream_of_a_store_that_does_not_answer_ends_quietly_and_the_next_one_works(
    filled, monkeypatch
):
    def heads(query=None):
        raise Busy("the store is busy")

    client = Client(filled)
    with monkeypatch.context() as patch:
        patch.setattr(filled._backend, "list_agents", heads)
        assert client("/api/live").content == b""
    assert client("/api/live").content.startswith(b": hello")


def test_pages_that_open_at_once_have_one_watcher(filled, monkeypatch):
    made, watch = [], filled._backend.watch
    monkeypatch.setattr(filled._backend, "watch", lambda: made.append(watch()) or made[-1])

    async def opened():
        streams = [(one := Watch(filled)).stream(), one.stream()]
        await asyncio.gather(*(anext(stream) for stream in streams))
        for stream in streams:
            await stream.aclose()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(opened())).result()
    assert [one.closed for one in made] == [True]


def test_a_page_that_goes_while_its_stream_begins_leaves_no_watcher(filled, monkeypatch):
    made, watch = [], filled._backend.watch
    reading, left = threading.Event(), threading.Event()

    def heads(query=None):
        reading.set()
        left.wait(20)
        return []

    monkeypatch.setattr(filled._backend, "watch", lambda: made.append(watch()) or made[-1])
    monkeypatch.setattr(filled._backend, "list_agents", heads)

    async def opened():
        first = asyncio.ensure_future(anext(Watch(filled).stream()))
        await asyncio.to_thread(reading.wait, 20)
        first.cancel()
        asyncio.get_running_loop().call_soon(left.set)
        with pytest.raises(asyncio.CancelledError):
            await first

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(opened())).result()
    assert [one.closed for one in made] == [True]


def test_a_session_that_is_deleted_while_the_list_is_made_is_not_in_it(store, monkeypatch):
    one, other = store.start("one"), store.start("other")
    other.user("hello")
    sessions = type(store).sessions

    def listed(self, **options):
        found = sessions(self, **options)
        self.delete(one)
        return found

    monkeypatch.setattr(type(store), "sessions", listed)
    answer = Client(store)("/api/sessions")
    assert (answer.status, [each["name"] for each in answer.json["sessions"]]) == (200, ["other"])


def test_the_list_goes_on_behind_a_session_whose_root_was_deleted(store):
    older = store.start("older")
    root = store.start("root")
    root.user("hello")
    root.fork("left").user("still here")
    store.delete(root)
    answer = Client(store)(f"/api/sessions?before={root.session}")
    assert (answer.status, [each["id"] for each in answer.json["sessions"]]) == (200, [older.id])


def test_a_search_whose_index_is_behind_is_accepted_and_not_final(monkeypatch, tmp_path):
    monkeypatch.setattr("backstory.maintenance.search.AT_ONCE", 3)
    monkeypatch.setattr("backstory.maintenance.search.start_indexing", lambda backend: None)
    with backstory.open(tmp_path / "history.db") as store:
        main = fill(store)
        store.search("files", wait=True)
        main.extend([("user", f"More files {n}.") for n in range(5)])
        answer = Client(store)("/api/search?q=files")
        assert (answer.status, answer.json["done"], answer.json["total"]) == (202, 12, 17)
        store.search("files", wait=True)
        assert Client(store)("/api/search?q=files").status == 200


def test_a_defect_is_said_without_what_it_was_about(filled, monkeypatch):
    def broken(_store, **_):
        raise RuntimeError("a text of a log")

    monkeypatch.setattr(type(filled), "sessions", broken)
    asked, sent = [], []

    async def send(message):
        sent.append(message)

    async def receive():
        if asked:
            await asyncio.Event().wait()
        asked.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {KEY}".encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/sessions",
        "query_string": b"",
        "headers": headers,
    }
    with pytest.raises(RuntimeError):  # for the server's terminal
        asyncio.run(Client(filled).app({**scope, "server": ("127.0.0.1", PORT)}, receive, send))
    assert sent[0]["status"] == 500
    assert sent[1]["body"] == b'{"error":"the server failed: its terminal says where"}'
