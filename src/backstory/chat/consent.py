"""Asking before something is written or run: yes, no, or always for this tool.

What is asked about is shown so that a person can judge it: the path first, a command whole; of a long
text the beginning and the end, and the whole of it for the asking.
"""

from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.present.measures import count
from backstory.present.safe_text import one_line, visible
from backstory.runtime.tools import Tool

MOST_LINES = 24  # of a long text, unless all are asked for
LONGEST_LINE = 400  # characters; what is longer goes on in the next line
MOST_COMPARED = 1_000_000  # bytes of an old file
SAID_NO = "not run: the user said no"
STYLES = {"+": "green", "-": "red", "@": "cyan"}

Read = Callable[[str], str]  # asks a question, returns the line that was typed


class Request(NamedTuple):
    """What a tool is about to do."""

    head: list[str]  # always shown whole
    body: list[str]


class Consent:
    """Remembers what is always allowed, as long as the chat runs."""

    def __init__(self, console: Console, read: Read, *, yes: bool = False) -> None:
        self._console = console
        self._read = read
        self._yes = yes
        self._always: set[str] = set()
        self.rest: Callable[[], None] = lambda: None  # clears the screen's moving part before a question

    def __call__(self, tool: Tool, arguments: dict[str, Any]) -> bool | str:
        """Whether the tool may run."""
        if self._yes or tool.name in self._always:
            return True
        self.rest()
        return self._asked(tool, request(tool, arguments))

    def _asked(self, tool: Tool, asked: Request) -> bool | str:
        body = [part for line in asked.body for part in _parts(line)]
        short = _shortened(body)
        self._show([*asked.head, *short])
        view = ", v(iew all)" if len(short) < len(body) else ""
        while True:
            try:
                said = self._read(f"    allow {tool.name}? y(es), n(o), a(lways){view}: ").strip().lower()
            except EOFError:
                return SAID_NO
            if said in ("y", "yes"):
                return True
            if said in ("a", "always"):
                self._always.add(tool.name)
                return True
            if said in ("n", "no"):
                return SAID_NO
            if view and said in ("v", "view", "view all"):
                self._show([*asked.head, *body])

    def _show(self, lines: list[str]) -> None:
        text = Text("\n", overflow="fold").join(
            Text(visible(line), style=STYLES.get(line[:1], "bold")) for line in lines
        )
        self._console.print(Padding(text, (0, 0, 0, 4)))


def request(tool: Tool, arguments: dict[str, Any]) -> Request:
    """What is about to happen."""
    match tool.name, arguments:
        case "bash", {"command": str(command), **more}:
            lines = command.split("\n")
            head = f"run, {count(len(lines), 'line')}{_said(more)}:"
            return Request([head, *(f"$ {line}" for line in lines)], [])
        case "write_file", {"path": str(path), "content": str(content)}:
            return _writing(path, content)
        case "edit_file", {"path": str(path), "old": str(old), "new": str(new), **more}:
            return Request([f"change {path}{_said(more)}:"], _diff(old, new))
    body = [part for key, value in arguments.items() for part in f"{key}: {value}".split("\n")]
    return Request([one_line(tool.name)], body)


def _said(more: dict[str, Any]) -> str:
    """Arguments that change what is done."""
    return "".join(f", {key}={value}" for key, value in more.items())


def _writing(path: str, content: str) -> Request:
    size = count(len(content.encode(errors="replace")), "byte")
    place = Path(path)
    if not place.exists():
        return Request([f"write {path}, a new file, {size}:"], [f"+{line}" for line in content.split("\n")])
    try:
        if place.stat().st_size > MOST_COMPARED:
            raise ValueError("too large")
        old = place.read_bytes().decode()
    except (OSError, ValueError):  # nothing to compare with
        return Request([f"write {path}, over the old file, {size}:"], content.split("\n"))
    head = f"write {path}, over the old file of {count(place.stat().st_size, 'byte')}, {size}:"
    return Request([head], _diff(old, content) or ["(it stays as it is)"])


def _diff(old: str, new: str) -> list[str]:
    """What changes, line by line. Only a line feed ends a line here: what else could is to be seen."""
    return list(unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=2))[2:]


def _parts(line: str) -> list[str]:
    """A line in pieces that fit a screen; each begins as the line does, for its colour."""
    first, rest = line[:LONGEST_LINE], line[LONGEST_LINE:]
    more = (rest[at : at + LONGEST_LINE] for at in range(0, len(rest), LONGEST_LINE))
    return [first, *(f"{line[0]}…{part}" for part in more)]


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    left_out = count(len(lines) - MOST_LINES + 1, "line")
    half = MOST_LINES // 2
    return [*lines[:half], f"… {left_out} left out here: v shows them", *lines[-(half - 1) :]]
