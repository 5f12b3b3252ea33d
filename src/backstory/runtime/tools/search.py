"""glob and grep, in a process that can be killed, because some patterns run for ever.

    python -I search.py '{"glob": …, "root": …}'
    python -I search.py '{"pattern": …, "glob": …, "root": …, "place": …}'

It is run as a file and imports only the standard library, because it searches folders that may contain a
json.py.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

MOST_FOUND = 500
LONGEST_LINE = 300  # characters of a match that are shown
MOST_AT_ONCE = 1_000_000  # bytes of a line that are searched together
PASSED_OVER = {".git", ".hg", ".venv", "node_modules", "__pycache__"}


def main() -> None:
    """Print what was found; the exit code is 1 if the request is invalid."""
    asked = json.loads(sys.argv[1])
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    if "pattern" in asked:
        _grep(asked)
    else:
        _glob(asked)


def _glob(asked: dict[str, str]) -> None:
    root = Path(asked["root"])
    try:
        # **/**/ means the same as **/, but takes much longer to match.
        paths = root.glob(re.sub(r"(\*\*/)+", "**/", asked["glob"]))
        passed_over = PASSED_OVER - set(
            Path(asked["glob"]).parts
        )  # except those that the pattern names
        wanted = (path for path in paths if passed_over.isdisjoint(path.relative_to(root).parts))
        inside = (str(path.relative_to(root)) for path in wanted if _is_inside(path, root))
        found = list(islice(inside, MOST_FOUND + 1))
    except (ValueError, IndexError, NotImplementedError) as error:
        sys.exit(f"{asked['glob']!r} is not a valid pattern: {error}")
    _print(sorted(found), "ask for less")


def _grep(asked: dict[str, str]) -> None:
    pattern = _compiled(asked["pattern"], asked["pattern"], "regular expression")
    wanted = _compiled(translated(asked["glob"]), asked["glob"], "pattern")
    _print(_matches(Path(asked["root"]), Path(asked["place"]), pattern, wanted), "search for less")


def _compiled(expression: str, written: str, what: str) -> re.Pattern[str]:
    try:
        return re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        sys.exit(f"{written!r:.200} is not a valid {what}: {error}")


def _print(found: Iterable[str], what_to_do: str) -> None:
    for number, line in enumerate(found):
        if number == MOST_FOUND:
            print(f"[only the first {MOST_FOUND}: {what_to_do}]")
            return
        print(line)


def _matches(
    root: Path, place: Path, pattern: re.Pattern[str], wanted: re.Pattern[str]
) -> Iterator[str]:
    for path in _files(root, place, wanted):
        if not _is_inside(path, root):
            continue
        for number, line in _lines(path):
            if pattern.search(line):
                yield f"{path.relative_to(root)}:{number}:{line[:LONGEST_LINE]}"


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a link that leads to itself
        return False


def _files(root: Path, place: Path, wanted: re.Pattern[str]) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name not in PASSED_OVER)
        for name in sorted(names):
            path = Path(folder, name)
            # A model may mean a path in the folder that it searches, or in its working folder.
            if any(wanted.fullmatch(path.relative_to(start).as_posix()) for start in (place, root)):
                yield path


def translated(glob: str) -> str:
    """A glob as a regular expression for a path: `**/` matches any folders, other wildcards stay within one.
    A glob without a folder matches names in any folder."""
    path = glob.removeprefix("./") if "/" in glob else f"**/{glob or '*'}"
    parts = re.split(r"((?:\*\*/)+|\*\*|\*|\?|\[[^]]+\])", path)
    return "".join(_meant(part) for part in parts)


def _meant(part: str) -> str:
    if part.startswith("**/"):
        return "(?:.*/)?"
    if part.startswith("[") and part.endswith("]"):
        return (
            "["
            + ("^" if part[1] == "!" else "")
            + re.escape(part[1:-1].lstrip("!")).replace(r"\-", "-")
            + "]"
        )
    return {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part) or re.escape(part)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file with their numbers; a very long line comes in parts."""
    try:
        if not path.is_file():
            return
        with open(path, "rb") as file:
            if b"\0" in file.read(1024):
                return
            file.seek(0)
            number = 1
            while line := file.readline(MOST_AT_ONCE):
                yield number, line.decode(errors="replace").rstrip("\r\n")
                number += line.endswith(b"\n")
    except OSError:
        return  # it cannot be read, or is gone


if __name__ == "__main__":
    main()
