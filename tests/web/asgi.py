"""Requests to the application without a server: every header as it is given, doubled ones too."""

import asyncio
import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from backstory.web.app import app

PORT = 7357
HOST = f"127.0.0.1:{PORT}"
KEY = "a key of the tests"


class Answer:
    """What came back."""

    def __init__(self, status, headers, content):
        self.status, self.content = status, content
        self.headers = {name.decode(): value.decode() for name, value in headers}

    @property
    def json(self):
        packed = self.headers.get("content-encoding") == "gzip"
        return json.loads(gzip.decompress(self.content) if packed else self.content)


class Client:
    """Asks one application."""

    def __init__(self, store, **options):
        self.app = app(store, **{"key": KEY, **options})

    def __call__(self, url, method="GET", *, body=None, headers=(), host=HOST, key=KEY, root=""):
        content = json.dumps(body).encode() if body is not None else b""
        given = [("host", host)] if host is not None else []
        given += [("authorization", f"Bearer {key}")] if key is not None else []
        if body is not None:
            given += [("content-type", "application/json"), ("content-length", str(len(content)))]
        return self.ask(url, method, [*given, *headers], content, root)

    def ask(self, *request):
        """In a thread of its own: the browser's driver has a loop running in this one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(self._ask(*request))).result()

    async def _ask(self, url, method, headers, content, root):
        parts = urlsplit(url)
        scope = {
            "type": "http",
            "method": method,
            "path": root + parts.path,
            "raw_path": (root + parts.path).encode(),
            "root_path": root,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 50_000),
            "scheme": "http",
            "http_version": "1.1",
            "state": {
                "write": False,
                "user": None,
            },  # what is behind the guard finds; the guard sets its own
        }
        sent, gone = [], asyncio.Event()
        bodies = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive():
            if bodies:
                return bodies.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            if parts.path == "/api/live" and message.get("body"):
                gone.set()  # the page leaves as soon as the stream has begun

        await self.app(scope, receive, send)
        whole = b"".join(message.get("body", b"") for message in sent)
        return Answer(sent[0]["status"], sent[0]["headers"], whole)
