"""What the application answers where nothing is, and when nobody waits any more."""

import asyncio
import gzip
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import pytest

import backstory
from backstory.errors import Busy
from backstory.web.document import compute_version
from backstory.web.live import LiveFeed
from backstory.web.query import ClientGone, Query
from backstory.web.search import search
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
    assert b"main.js" in answer.content


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "gzip"), ("", None)])
def test_a_file_is_compressed_for_clients_that_take_it_and_kept_for_ever(
    filled, accepted, encoding
):
    path = f"/static/{compute_version()}/main.js"
    found = Client(filled)(path, headers=[("accept-encoding", accepted)])
    assert found.headers.get("content-encoding") == encoding
    assert "immutable" in found.headers["cache-control"]
    plain = gzip.decompress(found.content) if encoding else found.content
    assert plain == (files("backstory.web") / "page" / "main.js").read_bytes()


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


def test_a_search_that_nobody_waits_for_any_more_is_given_up(filled):
    left = threading.Event()
    query = Query(filled, {}, {"q": "files"}, left)
    assert search(query)["groups"]
    left.set()
    with pytest.raises(ClientGone):
        search(query)


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
        streams = [(one := LiveFeed(filled)).stream(), one.stream()]
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
        first = asyncio.ensure_future(anext(LiveFeed(filled).stream()))
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
    answer = Client(store)("/api/sessions?after=1")
    assert (answer.status, [each["id"] for each in answer.json["sessions"]]) == (200, [older.id])


def test_a_search_whose_index_is_behind_says_how_far_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr("backstory.maintenance.indexing.AT_ONCE", 3)
    monkeypatch.setattr("backstory.maintenance.indexing.start_indexing", lambda backend: None)
    with backstory.open(tmp_path / "history.db") as store:
        main = fill(store)
        store.search("files", wait=True)
        main.extend([("user", f"More files {n}.") for n in range(5)])
        found = Client(store)("/api/search?q=files").json
        assert (found["behind"], found["total"]) == (5, 17)
        store.search("files", wait=True)
        assert Client(store)("/api/search?q=files").json["behind"] == 0


def test_a_store_whose_file_was_replaced_is_not_shown_any_more(tmp_path):
    for name in ("history.db", "backup.db"):
        with backstory.open(tmp_path / name) as store:
            fill(store)
    with backstory.open(tmp_path / "history.db", read_only=True) as store:
        client = Client(store, write=True)
        main = store.agent("main")
        assert client("/api/sessions").status == 200
        os.replace(tmp_path / "backup.db", tmp_path / "history.db")
        answers = [client("/api/sessions"), client("/api/live")]
        answers.append(client(f"/api/agents/{main.id}/fork", "POST", body={}))
        for answer in answers:
            assert (answer.status, "start it again" in answer.json["error"]) == (503, True)


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
