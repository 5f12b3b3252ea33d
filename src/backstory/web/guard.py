"""The guard before every route, static files and the stream included. It refuses by default.

It compares whole values and never patterns. Host comes first: without it, a check of Origin proves
nothing, because someone else's name may lead to this machine.

An address ends up in the browser's history and in lists of processes, so it contains a code that
works once, and not the key of the run. The browser keeps the key in its storage for this origin.
"""

import hmac
import math
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from backstory.errors import Invalid
from backstory.log.events import to_json
from backstory.web.live import LiveFeed

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ONLY_READS = "this page only reads; start it with --write to allow moves"
ONLY_SOME_WRITE = "you may only read; --writers names the people who may write"
CODE_BYTES = 24
MOST_BODY = 64 * 1024
MOST_REQUESTS = 32
MOST_STREAMS = 64
API, STREAM, EXCHANGE = "/api/", "/api/live", "/api/key"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# A header that comes twice is read by one program in one way and by the next in another.
ONCE = (b"host", b"origin", b"sec-fetch-site", b"authorization", b"content-type", b"content-length")

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Proxy(NamedTuple):
    """The one reverse proxy that is trusted to say who is there. The case of names is ignored."""

    secret: str  # what it sends in `secret_header`
    user_header: str = "x-forwarded-user"
    secret_header: str = "x-backstory-secret"
    writers: frozenset[str] | None = None  # who may write, by name; None: everyone who comes in


class AccessRules(NamedTuple):
    """Who may come in, and what they may do."""

    write: bool = False
    # What a request has to carry. None: the server around us decides who comes in.
    key: str | None = None
    public_url: str | None = None  # None: this machine only
    proxy: Proxy | None = None

    def list_hosts(self, port: int | None) -> set[bytes]:
        """Return all that the header Host may be."""
        if self.public_url is not None:
            return {read_public_host(self.public_url).encode()}
        names = {f"{name}:{port}" for name in LOOPBACK}
        if port in (None, 80):
            names.update(LOOPBACK)
        return {name.encode() for name in names}

    def list_origins(self, port: int | None) -> set[bytes]:
        """Return all that the header Origin may be."""
        scheme = urlsplit(self.public_url or "http:").scheme
        start = f"{scheme}://".encode()
        return {start + host for host in self.list_hosts(port)}

    def check(self) -> None:
        """Raise Invalid if the rules make no sense."""
        if self.public_url is not None:
            check_public_url(self.public_url)
        if self.proxy is not None and (self.public_url is None or not self.proxy.secret):
            raise Invalid("a proxy needs a public address and a shared secret")


def read_public_host(url: str) -> str:
    """Return the header Host that browsers send to a public address: in lower case, and without the
    usual port of its scheme."""
    parts = urlsplit(url)
    usual_port = ":443" if parts.scheme == "https" else ":80"
    return parts.netloc.lower().removesuffix(usual_port)


def check_public_url(url: str) -> None:
    """Raise Invalid if `url` is more or less than a scheme and a name."""
    parts = urlsplit(url)
    is_address = parts.scheme in ("http", "https") and parts.netloc != ""
    has_more = "@" in parts.netloc or parts.query != "" or parts.fragment != ""
    if not is_address or has_more or parts.path not in ("", "/"):
        remedy = "use https://name and nothing else, without a path"
        raise Invalid(f"{url!r:.80} is not a public address", remedy=remedy)


class AccessCodes:
    """Codes that a browser exchanges for the key. Each works once."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._ends: dict[str, float] = {}
        # Called after a code without a time limit was used: the person needs another address.
        self.on_redeem: Callable[[], None] | None = None

    def issue(self, seconds: float = math.inf) -> str:
        """Return a new code. It works for `seconds`, or until it is used."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._ends[code] = time.monotonic() + seconds
        return code

    def redeem(self, code: str) -> str | None:
        """Return the key, or None if the code is unknown, used or too old."""
        end = self._ends.pop(code, 0.0)
        if time.monotonic() > end:
            return None
        if end == math.inf and self.on_redeem is not None:
            self.on_redeem()
        return self._key


