"""What must not grow with the store, and what the chain of digests costs: one table for each database.

`--size` says how many events and sessions the larger store has.
"""

import hashlib
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import apsw
import psycopg

import backstory
from backstory.log import digests
from backstory.storage.postgres.watch import PostgresWatch
from backstory.storage.sqlite.watch import SqliteWatch
from benchmarks import places
from benchmarks.engine import batch, text_of
from benchmarks.measure import Row, by_turns

SIZE = 20_000
FEW = 100
IDLE = 5.0  # seconds that a follower is watched while nothing happens

OUTLINE_SQLITE = """
    SELECT id & 4294967295, kind, coalesce(octet_length(content), 0) + coalesce(octet_length(data), 0),
        created_at, base
    FROM events ORDER BY id"""
OUTLINE_POSTGRES = """
    SELECT seq, kind, coalesce(octet_length(content), 0) + coalesce(octet_length(data), 0), created_at, base
    FROM backstory.events ORDER BY place, agent, seq"""
ROWS_SQLITE = (
    "SELECT id, kind, content, data, created_at, key, base, digest FROM events ORDER BY id"
)
ROWS_POSTGRES = """
    SELECT seq, kind, content, data, created_at, key, base, digest FROM backstory.events
    ORDER BY place, agent, seq"""
# The same arguments, and no digest: what an append would cost without the chain.
NO_CHAIN = """
    CREATE OR REPLACE FUNCTION backstory.digest(
        previous bytea, seq bigint, at bigint, base bigint, kind text, key text, content text, data text
    ) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT ''::bytea $$"""


class Scale:
    """One database: how stores are made there, and how they are asked without backstory."""

    def __init__(self, new_url: Callable[[], str], *, server: bool) -> None:
        self._new_url, self._server = new_url, server

    def table(self, size: int) -> list[Row]:
        """Every row."""
        return [
            self.chained_append(),
            *self.chained_size(),
            self.tail(size),
            *self.sessions(size),
            *self.whole_log(size),
            self.idle_follower(),
        ]

    def store(self) -> backstory.Store:
        """A new store."""
        return self._opened()[0]

    def _opened(self) -> tuple[backstory.Store, Any]:
        """A new store, and a bare connection to its database."""
        url = self._new_url()
        store = backstory.open(url)
        return store, psycopg.connect(url, autocommit=True) if self._server else apsw.Connection(
            url
        )

    def chained_append(self) -> Row:
        chained = self.store().start()
        store, db = self._opened()
        plain, text = store.start(), text_of(random.Random(0), 500)
        if self._server:
            db.execute(NO_CHAIN)

        def append_without() -> None:
            with unchained():
                plain.user(text)

        ours, floor = by_turns(lambda: chained.user(text), append_without, 200)
        return Row("one durable append with the chain", "without", ours, floor, 1.05)

    def chained_size(self) -> list[Row]:
        """Texts of many lengths, and all of one: there a few bytes more can take a row off every page."""
        return [self._chained_size("100 to 900", 100, 900), self._chained_size("500", 500, 501)]

    def _chained_size(self, what: str, shortest: int, longest: int) -> Row:
        store, db = self._opened()
        source = random.Random(1)
        lengths = [source.randrange(shortest, longest) for _ in range(20_000)]
        store.start().extend([("user", text_of(source, length)) for length in lengths])
        ours = self._compacted_size(db)
        events, nothing = ("backstory.events", "''") if self._server else ("events", "x''")
        db.execute(f"UPDATE {events} SET digest = {nothing}")
        floor = self._compacted_size(db)
        what = f"size of the events with the chain, texts of {what} characters"
        return Row(what, "without", ours / 1e6, floor / 1e6, 1.04, "MB")

    def _compacted_size(self, db: Any) -> int:
        if self._server:
            db.execute("VACUUM FULL backstory.events")
            return int(
                db.execute("SELECT pg_total_relation_size('backstory.events')").fetchone()[0]
            )
        db.execute("VACUUM")
        return int(db.execute("SELECT sum(pgsize) FROM dbstat WHERE name = 'events'").fetchone()[0])

    def tail(self, size: int) -> Row:
        store = self.store()
        long, short = store.start("long"), store.start("short")
        long.extend(batch(size))
        short.extend(batch(FEW))
        ours, floor = by_turns(
            lambda: long.messages(limit=20), lambda: short.messages(limit=20), 100
        )
        return Row(f"messages(limit=20) of {size:,} messages", f"of {FEW}", ours, floor, 1.5)

    def sessions(self, size: int) -> list[Row]:
        (many, many_db), (few, few_db) = self._opened(), self._opened()
        for store, count in ((many, size), (few, FEW)):
            populate(store, count)
        if self._server:
            for db in (many_db, few_db):
                db.execute(
                    "ANALYZE"
                )  # as the server itself does, a minute after so many rows came in
        ours, floor = by_turns(lambda: many.ensure("key 7"), lambda: few.ensure("key 7"), 200)
        found = [Row(f"ensure() of a key among {size:,}", f"among {FEW}", ours, floor, 1.5)]
        for order in ("born", "updated"):
            ours, floor = by_turns(second_page(many, order), second_page(few, order), 20)
            found.append(
                Row(f"50 of {size:,} sessions, by {order!r}", f"of {FEW}", ours, floor, 1.5)
            )
            ours, floor = by_turns(
                second_page(many, order, "key "), second_page(few, order, "key "), 20
            )
            what = f"50 of {size:,} whose keys begin alike, by {order!r}"
            found.append(Row(what, f"of {FEW}", ours, floor, 1.5))
        return found

    def whole_log(self, size: int) -> list[Row]:
        store, db = self._opened()
        agent = store.start()
        agent.extend(batch(size))
        outline, rows = (
            (OUTLINE_POSTGRES, ROWS_POSTGRES) if self._server else (OUTLINE_SQLITE, ROWS_SQLITE)
        )
        ours, floor = by_turns(agent.outline, lambda: db.execute(outline).fetchall(), 7)
        found = [
            Row(f"outline() of {size:,} events", "a bare read of the columns", ours, floor, 1.5)
        ]
        ours, floor = by_turns(store.verify, lambda: hash_rows(db.execute(rows)), 5)
        return [
            *found,
            Row(f"verify() of {size:,} events", "a bare read with SHA-256", ours, floor, 3.0),
        ]

    def idle_follower(self) -> Row:
        """How many statements a follower sends while nothing happens."""
        store = self.store()
        store.start().user("hi")
        asked = [0]
        with counted(asked), store.follow(timeout=IDLE) as follower:
            began = time.monotonic()
            list(follower)
            seconds = time.monotonic() - began
        allowed = 1.0 if self._server else seconds / 0.25  # the one that ends it, or one in 250 ms
        return Row("statements of an idle follower", f"{seconds:.0f} s", asked[0], allowed, 1.0, "")


