"""The engine's table: restores, forks, appends and sizes, on one backend against its floor."""

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Protocol

import backstory
from benchmarks.measure import Row, by_turns

Batch = list[tuple[str, str, dict[str, Any] | None]]


class Floor(Protocol):
    """The bare driver."""

    def insert(self, message: Any) -> None: ...
    def insert_many(self, messages: list[Any]) -> None: ...
    def fetch_all(self) -> list[Any]: ...
    def size(self) -> int: ...


class Bench:
    """A place to measure: makes new stores and new floors, and knows how large a store is."""

    def __init__(
        self,
        store: Callable[[], backstory.Store],
        floor: Callable[[], Floor],
        size: Callable[[backstory.Store], int],
    ) -> None:
        self.store = store
        self.floor = floor
        self.size = size

    def table(self) -> list[Row]:
        """Every row, in the order of the issue that asked for it."""
        return [
            self.context(),
            self.behind_dead_history(),
            *self.forks(),
            chain_of_forks(self.store()),
            self.append(),
            self.extend(),
            *self.disk(),
        ]

    def context(self) -> Row:
        store, floor = self.store(), self.floor()
        agent = store.start()
        agent.extend(batch(10_000))
        floor.insert_many(bare(10_000))
        ours, bare_time = by_turns(agent.context, floor.fetch_all, 25)
        return Row("context() of 10,000 messages", "bare fetchall", ours, bare_time, 1.4)

    def behind_dead_history(self) -> Row:
        store = self.store()
        fresh, old = store.start("fresh"), store.start("old")
        fresh.extend(batch(10_000))
        old.mark("x")
        for _ in range(100):
            old.extend(batch(2_000))
            old.rewind("x")
        old.extend(batch(10_000))
        ours, floor = by_turns(old.context, fresh.context, 25)
        return Row("the same after 200,000 dead events", "a fresh log", ours, floor, 1.2)

    def forks(self) -> list[Row]:
        store = self.store()
        long, short = store.start("long"), store.start("short")
        long.extend(batch(100_000))
        short.extend(batch(8))
        ours, floor = by_turns(lambda: long.fork(), lambda: short.fork(), 200)
        before = self.size(store)
        for _ in range(1_000):
            long.fork()
        growth = (self.size(store) - before) / 1_000
        return [
            Row("fork of a 100,000-event agent", "of an 8-event agent", ours, floor, 1.3),
            Row("bytes of database for a fork", "1 KB", growth, 1024, 1.0, "B"),
        ]

    def append(self) -> Row:
        store, floor = self.store(), self.floor()
        agent = store.start()
        text = text_of(random.Random(0), 500)
        ours, bare_time = by_turns(
            lambda: agent.user(text), lambda: floor.insert((1, "user", text, None, 1)), 600
        )
        return Row("one durable append", "one bare INSERT", ours, bare_time, 1.5)

    def extend(self) -> Row:
        store, floor = self.store(), self.floor()
        agent = store.start()
        events, messages = batch(100_000), bare(100_000)
        ours, bare_time = by_turns(
            lambda: agent.extend(events), lambda: floor.insert_many(messages), 3
        )
        return Row("extend() with 100,000 events", "bare executemany", ours, bare_time, 2.5)

    def disk(self) -> list[Row]:
        store, floor = self.store(), self.floor()
        empty, empty_floor = self.size(store), floor.size()
        events = batch(20_000)
        store.start().extend(events)
        floor.insert_many(bare(20_000))
        raw = sum(len(content.encode()) for _, content, _ in events)
        ours, bare_size = self.size(store) - empty, floor.size() - empty_floor
        return [
            Row(
                "database size, 500-byte messages",
                "bytes of content",
                ours / 1e6,
                raw / 1e6,
                1.2,
                "MB",
            ),
            Row(
                "database size, 500-byte messages",
                "a bare table",
                ours / 1e6,
                bare_size / 1e6,
                None,
                "MB",
            ),
        ]


def import_time() -> Row:
    """A whole new process each time."""

    def run(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    ours, floor = by_turns(run("import backstory"), run("import sqlite3, json"), 25)
    return Row("import backstory", "import sqlite3, json", ours, floor, 2.0)


WORDS = "the agent reads a file and finds that nothing of it was ever what it seemed in the log"


def text_of(random: random.Random, length: int) -> str:
    """Some text of a length, not too even."""
    words, choices = "", WORDS.split()
    while len(words) < length:
        words += random.choice(choices) + str(random.randrange(1000)) + " "
    return words[:length]


def batch(count: int) -> Batch:
    """Messages of 500 bytes, half of them the person's."""
    source = random.Random(count)
    return [("user" if n % 2 else "assistant", text_of(source, 500), None) for n in range(count)]


def bare(count: int) -> list[Any]:
    """The same messages as rows of a floor."""
    return [
        (1, kind, content, None, 1_700_000_000_000_000 + n)
        for n, (kind, content, _) in enumerate(batch(count))
    ]


def chain_of_forks(store: backstory.Store) -> Row:
    """A chain of 500 forks, four messages each, against a flat log."""
    flat, chained = store.start("flat"), store.start("chained")
    flat.extend(batch(2_000))
    for _ in range(500):
        chained.extend(batch(4))
        chained = chained.fork()
    ours, floor = by_turns(chained.context, flat.context, 50)
    return Row("context() through 500 forks, 2,000 messages", "a flat log", ours, floor, 2.0)
