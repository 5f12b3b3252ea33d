"""Adapters are tested where their frameworks are: `make test-adapters` installs them all.

Elsewhere the tests of a framework that is missing are skipped, and the last lines of the run say which.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import backstory
from backstory.adapters import stores
from backstory.storage.sqlite.backend import SqliteBackend
from backstory.storage.sqlite.transaction import SqliteTransaction
from tests.processes import PATIENCE

ROOT = Path(__file__).parents[2]
NEEDS = {
    "test_openai_agents*.py": "agents",
    "test_claude*.py": "claude_agent_sdk",
    "test_pydantic_ai*.py": "pydantic_ai",
    "test_langgraph*.py": "langgraph",
    "test_adk*.py": "google.adk",
    "test_agent_framework*.py": "agent_framework",
    "test_strands*.py": "strands",
    "test_odd_values.py": "google.adk",
    "test_pairs.py": "google.adk",
    "test_round_trips.py": "google.adk",
    "test_event_loop.py": "google.adk",
    "test_types.py": "basedpyright",
}


def is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


missing = {files: module for files, module in NEEDS.items() if not is_here(module)}
collect_ignore_glob = list(missing)
wanted = os.environ.get(
    "BACKSTORY_TEST_ADAPTERS"
)  # "all", or the name of an adapter: it must be installed
lacking = {
    module for files, module in missing.items() if wanted == "all" or files == f"test_{wanted}*.py"
}
if lacking:
    raise RuntimeError(f"not installed: {', '.join(sorted(lacking))}")


def pytest_terminal_summary(terminalreporter) -> None:
    if missing:
        names = ", ".join(sorted(set(missing.values())))
        terminalreporter.write_line(
            f"adapters not tested here, for want of {names}: make test-adapters"
        )


@pytest.fixture(autouse=True)
def stores_are_closed() -> Iterator[None]:
    """Adapters share open stores by their addresses, and the tests use databases again."""
    yield
    for opened in list(stores._shared_stores.values()):
        opened.store.close()
    stores._shared_stores.clear()


@pytest.fixture
def opened(durable_url):
    """The store that an adapter uses, opened beside it."""
    with backstory.open(durable_url) as store:
        yield store


@pytest.fixture
def statements(durable_url, monkeypatch):
    """The statements that stores have run since the list was cleared last."""
    seen = []
    if durable_url.endswith(".db"):
        for owner in (SqliteBackend, SqliteTransaction):
            record_calls(monkeypatch, owner, "_run", seen)
    else:
        import psycopg

        record_calls(monkeypatch, psycopg.Cursor, "execute", seen)
    return seen


def record_calls(monkeypatch, owner, name, seen):
    """Add the first argument of each call of a method to `seen`."""
    method = getattr(owner, name)

    def record(self, sql, *args, **options):
        seen.append(str(sql))
        return method(self, sql, *args, **options)

    monkeypatch.setattr(owner, name, record)


@pytest.fixture
def run():
    """Runs a coroutine."""
    return asyncio.run


@pytest.fixture
def two_writers():
    """Runs two processes of `tests.adapters.writers` at once, to their end."""

    def write(adapter: str, url: str) -> None:
        command = [sys.executable, "-m", "tests.adapters.writers", adapter, url]
        writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in ("one", "two")]
        assert [writer.wait(PATIENCE) for writer in writers] == [0, 0]

    return write


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets something happen once, between what an adapter has read and what it writes."""

    def arrange(happens, method=backstory.Agent.extend, of=backstory.Agent) -> None:
        coming = [happens]

        def write(*args, **options):
            if coming:
                coming.pop()()
            return method(*args, **options)

        monkeypatch.setattr(of, method.__name__, write)

    return arrange


@pytest.fixture
def sound():
    """Checks that a store is sound, and that every agent's conversation can be sent anywhere."""

    def check(store: backstory.Store) -> None:
        assert store.verify() == []
        for agent in store.agents():
            for format in backstory.wire.FORMATS:
                agent.conversation().to(format)

    return check


@pytest.fixture
def saver(durable_url):
    """LangGraph's checkpoints on each durable backend."""
    from backstory.adapters.langgraph import BackstorySaver

    saver = BackstorySaver(durable_url)
    yield saver
    saver.close()
