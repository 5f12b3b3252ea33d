"""The tools for working in a folder: what a coding agent needs, and no more.

Every path is resolved first, including links, and must be inside the folder. Tools that write or run
something need consent, which the loop asks for.
"""

import io
import json
import os
import sys
import tempfile
from pathlib import Path

from backstory.runtime.tools import search as searching
from backstory.runtime.tools.processes import Done, Processes
from backstory.runtime.tools.tool import Tool, ToolError

NOTHING = "no file matches"
MOST_FOUND = 500  # paths or matches of one call
MOST_READ = 10_000_000  # bytes of a file
MOST_LINES = 2_000  # of a file in one call
SEARCH_SECONDS = 30.0
BASH_SECONDS = 120.0
MOST_BASH_SECONDS = 600.0


def working_tools(folder: str | os.PathLike[str] = ".") -> list[Tool]:
    """The tools for a folder."""
    work = Folder(Path(folder).resolve())
    longest = MOST_BASH_SECONDS + 10  # bash has its own time limit
    return [
        Tool.of(work.glob, seconds=SEARCH_SECONDS + 10, cancel=work.searches.kill),
        Tool.of(work.list_dir),
        Tool.of(work.read_file),
        Tool.of(work.grep, seconds=SEARCH_SECONDS + 10, cancel=work.searches.kill),
        Tool.of(work.write_file, asks=True),
        Tool.of(work.edit_file, asks=True),
        Tool.of(work.bash, asks=True, seconds=longest, cancel=work.commands.kill),
    ]


