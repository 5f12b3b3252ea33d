"""The soak: eight workers, of which some are killed now and then, and then the audit of what they wrote.

Nothing that was acknowledged is lost, nothing is there twice, `verify` is clean, and after a minute or more
the workers that lived from the beginning to the end hold no more memory and no more files than in the middle.
"""

import itertools
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import backstory

WORKERS, SPARED = 8, 2  # so many are never killed: their memory and files are looked at
WARM = 60  # seconds: a process still grows by what it loads when it is younger
MORE_BYTES, MORE_FILES = (
    15_000_000,
    12,
)  # that a spared one may hold in the end, compared with the middle


class Ledger(NamedTuple):
    """What the workers said."""

    written: dict[str, tuple[str, int]]  # by token: the agent and the position
    erased: set[tuple[str, int]]
    deleted: set[str]


class Outcome(NamedTuple):
    """What the audit found, and how much there was."""

    problems: list[str]
    written: int
    kills: int
    crashes: int


def soak(
    url: str, folder: Path, seconds: float, crash: Callable[[], None] | None = None
) -> Outcome:
    """Run the workers for so long and audit the store; `crash` ends the server and starts it again."""
    crew = Crew(url, folder)
    kills = crashes = 0
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(min(3.0, max(0.1, end - time.monotonic())))
            crew.check()
            if crash and crew.choose.random() < 0.15:
                crash()
                crashes += 1
            else:
                crew.replace()
                kills += 1
    finally:
        crew.end()
    problems = [*crew.problems, *(growth(folder) if seconds >= WARM else [])]
    ledger = read_ledger(folder)
    with backstory.open(url) as store:
        problems += audit(store, ledger)
    return Outcome(problems, len(ledger.written), kills, crashes)


class Crew:
    """The workers that are running."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.choose = random.Random(0)
        self.numbers = itertools.count()
        self.problems: list[str] = []
        self.running = [self.started() for _ in range(WORKERS)]

    def started(self) -> "subprocess.Popen[bytes]":
        number = next(self.numbers)
        with (self.folder / f"{number}.err").open("wb") as errors:
            ledger = str(self.folder / f"{number}.ledger")
            options = ["-X", "faulthandler"]  # a crash of the interpreter says where, too
            command = [
                sys.executable,
                *options,
                "-m",
                "tests.soak.worker",
                self.url,
                ledger,
                str(number),
            ]
            return subprocess.Popen(command, stderr=errors, cwd=Path(__file__).parents[2])

    def replace(self) -> None:
        """Kill one of those that may be killed, and start another."""
        place = self.choose.randrange(SPARED, WORKERS)
        self.kill(self.running[place])
        self.running[place] = self.started()

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill a worker, unless it has just ended by itself."""
        process.kill()
        if process.wait() != -signal.SIGKILL:
            self.note(process)

    def check(self) -> None:
        """A worker that ended by itself has found something."""
        for place, process in enumerate(self.running):
            if process.poll() is not None:
                self.note(process)
                self.running[place] = self.started()

    def note(self, process: "subprocess.Popen[bytes]") -> None:
        self.problems.append(f"a worker ended ({process.returncode}): {self.said(process.args)}")

    def said(self, command: Any) -> str:
        """All that the worker of a command said: the beginning of a traceback tells what it was doing."""
        path = self.folder / f"{command[-1]}.err"
        return path.read_text(errors="replace") or "it said nothing"

    def end(self) -> None:
        for process in self.running:
            self.kill(process)


def read_ledger(folder: Path) -> Ledger:
    """What all workers said, together."""
    ledger = Ledger({}, set(), set())
    for path in folder.glob("*.ledger"):
        for line in path.read_text().splitlines():
            match line.split():
                case ["ok", token, agent, seq]:
                    ledger.written[token] = agent, int(seq)
                case ["erasing", agent, seq]:
                    ledger.erased.add((agent, int(seq)))
                case ["deleting", agent]:
                    ledger.deleted.add(agent)
    return ledger


def audit(store: backstory.Store, ledger: Ledger) -> list[str]:
    """What is wrong with a store, given what was said about it."""
    problems = [f"verify: {finding}" for finding in store.verify()]
    there: Counter[str] = Counter()
    places: dict[str, tuple[str, int]] = {}
    for agent in store.agents():
        for event in agent.events(after=agent.fork_seq):
            if (
                event.content
                and event.content.startswith("t")
                and "copy_of" not in (event.data or {})
            ):
                there[event.content] += 1
                places[event.content] = agent.id, event.seq
    problems += [f"{token} is there {count} times" for token, count in there.items() if count > 1]
    for token, place in ledger.written.items():
        excused = place in ledger.erased or place[0] in ledger.deleted
        if token not in places and not excused:
            problems.append(f"{token} at {place} is lost")
        elif token in places and places[token] != place:
            problems.append(f"{token} is at {places[token]}, not at {place}")
    return problems


def growth(folder: Path) -> list[str]:
    """What the workers that were never killed hold at the end, against the middle of their life."""
    problems = []
    for number in range(SPARED):
        path = folder / f"{number}.ledger"
        lines = path.read_text().splitlines() if path.exists() else []  # it may not have begun
        sizes = [tuple(map(int, line.split()[1:])) for line in lines if line.startswith("size")]
        middle, late = sizes[len(sizes) // 3 : len(sizes) // 2], sizes[-max(1, len(sizes) // 6) :]
        if not middle:
            continue  # it did not live long enough to tell
        for what, place, more in (("bytes", 0, MORE_BYTES), ("files", 1, MORE_FILES)):
            before, after = (
                sorted(size[place] for size in part)[len(part) // 2] for part in (middle, late)
            )
            print(f"worker {number}: {before:,} {what} in the middle, {after:,} at the end")
            if after > before + more:
                problems.append(f"worker {number} grew from {before:,} to {after:,} {what}")
    return problems
