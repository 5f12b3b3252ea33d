"""glob and grep, in a process that can be killed, because some patterns run for ever.

    python -I search.py '{"glob": …, "root": …}'
    python -I search.py '{"pattern": …, "glob": …, "root": …, "place": …}'

It is run as a file and imports nothing of this package, because it searches folders that may
contain a json.py. What .gitignore names is passed over, and so are sensitive files by grep.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

try:
    from pathspec import GitIgnoreSpec
except ImportError:
    sys.exit("searching needs a package that is not installed (pathspec): run pip install pathspec")

MAX_FOUND = 500
MAX_SHOWN = 300  # characters of a line that matches
MAX_AT_ONCE = 1_000_000  # bytes of a line that are searched together
PASSED_OVER = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})

# Keys and passwords, what git, shells and other agents run, and what models are told. These always
# need consent.
SENSITIVE = """
    .env .env.* *.env .envrc *.tfvars secrets.* *.pem *.key *.p12 *.pfx
    id_rsa* id_dsa* id_ecdsa* id_ed25519* .ssh .gnupg
    .aws .kube .docker .netrc .npmrc .pypirc .pgpass .git-credentials .htpasswd
    credentials credentials.* .config .git .gitconfig .gitmodules
    agents.md claude.md claude.local.md .claude .mcp.json
    .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin
    config.fish
