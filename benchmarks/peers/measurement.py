"""The ten jobs over all peers: on what history, at which sizes, one peer after the other in one run."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers import environments
from benchmarks.peers.conversations import cut
from benchmarks.peers.environments import Numbers, say
from tests.wire.stub_server import stub_server

Found = dict[str, dict[str, Numbers]]
"""What a job found: peer, then size, then its numbers."""


class Job(NamedTuple):
    """One row of the table."""

    title: str
    sizes: tuple[int, ...]
    unit: str = "messages"
    history: str = ""
    """Which history is made before, and never timed."""


MESSAGES = (100, 1_000, 10_000, 100_000)
WRITTEN, KILLS = 500, 5
"""Turns of each of several writers at most; how often one is killed."""

TOO_LONG = 20
"""Seconds, the making of the history included: a peer that took longer is not asked for the next size."""
REASONS = {"failed", "not_offered"}

JOBS = {
    "append": Job("append a turn, durably", MESSAGES, history="fill"),
    "restore": Job("restore", MESSAGES, history="fill"),
    "cold": Job("open and restore, cold", MESSAGES, history="fill"),
    "request": Job("restore as a provider's request", MESSAGES[:3], history="fill"),
    "dead": Job(
        "restore 1,000 live messages after ten rewinds", (2_000, *MESSAGES[2:]), "written", "life"
    ),
    "fork": Job("fork", MESSAGES[:3], history="fill"),
    "rewind": Job("rewind by 20 messages", MESSAGES[:3], history="fill"),
    "disk": Job("size on disk", (20, 200, 2_000), "turns"),
    "as-of": Job("read the state at half of the messages", MESSAGES[1:], history="fill"),
    "together": Job("several processes append to one session", (1, 2, 4, 8), "processes"),
    "kill": Job("kill -9 in the middle of appends", (KILLS,), "kills"),
    "cut": Job("histories interrupted in a tool call", (0,), ""),
    "coding-restore": Job("restore a coding agent", (10, 100), "turns", "coding"),
    "coding-disk": Job("size on disk of a coding agent", (200,), "turns"),
}


class NotMade(Exception):
    """A peer could not make the history; the numbers say why."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__(str(numbers))
        self.numbers = numbers


