"""The ASGI application: the page, its static files, the JSON API and the stream, behind the guard.

Static files are a table that is made at the start: no path of a request is ever looked up on a disk.
"""

import asyncio
import gzip
import hmac
import json
import re
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from backstory.errors import Busy, Conflict, Error, Invalid, NameTaken, NotFound, ReadOnly
from backstory.log.events import to_json
from backstory.present.remedies import in_commands
from backstory.store import Store
from backstory.web.api import READS, image
from backstory.web.api_call import ApiCall, Gone, agent_of
from backstory.web.guard import Guard, Proxy, Refused, Rules
from backstory.web.moves import WRITES
from backstory.web.request import request_bytes
from backstory.web.watch import Watch

CODE_LIVES = 60.0  # seconds in which a launch code has to be used
REFUSED_WEIGHT = re.compile(r"q\s*=\s*0(\.0*)?")
SMALLEST_PACKED = 1_000  # bytes from which an answer is compressed
TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
PAGES = ("/", "/s/{rest:path}", "/r/{rest:path}", "/check")
STATUS = {NotFound: 404, Invalid: 400, Conflict: 409, NameTaken: 409, Busy: 503, ReadOnly: 403}


class Launch:
    """A code that a browser may exchange for the key, once and soon: others can read a command line."""

    def __init__(self, key: str, code: str) -> None:
        self._key, self._code = key, code
        self._end = time.monotonic() + CODE_LIVES

    def exchange(self, code: Any) -> str | None:
        """The key, if this is the code and nobody used it before."""
        given = code.encode() if isinstance(code, str) else b""
        fits = hmac.compare_digest(given, self._code.encode())
        if not fits or not self._code or time.monotonic() > self._end:
            return None
        self._code = ""
        return self._key


class Pages(Guard):
    """The application, guarded; `watch` is what its streams come from."""

    def __init__(self, inner: Starlette, rules: Rules, watch: Watch) -> None:
        super().__init__(inner, rules)
        self.watch = watch


def app(
    store: Store,
    *,
    write: bool = False,
    key: str | None = None,
    public_url: str | None = None,
    proxy: Proxy | None = None,
    launch: Launch | None = None,
) -> Pages:
    """An ASGI application that shows a store, to be served or mounted.

    It only reads, unless `write` is True. With `key`, every request for data has to carry it; without
    one, the server around it decides who comes in. It answers under the names of this machine, or under
    `public_url`.
    `proxy`: the one reverse proxy that says who is there.
    """
    watch = Watch(store)
    routes = [
        *(Route(path, partial(_page, root=_static()["index.html"])) for path in PAGES),
        Route("/static/{name:path}", partial(_file, table=_static())),
        *(Route(f"/api{path}", _reader(store, read)) for path, read in READS.items()),
        Route("/api/agents/{id}/request.json", _reader(store, request_bytes)),
        Route("/api/events/{id}/{seq:int}/image/{n:int}", _reader(store, image)),
        Route("/api/live", partial(_live, store=store, watch=watch)),
        Route("/api/key", partial(_exchange, launch=launch), methods=["POST"]),
        *(
            Route(f"/api{path}", _writer(store, change), methods=["POST"])
            for path, change in WRITES.items()
        ),
    ]
    rules = Rules(write=write, key=key, public_url=public_url, proxy=proxy)
    handlers: Any = {Refused: _refused, HTTPException: _unknown, Exception: _broken}
    return Pages(Starlette(routes=routes, exception_handlers=handlers), rules, watch)


class File(NamedTuple):
    """A static file, also compressed: with what every client knows, and with what makes it smaller still."""

    type: str
    content: bytes
    gzip: bytes
    br: bytes | None


@cache
def _static() -> dict[str, File]:
    """Every file that is served, by its name. One is only for a page that is a file."""
    return {
        name: file
        for name, file in _files(files("backstory.web") / "static", "")
        if name != "file.js"
    }


def _files(folder: Traversable, prefix: str) -> Any:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            content = entry.read_bytes()
            type_ = TYPES[entry.name.rpartition(".")[2]]
            packed = folder / f"{entry.name}.br"
            br = packed.read_bytes() if packed.is_file() else None
            yield prefix + entry.name, File(type_, content, gzip.compress(content, 9, mtime=0), br)


async def _file(request: Request, table: dict[str, File]) -> Response:
    found = table.get(request.path_params["name"])
    if found is None:
        return _problem(404, "there is no such file")
    accepted = _accepted(request)
    for name, packed in (("br", found.br), ("gzip", found.gzip)):
        if packed is not None and name in accepted:
            headers = {"vary": "accept-encoding", "content-encoding": name}
            return Response(packed, media_type=found.type, headers=headers)
    return Response(found.content, media_type=found.type, headers={"vary": "accept-encoding"})


