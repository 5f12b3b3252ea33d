"""Go silent at every message of every call, or at one:

python -m tests.partitions --call erase --message 6
"""

import argparse
import sys

from tests.partitions.run import CALLS, Call, list_calls, run_partition
from tests.scheduler.__main__ import open_postgres
from tests.scheduler.run import PostgresDatabase


def run_all(database: PostgresDatabase, calls: list[Call], message: int | None) -> int:
    """Go silent at every message of some calls, or at one. Return how many runs have failed."""
    failed = runs = 0
    for call in calls:
        for nth in range(1, call.messages + 1):
            if message not in (None, nth):
                continue
            outcome = run_partition(database, call.operation, call.seed, nth)
            runs += 1
            if outcome.problems:
                failed += 1
                print(f"{call.operation}, message {nth}: {outcome.problems[0]:.300}", flush=True)
            if message is not None:
                print(*outcome.problems, *outcome.log, sep="\n")
    print(f"{runs:,} partitions, {failed} failed")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.partitions", description=__doc__)
    parser.add_argument("--call", choices=CALLS, action="append", help="only this call")
    parser.add_argument("--message", type=int, help="only this message")
    arguments = parser.parse_args()
    names = arguments.call or list(CALLS)
    with open_postgres() as database:
        failed = run_all(database, list_calls(database, names), arguments.message)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
