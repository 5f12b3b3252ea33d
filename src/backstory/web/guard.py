"""The guard: it stands before every route, static files and the stream included, and refuses by default.

It compares whole values and never patterns. Host comes first: without it, a check of Origin proves nothing,
because someone else's name may lead to this machine.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from backstory.errors import Invalid

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ONLY_READS = "this page only reads; start it with --write to allow moves"
ONLY_SOME_WRITE = "you may only read; --writers names the people who may write"
MOST_BODY = 64 * 1024
MOST_REQUESTS = 32
MOST_STREAMS = 64
API, STREAM, EXCHANGE = "/api/", "/api/live", "/api/key"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# A header that comes twice is read by one program in one way and by the next in another.
ONCE = (b"host", b"origin", b"sec-fetch-site", b"authorization", b"content-type", b"content-length")

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Proxy(NamedTuple):
    """The one reverse proxy that is trusted to say who is there."""

    secret: str  # what it sends in `secret_header`
    user_header: str = "x-forwarded-user"
    secret_header: str = "x-backstory-secret"
    writers: frozenset[str] | None = None  # who may write, by name; None: everyone who comes in


class Rules(NamedTuple):
    """Who may come in, and what they may do."""

    write: bool = False
    key: str | None = (
        None  # what a request has to carry; None: the server around us decides who comes in
    )
    public_url: str | None = None  # None: this machine only
    proxy: Proxy | None = None

    def hosts(self, port: int | None) -> set[bytes]:
        """All that the header Host may be."""
        if self.public_url is not None:
            return {urlsplit(self.public_url).netloc.encode()}
        names = {f"{name}:{port}" for name in LOOPBACK} | (
            set(LOOPBACK) if port in (None, 80) else set()
        )
        return {name.encode() for name in names}

    def origins(self, port: int | None) -> set[bytes]:
        """All that the header Origin may be."""
        scheme = urlsplit(self.public_url).scheme if self.public_url is not None else "http"
        return {f"{scheme}://".encode() + host for host in self.hosts(port)}


def checked(rules: Rules) -> Rules:
    """The rules, if they make sense."""
    url = rules.public_url
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise Invalid(
                f"{url!r:.80} is not a public address", remedy="use https://name, without a path"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise Invalid(
                f"{url!r:.80} is not a public address", remedy="use https://name and nothing else"
            )
    if rules.proxy is not None and (url is None or not rules.proxy.secret):
        raise Invalid("a proxy needs a public address and a shared secret")
    return rules


class Refused(Exception):
    """Why a request is not let in."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Guard:
    """An ASGI application around another one."""

    def __init__(self, inner: App, rules: Rules) -> None:
        self._inner = inner
        self._rules = checked(rules)
        self._requests = 0
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        sealed = _sealed(send, is_data=path.startswith(API))
        try:
            scope["state"] = {**scope.get("state", {}), **self._admitted(scope, path)}
            with self._counted(path):
                await self._inner(scope, _bounded(receive), sealed)
        except Refused as refusal:
            await _refuse(refusal, sealed)

    def _admitted(self, scope: Scope, path: str) -> dict[str, Any]:
        """Who asks, and whether they may write; or Refused."""
        headers = _headers(scope)
        port = (scope.get("server") or (None, None))[1]
        if headers.get(b"host") not in self._rules.hosts(port):
            raise Refused(421, "this server is not known under that name")
        for name in ONCE:
            if headers.get(name) == TWICE:
                raise Refused(400, f"the header {name.decode()} came twice")
        _check_method(scope["method"], headers)
        _check_origin(headers, self._rules.origins(port), is_page=not path.startswith(API))
        user, may_write = self._person(headers, path)
        if scope["method"] == "POST" and path != EXCHANGE and not may_write:
            raise Refused(403, ONLY_SOME_WRITE if self._rules.write else ONLY_READS)
        return {"user": user, "write": may_write}

    def _person(self, headers: dict[bytes, bytes], path: str) -> tuple[str | None, bool]:
        """The name of who asks, if there is one, and whether they may write."""
        proxy, write = self._rules.proxy, self._rules.write
        if proxy is not None:
            given = headers.get(proxy.secret_header.encode(), b"")
            if not hmac.compare_digest(given, proxy.secret.encode()):
                raise Refused(401, "this server answers only through its proxy")
            name = headers.get(proxy.user_header.encode(), b"")
            if not name or name == TWICE:
                raise Refused(401, "the proxy did not name the user")
            user = name.decode("utf-8", "replace")
            return user, write and (proxy.writers is None or user in proxy.writers)
        key = self._rules.key
        if key is not None and path.startswith(API) and path != EXCHANGE:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {key}".encode()):
                raise Refused(
                    401, "open the address that `backstory web` printed: it carries the key"
                )
        return None, write

    def _counted(self, path: str) -> "_Counted":
        is_stream = path == STREAM
        under_way, most = (
            (self._streams, MOST_STREAMS) if is_stream else (self._requests, MOST_REQUESTS)
        )
        if under_way >= most:
            raise Refused(503, "too many requests at once: try again")
        return _Counted(self, "_streams" if is_stream else "_requests")


class _Counted:
    """One more request under way, until it ends."""

    def __init__(self, guard: Guard, what: str) -> None:
        self._guard, self._what = guard, what

    def __enter__(self) -> None:
        setattr(self._guard, self._what, getattr(self._guard, self._what) + 1)

    def __exit__(self, *_: object) -> None:
        setattr(self._guard, self._what, getattr(self._guard, self._what) - 1)


TWICE = b"\x00twice"  # no header can be this: servers refuse a NUL


def _headers(scope: Scope) -> dict[bytes, bytes]:
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
    """Only our own page may ask. A browser says `none` where a person typed an address."""
    site = headers.get(b"sec-fetch-site")
    if site is not None and site != b"same-origin" and not (is_page and site == b"none"):
        raise Refused(403, "another page asked for this: type or paste the address instead")
    origin = headers.get(b"origin")
    if origin is not None and origin not in origins:
        raise Refused(403, "another page asked for this")


def _bounded(receive: Receive) -> Receive:
    """The same body, but never more than it may be, whatever its length was said to be."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > MOST_BODY:
            raise Refused(413, f"the body of a POST may have at most {MOST_BODY} bytes")
        return message

    return bounded


def _sealed(send: Send, *, is_data: bool) -> Send:
    """The same answer with the headers that every answer has."""
    policy = "sandbox; " + PAGE_POLICY if is_data else PAGE_POLICY
    always = [*HEADERS, (b"content-security-policy", policy.encode())]

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *always]}
        await send(message)

    return sealed


async def _refuse(refusal: Refused, send: Send) -> None:
    from backstory.log.events import to_json

    body = to_json({"error": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
