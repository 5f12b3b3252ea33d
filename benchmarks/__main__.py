"""`make bench`: print the tables; with --json FILE, write them too."""

import argparse
import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, table
from benchmarks.sizes import Sizes

# A table's module is imported when it is measured: the others may need packages that are not installed.
TABLES = {
    "sqlite": "benchmarks.places:sqlite_table",
    "postgres": "benchmarks.places:postgres_table",
    "scale": "benchmarks.scale:sqlite_scale",
    "scale-postgres": "benchmarks.scale:postgres_scale",
    "wire": "benchmarks.wire:wire_table",
    "importers": "benchmarks.importers:importers_table",
    "cli": "benchmarks.cli:cli_table",
    "web": "benchmarks.web:web_table",
    "search": "benchmarks.search:sqlite_search",
    "search-postgres": "benchmarks.search:postgres_search",
    "growth": "benchmarks.growth:sqlite_growth",
    "growth-postgres": "benchmarks.growth:postgres_growth",
    "together": "benchmarks.growth:together_table",
}


def measure(name: str, folder: str, sizes: Sizes, size: int | None = None) -> list[Row]:
    """The rows of one table."""
    module, _, function = TABLES[name].partition(":")
    options: dict[str, Any] = {}
    if name.startswith(("growth", "together")):
        options = {"sizes": sizes}
    elif size is not None and name.startswith(("scale", "search")):
        options = {"size": size}
    rows: list[Row] = getattr(import_module(module), function)(folder, **options)
    return rows


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join(TABLES)
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help=f"some of {names} (default: all)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    for name, usual in Sizes()._asdict().items():
        what = f"of the tables growth and together (default: {usual:,})"
        parser.add_argument(f"--{name}", type=type(usual), default=usual, metavar="N", help=what)
    what = (
        "events or sessions of the tables scale (default: 20,000) and search (default: 1,000,000)"
    )
    parser.add_argument("--size", type=int, metavar="N", help=what)
    arguments = parser.parse_args()
    sizes = Sizes(*(getattr(arguments, name) for name in Sizes._fields))
    unknown = set(arguments.tables) - set(TABLES)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}: use {names}")
    measured: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in arguments.tables or TABLES:
            measured[name] = measure(name, folder, sizes, arguments.size)
            print(table(name, measured[name]), end="\n\n", flush=True)
    if arguments.json:
        numbers = {
            name: [{**row._asdict(), "ratio": row.ratio} for row in rows]
            for name, rows in measured.items()
        }
        Path(arguments.json).write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
