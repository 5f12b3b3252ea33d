"""The ASGI application: the page's document and files, the JSON API and the stream, guarded.

Static files are a table that is made once: no path of a request is ever looked up on a disk.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from backstory.agent import Agent
from backstory.errors import Busy, Conflict, Error, Invalid, NameTaken, NotFound, ReadOnly
from backstory.log.events import to_json
from backstory.present.text import in_commands
from backstory.store import Store
from backstory.web.api import build_reads
from backstory.web.document import build_document, compute_version, load_files
from backstory.web.guard import AccessCodes, AccessRules, Guard, Proxy, Refused
from backstory.web.live import LiveFeed
from backstory.web.moves import WRITES
from backstory.web.query import ClientGone, Query

SMALLEST_PACKED = 1_000  # bytes from which an answer is compressed
FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}  # the address has the version
PAGES = ("/", "/s/{rest:path}", "/r/{rest:path}", "/check")
STATUSES: dict[type[Error], int] = {
    NotFound: 404,
    Invalid: 400,
    Conflict: 409,
    NameTaken: 409,
    Busy: 503,
    ReadOnly: 403,
}
REPLACED = "another file is at the path of the store: end `backstory web` and start it again"

Answer = Callable[[Request], Awaitable[Response]]
Change = Callable[[Agent, dict[str, Any], str | None], Any]


def app(
    store: Store,
    *,
    write: bool = False,
    key: str | None = None,
    public_url: str | None = None,
    proxy: Proxy | None = None,
    codes: AccessCodes | None = None,
) -> Guard:
    """Return an ASGI application that shows a store, to be served or mounted.

    It only reads, unless `write` is True. With `key`, every request for data must carry it; without
    one, the server around it decides who comes in. It answers under the names of this machine, or
    under `public_url`. `proxy` is the one reverse proxy that says who is there. `codes` are what a
    browser exchanges for the key.
    """
    feed = LiveFeed(store)
    answers = StoreRoutes(store, feed, codes)
    routes = [Route(path, answer_page) for path in PAGES]
    routes.append(Route("/static/{path:path}", answer_file))
    for path, read in build_reads().items():
        routes.append(Route(f"/api{path}", answers.build_reader(read)))
    for path, change in WRITES.items():
        routes.append(Route(f"/api{path}", answers.build_writer(change), methods=["POST"]))
    routes.append(Route("/api/live", answers.answer_stream))
    routes.append(Route("/api/key", answers.exchange_code, methods=["POST"]))
    handlers: Any = {
        Refused: answer_refusal,
        HTTPException: answer_unknown,
        Exception: answer_defect,
    }
    packing = Middleware(GZipMiddleware, minimum_size=SMALLEST_PACKED, compresslevel=5)
    inner = Starlette(routes=routes, exception_handlers=handlers, middleware=[packing])
    rules = AccessRules(write=write, key=key, public_url=public_url, proxy=proxy)
    return Guard(inner, rules, feed)


class StoreRoutes:
    """Answers what is asked of one store."""

    def __init__(self, store: Store, feed: LiveFeed, codes: AccessCodes | None) -> None:
        self._store = store
        self._feed = feed
        self._codes = codes

    def build_reader(self, read: Callable[[Query], Any]) -> Answer:
        """Return the route that answers with what `read` returns."""

        async def answer(request: Request) -> Response:
            gone = threading.Event()
            query = Query(self._store, request.path_params, request.query_params, gone)
            leaving = asyncio.create_task(set_when_gone(request, gone))
            try:
                return await run_in_threadpool(self._read, read, query)
            except ClientGone:
                return describe_problem(499, "the request was cancelled")
            except Error as error:
                return describe_error(error)
            finally:
                leaving.cancel()

        return answer

    def _read(self, read: Callable[[Query], Any], query: Query) -> Response:
        if self._store.is_replaced():
            return describe_problem(503, REPLACED)
        query.check_still_wanted()  # it may have waited behind others for a thread
        return build_response(read(query))

    def build_writer(self, change: Change) -> Answer:
        """Return the route that makes a change, if the person may write."""

        async def answer(request: Request) -> Response:
            if not request.state.write:  # the guard says so already; here it would be written
                return describe_problem(403, "this page only reads")
            body = await read_body(request)
            if body is None:
                return describe_problem(400, "the body is not a JSON object")
            try:
                return await run_in_threadpool(self._write, change, request, body)
            except Error as error:
                return describe_error(error)

        return answer

    def _write(self, change: Change, request: Request, body: dict[str, Any]) -> Response:
        if self._store.is_replaced():
            return describe_problem(503, REPLACED)
        agent = Query(self._store, request.path_params, {}).find_agent()
        return build_response(change(agent, body, request.state.user))

    async def answer_stream(self, _request: Request) -> Response:
        """Answer with the stream of changed heads."""
        if await run_in_threadpool(self._store.is_replaced):
            return describe_problem(503, REPLACED)
        return StreamingResponse(self._feed.stream(), media_type="text/event-stream")

    async def exchange_code(self, request: Request) -> Response:
        """Answer with the key, if the code in the body is one that was not used before."""
        body = await read_body(request) or {}
        key = self._codes.redeem(str(body.get("code"))) if self._codes else None
        if key is None:
            message = "this address was already used: open the newest one in the terminal"
            return describe_problem(401, message)
        return build_response({"key": key})


async def answer_file(request: Request) -> Response:
    """Answer with a file of the page."""
    version, _, name = request.path_params["path"].partition("/")
    file = load_files().get(name)
    if file is None or version != compute_version():
        return describe_problem(404, "there is no such file")
    headers = {**FOR_EVER, "vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(file.content, media_type=file.type, headers=headers)
    headers["content-encoding"] = "gzip"  # once, at the best level: the middleware leaves it alone
    return Response(file.packed, media_type=file.type, headers=headers)


async def answer_page(request: Request, status: int = 200) -> Response:
    """Answer with the document, which is the same everywhere: the page reads its address itself."""
    document = build_document(request.scope.get("root_path", ""))
    state = {"root": document.root, "write": request.state.write, "user": request.state.user}
    html = document.html.replace("{state}", escape(to_json(state), quote=True))
    headers = {"content-security-policy": document.policy}
    return Response(html, status, headers=headers, media_type="text/html")


async def set_when_gone(request: Request, gone: threading.Event) -> None:
    """Set `gone` when the client disconnects: what takes long looks at it."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def read_body(request: Request) -> dict[str, Any] | None:
    """Return the body of a request, or None if it is not a JSON object."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def build_response(found: Any) -> Response:
    """Return the response with what a function of the API returned. No browser keeps it (the guard
    adds no-store): what is erased must not stay on its disk."""
    if isinstance(found, tuple):  # a media type and the bytes
        type_, content = found
        return Response(content, media_type=type_)
    content = to_json(found).encode("utf-8", "surrogatepass")
    return Response(content, media_type="application/json")


async def answer_refusal(_request: Request, refusal: Refused) -> Response:
    """Refuse a body that turned out to be too long."""
    return describe_problem(refusal.status, str(refusal))


async def answer_unknown(request: Request, error: HTTPException) -> Response:
    """Answer a path that does not exist, or not with this method. A person sees the page."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if error.status_code == 404 and not path.startswith(("/api/", "/static/")):
        return await answer_page(request, 404)
    message = f"{request.method} {path[:80]}: {error.detail.lower()}"
    return describe_problem(error.status_code, message)


async def answer_defect(_request: Request, _error: Exception) -> Response:
    """Answer after a defect of ours. What it is about stays in the terminal."""
    return describe_problem(500, "the server failed: its terminal says where")


def describe_error(error: Error) -> Response:
    """Return the response for an error of the library."""
    more = {"head": error.head} if isinstance(error, Conflict) else {}
    for kind, status in STATUSES.items():
        if isinstance(error, kind):
            return describe_problem(status, in_commands(error), **more)
    return describe_problem(500, in_commands(error), **more)


def describe_problem(status: int, message: str, **more: Any) -> Response:
    """Return a response that says what is wrong."""
    content = to_json({"error": message, **more})
    return Response(content, status, media_type="application/json")
