"""The page on a free port, served by a thread: for tests and for pictures."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from backstory.store import Store
from backstory.web.server import Site


def write_address(site: Site) -> str:
    """Return the address with the key, which can be opened any number of times."""
    return f"{site.base}{site.path}#key={site.key}"


@contextmanager
def served(store: Store, **options: Any) -> Iterator[Site]:
    """A site that answers until the block ends."""
    site = Site(store, **{"port": 0, **options})
    server: uvicorn.Server = site.build_server()
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
