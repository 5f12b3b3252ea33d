"""The command line's table: starting, first lines with a million events, and an export's memory."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable

import backstory
from benchmarks.measure import Row, by_turns
from benchmarks.population import fill
from benchmarks.search import LENGTH, MANY, RARE, VOCABULARY, texts

COMMAND = os.path.join(sysconfig.get_path("scripts"), "backstory")
FEW = 1_000


def cli_table(folder: str) -> list[Row]:
    """Everything about the command line that is measured."""
    many, few = (os.path.join(folder, f"cli-{count}.db") for count in (MANY, FEW))
    for path, count in ((many, MANY), (few, FEW)):
        fill(path, texts(count))
    return [
        version(),
        appending(many),
        *(first_line(command, many, few) for command in ("log", "context")),
        export_memory(many, few),
    ]


def version() -> Row:
    """A whole new process each time."""

    def run(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    times = by_turns(
        run(COMMAND, "--version"), run(sys.executable, "-c", "import sqlite3, json"), 25
    )
    return Row("backstory --version", "import sqlite3, json", *times, 2.5)


def appending(path: str) -> Row:
    """An append to a store that is searched, against one that never was: the index must cost nothing."""
    with backstory.open(path) as store, backstory.open(path + "-unsearched") as other:
        store.search(RARE, wait=True)
        searched, unsearched = store.start("searched"), other.start("unsearched")
        text = " ".join(VOCABULARY[:LENGTH])
        times = by_turns(lambda: searched.user(text), lambda: unsearched.user(text), 200)
    return Row("an append to a searched store", "to one never searched", *times, 1.3)


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
    ran = subprocess.run(
        [sys.executable, "-c", EXPORT, path], capture_output=True, text=True, check=True
    )
    os.unlink(f"{path}.jsonl")
    code, kilobytes = ran.stdout.split()
    assert code == "0"
    return int(kilobytes) / 1024
