"""A proxy before a server that can go silent, as a network does that drops all packets.

Connections stay open, and nothing arrives any more in either direction: no answer, no error.
"""

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

CHUNK = 65_536


class SilentProxy:
    """Passes bytes on between clients and the PostgreSQL server at `url`, until `go_silent`. Use it
    in a `with` block. `url` of the proxy is the address for the clients."""

    def __init__(self, url: str) -> None:
        self._target = find_socket(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._talks = threading.Event()  # not set while the proxy is silent
        self._talks.set()
        self._is_closed = False
        self.url = replace_host(url, self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, name="silent-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed = True
        self._talks.set()
        self._waker.send(b"!")
        self._thread.join()
        self._selector.close()
        for one in [self._listener, self._waker, self._woken, *self._peers]:
            one.close()

    def go_silent(self) -> None:
        """Pass nothing on any more, not even that a side has closed its connection. New connections
        are accepted by the operating system, and get no answer."""
        with self._lock:  # what is being passed on arrives before this returns
            self._talks.clear()

    def go_on(self) -> None:
        """Pass on what was sent in the meantime, and everything after it."""
        self._talks.set()

    def _serve(self) -> None:
        while not self._is_closed:
            self._talks.wait()
            for key, _ in self._selector.select():
                one = key.fileobj
                assert isinstance(one, socket.socket)
                with self._lock:
                    is_open = one is self._listener or one in self._peers
                    if is_open and self._talks.is_set():
                        self._handle(one)

    def _handle(self, one: socket.socket) -> None:
        if one is self._listener:
            self._accept()
            return
        data = b""
        with suppress(OSError):
            data = one.recv(CHUNK)
        if data:
            with suppress(OSError):  # the other side has gone, which is noticed when it is read
                self._peers[one].sendall(data)
        else:
            self._drop(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        family, address = self._target
        server = socket.socket(family)
        server.connect(address)
        self._peers[client] = server
        self._peers[server] = client
        self._selector.register(client, selectors.EVENT_READ)
        self._selector.register(server, selectors.EVENT_READ)

    def _drop(self, one: socket.socket) -> None:
        """Close both ends of a connection."""
        other = self._peers.pop(one)
        del self._peers[other]
        for end in (one, other):
            self._selector.unregister(end)
            end.close()


def find_socket(url: str) -> tuple[socket.AddressFamily, Any]:
    """Return the family and the address of the socket at which a server listens."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    host = unquote(parts.hostname or "") or options.get("host", ["127.0.0.1"])[0]
    port = parts.port or int(options.get("port", ["5432"])[0])
    if host.startswith("/"):
        return socket.AF_UNIX, f"{host}/.s.PGSQL.{port}"
    return socket.AF_INET, (host, port)


def replace_host(url: str, port: int) -> str:
    """Return the address of the same database at a port of this machine, without encryption."""
    parts = urlsplit(url)
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    return urlunsplit(
        parts._replace(netloc=f"{user}127.0.0.1:{port}", query="sslmode=disable&gssencmode=disable")
    )