def _accepted(request: Request) -> set[str]:
    """The encodings that a client takes. It may name one to say that it does not: `br;q=0`."""
    named = (
        part.lower().partition(";")
        for part in request.headers.get("accept-encoding", "").split(",")
    )
    return {
        name.strip() for name, _, weight in named if not REFUSED_WEIGHT.fullmatch(weight.strip())
    }


async def _page(request: Request, root: File, status: int = 200) -> Response:
    """The page is the same everywhere: it reads its address itself. It is told where it is mounted."""
    mounted = request.scope.get("root_path", "")
    state = {"root": mounted, "write": request.state.write, "user": request.state.user}
    text = root.content.decode().replace("{root}", _attribute(mounted))
    return Response(
        text.replace("{state}", _attribute(to_json(state))), status, media_type="text/html"
    )


def _attribute(text: str) -> str:
    from html import escape

    return escape(text, quote=True)


def _reader(store: Store, read: Callable[[ApiCall], Any]) -> Any:
    async def answer(request: Request) -> Response:
        gone = threading.Event()
        asked = ApiCall(store, request.path_params, request.query_params, gone)
        leaving = asyncio.create_task(_left(request, gone))
        try:
            return await run_in_threadpool(lambda: _answer(request, read(asked)))
        except Gone:
            return _problem(499, "the request was cancelled")
        except Error as error:
            return _failed(error)
        finally:
            leaving.cancel()

    return answer


async def _left(request: Request, gone: threading.Event) -> None:
    """Notices that a page gave up a request: what takes long looks whether that happened."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _answer(request: Request, found: Any) -> Response:
    """No answer is kept by a browser (the guard adds no-store): what is erased must not stay on its disk."""
    if isinstance(found, bytes):
        return Response(found, media_type="application/json")
    if isinstance(found, tuple):
        type_, content = found
        return Response(content, media_type=type_)
    # What an index has so far is an answer, but not the last one.
    behind = isinstance(found, dict) and bool(found.get("behind"))
    return _json(request, found, 202 if behind else 200)


def _writer(store: Store, change: Callable[[Any, dict[str, Any], str | None], Any]) -> Any:
    async def answer(request: Request) -> Response:
        if not request.state.write:  # the guard says so already; here it would be written
            return _problem(403, "this page only reads")
        body = await _body(request)
        if body is None:
            return _problem(400, "the body is not a JSON object")
        try:
            agent = await run_in_threadpool(agent_of, store, request.path_params["id"])
            found = await run_in_threadpool(change, agent, body, request.state.user)
        except Error as error:
            return _failed(error)
        return _json(request, found)

    return answer


async def _body(request: Request) -> dict[str, Any] | None:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _exchange(request: Request, launch: Launch | None) -> Response:
    body = await _body(request) or {}
    key = launch.exchange(body.get("code")) if launch else None
    if key is None:
        return _problem(401, "this address was already used: open the one in the terminal")
    return _json(request, {"key": key})


async def _live(request: Request, store: Store, watch: Watch) -> Response:
    id = request.query_params.get("agent")
    try:
        agent = await run_in_threadpool(agent_of, store, id) if id else None
    except Error as error:
        return _failed(error)
    return StreamingResponse(watch.stream(agent), media_type="text/event-stream")


def _json(request: Request, value: Any, status: int = 200) -> Response:
    content = to_json(value).encode("utf-8", "surrogatepass")
    headers = {}
    if len(content) >= SMALLEST_PACKED and "gzip" in _accepted(request):
        content = gzip.compress(content, 5, mtime=0)
        headers = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(content, status, headers=headers, media_type="application/json")


async def _refused(_request: Request, refusal: Exception) -> Response:
    """A body that turned out to be too long."""
    return _problem(getattr(refusal, "status", 400), str(refusal))


async def _unknown(request: Request, error: HTTPException) -> Response:
    """No such path, or not with this method. A person sees the page, which says so."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if error.status_code == 404 and not path.startswith(("/api/", "/static/")):
        return await _page(request, _static()["index.html"], 404)
    return _problem(error.status_code, f"{request.method} {path[:80]}: {error.detail.lower()}")


async def _broken(_request: Request, _error: Exception) -> Response:
    """A defect of ours. What it is about stays in the terminal."""
    return _problem(500, "the server failed: its terminal says where")


def _failed(error: Error) -> Response:
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    more = {"head": error.head} if isinstance(error, Conflict) else {}
    return _problem(status, in_commands(error), **more)


def _problem(status: int, message: str, **more: Any) -> Response:
    return Response(to_json({"error": message, **more}), status, media_type="application/json")
