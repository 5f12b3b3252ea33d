"""The command line's table: starting, searching a million events, first lines, and an export's memory.

`search` is measured against what people write first: LIKE over the very same table.
"""

import itertools
import os
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import psycopg

import backstory
from benchmarks import places
from benchmarks.measure import Row, by_turns

COMMAND = os.path.join(sysconfig.get_path("scripts"), "backstory")
MANY = 1_000_000
SOME = 100_000  # on PostgreSQL, where the same a million times takes minutes to write
FEW = 1_000
BATCH = 50_000
LENGTH = 40  # words in an event, about 240 bytes

STARTS = ("ka", "lo", "mi", "nu", "re", "sa", "to", "vi")
VOCABULARY = [f"{start}{n}" for start in STARTS for n in range(1_500)]
WEIGHTS = list(itertools.accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))
RARE, COMMON, EVERYWHERE = "needle7000", "ka300", "ka3"


def cli_table(folder: str) -> list[Row]:
    """Everything about the command line that is measured."""
    many, few = (os.path.join(folder, f"cli-{count}.db") for count in (MANY, FEW))
    for path, count in ((many, MANY), (few, FEW)):
        with backstory.open(path) as store:
            fill(store, count)
    return [
        version(),
        appending(many),
        *searching_sqlite(many),
        *searching_postgres(folder),
        *(first_line(command, many, few) for command in ("log", "context")),
        export_memory(many, few),
    ]


def fill(store: backstory.Store, count: int) -> None:
    """One agent with so many events; one in a thousand has a word of its own."""
    agent = store.start("long")
    source = random.Random(count)
    for start in range(0, count, BATCH):
        agent.extend(list(events(source, start, min(BATCH, count - start))))


def events(source: random.Random, start: int, count: int) -> Iterator[tuple[str, str, None]]:
    """Texts whose words are as unevenly spread as those of a language."""
    words = source.choices(VOCABULARY, cum_weights=WEIGHTS, k=count * LENGTH)
    for number in range(count):
        text = " ".join(words[number * LENGTH : (number + 1) * LENGTH])
        own = f" needle{start + number}" if (start + number) % 1_000 == 0 else ""
        yield ("user" if number % 2 else "assistant"), text + own, None


def version() -> Row:
    """A whole new process each time."""

    def run(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    times = by_turns(run(COMMAND, "--version"), run(sys.executable, "-c", "import sqlite3, json"), 25)
    return Row("backstory --version", "import sqlite3, json", *times, 2.5)


def appending(path: str) -> Row:
    """An append to a store that is searched, against one that never was: the index must cost nothing."""
    with backstory.open(path) as store, backstory.open(path + "-unsearched") as other:
        store.search(RARE, wait=True)
        searched, unsearched = store.start("searched"), other.start("unsearched")
        text = " ".join(VOCABULARY[:LENGTH])
        times = by_turns(lambda: searched.user(text), lambda: unsearched.user(text), 200)
    return Row("an append to a searched store", "to one never searched", *times, 1.3)


def searching_sqlite(path: str) -> list[Row]:
    with backstory.open(path) as store:
        db = apsw.Connection(path)

        def like(word: str) -> Callable[[], object]:
            sql = "SELECT id, content FROM events WHERE content LIKE ? ORDER BY id DESC"
            return lambda: db.execute(sql, (f"%{word}%",)).fetchall()

        rows = [searched(store, word, what, like(word), MANY) for word, what in WORDS.items()]
        db.close()
    return rows


WORDS = {RARE: "a rare word", COMMON: "a common word", EVERYWHERE: "a word that is nearly everywhere"}


def searching_postgres(folder: str) -> list[Row]:
    """A tenth of a million: here the round trips weigh more than the rows."""
    store = places.postgres(folder).store()
    fill(store, SOME)
    with psycopg.connect(address(store), autocommit=True) as db:

        def like(word: str) -> Callable[[], object]:
            sql = "SELECT seq, content FROM backstory.events WHERE content LIKE %s ORDER BY seq DESC"
            return lambda: db.execute(sql, (f"%{word}%",)).fetchall()

        return [
            searched(store, RARE, "a rare word on PostgreSQL", like(RARE), SOME),
            searched(store, COMMON, "a common word on PostgreSQL", like(COMMON), SOME),
        ]


def address(store: backstory.Store) -> str:
    backend: Any = store._backend
    return str(backend._conninfo)


def searched(store: backstory.Store, word: str, what: str, like: Callable[[], object], count: int) -> Row:
    assert store.search(word), "the search has to find something"
    times = by_turns(lambda: store.search(word), like, 7)
    return Row(f"search for {what} in {count:,} events", "LIKE", *times, 0.1)


def first_line(command: str, many: str, few: str) -> Row:
    """From the start of the process to its first line."""

    def run(path: str) -> Callable[[], object]:
        def work() -> None:
            arguments = [COMMAND, command, "long", "--store", path]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
                assert process.stdout
                assert process.stdout.readline()
                process.stdout.close()

        return work

    times = by_turns(run(many), run(few), 7)
    return Row(f"first line of `{command}`, {MANY:,} events", f"{FEW:,} events", *times, 1.3)


def export_memory(many: str, few: str) -> Row:
    """The most memory that the process ever had."""
    ours, floor = (peak(path) for path in (many, few))
    return Row(f"memory of an export, {MANY:,} events", f"{FEW:,} events", ours, floor, 1.3, "MB")


# Asked in the process itself: what a parent is told of a child begins with the parent's own memory.
EXPORT = """
import resource, sys
from backstory.cli.main import run
sys.stderr = open("/dev/null", "w")
code = run(["export", "--store", sys.argv[1], "-o", sys.argv[1] + ".jsonl"])
try:
    status = open("/proc/self/status").read()
    peak = int(status.partition("VmHWM:")[2].split()[0])
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(code, peak)
"""


def peak(path: str) -> float:
    """Megabytes that an export of a store had at most."""
    ran = subprocess.run([sys.executable, "-c", EXPORT, path], capture_output=True, text=True, check=True)
    os.unlink(f"{path}.jsonl")
    code, kilobytes = ran.stdout.split()
    assert code == "0"
    return int(kilobytes) / 1024
