"""Processes that append to PostgreSQL side by side, through backstory or through bare psycopg.

`python -m benchmarks.appenders ours|bare ADDRESS SECONDS [AGENT]`: says that it is ready, waits for a line,
and then prints how many events it wrote in that time.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import backstory
from benchmarks.floors import BarePostgres

TEXT = "what somebody says " * 25


def appender(what: str, address: str, agent: str | None) -> Callable[[], object]:
    """One durable append."""
    if what == "bare":
        floor = BarePostgres(address)
        return lambda: floor.insert((1, "user", TEXT, None, 1))
    store = backstory.open(address)
    writer = store.agent(agent) if agent else store.start()
    return lambda: writer.user(TEXT)


def rate(what: str, address: str, processes: int, seconds: float) -> float:
    """How many events so many processes append in a second, each to a session of its own."""
    with started(what, address, processes, seconds) as running:
        return sum(int(process.communicate()[0]) for process in running) / seconds


@contextmanager
def started(
    what: str, address: str, processes: int, seconds: float, agent: str = ""
) -> Iterator["list[subprocess.Popen[str]]"]:
    """Appenders that have begun; they are ended with the block."""
    command = [sys.executable, "-m", "benchmarks.appenders", what, address, str(seconds)]
    command += [agent] if agent else []
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for process in running:
            assert process.stdout
            process.stdout.readline()  # it is ready
        for process in running:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    """One such process."""
    what, address, seconds, *agent = sys.argv[1:]
    append = appender(what, address, agent[0] if agent else None)
    append()
    print("ready", flush=True)
    sys.stdin.readline()
    count, end = 0, time.perf_counter() + float(seconds)
    while time.perf_counter() < end:
        append()
        count += 1
    print(count)


if __name__ == "__main__":
    main()