class Measurement:
    """One run: a folder on the disk to measure in, and the histories that were made for it."""

    def __init__(self, folder: str, peers: list[str], sizes: int) -> None:
        self.folder = folder
        self.peers = peers
        self.sizes = sizes
        self.persists = {
            name: environments.run(name, "describe", "", 0)["persists"] for name in peers
        }
        # Making a history is never timed: in memory it does not wait for the disk.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.made = Path(tempfile.mkdtemp(prefix="backstory-peers-", dir=memory))

    def close(self) -> None:
        """Remove the histories."""
        shutil.rmtree(self.made, ignore_errors=True)

    def job(self, name: str) -> Found:
        """All sizes of one job; at each size the peers one after the other."""
        job = JOBS[name]
        found: Found = {peer: {} for peer in self.peers}
        for size in job.sizes[: self.sizes]:
            took = {}
            for peer in self.peers:
                earlier = list(found[peer].values())[-1:]
                start = time.perf_counter()
                if earlier and REASONS & earlier[0].keys():
                    found[peer][str(size)] = earlier[0]  # ten times the size would not be better
                    continue
                found[peer][str(size)] = self.numbers(name, peer, size)
                took[peer] = time.perf_counter() - start
                say(
                    f"  {job.title}, {size:,} {job.unit}, {peer}: {shortly(found[peer][str(size)])}"
                )
            for peer in (
                peer
                for peer, seconds in took.items()
                if seconds > TOO_LONG and size != job.sizes[-1]
            ):
                following = str(job.sizes[job.sizes.index(size) + 1])
                found[peer][following] = {
                    "failed": f"not asked: making and reading {size:,} took {took[peer]:.0f} s"
                }
        return found

    def numbers(self, name: str, peer: str, size: int) -> Numbers:
        """One job of one peer at one size."""
        special: dict[str, Callable[[str, int], Numbers]] = {
            "together": self.together,
            "kill": self.kills,
            "cut": self.cut,
        }
        try:
            return special[name](peer, size) if name in special else self.task(name, peer, size)
        except NotMade as failure:
            return failure.numbers

    def task(self, name: str, peer: str, size: int) -> Numbers:
        """A task on a fresh copy of its history, which the machine no longer has in memory."""
        history = JOBS[name].history
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            if history and self.persists[peer]:
                shutil.copytree(self.history(peer, history, size), place, dirs_exist_ok=True)
                forget(place)
            return environments.run(peer, name, place, size, fixture=history)

    def history(self, peer: str, kind: str, size: int) -> Path:
        """A history, made once."""
        made = self.made / f"{peer}-{kind}-{size}"
        if not made.exists():
            half_made = made.with_suffix(".half")
            shutil.rmtree(half_made, ignore_errors=True)
            half_made.mkdir(parents=True)
            numbers = environments.run(peer, "make", str(half_made), size, fixture=kind)
            if REASONS & numbers.keys():
                shutil.rmtree(half_made)
                raise NotMade(
                    {key: _not_made(reason) for key, reason in numbers.items() if key in REASONS}
                )
            half_made.rename(made)
        return made

    def together(self, peer: str, size: int) -> Numbers:
        """Several processes append to one session at once: how quickly, with how many errors and losses."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            if not self.persists[peer]:
                return {"not_offered": "one process only"}
            shutil.copytree(self.history(peer, "fill", 100), place, dirs_exist_ok=True)
            writers = [
                environments.started(peer, "write", place, WRITTEN, mark=f"w{number}")
                for number in range(size)
            ]
            ended = environments.all_at_once(writers)
            found = environments.run(peer, "found", place, 0)
        failed = [numbers for numbers in [*ended, found] if "failed" in numbers]
        if failed:
            return failed[0]
        acknowledged = [mark for numbers in ended for mark in numbers["acknowledged"]]
        seconds = max(numbers["end"] for numbers in ended) - min(
            numbers["start"] for numbers in ended
        )
        errors = [error for numbers in ended for error in numbers["errors"]]
        return {
            "a_second": len(acknowledged) / seconds,
            "ms": seconds * 1000 / max(len(acknowledged), 1),
            "errors": len(errors),
            "error": errors[:1],
            "lost": lost(acknowledged, found["words"]),
            "acknowledged": len(acknowledged),
        }

    def kills(self, peer: str, size: int) -> Numbers:
        """A writer is killed in the middle, several times; what it had acknowledged must still be there."""
        if not self.persists[peer]:
            return {"lost": "all", "why": "stores nothing on disk"}
        source, acknowledged = random.Random(size), []
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            shutil.copytree(self.history(peer, "fill", 100), place, dirs_exist_ok=True)
            for kill in range(size):
                acknowledged += _killed(
                    environments.started(peer, "write", place, 0, mark=f"k{kill}"), source
                )
            found = environments.run(peer, "found", place, 0)
        if "failed" in found:
            return {"failed": f"after a kill: {found['failed']}"}
        return {"lost": lost(acknowledged, found["words"]), "acknowledged": len(acknowledged)}

    def cut(self, peer: str, size: int) -> Numbers:
        """The requests that come of cut histories, judged by a server with the provider's rules.

        A request is easily made acceptable by leaving things out, so what reaches the model is counted too.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as place, stub_server() as server:
            numbers = environments.run(peer, "cut", place, size, base_url=f"{server.url}/v1")
            bodies = [json.dumps(each.body) for each in server.exchanges if not each.refused_for]
        said = [m.text for _, turn in cut() for m in turn if m.kind != "tool_call"]
        return {
            **numbers,
            "seen": sum(any(text in body for body in bodies) for text in said),
            "said": len(said),
        }


def _not_made(reason: str) -> str:
    """A history that was not made says nothing of how it would be read; what is not offered is just that."""
    return f"its history {reason}" if reason.startswith("took more than") else reason


def lost(acknowledged: list[str], words: list[str]) -> int:
    """How many turns are not there, or only one of their two messages."""
    there = Counter(words)
    return sum(there[mark] < 2 for mark in acknowledged)


def forget(folder: str) -> None:
    """Bring the files to the disk and let the machine's memory forget them."""
    os.sync()
    for at, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(at, name), os.O_RDONLY)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def shortly(numbers: Numbers) -> str:
    """One line for the progress report."""
    if "ms" in numbers:
        return f"{numbers['ms']:,.3f} ms"
    return ", ".join(f"{key} {value}" for key, value in numbers.items() if key != "import_ms")


def _killed(writer: "subprocess.Popen[str]", source: random.Random) -> list[str]:
    """Let it write for a moment, kill it, and return what it had said that it kept."""
    with writer:
        environments.ready(writer)
        writer.stdin.write("go\n")
        writer.stdin.flush()
        time.sleep(source.uniform(0.1, 0.8))
        assert writer.poll() is None, "it was done before it could be killed"
        writer.kill()
        _, errors = writer.communicate()
    return [
        line.split()[1]
        for line in errors.splitlines()
        if line.startswith("kept ") and len(line.split()) == 2
    ]
