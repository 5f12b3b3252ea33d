"""Asking before something is written or run: yes, no, or always for this tool."""

from collections.abc import Callable
from difflib import unified_diff
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.cli.visible import one_line, visible
from backstory.tools import Tool

MOST_LINES = 20
SAID_NO = "not run: the user said no"

Read = Callable[[str], str]  # asks a question, returns the line that was typed


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
        self._console.print(Padding(_shown(tool, arguments), (0, 0, 0, 4)))
        while True:
            try:
                said = self._read(f"    allow {tool.name}? y(es), n(o), a(lways): ").strip().lower()
            except EOFError:
                return SAID_NO
            if said in ("y", "yes"):
                return True
            if said in ("a", "always"):
                self._always.add(tool.name)
                return True
            if said in ("n", "no"):
                return SAID_NO


def _shown(tool: Tool, arguments: dict[str, Any]) -> Text:
    """What is about to happen, so that a person can judge it."""
    match tool.name:
        case "bash":
            lines = [f"$ {line}" for line in str(arguments.get("command")).splitlines()]
        case "edit_file":
            old, new = (str(arguments.get(key, "")).splitlines() for key in ("old", "new"))
            lines = [f"in {arguments.get('path')}:", *list(unified_diff(old, new, lineterm="", n=1))[2:]]
        case _:
            lines = [f"{key}: {value}" for key, value in arguments.items()]
            lines = [line for text in lines for line in text.splitlines()]
    more = len(lines) - MOST_LINES
    text = Text(overflow="fold")
    for line in lines[:MOST_LINES]:
        text.append(visible(line) + "\n", style={"+": "green", "-": "red"}.get(line[:1], "bold"))
    if more > 0:
        text.append(f"… {more} more lines\n", style="yellow")
    text.rstrip()
    return text if lines else Text(one_line(tool.name))
