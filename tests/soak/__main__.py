"""`make soak`: ten minutes on SQLite and ten on a PostgreSQL server that crashes now and then."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests import postgres_server
from tests.soak.run import Outcome, soak


def on_sqlite(seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        return soak(str(Path(folder) / "store.db"), Path(folder), seconds)


def on_postgres(seconds: float) -> Outcome:
    with tempfile.TemporaryDirectory() as folder, postgres_server.started() as keeper:

        def crash() -> None:
            postgres_server.kill(keeper.folder)
            postgres_server.address(keeper.port)

        return soak(postgres_server.address(keeper.port), Path(folder), seconds, crash)


PLACES = {"sqlite": on_sqlite, "postgres": on_postgres}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="on each (default: 600)")
    parser.add_argument("--on", choices=PLACES, action="append", help="only on this one")
    arguments = parser.parse_args()
    failed = False
    for name in arguments.on or PLACES:
        found = PLACES[name](arguments.seconds)
        print(
            f"{name}: {found.written:,} writes, {found.kills} workers and {found.crashes} servers killed"
        )
        for problem in found.problems[:20]:
            print(f"  {problem}")
        failed = failed or bool(found.problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