class Folder:
    """The tools of one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.searches = Processes()
        self.commands = Processes()

    # --- reading ---

    def glob(self, pattern: str) -> str:
        """List the files that match a pattern, for example *.py or src/**/*.md."""
        relative = pattern.removeprefix(f"{self.root}/")
        if relative.startswith(("/", "~")) or ".." in Path(relative).parts:
            raise ToolError(f"{pattern!r} leads out of the working folder: use a pattern inside it")
        found = self._search({"glob": relative, "root": str(self.root)})
        if found or "/" in relative:
            return found or NOTHING
        below = self._search(
            {"glob": f"**/{relative}", "root": str(self.root)}
        )  # what was probably meant
        return (
            f"no file matches in this folder itself, but below it:\n{below}" if below else NOTHING
        )

    def list_dir(self, path: str = ".") -> str:
        """List what is in a directory; directories end with a slash."""
        place = self._inside(path)
        if not place.is_dir():
            raise ToolError(f"{path} is not a directory")
        try:
            names = sorted(one.name + ("/" if one.is_dir() else "") for one in place.iterdir())
        except OSError as error:
            raise ToolError(f"{path} cannot be listed: {_reason(error)}") from error
        return _listed(names, "the directory is empty")

    def read_file(self, path: str, start: int = 1, lines: int = MOST_LINES) -> str:
        """Read a text file; start is the first line, lines is how many."""
        text = self._read(self._inside(path), path)
        every = list(io.StringIO(text))  # at line feeds only, as grep and others count lines
        first = max(1, start)
        shown = every[first - 1 : first - 1 + max(1, lines)]
        rest = len(every) - (first - 1) - len(shown)
        note = (
            f"\n[{rest:,} more lines: read on with start={first + len(shown)}]" if rest > 0 else ""
        )
        return "".join(shown) + note

    def grep(self, pattern: str, path: str = ".", glob: str = "**/*") -> str:
        """Search files for a regular expression; path is where, glob is which files. Answers with
        file:line:text."""
        place = self._inside(path)
        asked = {"root": str(self.root), "place": str(place), "pattern": pattern, "glob": glob}
        return self._search(asked) or "no match"

    def _search(self, asked: dict[str, str]) -> str:
        """Search in a separate process, because a malicious pattern could run for ever and could not be
        stopped here. -I keeps Python from importing files of the folder."""
        command = [sys.executable, "-I", searching.__file__, json.dumps(asked)]
        done = self._done(self.searches, command, SEARCH_SECONDS)
        if done.ended or done.code:
            last = done.output.strip().splitlines()[-1:] or ["it failed"]
            raise ToolError(done.ended or last[0])
        return done.output.rstrip("\n")

    # --- writing and running ---

    def write_file(self, path: str, content: str) -> str:
        """Write a file, new or over an old one; directories are made as needed."""
        place = self._inside(path)
        self._write(place, path, content)
        return f"wrote {len(content.encode()):,} bytes to {path}"

    def edit_file(self, path: str, old: str, new: str, everywhere: bool = False) -> str:
        """Replace a piece of text in a file. The old text must be there exactly once, unless
        everywhere is true."""
        place = self._inside(path)
        text = self._read(place, path)
        times = text.count(old) if old else 0
        if not times:
            raise ToolError(
                f"{path} does not have the old text: read it, and give the text exactly"
            )
        if times > 1 and not everywhere:
            raise ToolError(
                f"{path} has the old text {times} times: give more of it, or everywhere=true"
            )
        self._write(place, path, text.replace(old, new))
        return f"replaced {times} {'time' if times == 1 else 'times'} in {path}"

    def bash(self, command: str, seconds: int = int(BASH_SECONDS)) -> str:
        """Run a shell command in the working folder; seconds is the time limit."""
        limit = min(max(1.0, float(seconds)), MOST_BASH_SECONDS)
        done = self._done(self.commands, ["bash", "-c", command], limit)
        output = done.output.rstrip("\n")
        if done.ended:
            raise ToolError(f"{output}\n[{done.ended}]".lstrip())
        if done.code:
            raise ToolError(f"{output}\n[exit code {done.code}]".lstrip())
        return output or "(no output)"

    def _done(self, processes: Processes, command: list[str], seconds: float) -> Done:
        try:
            return processes.run(command, self.root, seconds)
        except (OSError, ValueError) as error:  # too long, or with a NUL in it
            raise ToolError(f"it could not be started: {_reason(error)}") from error

    # --- paths ---

    def _inside(self, path: str) -> Path:
        """The resolved path; raises if it is outside the folder."""
        try:
            place = (self.root / path).resolve()
            place.is_dir()  # raises if the path cannot exist: its name is too long, or a folder is locked
        except (ValueError, OSError, RuntimeError) as error:
            raise ToolError(f"{path!r:.200} is not a path: {_reason(error)}") from error
        if not self._is_inside(place):
            raise ToolError(f"{path} is outside the working folder: use a path inside it")
        return place

    def _is_inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):  # a link that leads to itself
            return False

    def _read(self, place: Path, path: str) -> str:
        if place.is_dir():
            raise ToolError(f"{path} is a directory: list_dir shows what is in it")
        if not place.is_file():
            raise ToolError(f"no such file: {path}")
        if place.stat().st_size > MOST_READ:
            raise ToolError(f"{path} is too large to read: search it with grep")
        try:
            return place.read_bytes().decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not UTF-8 text") from None
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror}") from error

    def _write(self, place: Path, path: str, text: str) -> None:
        if place.is_dir():
            raise ToolError(f"{path} is a directory")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _replace(place, text.encode())
        except (OSError, ValueError) as error:
            raise ToolError(f"{path} cannot be written: {_reason(error)}") from error


def _replace(place: Path, content: bytes) -> None:
    """Replace the file in one step, so that it is never half written."""
    mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask()
    with tempfile.NamedTemporaryFile(
        "wb", dir=place.parent, prefix=".writing-", delete=False
    ) as file:
        try:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, place)


def _reason(error: Exception) -> str:
    match error:
        case FileExistsError() | NotADirectoryError():  # where a folder would have to be created
            return "what should be a folder is a file"
        case UnicodeError():
            return "it contains half of a surrogate pair"
        case OSError(strerror=str(reason)):
            return reason
    return str(error)


def _listed(found: list[str], nothing: str) -> str:
    more = f"\n[only the first {MOST_FOUND}: ask for less]" if len(found) > MOST_FOUND else ""
    return "\n".join(found[:MOST_FOUND]) + more if found else nothing


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
