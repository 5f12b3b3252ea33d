"""grep's other half: searches files for a regular expression, in a process that can be ended.

python -m backstory.tools.searching '{"root": …, "place": …, "pattern": …, "glob": …}'
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_FOUND = 500
LONGEST_LINE = 300
MOST_READ = 10_000_000
PASSED_OVER = {".git", ".hg", ".venv", "node_modules", "__pycache__"}


def main() -> None:
    """Print what was found; the exit code is 1 if the question makes no sense."""
    asked = json.loads(sys.argv[1])
    try:
        pattern = re.compile(asked["pattern"])
    except re.error as error:
        sys.exit(f"{asked['pattern']!r} is no regular expression: {error}")
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    root, place = Path(asked["root"]), Path(asked["place"])
    for number, line in enumerate(_matches(root, place, pattern, asked["glob"])):
        if number == MOST_FOUND:
            print(f"[only the first {MOST_FOUND} matches: search for less]")
            return
        print(line)


def _matches(root: Path, place: Path, pattern: re.Pattern[str], glob: str) -> Iterator[str]:
    for path in _files(place, glob):
        if not path.resolve().is_relative_to(root):
            continue
        for number, line in enumerate(_lines(path), 1):
            if pattern.search(line):
                yield f"{path.relative_to(root)}:{number}:{line[:LONGEST_LINE]}"


def _files(place: Path, glob: str) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    wanted = glob.rpartition("/")[2]
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name not in PASSED_OVER)
        for name in sorted(names):
            path = Path(folder, name)
            if path.match(wanted) and path.is_file():
                yield path


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MOST_READ:
            return []
        content = path.read_bytes()
    except OSError:
        return []
    return [] if b"\0" in content[:1024] else content.decode(errors="replace").splitlines()


if __name__ == "__main__":
    main()
