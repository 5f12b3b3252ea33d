"""Where the tests run: memory, an SQLite file, and a real PostgreSQL.

The PostgreSQL is the one in BACKSTORY_TEST_CITUS (the coordinator of a cluster) or BACKSTORY_TEST_POSTGRES if
one of them is set (its user must be allowed to create databases), otherwise one that is started from a wheel
by the first test that needs it. All workers of a run share it.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, settings

import backstory
from tests import databases, postgres_server
from tests.processes import hear_all_signals

settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# In CI the same examples come every time, so that a change is judged and not the dice; elsewhere new ones do.
settings.register_profile("ci", settings.get_profile("house"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "house")

# Hundreds of processes are started here, which would all compile the same modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

BACKENDS = ("memory", "sqlite", "postgres")
KEEPER = pytest.StashKey[postgres_server.Keeper]()
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-browser", action="store_true", help="skip what needs a browser, loudly"
    )


def pytest_configure(config: pytest.Config) -> None:
    hear_all_signals()
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: its controller has the keeper
        databases.keeper_port = config.workerinput["postgres_port"]
    elif not databases.GIVEN:
        config.stash[KEEPER] = postgres_server.Keeper(*postgres_server.NOT_DURABLE)
        databases.keeper_port = config.stash[KEEPER].port


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: tests also wait, for a process, a disk, a server or a browser."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["postgres_port"] = databases.keeper_port


def pytest_unconfigure(config: pytest.Config) -> None:
    if databases.GIVEN:
        databases.drop(*databases.emptied)
    if keeper := config.stash.get(KEEPER, None):
        keeper.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    if databases.GIVEN:
        with psycopg.connect(databases.GIVEN) as db:
            server = f"{db.info.parameter_status('server_version')} (given)"
    else:
        server = f"{postgres_server.version()} (started for the tests)"
    return [
        f"stores: memory, SQLite {apsw.sqlite_lib_version()}, PostgreSQL {server}",
        f"Citus: {_citus()}",
    ]


def _citus() -> str:
    if not databases.CITUS:
        return "NOT TESTED, because BACKSTORY_TEST_CITUS is not set"
    with psycopg.connect(databases.CITUS) as db:
        [(version,)] = db.execute("SELECT citus_version()").fetchall()
    return f"{version}; {len(databases.workers())} workers"


@pytest.fixture
def new_database() -> Iterator[Callable[..., str]]:
    """Makes PostgreSQL databases of which a test may change anything, and drops them. A plain one is on one
    server, on a cluster too."""
    made: list[str] = []

    def make(*, plain: bool = False) -> str:
        made.append(databases.create(plain=plain))
        return databases.url(made[-1])

    yield make
    databases.drop(*made)


@pytest.fixture
def empty_database() -> Iterator[Callable[[], str]]:
    """Gives PostgreSQL databases in which nothing is changed but the schema `backstory`."""
    given: list[str] = []

    def give() -> str:
        given.append(databases.take())
        return databases.url(given[-1])

    yield give
    for name in given:
        databases.give_back(name)


@pytest.fixture
def new_url(tmp_path, empty_database) -> Callable[[str], str]:
    """Makes the address of a store that is not there yet, on one of the backends."""

    def make(backend: str) -> str:
        match backend:
            case "memory":
                return ":memory:"
            case "sqlite":
                return str(tmp_path / f"history-{next(_numbers)}.db")
        return empty_database()

    return make


@pytest.fixture(params=BACKENDS)
def every_url(request, new_url) -> str:
    """An address on each backend in turn."""
    return new_url(request.param)


@pytest.fixture
def url(every_url) -> str:
    """The address of `store`. Folders above storage use one backend: the contract has the others."""
    return every_url


@pytest.fixture(params=BACKENDS[1:])
def every_durable_url(request, new_url) -> str:
    """An address on each backend that outlives the process."""
    return new_url(request.param)


@pytest.fixture
def durable_url(every_durable_url) -> str:
    """Such an address; one of them in the folders above storage."""
    return every_durable_url


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
    for name, text in (
        ("a.py", "print('a')\n"),
        ("b.py", "print('b')\n"),
        ("notes.md", "# Notes\n"),
    ):
        (folder / name).write_text(text)
    return folder
