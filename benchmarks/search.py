"""Search over a million events, against what people write first: LIKE over the very same table."""

import os
import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import apsw
import psycopg

import backstory
from benchmarks.measure import Row, by_turns
from benchmarks.places import new_database, postgres_server
from benchmarks.population import fill

MANY = 1_000_000
LENGTH = 40  # words in an event, about 240 bytes

STARTS = ("ka", "lo", "mi", "nu", "re", "sa", "to", "vi")
VOCABULARY = [f"{start}{n}" for start in STARTS for n in range(1_500)]
WEIGHTS = list(accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))
RARE = "needle7000"
WORDS = {RARE: "a rare word", "ka300": "a common word", "ka3": "a word that is nearly everywhere"}

LIKE_SQLITE = "SELECT id, content FROM events WHERE content LIKE ? ORDER BY id DESC"
LIKE_POSTGRES = "SELECT seq, content FROM backstory.events WHERE content LIKE %s ORDER BY seq DESC"


def texts(count: int) -> Iterator[str]:
    """Texts whose words are as unevenly spread as those of a language; one in a thousand has its own word."""
    source = random.Random(count)
    for number in range(count):
        said = " ".join(source.choices(VOCABULARY, cum_weights=WEIGHTS, k=LENGTH))
        yield f"{said} needle{number}" if number % 1_000 == 0 else said


def sqlite_search(folder: str, size: int = MANY) -> list[Row]:
    """On SQLite."""
    path = os.path.join(folder, "search.db")
    fill(path, texts(size))
    db = apsw.Connection(path)
    return searched(path, size, lambda like: db.execute(LIKE_SQLITE, (like,)).fetchall())


def postgres_search(folder: str, size: int = MANY) -> list[Row]:
    """On PostgreSQL."""
    address = new_database(postgres_server(folder))
    fill(address, texts(size))
    with psycopg.connect(address, autocommit=True) as db:
        return searched(address, size, lambda like: db.execute(LIKE_POSTGRES, (like,)).fetchall())


def searched(address: str, size: int, find: Callable[[str], list[Any]]) -> list[Row]:
    """Each word, once everything is indexed."""
    with backstory.open(address) as store:
        store.search(RARE, wait=True)
        return [_row(store, word, size, find) for word in WORDS]


def _row(store: backstory.Store, word: str, size: int, find: Callable[[str], list[Any]]) -> Row:
    assert store.search(word), "the search has to find something"
    times = by_turns(lambda: store.search(word), lambda: find(f"%{word}%"), 7)
    return Row(f"search for {WORDS[word]} in {size:,} events", "LIKE", *times, 0.1)