def second_page(store: backstory.Store, order: str, prefix: str = "") -> Callable[[], object]:
    """What reads the second page of a listing."""
    *_, last = store.sessions(order=order, limit=50, prefix=prefix)
    return lambda: store.sessions(order=order, limit=50, after=last, prefix=prefix)


def hash_rows(rows: Any) -> None:
    """Read rows and put them through SHA-256 one by one."""
    for row in rows:
        hashlib.sha256(repr(row).encode()).digest()


@contextmanager
def unchained() -> Iterator[None]:
    """SQLite's appends without digests."""
    nothing: Any = lambda *_: b""  # noqa: E731
    with patch.object(digests, "link", nothing):
        yield


@contextmanager
def counted(asked: list[int]) -> Iterator[None]:
    """Count what the watches ask of their databases."""
    version, refresh = SqliteWatch._read_version, PostgresWatch._refresh

    def asks_sqlite(self: SqliteWatch) -> int:
        asked[0] += 1
        return version(self)

    def asks_postgres(self: PostgresWatch, db: Any) -> None:
        asked[0] += 1
        refresh(self, db)

    with (
        patch.object(SqliteWatch, "_read_version", asks_sqlite),
        patch.object(PostgresWatch, "_refresh", asks_postgres),
    ):
        yield


def populate(store: backstory.Store, count: int) -> None:
    """So many sessions with keys, each with one message."""
    began = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    with store.intake() as intake:
        for n in range(count):
            born = datetime.fromtimestamp(began + n, UTC)
            agent = intake.agent(f"key {n}", name="main", created_at=born)
            intake.extend(agent, [backstory.Event.of(0, "user", "hi", created_at=born)])
            if n % 5_000 == 4_999:
                intake.commit()


def sqlite_scale(folder: str, size: int = SIZE) -> list[Row]:
    """On SQLite."""
    numbers = itertools.count(1)
    return Scale(lambda: os.path.join(folder, f"scale-{next(numbers)}.db"), server=False).table(
        size
    )


def postgres_scale(folder: str, size: int = SIZE) -> list[Row]:
    """On PostgreSQL."""
    server = places.postgres_server(folder)
    return Scale(lambda: places.new_database(server), server=True).table(size)
