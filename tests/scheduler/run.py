"""Runs the schedules of seeds on a database."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg

import backstory
from backstory.storage.sqlite.frames import read_frame
from tests.databases import with_parameter
from tests.scheduler.audit import list_problems
from tests.scheduler.operations import (
    Ledger,
    RandomClient,
    begin_history,
    build_export,
    choose_plan,
)
from tests.scheduler.turns import Schedule, install_gates

MEMORY_DISK = Path("/dev/shm")  # syncing a file there takes no time
MOST_CLIENTS = 3
SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
POSTGRES_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'backstory' ORDER BY 1"
UNCHANGED = {"meta"}  # tables that are the same in an empty store
# A circle of locks is an error; the server looks for one only after a while.
FIND_CIRCLES = "options=-c%20deadlock_timeout%3D50ms"


class Outcome(NamedTuple):
    """What happened in one schedule."""

    problems: list[str]
    trace: list[str]  # the steps
    log: list[str]  # the operations, with their errors


class SqliteDatabase:
    """Gives each schedule a new file."""

    watcher = None

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.db"
        self._empty = folder / "empty.db"
        backstory.open(self._empty).close()

    @contextmanager
    def open_stores(self, count: int) -> Iterator[list[backstory.Store]]:
        """Open an empty store several times."""
        for path in self._path.parent.glob("store.db*"):
            path.unlink()
        shutil.copy(self._empty, self._path)
        with ExitStack() as stack:
            yield [stack.enter_context(backstory.open(self._path)) for _ in range(count)]

    def read_tables(self) -> Iterator[Any]:
        """Yield the rows of all tables."""
        return read_sqlite_tables(self._path)


def read_sqlite_tables(path: Path) -> Iterator[Any]:
    """Yield the rows of all tables of a file, decompressed."""
    with closing(apsw.Connection(str(path))) as db:
        for (name,) in db.execute(SQLITE_TABLES).fetchall():
            yield from db.execute(f"SELECT * FROM {name}").fetchall()
        for (frame,) in db.execute("SELECT packed FROM events WHERE packed IS NOT NULL"):
            yield read_frame(frame)


class PostgresDatabase:
    """Empties one database for each schedule. The stores stay open, which saves most of the
    time."""

    def __init__(self, url: str) -> None:
        self.url = url
        gated = with_parameter(url, FIND_CIRCLES)
        self._stores = [backstory.open(gated) for _ in range(MOST_CLIENTS)]
        self.watcher = psycopg.connect(url, autocommit=True)
        self.watcher.execute("SET session_replication_role = replica")  # no foreign keys

    @contextmanager
    def open_stores(self, count: int) -> Iterator[list[backstory.Store]]:
        """Return handles of an empty store."""
        names = [name for name in self._list_tables() if name not in UNCHANGED]
        self.watcher.execute("; ".join(f"DELETE FROM backstory.{name}" for name in names))
        yield self._stores[:count]

    def read_tables(self) -> Iterator[Any]:
        """Yield the rows of all tables."""
        selects = [f"SELECT t::text FROM backstory.{name} t" for name in self._list_tables()]
        yield from self.watcher.execute(" UNION ALL ".join(selects)).fetchall()

    def _list_tables(self) -> list[str]:
        return [name for (name,) in self.watcher.execute(POSTGRES_TABLES).fetchall()]

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.watcher.close()


Database = SqliteDatabase | PostgresDatabase


def run_schedule(database: Database, seed: int) -> Outcome:
    """Run the schedule of a seed, and check the store."""
    plan = choose_plan(random.Random(seed))
    schedule = Schedule(str(seed), database.watcher, plan.opening)
    ledger = Ledger()
    problems = []
    with install_gates(str(seed)), database.open_stores(len(plan.operations)) as stores:
        export = build_export(ledger)
        begin_history(stores[0], ledger)
        clients = []
        for number, names in enumerate(plan.operations):
            name = f"{seed} {number}"
            clients.append(RandomClient(name, stores[number], ledger, export, names))
        try:
            schedule.run([client.run for client in clients])
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
        problems += list_problems(stores[0], ledger, database.read_tables)
    log = [f"{number}: {line}" for number, client in enumerate(clients) for line in client.log]
    return Outcome(problems, schedule.trace, log)


@contextmanager
def open_sqlite() -> Iterator[SqliteDatabase]:
    """Make a folder for SQLite stores."""
    parent = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield SqliteDatabase(Path(folder))


def describe(outcome: Outcome) -> Iterator[Any]:
    """Yield the lines of a report."""
    yield from outcome.problems
    yield "operations:"
    for line in outcome.log:
        yield f"  {line}"
    yield "steps:"
    for line in outcome.trace:
        yield f"  {line:.150}"