class Refused(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Guard:
    """An ASGI application around another one. `feed` is where its streams come from."""

    def __init__(self, inner: App, rules: AccessRules, feed: LiveFeed) -> None:
        rules.check()
        self.feed = feed
        self._inner = inner
        self._rules = rules
        self._under_way: Counter[bool] = Counter()  # streams, and other requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        send = _add_headers(send, is_data=path.startswith(API))
        try:
            scope["state"] = {**scope.get("state", {}), **self._check(scope, path)}
            with self.count_request(is_stream=path == STREAM):
                await self._inner(scope, _limit_body(receive), send)
        except Refused as refusal:
            await _refuse(refusal, send)

    def _check(self, scope: Scope, path: str) -> dict[str, Any]:
        """Return who asks and whether they may write. Raises Refused if they may not come in."""
        headers = _read_headers(scope)
        port = (scope.get("server") or (None, None))[1]
        if headers.get(b"host") not in self._rules.list_hosts(port):
            raise Refused(421, "this server is not known under that name")
        for name in ONCE:
            if headers.get(name) == TWICE:
                raise Refused(400, f"the header {name.decode()} came twice")
        _check_method(scope["method"], headers)
        origins = self._rules.list_origins(port)
        _check_origin(headers, origins, is_page=not path.startswith(API))
        user, may_write = self._find_person(headers, path)
        if scope["method"] == "POST" and path != EXCHANGE and not may_write:
            raise Refused(403, ONLY_SOME_WRITE if self._rules.write else ONLY_READS)
        return {"user": user, "write": may_write}

    def _find_person(self, headers: dict[bytes, bytes], path: str) -> tuple[str | None, bool]:
        """Return the name of who asks, if there is one, and whether they may write."""
        write = self._rules.write
        if self._rules.proxy is not None:
            user = _read_user(self._rules.proxy, headers)
            writers = self._rules.proxy.writers
            return user, write and (writers is None or user in writers)
        key = self._rules.key
        if key is not None and path.startswith(API) and path != EXCHANGE:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {key}".encode()):
                raise Refused(401, "open the newest address that `backstory web` printed")
        return None, write

    @contextmanager
    def count_request(self, *, is_stream: bool) -> Iterator[None]:
        """Count a request as under way. Raises Refused if there are too many."""
        if self._under_way[is_stream] >= (MOST_STREAMS if is_stream else MOST_REQUESTS):
            raise Refused(503, "too many requests at once: try again")
        self._under_way[is_stream] += 1
        try:
            yield
        finally:
            self._under_way[is_stream] -= 1


def _read_user(proxy: Proxy, headers: dict[bytes, bytes]) -> str:
    """Return the user that the proxy names."""
    given = headers.get(proxy.secret_header.lower().encode(), b"")
    if not hmac.compare_digest(given, proxy.secret.encode()):
        raise Refused(401, "this server answers only through its proxy")
    name = headers.get(proxy.user_header.lower().encode(), b"")
    if not name or name == TWICE:
        raise Refused(401, "the proxy did not name the user")
    return name.decode("utf-8", "replace")


TWICE = b"\x00twice"  # no header can be this: servers refuse a NUL


def _read_headers(scope: Scope) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        found[name] = TWICE if name in found else value
    return found


def _check_method(method: str, headers: dict[bytes, bytes]) -> None:
    if method not in ("GET", "HEAD", "POST"):
        raise Refused(405, f"{method:.20} is not allowed")
    if method != "POST":
        return
    if headers.get(b"content-type") != b"application/json":
        raise Refused(415, "a POST must have the content type application/json")
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or int(length) > MOST_BODY:
        raise Refused(413, f"the body of a POST may have at most {MOST_BODY} bytes")


def _check_origin(headers: dict[bytes, bytes], origins: set[bytes], *, is_page: bool) -> None:
    """Refuse all but our own page. A browser sends `none` if a person typed the address."""
    site = headers.get(b"sec-fetch-site")
    if site is not None and site != b"same-origin" and not (is_page and site == b"none"):
        raise Refused(403, "another page asked for this: type or paste the address instead")
    origin = headers.get(b"origin")
    if origin is not None and origin not in origins:
        raise Refused(403, "another page asked for this")


def _limit_body(receive: Receive) -> Receive:
    """Return `receive` for a body that is refused when it is too long, whatever length it has."""
    read = 0

    async def read_part() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BODY:
            raise Refused(413, f"the body of a POST may have at most {MOST_BODY} bytes")
        return message

    return read_part


def _add_headers(send: Send, *, is_data: bool) -> Send:
    """Return `send` for an answer with the headers that every answer has."""
    policy = "sandbox; " + PAGE_POLICY if is_data else PAGE_POLICY
    defaults = {b"cache-control": b"no-store", b"content-security-policy": policy.encode()}

    async def send_part(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {**defaults, **dict(message.get("headers", [])), **dict(HEADERS)}
            message = {**message, "headers": list(headers.items())}
        await send(message)

    return send_part


async def _refuse(refusal: Refused, send: Send) -> None:
    body = to_json({"error": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
