"""Serves the page on this machine until Ctrl-C: a port, a key, and an end that waits for nobody."""

import asyncio
import errno
import math
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn
from h11 import DONE, MUST_CLOSE
from uvicorn.protocols.http.h11_impl import H11Protocol

from backstory.errors import CannotOpen
from backstory.present.usage import preload
from backstory.store import Store
from backstory.web.app import app
from backstory.web.guard import AccessCodes, Proxy

PORT = 7357
LAST_PORT = 65_535
TRIES = 20  # ports after the one that was asked for
PATIENCE = 1  # seconds that open requests get when the server ends
REQUEST_TIME = 10.0  # seconds in which a request must be complete
LAUNCH_TIME = 60.0  # seconds in which the browser that we start must use its code
KEY_BYTES = 24


class TimedProtocol(H11Protocol):
    """Closes a connection on which no request is complete in time. uvicorn has no such limit."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (DONE, MUST_CLOSE):
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(REQUEST_TIME, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PageServer(uvicorn.Server):
    """uvicorn for the page. It ends the streams first, because it would wait for them, and leaves
    no connection open, such as one that a browser made meanwhile."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._end_streams()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)  # the event loop closes their sockets


class Site:
    """The page of one store, on a port of this machine."""

    def __init__(
        self,
        store: Store,
        *,
        path: str = "/",
        port: int = PORT,
        host: str | None = None,
        write: bool = False,
        key: str | None = None,
        public_url: str | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """Take the first free port from `port` on. The key is a random one unless it is given.
        `host` is the address to listen on, instead of this machine's own: requests are answered
        only under the names that the guard knows."""
        self.sockets = bind_sockets(port, host)
        self.port: int = self.sockets[0].getsockname()[1]
        self.base = (public_url or f"http://127.0.0.1:{self.port}").rstrip("/")
        self.key = None if proxy else key or secrets.token_urlsafe(KEY_BYTES)
        self.codes = AccessCodes(self.key) if self.key else None
        self.path = path
        self.app = app(
            store,
            write=write,
            key=self.key,
            public_url=public_url,
            proxy=proxy,
            codes=self.codes,
        )

    def build_address(self, *, seconds: float = math.inf) -> str:
        """Return the address for a person or, with `seconds`, for the browser that we start. It
        contains a code that works once."""
        code = "" if self.codes is None else f"#code={self.codes.issue(seconds)}"
        return f"{self.base}{self.path}{code}"

    def build_server(self) -> uvicorn.Server:
        """Return the server. It logs no requests: addresses contain what people searched for."""
        config = uvicorn.Config(
            self.app,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=PATIENCE,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
        )
        return PageServer(config, self.app.feed.close)

    def serve(self, print_address: Callable[[str], None], *, browser: bool = False) -> None:
        """Serve until Ctrl-C. Print an address, and the next one after it was used."""
        if self.codes is not None:
            self.codes.on_redeem = lambda: print_address(self.build_address())
        print_address(self.build_address())
        preload()
        if browser:
            address = self.build_address(seconds=LAUNCH_TIME)
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        self.build_server().run(self.sockets)


def bind_sockets(port: int, host: str | None = None) -> list[socket.socket]:
    """Return a socket on `host`, or without one on 127.0.0.1 and, where it exists, on ::1."""
    end = min(port + TRIES, LAST_PORT + 1)
    for number in range(port, end) if port else [0]:
        try:
            first = bind_socket(host or "127.0.0.1", number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                why = error.strerror or error
                remedy = "use another --host or --port" if host else "use --port N"
                raise CannotOpen(f"port {number} cannot be used: {why}", remedy=remedy) from error
            continue
        if host:
            return [first]
        try:
            return [first, bind_socket("::1", first.getsockname()[1])]
        except OSError:
            return [first]
    raise CannotOpen(f"all ports from {port} to {end - 1} are taken", remedy="use --port N")


def bind_socket(address: str, port: int) -> socket.socket:
    """Return a socket on an address and a port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family)
