"""Serves the page on this machine until Ctrl-C: a port, a key, and an end that waits for nobody."""

import errno
import secrets
import socket
import threading
from typing import NamedTuple

import uvicorn

from backstory.errors import CannotOpen
from backstory.present import prices
from backstory.store import Store
from backstory.web.app import Launch, Pages, app
from backstory.web.guard import Proxy

PORT = 7357
LAST_PORT = 65_535
TRIES = 20  # ports after the one that was asked for
PATIENCE = 1  # seconds that open requests get when the server ends


class Site(NamedTuple):
    """Where the page is served, and who may see it."""

    sockets: list[socket.socket]
    port: int
    pages: Pages
    address: str  # for the person, with the key behind the #
    launch_address: str  # for the browser that is started, with a code that works once


class _Server(uvicorn.Server):
    """uvicorn, but the streams are told to end: it would wait for them."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self._pages = pages

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pages.watch.close()
        await super().shutdown(sockets)


def prepared(
    store: Store,
    *,
    path: str = "/",
    port: int = PORT,
    write: bool = False,
    key: str | None = None,
    public_url: str | None = None,
    proxy: Proxy | None = None,
) -> Site:
    """A site on the first free port from `port` on. It is not served yet, but the port is taken.
    The key is a random one unless it is given."""
    sockets = _bound(port)
    port = sockets[0].getsockname()[1]
    key = None if proxy else key or secrets.token_urlsafe(24)
    code = secrets.token_urlsafe(24)
    launch = Launch(key, code) if key else None
    pages = app(store, write=write, key=key, public_url=public_url, proxy=proxy, launch=launch)
    base = (public_url or f"http://127.0.0.1:{port}").rstrip("/") + path
    return Site(sockets, port, pages, f"{base}#key={key}" if key else base, f"{base}#code={code}")


def _bound(port: int) -> list[socket.socket]:
    """A socket on 127.0.0.1, and one on ::1 where there is such an address."""
    end = min(port + TRIES, LAST_PORT + 1)
    for number in range(port, end) if port else [0]:
        try:
            first = _socket(socket.AF_INET, "127.0.0.1", number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or error
                raise CannotOpen(
                    f"port {number} cannot be used: {why}", remedy="use --port N"
                ) from error
            continue
        try:
            return [first, _socket(socket.AF_INET6, "::1", first.getsockname()[1])]
        except OSError:
            return [first]
    raise CannotOpen(f"all ports from {port} to {end - 1} are taken", remedy="use --port N")


def _socket(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


def server_of(site: Site) -> uvicorn.Server:
    """What serves a site. Nothing of a request is logged: addresses hold what people searched for."""
    config = uvicorn.Config(
        site.pages,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        http="h11",
        ws="none",
        lifespan="off",
    )
    return _Server(config, site.pages)


def serve(site: Site, *, browser: bool = False) -> None:
    """Serve until Ctrl-C, and start a browser if that is wanted."""
    prices.preload()
    if browser:
        threading.Thread(target=_open, args=(site.launch_address,), daemon=True).start()
    server_of(site).run(site.sockets)


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
