"""The page on a free port, served by a thread: for tests and for pictures."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from backstory.store import Store
from backstory.web.server import Site, prepared, server_of


@contextmanager
def served(store: Store, **options: Any) -> Iterator[Site]:
    """A site that answers until the block ends."""
    site = prepared(store, **{"port": 0, **options})
    server: uvicorn.Server = server_of(site)
    for socket in site.sockets:
        socket.listen()  # who connects before the thread runs waits
    thread = threading.Thread(target=server.run, args=(site.sockets,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.should_exit = True
        thread.join()
        for socket in site.sockets:
            socket.close()
