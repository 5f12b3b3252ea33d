"""Run schedules until one fails, or replay one: python -m tests.scheduler --on sqlite --seed 17."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from tests import postgres_server
from tests.scheduler.run import Database, PostgresDatabase, describe, open_sqlite, run_schedule


@contextmanager
def open_postgres() -> Iterator[PostgresDatabase]:
    """Start a server."""
    with postgres_server.started(*postgres_server.NOT_DURABLE) as keeper:
        with closing(PostgresDatabase(postgres_server.address(keeper.port))) as database:
            yield database


DATABASES: dict[str, Callable[[], AbstractContextManager[Database]]] = {
    "sqlite": open_sqlite,
    "postgres": open_postgres,
}


def run_many(database: Database, first: int, count: int, most: int) -> int:
    """Run the schedules of `count` seeds. Return how many have failed; stop after `most`."""
    failed = 0
    start = time.perf_counter()
    for seed in range(first, first + count):
        outcome = run_schedule(database, seed)
        if outcome.problems:
            failed += 1
            seconds = time.perf_counter() - start
            print(f"seed {seed} ({seconds:.1f} s): {outcome.problems[0]:.300}", flush=True)
        if failed == most:
            break
        if (seed + 1) % 1_000 == 0:
            print(f"{seed + 1:,} …", flush=True)
    seconds = time.perf_counter() - start
    print(f"{seed - first + 1:,} schedules, {failed} failed, {seconds:.0f} s", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler", description=__doc__)
    parser.add_argument("--on", choices=DATABASES, action="append", help="only on this one")
    parser.add_argument("--seed", type=int, help="run only the schedule of this seed, and show it")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--count", type=int, default=20_000, help="how many (default: 20,000)")
    parser.add_argument("--most", type=int, default=1, help="failures to stop after (default: 1)")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.on or DATABASES:
        with DATABASES[name]() as database:
            if arguments.seed is None:
                print(f"{name}:", flush=True)
                failed += run_many(database, arguments.first, arguments.count, arguments.most)
                continue
            outcome = run_schedule(database, arguments.seed)
            failed += bool(outcome.problems)
            print(f"{name}, seed {arguments.seed}:", *describe(outcome), sep="\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
