"""The tools for working in a folder: what a coding agent needs, and no more.

Each tool prepares an action. Every path is resolved first, including links, and must be inside the
folder. An action that writes remembers the file as it was shown, and writes nothing if it has
changed since.
"""

import io
import json
import os
import shutil
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

from backstory.runtime.tools import search
from backstory.runtime.tools.processes import Processes, ProcessResult, program_path
from backstory.runtime.tools.search import is_sensitive
from backstory.runtime.tools.tool import Action, Emit, Tool, ToolError

MAX_READ = 10_000_000  # bytes of a file
MAX_COMPARED = 20_000  # lines; more are shown as removed and added
NO_NEWLINE = "\\ no newline at the end of the file"
MAX_LINES = 2_000  # of a file in one call
SEARCH_SECONDS = 30.0
BASH_SECONDS = 120
MAX_BASH_SECONDS = 600.0


def working_tools(folder: str | os.PathLike[str] = ".") -> list[Tool]:
    """Return the tools for a folder."""
    workspace = Workspace(Path(folder).resolve())
    stop_searches = workspace.searches.kill
    stop_commands = workspace.commands.kill
    # Searches and commands have time limits of their own, which come first.
    of = Tool.from_preparation
    return [
        of(workspace.glob, seconds=SEARCH_SECONDS + 10, cancel=stop_searches),
        of(workspace.grep, seconds=SEARCH_SECONDS + 10, cancel=stop_searches),
        of(workspace.read_file),
        of(workspace.write_file),
        of(workspace.edit_file),
        of(workspace.bash, seconds=MAX_BASH_SECONDS + 10, cancel=stop_commands),
    ]


