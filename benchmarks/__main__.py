"""`make bench`: print the tables; with --json FILE, write them too."""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import places
from benchmarks.cli import cli_table
from benchmarks.engine import import_time
from benchmarks.importers import importers_table
from benchmarks.measure import Row, table
from benchmarks.web import web_table
from benchmarks.wire import wire_table


def sqlite(folder: str) -> list[Row]:
    """The engine on SQLite, and the import."""
    return [*places.sqlite(folder).table(), import_time()]


def postgres(folder: str) -> list[Row]:
    """The engine on PostgreSQL."""
    return places.postgres(folder).table()


TABLES = {
    "sqlite": sqlite,
    "postgres": postgres,
    "wire": wire_table,
    "importers": importers_table,
    "cli": cli_table,
    "web": web_table,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join(TABLES)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"some of {names} (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - set(TABLES)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}: use {names}")
    measured: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in arguments.tables or TABLES:
            measured[name] = TABLES[name](folder)
            print(table(name, measured[name]), end="\n\n", flush=True)
    if arguments.json:
        numbers = {
            name: [{**row._asdict(), "ratio": row.ratio} for row in rows] for name, rows in measured.items()
        }
        Path(arguments.json).write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