""".split()  # noqa: SIM905 - lines of words are easier to read than a list


def is_sensitive(relative: Path) -> bool:
    """Return True if a step of the path is sensitive. Some file systems ignore case, so this
    does."""
    for step in relative.parts:
        if any(fnmatchcase(step.casefold(), pattern) for pattern in SENSITIVE):
            return True
    return False


def main() -> None:
    """Print what was found. The exit code is 1 if the request is invalid."""
    request = json.loads(sys.argv[1])
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    root = Path(request["root"])
    wanted = compile_pattern(translate_glob(request["glob"]), request["glob"], "pattern")
    tree = FileTree(root, set(Path(request["glob"]).parts))
    if "pattern" not in request:
        found = (
            entry.name for entry in tree.walk(root) if wanted.fullmatch(entry.name.rstrip("/"))
        )
        print_lines(sorted(take(found)), "ask for less")
        return
    pattern = compile_pattern(request["pattern"], request["pattern"], "regular expression")
    print_lines(find_matches(tree, Path(request["place"]), pattern, wanted), "search for less")


def compile_pattern(expression: str, written: str, what: str) -> re.Pattern[str]:
    """Compile a regular expression, or end with a sentence about what the model has written."""
    try:
        return re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        sys.exit(f"{written!r:.200} is not a valid {what}: {error}")


def take(found: Iterable[str]) -> Iterator[str]:
    """Yield the first lines, and one more if there are too many."""
    for number, line in enumerate(found):
        yield line
        if number == MAX_FOUND:
            return


def print_lines(lines: Iterable[str], advice: str) -> None:
    """Print the lines; if there are too many, say so."""
    for number, line in enumerate(take(lines)):
        if number == MAX_FOUND:
            print(f"[only the first {MAX_FOUND}: {advice}]")
        else:
            print(line)


class FileEntry(NamedTuple):
    """A file or folder below the root."""

    path: Path
    name: str  # relative to the root; a folder's ends with a slash


class FileTree:
    """The files below a folder, without what .gitignore names, unless the request names it."""

    def __init__(self, root: Path, named: set[str]) -> None:
        self._root = root
        self._named = named
        self._top = find_repository(root)
        self._ignore_files: dict[Path, GitIgnoreSpec] = {}

    def walk(self, folder: Path, *, is_named: bool = False) -> Iterator[FileEntry]:
        """Yield what is in the folder and below it. If it was named, nothing in it is ignored."""
        try:
            children = sorted(os.scandir(folder), key=lambda child: child.name)
        except OSError:
            return  # it is locked, or gone
        for child in children:
            path = Path(child.path)
            name = path.relative_to(self._root).as_posix()
            is_folder = child.is_dir(follow_symlinks=False)
            names_this = is_named or child.name in self._named
            if not names_this and self._is_ignored(path, is_folder=is_folder):
                continue
            if is_folder:
                yield FileEntry(path, f"{name}/")
                yield from self.walk(path, is_named=names_this)
            elif self.resolve(path):
                yield FileEntry(path, name)

    def resolve(self, path: Path) -> Path | None:
        """Return the place to which a path leads, relative to the root; None if that is outside."""
        try:
            return path.resolve().relative_to(self._root)
        except (OSError, RuntimeError, ValueError):  # or a link that leads to itself
            return None

    def _is_ignored(self, path: Path, *, is_folder: bool) -> bool:
        if path.name in PASSED_OVER:
            return True
        for folder in path.parents:  # the nearest file that says something decides
            name = path.relative_to(folder).as_posix()
            verdict = self._read_ignore_file(folder).check_file(f"{name}/" if is_folder else name)
            if verdict.include is not None:
                return verdict.include
            if folder == self._top:
                break
        return False

    def _read_ignore_file(self, folder: Path) -> GitIgnoreSpec:
        if folder not in self._ignore_files:
            try:
                text = (folder / ".gitignore").read_text(errors="replace")
                self._ignore_files[folder] = GitIgnoreSpec.from_lines(text.splitlines())
            except (OSError, ValueError):  # there is none, or it is not valid
                self._ignore_files[folder] = GitIgnoreSpec.from_lines([])
        return self._ignore_files[folder]


def find_repository(folder: Path) -> Path:
    """Return the folder of the repository, or the folder itself."""
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return place
    return folder


def find_matches(
    tree: FileTree, place: Path, pattern: re.Pattern[str], wanted: re.Pattern[str]
) -> Iterator[str]:
    """Yield file:line:text for each line that matches."""
    for path, name in list_files(tree, place, wanted):
        for number, line in read_lines(path):
            if pattern.search(line):
                yield f"{name}:{number}:{line[:MAX_SHOWN]}"


def list_files(tree: FileTree, place: Path, wanted: re.Pattern[str]) -> Iterator[FileEntry]:
    """Yield the files to search. Sensitive ones are passed over, except if `place` is one."""
    start = tree.resolve(place)
    if start is None:
        return
    if place.is_file():
        yield FileEntry(place, start.as_posix())
        return
    for entry in tree.walk(place, is_named=is_sensitive(start)):
        if entry.name.endswith("/"):
            continue
        # A model may mean a path in the folder that it searches, or in its working folder.
        below_place = entry.path.relative_to(place).as_posix()
        if not wanted.fullmatch(entry.name) and not wanted.fullmatch(below_place):
            continue
        target = tree.resolve(entry.path)
        may_read = target is not None and (is_sensitive(start) or not is_sensitive(target))
        if may_read:
            yield entry


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers; a very long line comes in parts."""
    try:
        if not path.is_file():
            return
        with open(path, "rb") as file:
            if b"\0" in file.read(1024):
                return
            file.seek(0)
            number = 1
            while line := file.readline(MAX_AT_ONCE):
                yield number, line.decode(errors="replace").rstrip("\r\n")
                number += line.endswith(b"\n")
    except OSError:
        return  # it cannot be read, or is gone


WILDCARDS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def translate_glob(glob: str) -> str:
    """Translate a glob to a regular expression for a path. `**/` matches any folders, other
    wildcards stay within one. A glob without a folder matches names at any depth, as in
    .gitignore."""
    path = glob.removeprefix("./") if "/" in glob else f"**/{glob or '*'}"
    parts = re.split(r"((?:\*\*/)+|\*\*|\*|\?|\[[^]]+\])", path)
    return "".join(translate_part(part) for part in parts)


def translate_part(part: str) -> str:
    """Translate one wildcard, or the text between two."""
    if part.startswith("**/"):
        return "(?:.*/)?"
    if part.startswith("[") and part.endswith("]"):
        negation = "^" if part[1] == "!" else ""
        characters = re.escape(part[1:-1].lstrip("!")).replace(r"\-", "-")
        return f"[{negation}{characters}]"
    return WILDCARDS.get(part) or re.escape(part)


if __name__ == "__main__":
    main()