class Workspace:
    """The tools of one folder. The docstrings of tools are for the model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.searches = Processes()
        self.commands = Processes()
        self._bash = shutil.which("bash", path=program_path())

    # --- reading ---

    def glob(self, pattern: str) -> Action:
        """List the files that match a pattern: *.py at any depth, src/*.py in one folder."""
        relative = pattern.removeprefix(f"{self.root}/")
        if relative.startswith(("/", "~")) or ".." in Path(relative).parts:
            raise ToolError(f"{pattern!r} leads out of the working folder: use a pattern inside it")
        request = {"root": str(self.root), "glob": relative}
        return Action(
            "glob", "read", pattern, lambda emit: self._search(request, "no file matches")
        )

    def grep(self, pattern: str, path: str = ".", glob: str = "") -> Action:
        """Search files for a regular expression; path is where, glob is which files. Answers with
        file:line:text."""
        place = self._resolve(path)
        if not place.exists():
            raise ToolError(f"no such file or directory: {path}")
        request = {"root": str(self.root), "place": str(place), "pattern": pattern, "glob": glob}
        return Action(
            "grep",
            "read",
            str(place),
            lambda emit: self._search(request, "no match"),
            is_sensitive=self._is_sensitive(place),
        )

    def _search(self, request: dict[str, str], nothing: str) -> str:
        """Search in a separate process, because a malicious pattern could run for ever and could
        not be stopped here. -I keeps Python from importing files of the folder."""
        command = [sys.executable, "-I", search.__file__, json.dumps(request)]
        result = self._run_process(self.searches, command, SEARCH_SECONDS)
        if result.ended or result.code:
            last_lines = result.output.strip().splitlines()[-1:] or ["it failed"]
            raise ToolError(result.ended or last_lines[0])
        return result.output.rstrip("\n") or nothing

    def read_file(self, path: str, start: int = 1, lines: int = MAX_LINES) -> Action:
        """Read a text file; start is the first line, lines is how many."""
        place = self._resolve(path)

        def run(_emit: Emit) -> str:
            self._check_place(path, place)
            return select_lines(read_text(place, path), max(1, start), max(1, lines))

        return Action("read_file", "read", str(place), run, is_sensitive=self._is_sensitive(place))

    # --- writing and running ---

    def write_file(self, path: str, content: str) -> Action:
        """Write a file, new or over an old one; directories are made as needed."""
        place = self._resolve(path)
        before = read_bytes(place, path)
        after = encode(content, path)
        done = f"wrote {len(after):,} bytes to {path}"
        return self._prepare_change("write_file", path, place, before, after, done)

    def edit_file(self, path: str, old: str, new: str, everywhere: bool = False) -> Action:
        """Replace a piece of text in a file. The old text must be there exactly once, unless
        everywhere is true."""
        place = self._resolve(path)
        before = read_bytes(place, path)
        text = decode(before, path)
        times = text.count(old) if old else 0
        if not times:
            raise ToolError(
                f"{path} does not have the old text: read it, and give the text exactly"
            )
        if times > 1 and not everywhere:
            raise ToolError(
                f"{path} has the old text {times} times: give more of it, or everywhere=true"
            )
        after = encode(text.replace(old, new), path)
        done = f"replaced {times} {'time' if times == 1 else 'times'} in {path}"
        return self._prepare_change("edit_file", path, place, before, after, done)

    def _prepare_change(
        self, tool: str, path: str, place: Path, before: bytes | None, after: bytes, done: str
    ) -> Action:
        def run(_emit: Emit) -> str:
            self._check_place(path, place)
            if read_bytes(place, path) != before:
                raise ToolError(f"{path} has changed since the question: read it again")
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                replace_file(place, after)
            except (OSError, ValueError) as error:
                reason = describe_problem(error)
                raise ToolError(f"{path} cannot be written: {reason}") from error
            return done

        preview = describe_change(before, after)
        return Action(tool, "write", str(place), run, preview, self._is_sensitive(place))

    def bash(self, command: str, seconds: int = BASH_SECONDS) -> Action:
        """Run a shell command in the working folder; seconds is the time limit."""
        limit = min(max(1.0, float(seconds)), MAX_BASH_SECONDS)
        if self._bash is None:
            raise ToolError("bash is not installed")
        shell = [self._bash, "-c", command]

        def run(emit: Emit) -> str:
            result = self._run_process(self.commands, shell, limit, emit)
            output = result.output.rstrip("\n")
            if result.ended:
                raise ToolError(f"{output}\n[{result.ended}]".lstrip())
            if result.code:
                raise ToolError(f"{output}\n[exit code {result.code}]".lstrip())
            return output or "(no output)"

        return Action("bash", "run", command, run)

    def _run_process(
        self, processes: Processes, command: list[str], seconds: float, emit: Emit | None = None
    ) -> ProcessResult:
        try:
            return processes.run(command, self.root, seconds, emit)
        except (OSError, ValueError) as error:  # too long, or with a NUL in it
            raise ToolError(f"it could not be started: {describe_problem(error)}") from error

    # --- paths ---

    def _resolve(self, path: str) -> Path:
        """Return the resolved path. Raises ToolError if it is outside the folder."""
        try:
            place = (self.root / path).resolve()
            place.is_dir()  # raises if the name is too long, or a folder is locked
        except (ValueError, OSError, RuntimeError) as error:
            raise ToolError(f"{path!r:.200} is not a path: {describe_problem(error)}") from error
        if not place.is_relative_to(self.root):
            raise ToolError(f"{path} is outside the working folder: use a path inside it")
        return place

    def _check_place(self, path: str, place: Path) -> None:
        """Raise ToolError if `path` leads elsewhere by now, for example through a new link."""
        if self._resolve(path) != place:
            raise ToolError(f"{path} has changed since the question: read it again")

    def _is_sensitive(self, place: Path) -> bool:
        return is_sensitive(place.relative_to(self.root))


def select_lines(text: str, first: int, number: int) -> str:
    """Return some lines of a text, and how to read on."""
    lines = list(io.StringIO(text))  # at line feeds only, as grep and others count lines
    selected = lines[first - 1 : first - 1 + number]
    rest = len(lines) - (first - 1) - len(selected)
    if rest <= 0:
        return "".join(selected)
    advice = f"[{rest:,} more lines: read on with start={first + len(selected)}]"
    return "".join(selected) + f"\n{advice}"


def read_text(place: Path, path: str) -> str:
    """Return the text of a file. Raises ToolError if there is none."""
    return decode(read_bytes(place, path), path)


def decode(content: bytes | None, path: str) -> str:
    """Return the text in the content of a file. Raises ToolError if there is none."""
    if content is None:
        raise ToolError(f"no such file: {path}")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text") from None


def read_bytes(place: Path, path: str) -> bytes | None:
    """Return the content of a file, or None if it does not exist."""
    if place.is_dir():
        raise ToolError(f"{path} is a directory: glob lists what is in it")
    try:
        if place.exists() and not place.is_file():
            raise ToolError(f"{path} is not a file")
        if place.stat().st_size > MAX_READ:
            raise ToolError(f"{path} is too large to read: search it with grep")
        return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {error.strerror}") from error


def describe_change(before: bytes | None, after: bytes) -> str:
    """Return the complete change of a file: its sizes, then all lines that are removed or added."""
    if before is None:
        head = f"a new file of {len(after):,} bytes"
    else:
        head = f"{len(before):,} bytes become {len(after):,}"
    old = list(io.StringIO((before or b"").decode(errors="replace")))
    new = list(io.StringIO(after.decode()))
    if max(len(old), len(new)) > MAX_COMPARED:
        changes = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    else:
        changes = list(unified_diff(old, new))[2:]  # without the names of the two files
    lines = [line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}\n" for line in changes]
    return f"{head}\n{''.join(lines)}".rstrip("\n")


def encode(text: str, path: str) -> bytes:
    """Encode a text as UTF-8. Raises ToolError if that is not possible."""
    try:
        return text.encode()
    except UnicodeError:
        reason = "it contains half of a surrogate pair"
        raise ToolError(f"{path} cannot be written: {reason}") from None


def replace_file(place: Path, content: bytes) -> None:
    """Replace a file in one step, so that it is never half written. Its mode is kept."""
    mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~read_umask()
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


def describe_problem(error: Exception) -> str:
    """Return the reason of an error of the operating system."""
    match error:
        case FileExistsError() | NotADirectoryError():  # where a folder would have to be created
            return "what should be a folder is a file"
        case UnicodeError():
            return "it contains half of a surrogate pair"
        case OSError(strerror=str(reason)):
            return reason
    return str(error)


def read_umask() -> int:
    """Return the umask of this process."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
