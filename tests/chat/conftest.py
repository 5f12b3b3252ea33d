import pytest

import backstory
from tests.chat.screen import Terminal, environment


@pytest.fixture
def address(tmp_path):
    return str(tmp_path / "history.db")


@pytest.fixture
def start(tmp_path, folder, address):
    """Starts the real chat in a pseudo-terminal."""
    started = []

    def start(server, *arguments, columns=80, env=None, cwd=folder, **more):
        connected = ("--base-url", server.url, "--model", "scripted-1") if server else ()
        terminal = Terminal(
            "--store",
            address,
            "chat",
            *connected,
            *arguments,
            cwd=cwd,
            env=environment(tmp_path, **(env or {})),
            columns=columns,
            **more,
        )
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        terminal.close()


@pytest.fixture
def reopened(address):
    """The agent in the store, as another process sees it."""
    stores = []

    def reopened(ref="@"):
        if not stores:
            stores.append(backstory.open(address))
        return stores[0].resolve(ref).agent

    yield reopened
    for store in stores:
        store.close()
